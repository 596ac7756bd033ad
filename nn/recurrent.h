// Defines the recurrent layers RNN, LSTM and GRU, whose formulas and papers stand in
// autograd/recurrence.h. One Recurrent computes all three; the layers say which cell it has, and
// what goes in and comes out. Cells of a single step: recurrent_cells.h.
//
//   nn::LSTM lstm(8, 16, {.layers = 2, .bidirectional = true});
//   const auto [out, h, c] = lstm(x);  // x [5, 3, 8], out [5, 3, 32], h and c [4, 3, 16]
//   lstm(x, nn::SequenceOptions{.lengths = {5, 3, 4}});
#pragma once

#include "autograd/recurrence.h"
#include "nn/module.h"

namespace capstan::nn {

struct RecurrentOptions {
  int64_t layers = 1;  // each fed with the results of the one before
  bool bias = true;
  bool batch_first = false;    // sequences are [batch, n, ...], else [n, batch, ...]
  double dropout = 0;          // of the results of each layer but the last, in training
  bool bidirectional = false;  // each layer runs both ways, and its results stand side by side
};

/// What may be known of a batch of sequences.
struct SequenceOptions {
  /// Of each sequence, in [1, n]; none: all are n long. What lies behind a sequence's end is
  /// neither read nor computed: it gets no gradient, and the results there are 0.
  std::vector<int64_t> lengths = {};
  /// Initial states [layers * directions, batch, width]; undefined: 0. Only the LSTM has a c.
  Tensor h = {}, c = {};
};

/// The weights of one cell, all uniform in +-1/sqrt(width) at first: weight_ih [gates * width, in],
/// weight_hh [gates * width, width], biases [gates * width], with gates in the order of
/// autograd/recurrence.h, which is PyTorch's. Throws ValueError for sizes below 1.
struct CellWeights {
  CellWeights(Cell cell, int64_t in, int64_t width, bool bias);

  Parameter weight_ih, weight_hh;
  std::optional<Parameter> bias_ih, bias_hh;
  /// Under these names, with `suffix`.
  void visit_members(MemberVisitor& visitor, const std::string& suffix = "");

  /// recurrence() fed with the rows x [rows, in].
  Tensor run(Cell cell, const Tensor& x, const Tensor& state, const std::vector<int64_t>& counts,
             bool reverse = false) const;
};

/// Layers of one kind of cell with all that RNN, LSTM and GRU can do. Its parameters have PyTorch's
/// names, weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, weight_ih_l0_reverse, ..., and load
/// its weights. Throws ValueError for sizes below 1 and dropout outside [0, 1).
struct Recurrent {
  Recurrent(Cell cell, int64_t in, int64_t width, const RecurrentOptions& options);

  Cell cell;
  int64_t in, width;
  RecurrentOptions options;
  std::vector<CellWeights> weights;  // layer by layer, the reverse direction behind the other
  void visit_members(MemberVisitor& visitor);

  /// The results [n, batch, directions * width], and the states [layers * directions, batch, width]
  /// (h, and c of an LSTM) of each sequence after its last step, which in the reverse direction is
  /// its first element.
  struct Result {
    Tensor out;
    std::vector<Tensor> states;
  };
  /// Throws ShapeError for x that is not a batch of sequences of at least one element, or states
  /// that do not fit, DtypeError, DeviceError, and ValueError for lengths out of range or a c that
  /// the cell does not have.
  Result run(const Tensor& x, const SequenceOptions& sequences, bool training) const;
};

/// What RNN and GRU give; see Recurrent::Result.
struct SequenceResult {
  Tensor out, h;
};
/// What LSTM gives.
struct LSTMResult {
  Tensor out, h, c;
};

enum class Nonlinearity { tanh, relu };

/// x [n, batch, in] to out [n, batch, width] (see RecurrentOptions and Recurrent).
struct RNN : Module {
  RNN(int64_t in, int64_t width, const RecurrentOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh);

  Recurrent layers;
  CAPSTAN_MODULE(RNN, layers)

  SequenceResult forward(const Tensor& x, const SequenceOptions& sequences = {});
};

struct LSTM : Module {
  LSTM(int64_t in, int64_t width, const RecurrentOptions& options = {});

  Recurrent layers;
  CAPSTAN_MODULE(LSTM, layers)

  LSTMResult forward(const Tensor& x, const SequenceOptions& sequences = {});
};

struct GRU : Module {
  GRU(int64_t in, int64_t width, const RecurrentOptions& options = {});

  Recurrent layers;
  CAPSTAN_MODULE(GRU, layers)

  SequenceResult forward(const Tensor& x, const SequenceOptions& sequences = {});
};

}  // namespace capstan::nn
