#!/usr/bin/python3 -B
"""Writes the reference files of normalisations, losses of two tensors, attention and whole layers with PyTorch (Debian's
python3-torch, 1.13.1), operations in the format of make_golden.py.

    tests/golden/make_nn_golden.py [family ...]    # from anywhere; writes beside this script
"""
import math
import sys

import torch
import torch.nn.functional as F

from gpt_family import gpt
from recorder import INF, NAN, SPECIAL, Recorder, apart, dropout, random, record_module, save, values
from sequence_families import ctc, recurrence, recurrent


def normalization():
    record = Recorder("normalization", 21)

    def family(name, function, shape, factors, one, empty, **extra):
        """`factors` is the shape of weight and bias; "alone" goes without them."""
        count = 1 if name == "rms_norm" else 2
        record.case(name + ".all", "plain", function, random(*shape), *(random(*factors) for _ in range(count)))
        for data, (x, factor) in extra.items():
            record.case(name + ".all", data, function, random(*x), *(random(*factor) for _ in range(count)))
        record.case(name + ".alone", "plain", function, random(*shape))
        record.case(name + ".alone", "one", function, random(*one))
        record.case(name + ".alone", "empty", function, random(*empty))
        special = random(*shape)
        special.view(-1)[:3] = values(NAN, INF, -INF)
        record.case(name + ".alone", "special", function, special)

    family("layer_norm", lambda x, w=None, b=None: F.layer_norm(x, x.shape[-1:], w, b), (3, 7), (7,), (2, 1), (0, 4),
           cubes=((2, 3, 5), (5,)), long=((2, 120), (120,)))

    def rms(x, w=None):
        y = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)
        return y if w is None else y * w
    family("rms_norm", rms, (3, 7), (7,), (2, 1), (0, 4), cubes=((2, 3, 5), (5,)))
    family("group_norm", lambda x, w=None, b=None: F.group_norm(x, 2, w, b), (2, 4, 3), (4,), (1, 2, 3), (0, 4, 3),
           flat=((3, 6), (6,)), images=((2, 4, 3, 2), (4,)))
    family("instance_norm", lambda x, w=None, b=None: F.instance_norm(x, weight=w, bias=b), (2, 3, 4), (3,), (1, 1, 3),
           (0, 3, 4), images=((2, 3, 3, 2), (3,)))
    family("batch_norm", lambda x, w=None, b=None: F.batch_norm(x, None, None, w, b, True), (4, 3), (3,), (8, 1), (4, 0),
           lines=((2, 3, 5), (3,)), images=((2, 3, 3, 2), (3,)))

    for variant, dim, lengths in (("rows", 0, (3, 1, 1)), ("columns", 1, (1, 4, 1)), ("whole", -1, ())):
        function = lambda v, g: torch._weight_norm(v, g, dim)
        record.case("weight_norm." + variant, "plain", function, random(3, 4, 2), random(*lengths))
        record.case("weight_norm." + variant, "one", function, random(1, 1), random(*(() if dim < 0 else (1, 1))))
        special = random(3, 4, 2)
        special[0, 0, 0], special[2, 1, 1] = NAN, INF
        record.case("weight_norm." + variant, "special", function, special, random(*lengths))
    # PyTorch divides integers by 0 here.
    record.case("weight_norm.rows", "empty", lambda v, g: v * g, random(0, 3), random(0, 1))
    record.case("weight_norm.rows", "vector", lambda v, g: v / v.abs() * g, random(3), random(3))
    record.save()


def mean(losses):
    """Capstan's mean: of none 0."""
    return losses.sum() / max(1, losses.numel())


