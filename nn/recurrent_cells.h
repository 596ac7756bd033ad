// Defines RNNCell, LSTMCell and GRUCell: one step of the layers in recurrent.h, for loops written
// by hand. Their parameters are those of CellWeights, under PyTorch's names.
//
// x is [batch, in], states are [batch, width] and 0 where they are undefined. Throws ShapeError,
// DtypeError, DeviceError.
#pragma once

#include "nn/recurrent.h"

namespace capstan::nn {

struct CellOptions {
  bool bias = true;
};

struct RNNCell : Module {
  RNNCell(int64_t in, int64_t width, CellOptions options = {},
          Nonlinearity nonlinearity = Nonlinearity::tanh);

  Cell cell;
  CellWeights weights;
  CAPSTAN_MODULE(RNNCell, weights)

  /// The next state.
  Tensor forward(const Tensor& x, const Tensor& h = {});
};

struct GRUCell : Module {
  GRUCell(int64_t in, int64_t width, CellOptions options = {});

  CellWeights weights;
  CAPSTAN_MODULE(GRUCell, weights)

  /// The next state.
  Tensor forward(const Tensor& x, const Tensor& h = {});
};

struct LSTMState {
  Tensor h = {}, c = {};
};

struct LSTMCell : Module {
  LSTMCell(int64_t in, int64_t width, CellOptions options = {});

  CellWeights weights;
  CAPSTAN_MODULE(LSTMCell, weights)

  /// The next state.
  LSTMState forward(const Tensor& x, const LSTMState& state = {});
};

}  // namespace capstan::nn
