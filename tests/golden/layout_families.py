"""Operations that change where elements lie, or choose some of them."""
import torch
import torch.nn.functional as F

from recorder import INF, NAN, SPECIAL, Recorder, apart, random, values


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
    view("view.pairs", lambda x: x.reshape(-1, 2), (2, 3, 4), (0, 2), (1, 2))
    view("move_axis.back", lambda x: torch.movedim(x, 0, -1), (2, 3, 4), (2, 0, 3), (1, 1, 1))
    view("move_axis.front", lambda x: torch.movedim(x, 2, 0), (2, 3, 4), (2, 0, 3), (1, 1, 1))
    view("flip.last", lambda x: x.flip(-1), (2, 3), (2, 0), (1, 1))
    view("flip.both", lambda x: x.flip(0, 1), (2, 3, 2), (0, 2), (1, 1))
    view("diagonal.last", lambda x: x.diagonal(0, -2, -1), (2, 3, 4), (2, 0, 2), (1, 1))
    view("diagonal.ends", lambda x: x.diagonal(0, 2, 0), (2, 3, 4), (2, 0, 2), (1, 1, 1))
    view("split.second", lambda x: x.split(2, 1)[1], (2, 3, 2), (0, 4), (1, 3))
    view("split.sizes", lambda x: x.split([1, 0, 4], -1)[2], (2, 5), (0, 5), (1, 5))
    view("chunk.last", lambda x: x.chunk(2, -1)[-1], (2, 5), (2, 0), (1, 1))
    view("contiguous", lambda x: x * 1, (2, 3), (0, 3), (1, 1))
    view("clone", torch.clone, (2, 3), (0, 3), (1, 1))
    record.save()


def rearrange():
    record = Recorder("rearrange", 10)

    def pairs(name, function, *shapes):
        """shapes: of the two inputs, for "plain", "one" and "empty"."""
        for data, (first, second) in zip(("plain", "one", "empty"), shapes):
            record.case(name, data, function, random(*first), random(*second))
        record.case(name, "special", function, SPECIAL.reshape(2, 3), SPECIAL.flip(0).reshape(2, 3))

    pairs("cat.rows", lambda x, y: torch.cat((x, y)), ((2, 3), (1, 3)), ((1,), (2,)), ((0, 2), (3, 2)))
    pairs("cat.columns", lambda x, y: torch.cat((x, y, x), -1), ((2, 3), (2, 1)), ((1, 1), (1, 1)), ((0, 2), (0, 3)))
    pairs("stack.first", lambda x, y: torch.stack((x, y)), ((2, 3), (2, 3)), ((), ()), ((0, 2), (0, 2)))
    pairs("stack.last", lambda x, y: torch.stack((x, y), -1), ((2, 3), (2, 3)), ((1,), (1,)), ((0, 2), (0, 2)))

    def single(name, function):
        record.case(name, "plain", function, random(3, 4))
        record.case(name, "one", function, random(1, 1))
        record.case(name, "empty", function, random(0, 2))
        record.case(name, "special", function, SPECIAL.reshape(3, 2))

    single("pad.zeros", lambda x: F.pad(x, (0, 2, 1, 0)))
    single("pad.ones", lambda x: F.pad(x, (1, 1, 0, 1), value=1.0))
    single("repeat.same", lambda x: x.repeat(2, 3))
    single("repeat.more", lambda x: x.repeat(2, 1, 2))
    record.case("repeat.none", "empty", lambda x: x.repeat(0, 1), random(2, 3))
    single("roll.right", lambda x: x.roll(1, -1))
    single("roll.left", lambda x: x.roll(-4, 0))
    for name, function in (("tril", torch.tril), ("triu", torch.triu)):
        for variant, diagonal in (("main", 0), ("above", 1), ("below", -1), ("far", -100)):
            single(f"{name}.{variant}", lambda x: function(x, diagonal))
        record.case(f"{name}.main", "batches", function, random(2, 3, 3))
    record.save()


