#include "nn/recurrent_cells.h"

#include "autograd/rearrange.h"
#include "autograd/views.h"
#include "core/raise.h"

namespace capstan::nn {

namespace {

/// The states [states, batch, width] after one step from `before`, whose undefined ones are 0.
Tensor step(Cell cell, const CellWeights& weights, const Tensor& x, std::vector<Tensor> before) {
  const int64_t in = weights.weight_ih.size(1), width = weights.weight_hh.size(1);
  const Shape shape{x.rank() == 2 ? x.size(0) : 0, width};
  for (Tensor& state : before) {
    if (!state.defined()) state = zeros(shape, {x.dtype(), x.device()});
    if (x.rank() != 2 || x.size(1) != in || state.shape() != shape) {
      raise<ShapeError>(
          "[recurrent] a cell takes x [batch, {}] and states [batch, {}], got {} and {}", in, width,
          x.shape(), state.shape());
    }
  }
  return weights.run(cell, x, stack(before), {shape[0]});
}

}  // namespace

RNNCell::RNNCell(int64_t in, int64_t width, CellOptions options, Nonlinearity nonlinearity)
    : cell(nonlinearity == Nonlinearity::relu ? Cell::rnn_relu : Cell::rnn_tanh),
      weights(cell, in, width, options.bias) {}

Tensor RNNCell::forward(const Tensor& x, const Tensor& h) {
  return select(step(cell, weights, x, {h}), 0, 0);
}

GRUCell::GRUCell(int64_t in, int64_t width, CellOptions options)
    : weights(Cell::gru, in, width, options.bias) {}

Tensor GRUCell::forward(const Tensor& x, const Tensor& h) {
  return select(step(Cell::gru, weights, x, {h}), 0, 0);
}

LSTMCell::LSTMCell(int64_t in, int64_t width, CellOptions options)
    : weights(Cell::lstm, in, width, options.bias) {}

LSTMState LSTMCell::forward(const Tensor& x, const LSTMState& state) {
  const Tensor after = step(Cell::lstm, weights, x, {state.h, state.c});
  return {select(after, 0, 0), select(after, 0, 1)};
}

}  // namespace capstan::nn
