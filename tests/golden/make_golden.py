#!/usr/bin/python3
"""Writes the reference files of this folder with PyTorch (Debian's python3-torch, 1.13.1).

    tests/golden/make_golden.py        # from anywhere; writes beside this script

A file of operations holds, for each case "<operation>[.<variant>]/<data>":
    <case>/in0, in1, ...   the inputs
    <case>/out             the result
    <case>/grad0, ...      gradients of sum(out * upstream) for the floating inputs, where there are any
and once "upstream", whose first elements are the gradient that flows into each result. All is float64, but every input
is a float32 number, so that one file checks both dtypes. The name of the data says what it is: "ties" and "special"
(NaN and infinities) are places where a gradient is a convention or has no meaning; "special" has none here.

Read in this order: the format, the recorder, one function a file.
"""
import json
import math
import pathlib
import struct

import torch
import torch.nn.functional as F

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


SPECIAL = values(NAN, INF, -INF, 0.0, 1.5, -2.0)


def elementwise():
    record = Recorder("elementwise", 1)

    def unary(name, function, positive=False):
        low = 0.3 if positive else -2.0
        record.case(name, "plain", function, random(2, 3, low=low))
        record.case(name, "one", function, random(1, low=low))
        record.case(name, "scalar", function, random(low=low))
        record.case(name, "empty", function, random(0, 3))
        record.case(name, "special", function, SPECIAL)

    unary("negate", torch.neg)
    unary("absolute", torch.abs)
    unary("exp", torch.exp)
    unary("log", torch.log, positive=True)
    unary("sqrt", torch.sqrt, positive=True)
    unary("square", torch.square)
    unary("reciprocal", torch.reciprocal, positive=True)
    unary("tanh", torch.tanh)
    unary("sigmoid", torch.sigmoid)
    unary("relu", torch.relu)
    unary("cast.float64", lambda x: x * 1)
    for name, function in (("absolute", torch.abs), ("relu", torch.relu)):
        record.case(name, "ties", function, values(0, 1, -1))
    for name, exponent in (("cube", 3), ("root", 0.5), ("inverse", -1), ("zero", 0), ("same", 1)):
        record.case(f"power.{name}", "plain", lambda x: x ** exponent, random(2, 3, low=0.3))
    record.case("power.cube", "one", lambda x: x ** 3, random(1, 1))
    record.case("power.cube", "empty", lambda x: x ** 3, random(0, 3))
    record.case("power.cube", "special", lambda x: x ** 3, SPECIAL)
    record.case("power.root", "special", lambda x: torch.pow(x, values(0.5)), SPECIAL)

    def binary(name, function, second=random):
        record.case(name, "plain", function, random(2, 3), second(2, 3))
        record.case(name, "row", function, random(2, 3), second(3))
        record.case(name, "outer", function, random(3, 1), second(1, 4))
        record.case(name, "scalar", function, random(), second(2, 2))
        record.case(name, "one", function, random(1), second(1, 1))
        record.case(name, "empty", function, random(0, 3), second(1, 3))
        record.case(name, "special", function, SPECIAL.reshape(6, 1), SPECIAL)

    binary("add", torch.add)
    binary("subtract", torch.sub)
    binary("multiply", torch.mul)
    binary("divide", torch.div, lambda *shape: random(*shape, low=0.3))
    binary("maximum", torch.maximum)
    binary("minimum", torch.minimum)
    record.case("divide", "tiny", torch.div, representable(values(1e-30, 2e-30)),
                representable(values(1e-25, -2e-24)))
    for name, function in (("maximum", torch.maximum), ("minimum", torch.minimum)):
        record.case(name, "ties", function, values(0, 1, -1), values(0, 2, -1))

    for name, function in (("equal", torch.eq), ("not_equal", torch.ne), ("less", torch.lt),
                           ("less_equal", torch.le), ("greater", torch.gt), ("greater_equal", torch.ge)):
        record.case(name, "plain", function, values(1, 2, 3), values(2, 2, 2))
        record.case(name, "outer", function, random(2, 1), random(1, 3))
        record.case(name, "empty", function, random(0, 3), random(1, 3))
        record.case(name, "special", function, SPECIAL.reshape(6, 1), SPECIAL)

    flags = torch.tensor([[True, False, True], [False, True, False]])
    record.case("where", "plain", torch.where, flags, random(2, 3), random(2, 3))
    record.case("where", "outer", torch.where, flags, random(2, 1), random(3))
    record.case("where", "one", torch.where, flags[0, :1], random(3, 1), random(1))
    record.case("where", "empty", torch.where, flags[:0], random(1, 3), random(3))
    record.case("where", "special", torch.where, flags, values(NAN, INF, 1), values(1, -INF, NAN))
    record.save()