def pair_losses():
    record = Recorder("pair_losses", 22)
    to = {"none": lambda x: x, "sum": torch.sum, "mean": mean}

    def family(name, function, make=lambda *shape: apart(*shape), special=SPECIAL):
        for reduction, reduce in to.items():
            case = lambda data, *x: record.case(f"{name}.{reduction}", data, lambda a, b: reduce(function(a, b)), *x)
            case("plain", make(2, 5), make(2, 5))
            if reduction == "mean":
                case("one", make(1, 1), make(1, 1))
                case("empty", random(0, 3), random(0, 3))
            if reduction == "none":
                case("special", special, make(len(special)))

    family("mse_loss", lambda x, t: F.mse_loss(x, t, reduction="none"))
    family("l1_loss", lambda x, t: F.l1_loss(x, t, reduction="none"))
    family("smooth_l1_loss", lambda x, t: F.smooth_l1_loss(x, t, reduction="none", beta=0.5))
    family("huber_loss", lambda x, t: F.huber_loss(x, t, reduction="none", delta=0.5))

    def unit(*shape):
        return random(*shape, low=0.05, high=0.95)

    def bce(p, t):  # PyTorch has no gradient for the target
        loss = -(t * torch.log(p).clamp(min=-100) + (1 - t) * torch.log(1 - p).clamp(min=-100))
        assert torch.allclose(loss, F.binary_cross_entropy(p, t.detach(), reduction="none"), equal_nan=True)
        return loss
    family("binary_cross_entropy", bce, unit, values(0.0, 1.0, 0.5))
    weight = values(0.5, 2, 3, 1, 1)
    family("binary_cross_entropy_with_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
           unit, values(NAN, 0.0, 80.0))
    record.case("binary_cross_entropy_with_logits.weighted", "plain",
                lambda x, t: F.binary_cross_entropy_with_logits(x, t, pos_weight=weight), random(2, 5), unit(2, 5))

    def divergences(log_q, p):
        return (torch.special.xlogy(p, p) - p * log_q).sum(-1)
    q, p = random(3, 4).log_softmax(-1), random(3, 4).softmax(-1)
    assert torch.allclose(divergences(q, p).mean(), F.kl_div(q, p, reduction="batchmean"))
    family("kl_div", divergences, unit, values(0.5, NAN, 1))
    # Where p is 0, so is its part; its gradient is infinite there.
    record.case("kl_div.sum", "special", lambda q, p: divergences(q, p).sum(), random(2, 3),
                values(0, 0.5, 0.5, 1, 0, 0).reshape(2, 3))

    cosine = lambda a, b, dim=-1: F.cosine_similarity(a, b, dim)
    record.case("cosine_similarity.last", "plain", cosine, random(2, 5), random(2, 5))
    record.case("cosine_similarity.last", "one", cosine, random(1, 1), random(1, 1))
    record.case("cosine_similarity.last", "empty", cosine, random(0, 3), random(0, 3))
    record.case("cosine_similarity.last", "special", cosine, values(NAN, 1, 1, 2).reshape(2, 2), random(2, 2))
    record.case("cosine_similarity.first", "plain", lambda a, b: cosine(a, b, 0), random(3, 2), random(3, 2))

    def embedding(reduce):
        return lambda a, b, t: reduce(F.cosine_embedding_loss(a, b, t, 0.25, reduction="none"))
    for name, reduce in to.items():
        record.case("cosine_embedding_loss." + name, "plain", embedding(reduce), random(6, 3), random(6, 3),
                    torch.tensor([1, -1, 1, -1, -1, 1]))
    record.case("cosine_embedding_loss.mean", "one", embedding(mean), random(1, 1), random(1, 1), torch.tensor([1]))
    record.case("cosine_embedding_loss.mean", "empty", embedding(mean), random(0, 3), random(0, 3),
                torch.zeros(0, dtype=torch.int64))
    record.case("cosine_embedding_loss.none", "special", embedding(to["none"]), values(NAN, 1, 1, 2).reshape(2, 2),
                random(2, 2), torch.tensor([1, -1]))

    def triplet(reduce, **options):
        return lambda a, p, n: reduce(F.triplet_margin_loss(a, p, n, reduction="none", **options))
    for name, reduce in to.items():
        record.case("triplet_margin_loss." + name, "plain", triplet(reduce), apart(5, 3), apart(5, 3), apart(5, 3))
    record.case("triplet_margin_loss.mean", "one", triplet(mean), values(1.).reshape(1, 1), values(2.5).reshape(1, 1),
                values(-0.25).reshape(1, 1))
    record.case("triplet_margin_loss.mean", "empty", triplet(mean), random(0, 3), random(0, 3), random(0, 3))
    record.case("triplet_margin_loss.none", "special", triplet(to["none"]), values(NAN, 1, 1, 2).reshape(2, 2),
                random(2, 2), random(2, 2))
    record.case("triplet_margin_loss.manhattan", "plain", triplet(mean, p=1, margin=2), apart(5, 3), apart(5, 3),
                apart(5, 3))
    record.save()


