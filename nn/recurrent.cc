// Sequences are packed before the first layer (see autograd/recurrence.h) and stay so up to the
// last one's results: no layer works on padding.
#include "nn/recurrent.h"

#include <algorithm>
#include <numeric>

#include "autograd/dropout.h"
#include "autograd/indexing.h"
#include "autograd/matmul.h"
#include "autograd/rearrange.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "nn/init.h"

namespace capstan::nn {

namespace {

/// Rows of a cell's weights.
int64_t gates(Cell cell, int64_t in, int64_t width) {
  if (in < 1 || width < 1) {
    raise<ValueError>("[recurrent] input and width must be at least 1, got {} and {}", in, width);
  }
  return sizes_of(cell).gates * width;
}

/// Numbers of rows as a tensor beside x.
Tensor places(const std::vector<int64_t>& numbers, const Tensor& x) {
  const Tensor there = empty({static_cast<int64_t>(numbers.size())}, {Dtype::int64, x.device()});
  copy_elements(from_vector(numbers, there.shape()), there);
  return there;
}

/// Where the elements of a batch of sequences stand when they are packed.
class Packing {
 public:
  /// For x [n, batch, ...], or [batch, n, ...] where `batch_first`.
  Packing(const Tensor& x, const std::vector<int64_t>& lengths, bool batch_first)
      : batch_first_(batch_first),
        padded_(!lengths.empty()),
        batch_(x.size(batch_first ? 0 : 1)),
        n_(x.size(batch_first ? 1 : 0)) {
    std::vector<int64_t> length = lengths;
    if (!padded_) length.assign(batch_, n_);
    if (static_cast<int64_t>(length.size()) != batch_) {
      raise<ShapeError>("[recurrent] needs a length for each of {} sequences, got {}", batch_,
                        length.size());
    }
    for (int64_t i = 0; i < batch_; ++i) {
      if (length[i] < 1 || length[i] > n_) {
        raise<ValueError>("[recurrent] lengths must be in [1, {}], got {} at position {}", n_,
                          length[i], i);
      }
    }
    std::vector<int64_t> order(batch_), rows;  // the longest first
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return length[a] > length[b]; });
    std::vector<int64_t> starts(batch_), ends(batch_);
    int64_t count = batch_, begin = 0;
    for (int64_t t = 0; t < n_; ++t) {
      while (count > 0 && length[order[count - 1]] <= t) --count;
      for (int64_t j = 0; j < count; ++j) {
        const int64_t i = order[j];
        rows.push_back(batch_first ? i * n_ + t : t * batch_ + i);
        if (t == 0) starts[i] = j;
        if (t == length[i] - 1) ends[i] = begin + j;
      }
      counts.push_back(count);
      begin += count;
    }
    starts_ = places(starts, x);
    ends_ = places(ends, x);
    if (!padded_) return;
    order_ = places(order, x);
    rows_ = places(rows, x);
  }

  std::vector<int64_t> counts;  // rows of each step

  /// x as rows [rows, features].
  Tensor pack(const Tensor& x) const {
    const Tensor steps = batch_first_ && !padded_ ? transpose(x, 0, 1) : x;
    const Tensor flat = reshape(steps, {n_ * batch_, x.size(2)});
    return padded_ ? take_rows(flat, rows_) : flat;
  }
  /// The reverse, with 0 in the padding.
  Tensor unpack(const Tensor& rows) const {
    const int64_t features = rows.size(1);
    if (!padded_) {
      const Tensor steps = reshape(rows, {n_, batch_, features});
      return batch_first_ ? transpose(steps, 0, 1) : steps;
    }
    const Tensor none = zeros({n_ * batch_, features}, {rows.dtype(), rows.device()});
    const Tensor flat = index_add(none, 0, rows_, rows);
    return batch_first_ ? reshape(flat, {batch_, n_, features})
                        : reshape(flat, {n_, batch_, features});
  }
  /// A state [batch, width] in the order of the rows.
  Tensor in_order(const Tensor& state) const { return padded_ ? take_rows(state, order_) : state; }
  /// From rows [rows, width] that of each sequence after its last step.
  Tensor last(const Tensor& rows, bool reverse) const {
    return take_rows(rows, reverse ? starts_ : ends_);
  }

 private:
  bool batch_first_, padded_;
  int64_t batch_, n_;
  Tensor starts_, ends_;  // rows of each sequence's first and last element
  Tensor order_, rows_;   // if padded: the sequence of a row of a step, the element of a row
};

}  // namespace

CellWeights::CellWeights(Cell cell, int64_t in, int64_t width, bool bias)
    : weight_ih(fan_in_uniform({gates(cell, in, width), in}, width)),
      weight_hh(fan_in_uniform({gates(cell, in, width), width}, width)) {
  if (!bias) return;
  bias_ih.emplace(fan_in_uniform({gates(cell, in, width)}, width));
  bias_hh.emplace(fan_in_uniform({gates(cell, in, width)}, width));
}

