"""A small GPT in PyTorch, from its formulas, with Capstan's names: the family `gpt` of make_nn_golden.py."""
import torch
import torch.nn.functional as F
from torch.nn import Embedding, Linear, Module, ModuleList

from recorder import record_module, save


class RMSNorm(Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def rotary(x):
    n, d = x.shape[-2:]
    angles = torch.arange(n).double()[:, None] * 10000 ** (-torch.arange(0, d, 2).double() / d)
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


class Attention(Module):
    def __init__(self, width, heads, groups, turn):
        super().__init__()
        self.heads, self.groups, self.turn, self.size = heads, groups, turn, width // heads
        self.query, self.out = Linear(width, width), Linear(width, width)
        self.key, self.value = Linear(width, groups * self.size), Linear(width, groups * self.size)

    def forward(self, x):
        batch, n, width = x.shape
        split = lambda y, heads: y.reshape(batch, n, heads, self.size).transpose(1, 2)
        q, k, v = split(self.query(x), self.heads), split(self.key(x), self.groups), split(self.value(x), self.groups)
        if self.turn:
            q, k = rotary(q), rotary(k)
        k, v = (y.repeat_interleave(self.heads // self.groups, 1) for y in (k, v))
        scores = q @ k.transpose(-1, -2) / self.size ** 0.5
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, n, width))


class FeedForward(Module):
    def __init__(self, width, hidden, gated):
        super().__init__()
        self.gate = Linear(width, hidden) if gated else None
        self.up, self.down = Linear(width, hidden), Linear(hidden, width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x) if self.gate else F.gelu(self.up(x), approximate="tanh"))


class Block(Module):
    def __init__(self, width, heads, groups, turn, norm, hidden, gated):
        super().__init__()
        self.attention_norm, self.feed_forward_norm = norm(width), norm(width)
        self.attention = Attention(width, heads, groups, turn)
        self.feed_forward = FeedForward(width, hidden, gated)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Gpt(Module):
    def __init__(self, vocabulary, context, layers, heads, width, hidden, turn=False, norm=torch.nn.LayerNorm,
                 gated=False, groups=None):
        super().__init__()
        self.tokens = Embedding(vocabulary, width)
        self.positions = None if turn else Embedding(context, width)
        self.blocks = ModuleList(Block(width, heads, groups or heads, turn, norm, hidden, gated) for _ in range(layers))
        self.norm = norm(width)

    def forward(self, tokens):
        x = self.tokens(tokens)
        if self.positions:
            x = x + self.positions.weight[:tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def gpt():
    torch.manual_seed(31)
    kept = {}
    sizes = dict(vocabulary=11, context=6, layers=2, heads=4, width=8, hidden=32)
    variants = {
        "gpt2": {},
        "rotary": dict(turn=True),
        "rms_norm": dict(norm=RMSNorm),
        "swiglu": dict(gated=True, hidden=24),
        "grouped": dict(groups=2),
        "llama": dict(turn=True, norm=RMSNorm, gated=True, hidden=24, groups=1),
    }
    for name, options in variants.items():
        record_module(kept, name, Gpt(**{**sizes, **options}), torch.randint(11, (2, 5)))
    save("gpt", kept)
