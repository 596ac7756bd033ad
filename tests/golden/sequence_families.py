"""References of recurrent layers and of the loss of connectionist temporal classification."""
import torch
import torch.nn.functional as F

from recorder import INF, NAN, Recorder, random, record_module, save


def step(cell, x, hidden, h, c):
    """The formulas of autograd/recurrence.h."""
    if cell in ("tanh", "relu"):
        return getattr(torch, cell)(x + hidden), c
    if cell == "lstm":
        i, f, g, o = (x + hidden).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    (x_r, x_z, x_n), (h_r, h_z, h_n) = x.chunk(3, -1), hidden.chunk(3, -1)
    z, n = (x_z + h_z).sigmoid(), (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
    return (1 - z) * n + z * h, c


def recurrence():
    record = Recorder("recurrence", 31)
    gates = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}

    def states(cell, counts, reverse, x, state, weight, bias=None):
        """The states after each step, rows of a step in its place."""
        h, c = state[0], state[-1]
        starts = [sum(counts[:t]) for t in range(len(counts))]
        found = {}
        for t in sorted(range(len(counts)), reverse=reverse):
            n, rows = counts[t], x[starts[t]:starts[t] + counts[t]]
            new_h, new_c = step(cell, rows, F.linear(h[:n], weight, bias), h[:n], c[:n])
            h, c = torch.cat([new_h, h[n:]]), torch.cat([new_c, c[n:]])
            found[t] = torch.stack([new_h, new_c][:len(state)])
        return torch.cat([found[t] for t in range(len(counts))], 1)

    def case(variant, data, cell, counts, width, reverse=False, bias=True, special=False):
        count = gates[cell] * width
        x = random(sum(counts), count)
        if special:
            x[0, 0], x[1, count - 1], x[2, 0] = NAN, INF, -INF
        record.case("recurrence." + variant, data, lambda *tensors: states(cell, counts, reverse, *tensors), x,
                    random(2 if cell == "lstm" else 1, counts[0], width), random(count, width), *[random(count)] * bias)
    for cell in gates:
        case(cell, "plain", cell, [2, 2, 2], 3)
        case(cell, "one", cell, [1], 1)
        case(cell, "empty", cell, [0, 0], 2)
        case(cell + "_packed", "plain", cell, [4, 2, 2, 1], 2)
        case(cell + "_reverse", "plain", cell, [4, 2, 2, 1], 2, reverse=True)
        case(cell, "special", cell, [2, 2], 2, special=True)
    case("no_bias", "plain", "gru", [3, 2], 3, bias=False)
    record.save()


def flat(*tensors):
    return torch.cat([x.flatten() for x in tensors])


def recurrent():
    """Layers as in record_module(); their result is all that they give, flattened, one after the other."""
    torch.manual_seed(32)
    kept = {}

    def layer(name, kind, lengths=None, states=False, **options):
        net = kind(3, 4, **options)
        directions = net.num_layers * (2 if net.bidirectional else 1)
        batch = len(lengths) if lengths else 2
        x = random(batch, 5, 3) if net.batch_first else random(5, batch, 3)
        count = (2 if kind is torch.nn.LSTM else 1) if states else 0

        def call(net, x, *start):
            start = None if not start else start[0] if len(start) == 1 else start
            if lengths:
                x = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), net.batch_first,
                                                            enforce_sorted=False)
            out, end = net(x, start)
            if lengths:
                out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, net.batch_first, total_length=5)
            return flat(out, *(end if isinstance(end, tuple) else (end,)))
        record_module(kept, name, net, x, *(random(directions, batch, 4) for _ in range(count)), call=call)

    for kind in (torch.nn.RNN, torch.nn.LSTM, torch.nn.GRU):
        name = kind.__name__
        layer(name + "/plain", kind)
        layer(name + "/states", kind, states=True, num_layers=2, bias=False, batch_first=True)
        layer(name + "/all", kind, [2, 5, 1, 4], states=True, num_layers=2, bidirectional=True)
        layer(name + "/batch_first", kind, [3, 4], batch_first=True, bidirectional=True)
    layer("RNN/relu", torch.nn.RNN, [3, 5], nonlinearity="relu", num_layers=2)

    record_module(kept, "RNNCell", torch.nn.RNNCell(3, 4), random(2, 3), random(2, 4))
    record_module(kept, "RNNCell/relu", torch.nn.RNNCell(3, 4, nonlinearity="relu"), random(2, 3), random(2, 4))
    record_module(kept, "GRUCell", torch.nn.GRUCell(3, 4, bias=False), random(2, 3), random(2, 4))
    record_module(kept, "LSTMCell", torch.nn.LSTMCell(3, 4), random(2, 3), random(2, 4), random(2, 4),
                  call=lambda net, x, h, c: flat(*net(x, (h, c))))
    record_module(kept, "LSTMCell/start", torch.nn.LSTMCell(3, 4), random(2, 3), call=lambda net, x: flat(*net(x)))
    save("recurrent", kept)


def ctc():
    record = Recorder("ctc", 33)

    def losses(x, targets, shorter=0, **options):
        """Of sequences i that are i * shorter frames shorter than all, and have so many labels less."""
        n, batch, _ = x.shape
        lengths = [[max(0, size - i * shorter) for i in range(batch)] for size in (n, targets.shape[1])]
        reduction = options.pop("reduction", "mean")
        if batch == 0:
            return x.sum() if reduction != "none" else x.sum((0, 2))
        return F.ctc_loss(x.log_softmax(-1), targets, *map(torch.tensor, lengths), reduction=reduction, **options)

    def case(variant, data, shape, targets, **options):
        targets = torch.tensor(targets, dtype=torch.int64).reshape(shape[1], -1 if shape[1] else 2)
        x = random(*shape)
        if data == "special":
            x[0, 0, 0], x[1, 1, 2] = NAN, -INF
        record.case("ctc_loss." + variant, data, lambda x, t: losses(x, t, **options), x, targets)
    for reduction in ("mean", "sum", "none"):
        case(reduction, "plain", (6, 2, 4), [[1, 3, 2], [2, 2, 1]], reduction=reduction)
    case("mean", "one", (1, 1, 2), [[1]])
    case("mean", "empty", (4, 0, 3), [])
    case("mean", "no_labels", (4, 2, 3), [[], []])
    case("none", "special", (4, 2, 3), [[1], [2]], reduction="none")
    # What lies behind the lengths is not looked at.
    case("shorter", "plain", (7, 4, 3), [[1, 2, 2, 1], [2, 1, 1, 9], [1, 1, -5, 0], [2, 7, 7, 7]], shorter=1,
         reduction="none")
    case("blank", "plain", (5, 2, 4), [[0, 1], [3, 3]], blank=2)
    case("infinite", "special", (3, 3, 3), [[1, 1, 2], [1, 1, 2], [1, 2, 1]], reduction="none")
    case("zero_infinity", "plain", (3, 3, 3), [[1, 1, 2], [1, 1, 2], [1, 2, 1]], zero_infinity=True)
    record.save()