void CellWeights::visit_members(MemberVisitor& visitor, const std::string& suffix) {
  visitor.parameter("weight_ih" + suffix, weight_ih);
  visitor.parameter("weight_hh" + suffix, weight_hh);
  if (bias_ih) visitor.parameter("bias_ih" + suffix, *bias_ih);
  if (bias_hh) visitor.parameter("bias_hh" + suffix, *bias_hh);
}

Tensor CellWeights::run(Cell cell, const Tensor& x, const Tensor& state,
                        const std::vector<int64_t>& counts, bool reverse) const {
  const Tensor products = linear(x, weight_ih, bias_ih ? &*bias_ih : nullptr);
  return recurrence(cell, products, state, weight_hh, bias_hh ? &*bias_hh : nullptr, counts,
                    reverse);
}

Recurrent::Recurrent(Cell cell, int64_t in, int64_t width, const RecurrentOptions& options)
    : cell(cell), in(in), width(width), options(options) {
  if (options.layers < 1) {
    raise<ValueError>("[recurrent] needs at least one layer, got {}", options.layers);
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    raise<ValueError>("[recurrent] dropout must be in [0, 1), got {}", options.dropout);
  }
  const int64_t directions = options.bidirectional ? 2 : 1;
  for (int64_t i = 0; i < options.layers * directions; ++i) {
    weights.emplace_back(cell, i < directions ? in : directions * width, width, options.bias);
  }
}

void Recurrent::visit_members(MemberVisitor& visitor) {
  const size_t directions = options.bidirectional ? 2 : 1;
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i].visit_members(
        visitor, "_l" + std::to_string(i / directions) + (i % directions ? "_reverse" : ""));
  }
}

Recurrent::Result Recurrent::run(const Tensor& x, const SequenceOptions& sequences,
                                 bool training) const {
  if (x.rank() != 3 || x.size(2) != in || x.size(options.batch_first ? 1 : 0) == 0) {
    raise<ShapeError>("[recurrent] takes [{}, {}] with n of at least 1, got {}",
                      options.batch_first ? "batch, n" : "n, batch", in, x.shape());
  }
  const int64_t directions = options.bidirectional ? 2 : 1, parts = sizes_of(cell).states;
  const int64_t batch = x.size(options.batch_first ? 0 : 1);
  const Shape shape{options.layers * directions, batch, width};
  if (parts == 1 && sequences.c.defined()) {
    raise<ValueError>("[recurrent] only an LSTM has a state c");
  }
  std::vector<Tensor> initial{sequences.h};
  if (parts == 2) initial.push_back(sequences.c);
  for (Tensor& state : initial) {
    if (!state.defined()) state = zeros(shape, {x.dtype(), x.device()});
    if (state.shape() != shape) {
      raise<ShapeError>("[recurrent] initial states must be {} for x {}, got {}", shape, x.shape(),
                        state.shape());
    }
    if (state.dtype() != x.dtype()) {
      raise<DtypeError>("[recurrent] initial states must be {} as x, got {}", x.dtype(),
                        state.dtype());
    }
  }

  const Packing packing(x, sequences.lengths, options.batch_first);
  Tensor rows = packing.pack(x);
  std::vector<std::vector<Tensor>> last(parts);  // by layer and direction
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    if (layer > 0 && training) rows = dropout(rows, options.dropout);
    std::vector<Tensor> results;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t i = layer * directions + direction;
      std::vector<Tensor> start;
      for (const Tensor& state : initial) start.push_back(packing.in_order(select(state, 0, i)));
      const Tensor states = weights[i].run(cell, rows, stack(start), packing.counts, direction);
      for (int64_t part = 0; part < parts; ++part) {
        last[part].push_back(packing.last(select(states, 0, part), direction));
      }
      results.push_back(select(states, 0, 0));
    }
    rows = directions == 1 ? results[0] : cat(results, 1);
  }
  Result result{packing.unpack(rows), {}};
  for (const auto& states : last) result.states.push_back(stack(states));
  return result;
}

RNN::RNN(int64_t in, int64_t width, const RecurrentOptions& options, Nonlinearity nonlinearity)
    : layers(nonlinearity == Nonlinearity::relu ? Cell::rnn_relu : Cell::rnn_tanh, in, width,
             options) {}

SequenceResult RNN::forward(const Tensor& x, const SequenceOptions& sequences) {
  const auto result = layers.run(x, sequences, training());
  return {result.out, result.states[0]};
}

LSTM::LSTM(int64_t in, int64_t width, const RecurrentOptions& options)
    : layers(Cell::lstm, in, width, options) {}

LSTMResult LSTM::forward(const Tensor& x, const SequenceOptions& sequences) {
  const auto result = layers.run(x, sequences, training());
  return {result.out, result.states[0], result.states[1]};
}

GRU::GRU(int64_t in, int64_t width, const RecurrentOptions& options)
    : layers(Cell::gru, in, width, options) {}

SequenceResult GRU::forward(const Tensor& x, const SequenceOptions& sequences) {
  const auto result = layers.run(x, sequences, training());
  return {result.out, result.states[0]};
}

}  // namespace capstan::nn