def reduce():
    record = Recorder("reduce", 2)

    def reduction(name, all_axes, axes):
        """all_axes(x); axes(x, axes, keepdim)."""
        functions = {"all": all_axes, "last": lambda x: axes(x, (-1,), False),
                     "two": lambda x: axes(x, (2, 0), True), "middle": lambda x: axes(x, (1,), True)}
        for variant, function in functions.items():
            record.case(f"{name}.{variant}", "plain", function, apart(2, 3, 4))
            record.case(f"{name}.{variant}", "one", function, random(1, 1, 1))
            special = random(2, 3, 4)
            special[0, 1, 2], special[1, 0, 0], special[1, 2, 1] = NAN, INF, -INF
            record.case(f"{name}.{variant}", "special", function, special)
        record.case(f"{name}.all", "scalar", all_axes, random())
        record.case(f"{name}.last", "empty", functions["last"], random(2, 0, 4))

    reduction("sum", torch.sum, torch.sum)
    reduction("mean", torch.mean, torch.mean)
    reduction("max", torch.amax, torch.amax)
    reduction("min", torch.amin, torch.amin)
    for name, function in (("sum", torch.sum), ("mean", torch.mean)):
        record.case(f"{name}.all", "empty", function, random(2, 0, 4))
        record.case(f"{name}.middle", "empty", lambda x: function(x, 1, True), random(2, 0, 4))
    for name, function in (("max", torch.amax), ("min", torch.amin)):
        record.case(f"{name}.all", "ties", function, values(1, 2, 2, 1, 2, 1))
        record.case(f"{name}.last", "ties", lambda x: function(x, (-1,)), values(3, 3, 1, 0, 0, 0).reshape(2, 3))

    for variant, axis in (("last", -1), ("first", 0)):
        function = lambda x: torch.argmax(x, axis)
        record.case(f"argmax.{variant}", "plain", function, apart(3, 4))
        record.case(f"argmax.{variant}", "ties", function, values(3, 5, 5, 3, 5, 5).reshape(2, 3))
        record.case(f"argmax.{variant}", "one", function, random(1, 1))
        record.case(f"argmax.{variant}", "special", function,
                    values(1, INF, -INF, 2, NAN, 3, -INF, -INF, -INF).reshape(3, 3))
    record.case("argmax.last", "empty", lambda x: torch.argmax(x, -1), random(0, 3))

    for variant, shape in (("column", (3, 1)), ("scalar", ()), ("same", (2, 3, 4)), ("one", (1, 3, 4))):
        record.case(f"sum_to.{variant}", "plain", lambda x: x.sum_to_size(shape), random(2, 3, 4))
    record.case("sum_to.column", "one", lambda x: x.sum_to_size((3, 1)), random(1, 3, 1))
    record.case("sum_to.column", "empty", lambda x: x.sum_to_size((3, 1)), random(0, 3, 4))
    record.case("sum_to.column", "special", lambda x: x.sum_to_size((3, 1)), SPECIAL.reshape(3, 2))
    record.save()


def views():
    record = Recorder("views", 3)

    def view(name, function, shape, empty, one):
        record.case(name, "plain", function, random(*shape))
        record.case(name, "one", function, random(*one))
        if empty:
            record.case(name, "empty", function, random(*empty))
        special = random(*shape)
        special.view(-1)[0], special.view(-1)[-1] = NAN, INF
        record.case(name, "special", function, special)

    view("reshape.pairs", lambda x: x.reshape(-1, 2), (2, 3, 4), (0, 2), (1, 2))
    view("flatten.all", torch.flatten, (2, 3, 4), (2, 0), (1, 1))
    view("flatten.tail", lambda x: torch.flatten(x, 1), (2, 3, 4), (0, 2, 2), (1, 1, 1))
    record.case("flatten.all", "scalar", torch.flatten, random())
    view("transpose.ends", lambda x: x.transpose(0, -1), (2, 3, 4), (0, 3), (1, 1))
    view("permute.cycle", lambda x: x.permute(2, 0, -2), (2, 3, 4), (2, 0, 3), (1, 1, 1))
    view("slice.step", lambda x: x[:, 1:-1:2], (2, 6), (0, 4), (1, 3))
    record.case("slice.none", "empty", lambda x: x[:, 3:3], random(2, 4))
    view("select.last", lambda x: x.select(-1, -1), (2, 3), (0, 3), (1, 1))
    record.case("select.first", "plain", lambda x: x[1], random(3, 2))
    view("expand.rows", lambda x: x.expand(4, 2, 3), (2, 1), None, (1,))
    record.case("expand.rows", "scalar", lambda x: x.expand(4, 2, 3), random())
    record.case("expand.empty", "empty", lambda x: x.expand(0, 3), random(1, 3))
    view("squeeze.middle", lambda x: x.squeeze(1), (2, 1, 3), (0, 1, 3), (1, 1, 1))
    view("squeeze.last", lambda x: x.squeeze(-1), (2, 1), (0, 1), (1, 1))
    view("unsqueeze.first", lambda x: x.unsqueeze(0), (2, 3), (0, 3), (1,))
    view("unsqueeze.last", lambda x: x.unsqueeze(-1), (2, 3), (0, 3), (1,))
    view("contiguous", lambda x: x * 1, (2, 3), (0, 3), (1, 1))
    view("clone", torch.clone, (2, 3), (0, 3), (1, 1))
    record.save()


