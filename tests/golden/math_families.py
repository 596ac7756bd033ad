"""Element-wise functions and reductions."""
import torch
import torch.nn.functional as F

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

    def more(name, function, second=random):
        record.case(name, "outer", function, random(3, 1), second(4))
        record.case(name, "empty", function, random(0, 3), second(1, 3))
        record.case(name, "special", function, SPECIAL.reshape(6, 1), SPECIAL)

    more("remainder", torch.remainder, lambda *shape: random(*shape, low=0.3) * torch.tensor([1.0, -1.0, 1.0, -1.0])[:shape[-1]])
    more("floor_divide", lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda *shape: random(*shape, low=0.3))
    more("atan2", torch.atan2)
    record.case("power.tensor", "outer", torch.pow, random(3, 1, low=0.3), random(4))
    record.case("power.tensor", "ties", torch.pow, values(0, 0, 2, 2), values(0, 2, 0, 1))
    record.case("power.tensor", "empty", torch.pow, random(0, 3), random(1, 3))
    record.case("power.tensor", "special", torch.pow, SPECIAL.reshape(6, 1), SPECIAL)
    record.case("power.base", "plain", lambda x: torch.pow(2.5, x), random(2, 3))
    flags = values(0, 1, -2, 0)
    for name, function in (("and", torch.logical_and), ("or", torch.logical_or), ("xor", torch.logical_xor)):
        record.case(f"logical_{name}", "outer", function, flags.reshape(4, 1), flags)
        record.case(f"logical_{name}", "empty", function, random(0, 3), random(1, 3))
        record.case(f"logical_{name}", "special", function, SPECIAL.reshape(6, 1), SPECIAL)
    record.case("logical_not", "plain", torch.logical_not, flags)
    record.case("logical_not", "one", torch.logical_not, flags[:1])
    record.case("logical_not", "empty", torch.logical_not, random(0, 3))
    record.case("logical_not", "special", torch.logical_not, SPECIAL)
    record.save()


def single(record, name, function, low=-2.0, high=2.0):
    """The cases of a function of one tensor."""
    record.case(name, "plain", function, random(2, 3, low=low, high=high))
    record.case(name, "scalar", function, random(low=low, high=high))
    record.case(name, "empty", function, random(0, 3))
    record.case(name, "special", function, SPECIAL)


def functions():
    record = Recorder("functions", 11)
    for name in ("sign", "floor", "ceil", "round", "trunc", "isnan", "isinf", "isfinite", "exp2", "expm1", "sin", "cos",
                 "atan", "sinh", "cosh", "asinh", "erf"):
        single(record, name, getattr(torch, name))
    for name in ("rsqrt", "log2", "log10"):
        single(record, name, getattr(torch, name), 0.3)
    for name in ("tan", "asin", "acos", "atanh"):
        single(record, name, getattr(torch, name), -0.9, 0.9)
    single(record, "log1p", torch.log1p, -0.5)
    single(record, "acosh", torch.acosh, 1.1, 3.0)
    single(record, "clamp", lambda x: torch.clamp(x, -0.5, 1.25))
    record.case("clamp", "ties", lambda x: torch.clamp(x, -0.5, 1.25), values(-0.5, 0, 1.25, 2))
    record.case("round", "ties", torch.round, values(-1.5, -0.5, 0.5, 1.5, 2.5))
    record.save()


