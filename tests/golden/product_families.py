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

    record.case("matmul", "vectors", torch.matmul, random(3), random(3))
    record.case("matmul", "vector_matrix", torch.matmul, random(3), random(3, 2))
    record.case("matmul", "matrix_vector", torch.matmul, random(2, 3), random(3))
    record.case("matmul", "batch_vector", torch.matmul, random(2, 2, 3), random(3))
    record.case("matmul", "vector_batch", torch.matmul, random(3), random(2, 3, 2))
    record.case("matmul", "batch_matrix", torch.matmul, random(2, 2, 3), random(3, 2))
    record.case("matmul", "batches", torch.matmul, random(2, 1, 2, 3), random(3, 3, 2))
    record.case("matmul", "no_batch", torch.matmul, random(0, 2, 3), random(0, 3, 2))

    record.case("bmm", "plain", torch.bmm, random(3, 2, 4), random(3, 4, 3))
    record.case("bmm", "one", torch.bmm, random(1, 1, 1), random(1, 1, 1))
    record.case("bmm", "empty", torch.bmm, random(0, 2, 4), random(0, 4, 3))
    record.case("bmm", "special", torch.bmm, SPECIAL.reshape(2, 1, 3), random(2, 3, 2))
    for variant, options in (("sum", {}), ("scaled", {"beta": 0.5, "alpha": -2})):
        function = lambda x, a, b: torch.addmm(x, a, b, **options)
        record.case(f"addmm.{variant}", "plain", function, random(2), random(3, 4), random(4, 2))
        record.case(f"addmm.{variant}", "one", function, random(1, 1), random(1, 1), random(1, 1))
        record.case(f"addmm.{variant}", "empty", function, random(2), random(0, 4), random(4, 2))
        record.case(f"addmm.{variant}", "special", function, random(2), SPECIAL.reshape(2, 3), random(3, 2))
    for name in ("dot", "outer"):
        function = getattr(torch, name)
        record.case(name, "plain", function, random(3), random(3))
        record.case(name, "one", function, random(1), random(1))
        record.case(name, "empty", function, random(0), random(0))
        record.case(name, "special", function, SPECIAL, random(6))
    for variant, axes in (("one", ((2,), (0,))), ("two", ((0, -1), (1, 0))), ("none", ((), ()))):
        function = lambda a, b: torch.tensordot(a, b, axes)
        record.case(f"tensordot.{variant}", "plain", function, random(3, 2, 2), random(2, 3))
        record.case(f"tensordot.{variant}", "single", function, random(1, 1, 1), random(1, 1))
        record.case(f"tensordot.{variant}", "empty", function, random(0, 2, 2), random(2, 0))
        special = random(3, 2, 2)
        special[0, 0, 0], special[2, 1, 1] = NAN, INF
        record.case(f"tensordot.{variant}", "special", function, special, random(2, 3))
    def rows(data, x, indices):
        indices = torch.tensor(indices, dtype=torch.int64)
        record.case("take_rows", data, lambda x, i: x[i], x, indices)
    rows("plain", random(4, 3), [2, 0, 2, 3, 2])
    rows("numbers", random(4), [1, 1, 0])
    rows("cubes", random(3, 2, 2), [2, 1])
    rows("grid", random(4, 3), [[2, 0], [3, 2]])
    rows("scalar", random(4, 3), 2)
    rows("one", random(1, 1), [0])
    rows("empty", random(3, 2), [])
    rows("no_columns", random(3, 0), [1, 1])
    rows("special", SPECIAL.reshape(3, 2), [2, 0, 0])

    for name, bias in (("bilinear.bias", True), ("bilinear.no_bias", False)):
        def bilinear(data, a, b, outs=2):
            record.case(name, data, F.bilinear, a, b, random(outs, a.shape[-1], b.shape[-1]), *[random(outs)] * bias)
        bilinear("plain", random(4, 3), random(4, 2))
        bilinear("vector", random(3), random(2))
        bilinear("batches", random(2, 3, 1), random(2, 3, 4), 3)
        bilinear("one", random(1, 1), random(1, 1), 1)
        bilinear("empty", random(0, 3), random(0, 2))
        special = random(2, 3)
        special[0, 0] = NAN
        bilinear("special", special, random(2, 2))
    record.save()


def einsums():
    record = Recorder("einsum", 16)

    def case(variant, equation, *shapes, data="plain"):
        record.case(f"einsum.{variant}", data, lambda *x: torch.einsum(equation, *x), *[random(*s) for s in shapes])

    case("product", "ik,kj->ij", (2, 3), (3, 2))
    case("product", "ik,kj->ij", (1, 1), (1, 1), data="one")
    case("product", "ik,kj->ij", (2, 0), (0, 2), data="empty")
    record.case("einsum.product", "special", lambda *x: torch.einsum("ik,kj->ij", *x), SPECIAL.reshape(2, 3), random(3, 2))
    case("implicit", "kj, ik", (3, 2), (2, 3))
    case("batch", "bhqd,bhkd->bhqk", (2, 1, 3, 2), (2, 1, 2, 2))
    case("inner", "i,i", (3,), (3,))
    case("trace", "ii", (3, 3))
    case("diagonal", "iji->ij", (3, 2, 3))
    case("turned", "ijk->kij", (2, 3, 2))
    case("summed", "ijk->j", (2, 3, 2))
    case("three", "ij,jk,kl->il", (2, 3), (3, 2), (2, 3))
    case("bilinear", "bi,oij,bj->bo", (2, 3), (2, 3, 2), (2, 2))
    case("dots", "...ij,...j->...i", (2, 1, 2, 3), (2, 3))
    case("dots_sum", "i...->...", (2, 3))
    case("free", "ij,kl->iljk", (2, 1), (2, 3))
    case("alone", "ij,k->i", (2, 3), (2,))
    record.save()


def linalg():
    record = Recorder("linalg", 17)
    turned = lambda x: x.transpose(-2, -1)
    definite = lambda x: x @ turned(x) + torch.eye(x.shape[-2], dtype=x.dtype)

    def qr(x):
        q, r = torch.linalg.qr(x)
        signs = torch.where(r.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(x.dtype)
        return q * signs.unsqueeze(-2), r * signs.unsqueeze(-1)

    cases = {"plain": (3, 3), "batch": (2, 1, 2, 2), "one": (1, 1), "empty": (0, 2, 2)}
    for data, shape in cases.items():
        record.case("cholesky", data, lambda x: torch.linalg.cholesky(definite(x)), random(*shape))
        record.case("inverse", data, lambda x: torch.linalg.inv(definite(x)), random(*shape))
        record.case("solve", data, torch.linalg.solve, definite(random(*shape)).float().double(), random(*shape[:-1], 2))
        with torch.no_grad():
            record.case("eigh.values", data, lambda x: torch.linalg.eigvalsh(definite(x)), random(*shape))
            record.case("eigh.product", data, definite, random(*shape))
    record.case("solve", "broadcast", torch.linalg.solve, definite(random(2, 2)).float().double(), random(3, 2, 1))
    for data, shape in {**cases, "tall": (4, 2), "wide": (2, 3)}.items():
        with torch.no_grad():
            record.case("svd.values", data, torch.linalg.svdvals, random(*shape))
            record.case("svd.product", data, lambda x: x * 1, random(*shape))
            if data != "empty":
                record.case("qr.q", data, lambda x: qr(x)[0], random(*shape))
                record.case("qr.r", data, lambda x: qr(x)[1], random(*shape))
    with torch.no_grad():
        record.case("qr.r", "empty", lambda x: x * 1, random(0, 2, 2))
    record.save()
