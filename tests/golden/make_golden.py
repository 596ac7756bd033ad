#!/usr/bin/python3 -B
"""Writes the reference files of this folder with PyTorch (Debian's python3-torch, 1.13.1).

    tests/golden/make_golden.py [family ...]    # from anywhere; writes beside this script

A file of operations holds, for each case "<operation>[.<variant>]/<data>":
    <case>/in0, in1, ...   the inputs
    <case>/out             the result
    <case>/grad0, ...      gradients of sum(out * upstream) for the floating inputs, where there are any
and once "upstream", whose first elements are the gradient that flows into each result. All is float64, but every input
is a float32 number, so that one file checks both dtypes. The name of the data says what it is: "ties" and "special"
(NaN and infinities) are places where a gradient is a convention or has no meaning; "special" has none here.

Read in this order: recorder.py, then *_families.py and this file, one function a file of references.
"""
import sys

import torch
import torch.nn.functional as F

from layout_families import indexing, rearrange, sorting, views
from math_families import activations, elementwise, functions, reduce, statistics
from product_families import einsums, linalg, products
from recorder import INF, NAN, SPECIAL, Recorder, apart, dropout, random, representable, save, values


def losses():
    record = Recorder("losses", 5)
    softmax = lambda x: F.log_softmax(x, -1)
    more = {"softmax.last": lambda x: F.softmax(x, -1), "softmax.first": lambda x: F.softmax(x, 0),
                      "log_softmax.first": lambda x: F.log_softmax(x, 0)}
    special = random(5, 3)
    special[0, 1], special[1, 0], special[2, 2], special[3, :], special[4, :2] = NAN, INF, -INF, -INF, -INF
    record.case("log_softmax.last", "plain", softmax, random(2, 5))
    record.case("log_softmax.last", "vector", softmax, random(5))
    record.case("log_softmax.last", "cubes", softmax, random(2, 3, 4))
    record.case("log_softmax.last", "one", softmax, random(2, 1))
    record.case("log_softmax.last", "empty", softmax, random(0, 3))
    record.case("log_softmax.last", "no_classes", softmax, random(2, 0))
    record.case("log_softmax.last", "large", softmax, values(1000, 999, -1000, 0, -2000, 0).reshape(2, 3))
    record.case("log_softmax.last", "special", softmax, special)

    for name, function in more.items():
        record.case(name, "plain", function, random(2, 3, 2))
        record.case(name, "one", function, random(1, 2))
        record.case(name, "empty", function, random(0, 3))
        record.case(name, "special", function, special)

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

    def weighted(function, smoothing=None, reduction="mean"):
        options = {} if smoothing is None else {"label_smoothing": smoothing}

        def loss(logits, targets, weights):
            counted = targets != -100
            if reduction == "mean" and not (counted.any() and (weights[targets[counted]] > 0).any()):
                return function(logits, targets, weight=weights, reduction="sum", **options)  # Capstan gives 0, not NaN
            return function(logits, targets, weight=weights, reduction=reduction, **options)
        return loss

    def over_classes(name, function):
        def loss(data, logits, targets, weights):
            # Weights are constants in PyTorch: whole numbers here, so that no gradient is recorded for them.
            record.case(name, data, lambda x, t, w: function(x, t, w.to(x.dtype)), logits,
                        torch.tensor(targets, dtype=torch.int64), torch.tensor(weights, dtype=torch.int64))
        loss("plain", random(4, 3), [2, 0, -100, 1], [1, 2, 3])
        loss("one", random(1, 1), [0], [2])
        loss("special", special, [0, 0, 2, 0, 2], [1, 2, 3])
        loss("empty", random(0, 3), [], [1, 2, 3])
        loss("all_ignored", random(2, 3), [-100, -100], [1, 2, 3])
        loss("weightless", random(2, 3), [1, 1], [1, 0, 3])
    over_classes("cross_entropy.smooth", weighted(F.cross_entropy, 0.25))
    over_classes("cross_entropy.weighted", weighted(F.cross_entropy, 0.0))
    over_classes("cross_entropy.smooth_none", weighted(F.cross_entropy, 0.25, "none"))
    over_classes("nll_loss.mean", weighted(F.nll_loss))
    over_classes("nll_loss.sum", weighted(F.nll_loss, None, "sum"))
    over_classes("nll_loss.none", weighted(F.nll_loss, None, "none"))
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

    def grouped(name, x, weight, **options):
        record.case(f"conv2d.{name}", "plain", lambda x, w, b: F.conv2d(x, w, b, **options), x, weight,
                    random(len(weight)))
    grouped("dilated", random(2, 2, 6, 5), random(3, 2, 3, 2), dilation=(2, 3), padding=(1, 2))
    grouped("grouped", random(3, 4, 4, 4), random(6, 2, 3, 3), groups=2)
    grouped("depthwise", random(2, 3, 4, 4), random(3, 1, 3, 3), groups=3, padding=1)
    record.save()


def random_drop():
    record = Recorder("dropout", 7)

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


FAMILIES = (elementwise, functions, activations, reduce, statistics, views, rearrange, indexing, sorting, products,
            einsums, linalg, losses, images, random_drop, models)

if __name__ == "__main__":
    torch.set_num_threads(1)
    for family in FAMILIES:
        if len(sys.argv) == 1 or family.__name__ in sys.argv[1:]:
            family()
