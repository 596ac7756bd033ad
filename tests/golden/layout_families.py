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