def products():
    record = Recorder("products", 4)
    record.case("matmul", "plain", torch.matmul, random(3, 4), random(4, 2))
    record.case("matmul", "one", torch.matmul, random(1, 1), random(1, 1))
    record.case("matmul", "row", torch.matmul, random(1, 5), random(5, 3))
    record.case("matmul", "column", torch.matmul, random(3, 5), random(5, 1))
    record.case("matmul", "empty", torch.matmul, random(0, 4), random(4, 2))
    record.case("matmul", "inner", torch.matmul, random(3, 0), random(0, 2))
    record.case("matmul", "special", torch.matmul, values(NAN, 1, 1, 1, INF, 1, 1, 1, 1).reshape(3, 3), random(3, 2))
    for name, bias in (("linear.bias", True), ("linear.no_bias", False)):
        def linear(data, x, outs=2):
            weight = random(outs, x.shape[-1])
            record.case(name, data, F.linear, x, weight, *[random(outs)] * bias)
        linear("plain", random(4, 3))
        linear("vector", random(3))
        linear("batches", random(2, 3, 4))
        linear("one", random(1, 1), 1)
        linear("empty", random(0, 3))
        linear("no_features", random(2, 3, 0))
        linear("special", SPECIAL.reshape(3, 2))

    def rows(data, x, indices):
        indices = torch.tensor(indices, dtype=torch.int64)
        record.case("take_rows", data, lambda x, i: x[i], x, indices)
    rows("plain", random(4, 3), [2, 0, 2, 3, 2])
    rows("numbers", random(4), [1, 1, 0])
    rows("cubes", random(3, 2, 2), [2, 1])
    rows("one", random(1, 1), [0])
    rows("empty", random(3, 2), [])
    rows("no_columns", random(3, 0), [1, 1])
    rows("special", SPECIAL.reshape(3, 2), [2, 0, 0])
    record.save()


def losses():
    record = Recorder("losses", 5)
    softmax = lambda x: F.log_softmax(x, -1)
    special = random(5, 3)
    special[0, 1], special[1, 0], special[2, 2], special[3, :], special[4, :2] = NAN, INF, -INF, -INF, -INF
    record.case("log_softmax", "plain", softmax, random(2, 5))
    record.case("log_softmax", "vector", softmax, random(5))
    record.case("log_softmax", "cubes", softmax, random(2, 3, 4))
    record.case("log_softmax", "one", softmax, random(2, 1))
    record.case("log_softmax", "empty", softmax, random(0, 3))
    record.case("log_softmax", "no_classes", softmax, random(2, 0))
    record.case("log_softmax", "large", softmax, values(1000, 999, -1000, 0, -2000, 0).reshape(2, 3))
    record.case("log_softmax", "special", softmax, special)

    def mean(logits, targets):
        # PyTorch gives NaN where no target counts; Capstan gives 0.
        total = F.cross_entropy(logits, targets, reduction="sum")
        return total / max(1, int((targets != -100).sum()))
    functions = {"mean": mean, "sum": lambda x, t: F.cross_entropy(x, t, reduction="sum"),
                 "none": lambda x, t: F.cross_entropy(x, t, reduction="none"),
                 "ignore_1": lambda x, t: F.cross_entropy(x, t, ignore_index=1)}
    for name, function in functions.items():
        def loss(data, logits, targets):
            record.case(f"cross_entropy.{name}", data, function, logits, torch.tensor(targets, dtype=torch.int64))
        loss("plain", random(4, 3), [2, 0, -100, 1] if name != "ignore_1" else [2, 0, 1, 1])
        loss("one", random(1, 1), [0])
        loss("large", values(1000, 999, -1000, 0, -2000, 0).reshape(2, 3), [0, 2])
        loss("special", special, [0, 0, 2, 0, 2])
        if name != "ignore_1":
            loss("empty", random(0, 3), [])
            loss("all_ignored", random(2, 3), [-100, -100])
    record.save()


