"""Matrix products and what is built on them."""
import torch
import torch.nn.functional as F

from recorder import INF, NAN, SPECIAL, Recorder, random, values


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