def attention():
    record = Recorder("attention", 23)

    def attend(q, k, v, mask=None, causal=False, scale=None, drop=lambda weights: weights):
        share = q.shape[1] // max(1, k.shape[1])
        k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
        scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
        if mask is not None:
            scores = scores.masked_fill(~mask, -INF) if mask.dtype == torch.bool else scores + mask.double() / 2
        if causal:
            m, n = scores.shape[-2:]
            scores = scores.masked_fill(~torch.ones(m, n, dtype=torch.bool).tril(n - m), -INF)
        return drop(scores.softmax(-1)) @ v

    def qkv(batch=1, heads=2, groups=None, m=3, n=4, d=5, e=None):
        groups = groups or heads
        return random(batch, heads, m, d), random(batch, groups, n, d), random(batch, groups, n, e or d)
    name = "scaled_dot_product_attention"
    record.case(name + ".plain", "plain", attend, *qkv())
    record.case(name + ".plain", "wide_values", attend, *qkv(2, 1, m=2, n=3, d=2, e=7))
    record.case(name + ".plain", "one", attend, *qkv(1, 1, m=1, n=1, d=1))
    record.case(name + ".plain", "empty", attend, *qkv(0))
    record.case(name + ".plain", "no_queries", attend, *qkv(m=0))
    q, k, v = qkv()
    q[0, 0, 0, 0], k[0, 1, 1, 1] = NAN, INF
    record.case(name + ".plain", "special", attend, q, k, v)
    record.case(name + ".grouped", "plain", attend, *qkv(2, 4, 2, m=2, n=3, d=2))
    record.case(name + ".causal", "plain", lambda *x: attend(*x, causal=True), *qkv(m=4, n=4, d=3))
    record.case(name + ".causal", "last_queries", lambda *x: attend(*x, causal=True), *qkv(m=2, n=5, d=3))
    # Long enough for several tiles of queries and keys; few numbers come out.
    record.case(name + ".causal", "tiles", lambda *x: attend(*x, causal=True), *qkv(1, 1, m=150, n=300, d=2, e=1))
    record.case(name + ".scaled", "plain", lambda *x: attend(*x, scale=0.25), *qkv())
    mask = torch.rand(3, 4) < 0.6
    mask[:, 1] = True
    record.case(name + ".masked", "plain", attend, *qkv(), mask)
    record.case(name + ".masked", "heads", attend, *qkv(), torch.tensor([True, False, True, True]).reshape(1, 1, 1, 4))
    record.case(name + ".biased", "plain", attend, *qkv(), torch.randint(-3, 3, (2, 1, 4)))

    def rotary(x, offset=0, interleaved=False):
        n, d = x.shape[-2:]
        angles = torch.arange(offset, offset + n).double()[:, None] * 10000 ** (-torch.arange(0, d, 2).double() / d)
        a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        parts = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
        return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
    record.case("rotary_embedding.halves", "plain", rotary, random(2, 3, 6))
    record.case("rotary_embedding.halves", "one", rotary, random(1, 2))
    record.case("rotary_embedding.halves", "empty", rotary, random(2, 0, 4))
    record.case("rotary_embedding.halves", "special", rotary, SPECIAL[:4].reshape(1, 4))
    record.case("rotary_embedding.offset", "plain", lambda x: rotary(x, 5), random(2, 3, 4))
    record.case("rotary_embedding.pairs", "plain", lambda x: rotary(x, 1, True), random(2, 3, 4))

    record.case(name + ".dropped", "plain", lambda *x: attend(*x, drop=dropout), *qkv(2, 4, 2, m=3, n=5, d=2))
    # Beyond one tile of queries and keys.
    record.case(name + ".dropped_causal", "plain", lambda *x: attend(*x, causal=True, drop=dropout),
                *qkv(1, 1, m=70, n=140, d=2, e=1))
    record.save()