def images():
    record = Recorder("images", 6)

    def conv(name, data, x, kernel, outs=2, bias=True, **options):
        weight = random(outs, x.shape[1], *kernel)
        record.case(f"conv2d.{name}", data, lambda x, w, *b: F.conv2d(x, w, *b, **options), x, weight,
                    *[random(outs)] * bias)
    conv("plain", "plain", random(2, 3, 4, 5), (3, 2))
    conv("plain", "empty", random(0, 3, 4, 5), (3, 2))
    conv("plain", "whole", random(1, 1, 3, 2), (3, 2))
    special = random(1, 1, 6, 5)
    special[0, 0, 0, 0], special[0, 0, 5, 4] = NAN, INF
    conv("plain", "special", special, (3, 2))
    conv("strided", "plain", random(2, 2, 5, 6), (3, 2), stride=(2, 3), padding=(1, 1))
    conv("strided", "one", random(1, 1, 1, 1), (3, 2), stride=(2, 3), padding=(1, 1))
    conv("no_bias", "plain", random(1, 2, 4, 4), (3, 3), outs=3, bias=False, padding=1)
    conv("point", "plain", random(2, 3, 2, 2), (1, 1))

    def pool(name, data, x, **options):
        record.case(f"max_pool2d.{name}", data, lambda x: F.max_pool2d(x, **options), x)
    windows = {"pairs": dict(kernel_size=2), "overlap": dict(kernel_size=(3, 2), stride=(2, 1), padding=(1, 0))}
    for name, options in windows.items():
        pool(name, "plain", apart(2, 2, 5, 6), **options)
        pool(name, "ties", values(1, 2, 2, 1, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0).reshape(1, 1, 4, 4), **options)
        pool(name, "empty", random(0, 2, 4, 4), **options)
        pool(name, "one", random(1, 1, 2, 2), **options)
        special = random(1, 1, 4, 6)
        special[0, 0, 1, 1], special[0, 0, 0, 4], special[0, 0, 2:, 0:2] = NAN, INF, -INF
        pool(name, "special", special, **options)
    record.save()


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011)."""
    mask = 0xFFFFFFFF
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & mask, (a >> 32) ^ counter[3] ^ key[1], a & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return counter


def random_drop():
    record = Recorder("dropout", 7)

    def dropout(x):
        """Seed 7, p 0.25: element i is kept if word i of the stream, as a number in [0, 1), is at least p."""
        words = [w for block in range((x.numel() + 3) // 4) for w in philox([block, 0, 0, 0], [7, 0])]
        kept = torch.tensor([(w >> 8) * 2.0 ** -24 >= 0.25 for w in words[:x.numel()]], dtype=torch.bool)
        return torch.where(kept.reshape(x.shape), x / 0.75, torch.zeros_like(x))

    record.case("dropout.quarter", "plain", dropout, random(5, 7))
    record.case("dropout.quarter", "one", dropout, random(1, 1))
    record.case("dropout.quarter", "empty", dropout, random(0, 3))
    record.case("dropout.quarter", "special", dropout, SPECIAL.repeat(4))
    record.save()


def models():
    """A small LeNet and a small MLP: "<model>/weights/<name>", "images", "targets", "logits", "loss", "grads/<name>"."""
    torch.manual_seed(9)
    nets = {
        "mlp": (torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5), torch.nn.ReLU(), torch.nn.Linear(5, 4),
                                    torch.nn.ReLU(), torch.nn.Linear(4, 3)), random(5, 1, 3, 4)),
        "lenet": (torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                                      torch.nn.Conv2d(2, 3, 3, stride=2, padding=1), torch.nn.ReLU(),
                                      torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(3, 4),
                                      torch.nn.ReLU(), torch.nn.Linear(4, 3)), random(4, 1, 9, 8)),
    }
    kept = {}
    for name, (net, images) in nets.items():
        net.double()
        targets = torch.arange(len(images)) % 3
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(representable(parameter))
        logits = net(images)
        loss = F.cross_entropy(logits, targets)
        loss.backward()
        kept.update({f"{name}/images": images, f"{name}/targets": targets, f"{name}/logits": logits,
                     f"{name}/loss": loss})
        for key, parameter in net.named_parameters():
            kept[f"{name}/weights/{key}"] = parameter
            kept[f"{name}/grads/{key}"] = parameter.grad
    save("models", kept)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for family in (elementwise, reduce, views, products, losses, images, random_drop, models):
        family()