def activations():
    record = Recorder("activations", 12)
    record_one = lambda name, function: single(record, name, function, -4.0, 8.0)
    record_one("leaky_relu", lambda x: F.leaky_relu(x, 0.2))
    record_one("elu", lambda x: F.elu(x, 0.7))
    record_one("hardtanh", lambda x: F.hardtanh(x, -0.5, 1.5))
    record_one("relu6", F.relu6)
    record_one("gelu", F.gelu)
    record_one("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
    record_one("silu", F.silu)
    record_one("softplus.one", F.softplus)
    record_one("softplus.two", lambda x: F.softplus(x, 2.0, 100.0))
    record_one("log_sigmoid", F.logsigmoid)
    for name, function in (("leaky_relu", F.leaky_relu), ("relu6", F.relu6), ("hardtanh", lambda x: F.hardtanh(x, -0.5, 1.5)), ("elu", lambda x: F.elu(x, 0.7))):
        if name != "leaky_relu":
            record.case(name, "ties", function, values(0, 6, -0.5, 1.5))
    record.case("softplus.one", "large", lambda x: torch.logaddexp(x, torch.zeros_like(x)), values(1000, -1000, 30, -30))
    record.case("log_sigmoid", "large", F.logsigmoid, values(1000, -1000, 30, -30))
    record_one("selu", F.selu)
    # PyTorch rounds 1 / 0.7 and, in hardsigmoid, 1 / 6 to float32.
    celu, hardsigmoid = lambda x: F.celu(x, 0.5), lambda x: F.relu6(x + 3) / 6
    record_one("celu", celu)
    record_one("hardsigmoid", hardsigmoid)
    record_one("hardswish", F.hardswish)  # no ties: at -3 and 3 this version's gradient is that of the curve between
    record_one("mish", F.mish)
    record_one("softsign", F.softsign)
    for name, function in (("selu", F.selu), ("celu", celu), ("hardsigmoid", hardsigmoid)):
        record.case(name, "ties", function, values(0, 3, -3))
        record.case(name, "large", function, values(1000, -1000, 30, -30))
    record.case("mish", "large", F.mish, values(1000, -1000, 30, -30))

    def learned(variant, data, x, slopes):
        record.case(f"prelu.{variant}", data, F.prelu, x, slopes)
    learned("one", "plain", apart(2, 3), values(0.25))
    learned("one", "vector", apart(5), values(-0.5))
    learned("one", "scalar", apart(), values(0.25))
    learned("one", "empty", random(0, 3), values(0.25))
    learned("one", "ties", values(0, 1, -1), values(0.25))
    learned("one", "special", SPECIAL, values(0.25))
    learned("channels", "plain", apart(4, 3), random(3))
    learned("channels", "images", apart(2, 3, 2, 2), random(3))
    learned("channels", "empty", random(2, 3, 0), random(3))
    learned("channels", "special", SPECIAL.reshape(2, 3), values(0.25, -1, 0))

    for variant, axis in (("last", -1), ("first", 0)):
        gated = lambda x: F.glu(x, axis)
        record.case(f"glu.{variant}", "plain", gated, random(4, 6))
        record.case(f"glu.{variant}", "volume", gated, random(2, 3, 2))
        record.case(f"glu.{variant}", "one", gated, random(2, 1) if axis == 0 else random(1, 2))
        record.case(f"glu.{variant}", "empty", gated, random(0, 2))
        record.case(f"glu.{variant}", "special", gated, torch.stack([SPECIAL, SPECIAL.flip(0)]))
    record.save()


def reduce():
    record = Recorder("reduce", 2)

    def reduction(name, all_axes, axes, one=(1, 1, 1)):
        """all_axes(x); axes(x, axes, keepdim)."""
        functions = {"all": all_axes, "last": lambda x: axes(x, (-1,), False),
                     "two": lambda x: axes(x, (2, 0), True), "middle": lambda x: axes(x, (1,), True)}
        for variant, function in functions.items():
            record.case(f"{name}.{variant}", "plain", function, apart(2, 3, 4))
            record.case(f"{name}.{variant}", "one", function, random(*one))
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

    def each(function):
        """A function of one axis, for several."""
        def of_axes(x, axes, keepdim):
            for axis in sorted((a % x.dim() for a in axes), reverse=True):
                x = function(x, axis, keepdim)
            return x
        return of_axes

    reduction("prod", torch.prod, each(torch.prod))
    record.case("prod.last", "ties", lambda x: torch.prod(x, -1), values(2, 0, 3, 0, 0, 3, 1, 2, 3).reshape(3, 3))
    for name, function in (("any", torch.any), ("all", torch.all)):
        reduction(name, function, each(function))
        record.case(f"{name}.last", "zeros", lambda x: function(x, -1), values(0, 0, 0, 1, 2, 3).reshape(3, 2))
        record.case(f"{name}.all", "empty", function, random(0))
    for variant, axis in (("last", -1), ("first", 0)):
        function = lambda x: torch.argmin(x, axis)
        record.case(f"argmin.{variant}", "plain", function, apart(3, 4))
        record.case(f"argmin.{variant}", "ties", function, values(3, 5, 3, 5, 3, 3).reshape(2, 3))
        record.case(f"argmin.{variant}", "one", function, random(1, 1))
        record.case(f"argmin.{variant}", "special", function,
                    values(1, INF, -INF, 2, NAN, 3, INF, INF, INF).reshape(3, 3))
        total = lambda x: torch.cumsum(x, axis)
        record.case(f"cumsum.{variant}", "plain", total, random(3, 4))
        record.case(f"cumsum.{variant}", "one", total, random(1, 1))
        record.case(f"cumsum.{variant}", "empty", total, random(0, 3))
        record.case(f"cumsum.{variant}", "special", total, SPECIAL.reshape(2, 3))
    record.case("argmin.last", "empty", lambda x: torch.argmin(x, -1), random(0, 3))
    record.case("argmax.keepdim", "plain", lambda x: torch.argmax(x, 1, keepdim=True), apart(3, 4))
    record.case("argmin.keepdim", "plain", lambda x: torch.argmin(x, 1, keepdim=True), apart(3, 4))
    record.save()


def statistics():
    record = Recorder("statistics", 13)

    def statistic(name, function, one=(1, 1, 1)):
        """function(x, axes, keepdim)."""
        special = random(2, 3, 4)
        special[0, 1, 2], special[1, 0, 0], special[1, 2, 1] = NAN, INF, -INF
        for variant, axes, keepdim in (("all", (0, 1, 2), False), ("two", (2, 0), True), ("middle", (1,), False)):
            record.case(f"{name}.{variant}", "plain", lambda x: function(x, axes, keepdim), apart(2, 3, 4))
            record.case(f"{name}.{variant}", "one", lambda x: function(x, axes, keepdim), random(*one))
            record.case(f"{name}.{variant}", "special", lambda x: function(x, axes, keepdim), special)
        record.case(f"{name}.middle", "empty", lambda x: function(x, (1,), False), random(2, 3, 0))

    statistic("var", lambda x, axes, keepdim: torch.var(x, axes, True, keepdim), (2, 2, 2))
    statistic("stddev", lambda x, axes, keepdim: torch.std(x, axes, True, keepdim), (2, 2, 2))
    for name, function in (("var", torch.var), ("stddev", torch.std)):
        record.case(f"{name}.biased", "plain", lambda x: function(x, (1,), False), random(2, 3))
        record.case(f"{name}.biased", "one", lambda x: function(x, (1,), False), random(1, 2))
        record.case(f"{name}.biased", "no_samples", lambda x: function(x, (1,), False), random(2, 0))
    for variant, p in (("one", 1), ("three", 3), ("largest", INF)):
        function = lambda x: torch.linalg.vector_norm(x, p, 1)
        record.case(f"norm.{variant}", "plain", function, apart(2, 3))
        record.case(f"norm.{variant}", "special", function, SPECIAL.reshape(2, 3))
    statistic("norm", lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim))
    record.case("norm.middle", "ties", lambda x: torch.linalg.vector_norm(x, 2, 1), values(0, 0, 3, 4).reshape(2, 2))
    statistic("logsumexp", torch.logsumexp)
    record.case("logsumexp.middle", "large", lambda x: torch.logsumexp(x, 1), values(1000, 999, -1000, -1001).reshape(2, 2))
    record.case("logsumexp.middle", "no_terms", lambda x: torch.logsumexp(x, 1), random(2, 0))
    record.save()