def convolutions():
    record = Recorder("convolutions", 25)

    def family(name, function, plain, one, empty, variants):
        """Shapes of (x, weight, bias); a variant is (options, shapes)."""
        for variant, (options, *shapes) in {"plain": ({}, *plain), **variants}.items():
            record.case(f"{name}.{variant}", "plain", lambda x, w, *b: function(x, w, *b, **options),
                        *(random(*shape) for shape in shapes))
        for data, shapes in {"one": one, "empty": empty}.items():
            record.case(name + ".plain", data, function, *(random(*shape) for shape in shapes))
        # An infinity in a corner: behind it, PyTorch's algorithms multiply it with 0 or not.
        x, *others = (random(*shape) for shape in plain)
        x.view(-1)[0] = NAN
        record.case(name + ".plain", "special", function, x, *others)

    family("conv1d", F.conv1d, [(2, 3, 6), (2, 3, 3), (2,)], [(1, 1, 1), (1, 1, 1), (1,)], [(0, 3, 6), (2, 3, 3), (2,)],
           {"strided": (dict(stride=2, padding=1, dilation=2), (2, 2, 8), (3, 2, 3), (3,)),
            "grouped": (dict(groups=2), (2, 4, 5), (2, 2, 2), (2,))})
    family("conv3d", F.conv3d, [(1, 2, 3, 3, 4), (2, 2, 2, 2, 3), (2,)], [(1, 1, 1, 1, 1), (1, 1, 1, 1, 1), (1,)],
           [(0, 2, 3, 3, 4), (2, 2, 2, 2, 3), (2,)],
           {"strided": (dict(stride=2, padding=1, dilation=2), (2, 1, 5, 4, 3), (2, 1, 2, 2, 2), (2,)),
            "grouped": (dict(groups=2), (1, 2, 2, 2, 3), (2, 1, 2, 1, 2), (2,))})
    family("conv_transpose1d", F.conv_transpose1d, [(2, 3, 4), (3, 2, 3), (2,)], [(1, 1, 1), (1, 1, 1), (1,)],
           [(0, 3, 4), (3, 2, 3), (2,)],
           {"strided": (dict(stride=2, padding=1, output_padding=1), (2, 2, 4), (2, 3, 3), (3,))})
    family("conv_transpose2d", F.conv_transpose2d, [(2, 3, 3, 2), (3, 2, 3, 2), (2,)],
           [(1, 1, 1, 1), (1, 1, 3, 2), (1,)], [(0, 3, 3, 2), (3, 2, 3, 2), (2,)],
           {"strided": (dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 1)), (1, 2, 3, 3), (2, 2, 3, 2), (2,)),
            "dilated": (dict(dilation=2), (1, 2, 2, 3), (2, 2, 2, 2), (2,)),
            "grouped": (dict(groups=2), (2, 4, 2, 3), (4, 1, 2, 2), (2,)),
            "no_bias": ({}, (1, 2, 2, 3), (2, 2, 2, 2))})
    record.save()


