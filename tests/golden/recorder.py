"""The format of the reference files, random inputs, Recorder, which collects the cases of one file, and
record_module(), which does so for a layer."""
import json
import math
import pathlib
import struct

import torch

NAN, INF = math.nan, math.inf

# The safetensors format (core/safetensors.h).

CODES = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}


def save(name, tensors):
    """Writes a dictionary of tensors to <name>.safetensors, the widest dtypes first, so that all are aligned."""
    header, blobs, begin = {}, [], 0
    for key, tensor in sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0])):
        blob = tensor.detach().contiguous().numpy().tobytes()
        header[key] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape),
                       "data_offsets": [begin, begin + len(blob)]}
        blobs.append(blob)
        begin += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = pathlib.Path(__file__).with_name(name + ".safetensors")
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    print(f"{path.name}: {path.stat().st_size} bytes")


# The recorder.

def representable(tensor):
    """The nearest float32 numbers, as float64."""
    return tensor.float().double()


def random(*shape, low=-2.0, high=2.0):
    return representable(torch.rand(shape, dtype=torch.float64) * (high - low) + low)


def apart(*shape):
    """Random numbers that are at least 0.05 away from each other and from 0, so that no kink is near."""
    count = math.prod(shape)
    ranks = torch.randperm(count).double() - count / 2 + 0.25
    return representable(ranks * 0.1 + (torch.rand(count).double() - 0.5) * 0.02).reshape(shape)


def values(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""
    mask = 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & mask, (a >> 32) ^ counter[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return counter


def dropout(x):
    """Seed 7, p 0.25: element i is kept if word i of the stream, as a number in [0, 1), is at least p."""
    words = [w for block in range((x.numel() + 3) // 4) for w in philox([block, 0, 0, 0], [7, 0])]
    kept = torch.tensor([(w >> 8) * 2.0 ** -24 >= 0.25 for w in words[:x.numel()]], dtype=torch.bool)
    return torch.where(kept.reshape(x.shape), x / 0.75, torch.zeros_like(x))


class Recorder:
    """Collects the cases of one file."""

    def __init__(self, name, seed):
        torch.manual_seed(seed)
        self.name = name
        self.upstream = random(256, low=0.5, high=1.5) * torch.where(torch.rand(256) < 0.3, -1.0, 1.0)
        self.tensors = {"upstream": self.upstream}

    def case(self, operation, data, function, *inputs):
        """Runs `function` on `inputs` and keeps what went in, what came out and the gradients."""
        key = f"{operation}/{data}/"
        assert key + "out" not in self.tensors, key
        leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        out = function(*leaves)
        for i, x in enumerate(inputs):
            self.tensors[f"{key}in{i}"] = x
        self.tensors[key + "out"] = out.detach()
        if not out.requires_grad or data == "special":
            return
        out.backward(self.upstream[:out.numel()].reshape(out.shape).to(out.dtype))
        for i, x in enumerate(leaves):
            if x.requires_grad:
                grad = x.grad if x.grad is not None else torch.zeros_like(x)
                self.tensors[f"{key}grad{i}"] = grad

    def save(self):
        save(self.name, self.tensors)


def record_module(kept, name, net, *inputs, names=lambda state: state, call=lambda net, *x: net(*x)):
    """A layer: "<name>/weights/<parameter>", "in0", ..., "out", "grad0", ..., "grads/<parameter>" for sum(out * upstream),
    "after/<buffer>" what the buffers hold then, and "evaluated", the result in evaluation mode after that."""
    net.double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(random(*parameter.shape, low=-0.5, high=1.0))
    start = {key: value.clone() for key, value in net.state_dict().items() if value.is_floating_point()}
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    out = call(net, *leaves)
    upstream = random(*out.shape)
    out.backward(upstream)
    grads = {key: parameter.grad for key, parameter in net.named_parameters()}
    groups = {"weights": names(start), "grads": names(grads), "after": dict(net.named_buffers())}
    kept.update({f"{name}/out": out, f"{name}/upstream": upstream})
    for i, leaf in enumerate(leaves):
        kept[f"{name}/in{i}"] = leaf
        if leaf.requires_grad:
            kept[f"{name}/grad{i}"] = leaf.grad
    for group, tensors in groups.items():
        kept.update({f"{name}/{group}/{key}": x.clone() for key, x in tensors.items() if x.is_floating_point()})
    kept[f"{name}/evaluated"] = call(net.eval(), *leaves)


SPECIAL = values(NAN, INF, -INF, 0.0, 1.5, -2.0)
