"""Element-wise functions and reductions."""
import torch

from recorder import INF, NAN, SPECIAL, Recorder, apart, random, representable, values


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