def pooling():
    record = Recorder("pooling", 26)

    def family(name, function, plain, one, empty):
        record.case(name, "plain", function, random(*plain))
        record.case(name, "one", function, random(*one))
        record.case(name, "empty", function, random(*empty))
        special = random(*plain)
        special.view(-1)[:3] = values(NAN, INF, -INF)
        record.case(name, "special", function, special)
    family("avg_pool2d.pairs", lambda x: F.avg_pool2d(x, 2), (2, 2, 5, 6), (1, 1, 2, 2), (0, 2, 4, 4))
    family("avg_pool2d.overlap", lambda x: F.avg_pool2d(x, (3, 2), (2, 1), (1, 0)), (2, 2, 5, 6), (1, 1, 2, 2),
           (0, 2, 4, 4))
    family("adaptive_avg_pool2d.global", lambda x: F.adaptive_avg_pool2d(x, (1, 1)), (2, 2, 5, 6), (1, 1, 1, 1),
           (0, 2, 4, 4))
    family("adaptive_avg_pool2d.uneven", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), (2, 2, 5, 6), (1, 1, 1, 1),
           (0, 2, 4, 4))

    def peaks(name, function, plain, one, empty):
        """Of numbers that are apart; the winner of equals is the first, row by row."""
        record.case(name, "plain", function, apart(*plain))
        record.case(name, "ties", function, torch.randint(0, 2, plain).double())
        record.case(name, "one", function, random(*one))
        record.case(name, "empty", function, random(*empty))
        special = random(*plain)
        special.view(-1)[:3] = values(NAN, INF, -INF)
        record.case(name, "special", function, special)
    peaks("adaptive_max_pool2d.global", lambda x: F.adaptive_max_pool2d(x, (1, 1)), (2, 2, 5, 6), (1, 1, 1, 1),
          (0, 2, 4, 4))
    peaks("adaptive_max_pool2d.uneven", lambda x: F.adaptive_max_pool2d(x, (3, 4)), (2, 2, 5, 6), (1, 1, 1, 1),
          (0, 2, 4, 4))
    peaks("max_pool1d.pairs", lambda x: F.max_pool1d(x, 2), (2, 3, 7), (1, 1, 2), (0, 2, 4))
    peaks("max_pool1d.overlap", lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 7), (1, 1, 1), (0, 2, 4))
    peaks("adaptive_max_pool1d.uneven", lambda x: F.adaptive_max_pool1d(x, 3), (2, 3, 7), (1, 1, 1), (0, 2, 4))
    family("avg_pool1d.pairs", lambda x: F.avg_pool1d(x, 2), (2, 3, 7), (1, 1, 2), (0, 2, 4))
    family("avg_pool1d.overlap", lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 3, 7), (1, 1, 1), (0, 2, 4))
    family("adaptive_avg_pool1d.uneven", lambda x: F.adaptive_avg_pool1d(x, 3), (2, 3, 7), (1, 1, 1), (0, 2, 4))

    # (Where a scale leaves the size of an axis as it is, some of PyTorch's kernels copy it and others do not.)
    modes = {"nearest": dict(mode="nearest"), "bilinear": dict(mode="bilinear", align_corners=False),
             "aligned": dict(mode="bilinear", align_corners=True)}
    for mode, options in modes.items():
        for variant, size in {"larger": dict(size=(7, 5)), "smaller": dict(size=(2, 1)), "twice": dict(scale_factor=2),
                              "fraction": dict(scale_factor=1.7)}.items():
            function = lambda x: F.interpolate(x, **size, **options)
            record.case(f"upsample.{mode}_{variant}", "plain", function, random(2, 2, 3, 4))
            record.case(f"upsample.{mode}_{variant}", "one", function, random(1, 1, 1, 1))
        special = random(1, 1, 3, 4)
        special[0, 0, 1, 1] = NAN
        record.case(f"upsample.{mode}_twice", "special", lambda x: F.interpolate(x, scale_factor=2, **options), special)
        # PyTorch refuses an empty batch.
        record.case(f"upsample.{mode}_twice", "empty", lambda x: x.repeat(1, 1, 2, 2), random(0, 2, 3, 4))
    record.save()


def projections(state):
    """PyTorch's names and packed projections of a MultiheadAttention as Capstan's."""
    renamed = {}
    for name, tensor in state.items():
        if "in_proj_" in name:
            for part, value in zip(("query", "key", "value"), tensor.chunk(3)):
                renamed[name.replace("in_proj_", part + ".")] = value
        else:
            renamed[name.replace("out_proj", "out")] = tensor
    return renamed


def encoder_names(state):
    names = {"self_attn": "attention", "multihead_attn": "memory_attention", "linear1": "feed_forward.up",
             "linear2": "feed_forward.down", "norm1": "attention_norm", "norm2": "feed_forward_norm"}
    return {".".join([names.get(name.split(".")[0], name.split(".")[0]), *name.split(".")[1:]]): tensor
            for name, tensor in projections(state).items()}