def indexing():
    record = Recorder("indexing", 14)
    index = lambda *numbers: torch.tensor(numbers, dtype=torch.int64)

    for variant, axis in (("rows", 0), ("columns", 1)):
        select = lambda x, i: x.index_select(axis, i)
        name = f"index_select.{variant}"
        record.case(name, "plain", select, random(3, 3, 2), index(2, 0, 2, 1))
        record.case(name, "one", select, random(1, 1), index(0))
        record.case(name, "empty", select, random(3, 2), index())
        record.case(name, "special", select, SPECIAL.reshape(2, 3), index(1, 0, 1))
        add = lambda x, i, y: x.index_add(axis, i, y)
        name = f"index_add.{variant}"
        record.case(name, "plain", add, random(4, 4), index(2, 0, 2, 1), random(4, 4))
        record.case(name, "one", add, random(1, 1), index(0, 0), random(2, 1) if axis == 0 else random(1, 2))
        record.case(name, "empty", add, random(3, 3), index(), random(0, 3) if axis == 0 else random(3, 0))
        record.case(name, "special", add, random(2, 2), index(1, 0), SPECIAL[:4].reshape(2, 2))

    for variant, axis in (("rows", 0), ("columns", 1), ("cubes", 2)):
        shape = (2, 3, 4) if axis == 2 else (3, 3)
        at = torch.tensor([[2, 0], [1, 1], [0, 2]])
        at = torch.stack((at, at + 1)) if axis == 2 else at
        one, none = index(0).reshape((1,) * len(shape)), torch.zeros((0, *shape[1:]), dtype=torch.int64)
        special = random(*shape)
        special.view(-1)[0], special.view(-1)[4] = NAN, INF
        taken = lambda x, i: x.gather(axis, i)
        record.case(f"gather.{variant}", "plain", taken, random(*shape), at)
        record.case(f"gather.{variant}", "one", taken, random(*one.shape), one)
        record.case(f"gather.{variant}", "empty", taken, random(*shape), none)
        record.case(f"gather.{variant}", "special", taken, special, at)
        for name in ("scatter", "scatter_add"):
            put = lambda x, i, y: getattr(x, name)(axis, i, y)
            apart_at = at
            if name == "scatter":  # no index twice: which gradient such a one gets is a convention
                apart_at = {0: torch.tensor([[2, 0], [1, 1], [0, 2]]), 1: torch.tensor([[2, 0], [1, 2], [0, 2]]),
                            2: torch.tensor([[[2, 0], [1, 3], [0, 2]], [[3, 1], [1, 0], [2, 3]]])}[axis]
            record.case(f"{name}.{variant}", "plain", put, random(*shape), apart_at, random(*apart_at.shape))
            record.case(f"{name}.{variant}", "one", put, random(*one.shape), one, random(*one.shape))
            record.case(f"{name}.{variant}", "empty", put, random(*shape), none, random(*none.shape))
            record.case(f"{name}.{variant}", "special", put, special, apart_at, random(*apart_at.shape))

    flags = torch.tensor([[True, False, True], [False, True, False]])
    record.case("masked_fill", "plain", lambda x, m: x.masked_fill(m, 1.5), random(2, 3), flags)
    record.case("masked_fill", "row", lambda x, m: x.masked_fill(m, 1.5), random(2, 3), flags[0])
    record.case("masked_fill", "one", lambda x, m: x.masked_fill(m, 1.5), random(1), flags[0, 0])
    record.case("masked_fill", "empty", lambda x, m: x.masked_fill(m, 1.5), random(0, 3), flags[0])
    record.case("masked_fill", "special", lambda x, m: x.masked_fill(m, 1.5), SPECIAL.reshape(2, 3), flags)
    record.case("masked_select", "plain", torch.masked_select, random(2, 3), flags)
    record.case("masked_select", "row", torch.masked_select, random(2, 3), flags[0])
    record.case("masked_select", "one", torch.masked_select, random(1), flags[0, 0])
    record.case("masked_select", "empty", torch.masked_select, random(0, 3), flags[0])
    record.case("masked_select", "special", torch.masked_select, SPECIAL.reshape(2, 3), flags)
    record.case("nonzero", "plain", torch.nonzero, values(0, 1, 0, 2, 3, 0, 0, 0, 4, 0, 0, 5).reshape(2, 3, 2))
    record.case("nonzero", "one", torch.nonzero, values(7))
    record.case("nonzero", "scalar", torch.nonzero, values(7)[0])
    record.case("nonzero", "empty", torch.nonzero, random(0, 3))
    record.case("nonzero", "special", torch.nonzero, SPECIAL)
    record.save()


def sorting():
    record = Recorder("sorting", 15)
    ties = values(2, 1, 2, 1, 1, 2, 0, 2).reshape(2, 4)
    special = values(NAN, 1, -INF, INF, NAN, 0, 2, NAN).reshape(2, 4)
    order = lambda x, dim, falling=False: torch.sort(x, dim=dim, descending=falling, stable=True)
    functions = {"sort.values": lambda x: order(x, -1)[0], "sort.indices": lambda x: order(x, -1)[1],
                 "sort.falling": lambda x: order(x, 0, True)[0], "argsort.rising": lambda x: order(x, 1)[1],
                 "argsort.falling": lambda x: order(x, 1, True)[1],
                 "topk.largest": lambda x: order(x, -1, True)[0][..., :2],
                 "topk.smallest": lambda x: order(x, 0)[1][:1], "topk.none": lambda x: order(x, 0)[0][:0]}
    for name, function in functions.items():
        record.case(name, "plain", function, apart(3, 4))
        record.case(name, "one", function, random(1, 2))
        if name != "topk.smallest":
            record.case(name, "empty", function, random(0, 3))
        record.case(name, "ties", function, ties)
        record.case(name, "special", function, special)
    for i, part in enumerate(("values", "inverse", "counts")):
        function = lambda x: torch.unique(x, return_inverse=True, return_counts=True)[i].detach()
        record.case(f"unique.{part}", "ties", function, ties)
        record.case(f"unique.{part}", "one", function, random(1))
        record.case(f"unique.{part}", "empty", function, random(0, 3))
        record.case(f"unique.{part}", "special", function, values(INF, -INF, 1, INF))
    record.save()