def decoder_names(state):
    norms = {"norm2": "memory_norm", "norm3": "feed_forward_norm"}
    return encoder_names({norms.get(name.split(".")[0], name.split(".")[0]) + name[name.index("."):]: tensor
                          for name, tensor in state.items()})


def modules():
    torch.manual_seed(24)
    kept = {}
    module = lambda *arguments, **options: record_module(kept, *arguments, **options)
    module("layer_norm", torch.nn.LayerNorm((3, 4)), random(2, 3, 4))
    module("group_norm", torch.nn.GroupNorm(2, 4), random(2, 4, 3))
    module("instance_norm", torch.nn.InstanceNorm2d(3, affine=True), random(2, 3, 2, 4))
    module("batch_norm1d", torch.nn.BatchNorm1d(3, momentum=0.3), random(5, 3))
    module("batch_norm2d", torch.nn.BatchNorm2d(3), random(2, 3, 4, 3))
    module("embedding", torch.nn.Embedding(5, 3, padding_idx=1), torch.tensor([[0, 1, 4], [4, 1, 2]]))
    attend = lambda net, *x: net(*x, need_weights=False)[0]
    module("attention", torch.nn.MultiheadAttention(6, 2, batch_first=True), random(2, 3, 6), random(2, 4, 6),
           call=lambda net, x, memory: attend(net, x, memory, memory), names=projections)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    module("causal_attention", torch.nn.MultiheadAttention(6, 3, bias=False, batch_first=True), random(2, 4, 6),
           call=lambda net, x: net(x, x, x, need_weights=False, attn_mask=future)[0], names=projections)
    layer = dict(dim_feedforward=5, dropout=0.0, batch_first=True)
    module("encoder", torch.nn.TransformerEncoderLayer(4, 2, **layer), random(2, 3, 4), names=encoder_names)
    module("encoder_norm_first", torch.nn.TransformerEncoderLayer(4, 2, norm_first=True, activation="gelu", **layer),
           random(2, 3, 4), names=encoder_names)
    module("decoder", torch.nn.TransformerDecoderLayer(4, 2, **layer), random(2, 4, 4), random(2, 3, 4),
           names=decoder_names, call=lambda net, x, memory: net(x, memory, tgt_mask=future))

    def pair(net, *shapes):
        return net, *(random(*shape) for shape in shapes)
    options = dict(stride=2, padding=1, dilation=2, groups=2)
    module("conv1d", *pair(torch.nn.Conv1d(4, 6, 3, **options), (2, 4, 9)))
    module("conv2d", *pair(torch.nn.Conv2d(4, 6, 3, **options), (2, 4, 7, 6)))
    module("conv3d", *pair(torch.nn.Conv3d(2, 4, 3, **options), (1, 2, 4, 5, 3)))
    options["output_padding"] = 1
    module("conv_transpose1d", *pair(torch.nn.ConvTranspose1d(4, 6, 3, **options), (2, 4, 5)))
    module("conv_transpose2d", *pair(torch.nn.ConvTranspose2d(4, 6, 3, **options), (2, 4, 3, 4)))
    module("bilinear", *pair(torch.nn.Bilinear(3, 2, 4), (2, 5, 3), (2, 5, 2)))
    weight_norm = torch.nn.utils.weight_norm
    module("weight_norm_linear", *pair(weight_norm(torch.nn.Linear(3, 4)), (2, 3)))
    module("weight_norm_conv", *pair(weight_norm(torch.nn.Conv1d(2, 3, 2), dim=1), (2, 2, 5)))
    module("weight_norm_whole", *pair(weight_norm(torch.nn.Linear(3, 4, bias=False), dim=None), (2, 3)))
    module("prelu", *pair(torch.nn.PReLU(3), (2, 3, 4)))
    save("modules", kept)


FAMILIES = (normalization, pair_losses, attention, convolutions, pooling, modules, recurrence, recurrent, ctc, gpt)

if __name__ == "__main__":
    torch.set_num_threads(1)
    for family in FAMILIES:
        if len(sys.argv) == 1 or family.__name__ in sys.argv[1:]:
            family()
