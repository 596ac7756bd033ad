// Defines recurrence(), the steps of a recurrent layer as one differentiable operation.
// nn/recurrent.h makes layers of it.
//
// With h and c the state before a step, s the sigmoid, and a = x + weight h + bias the sums of
// products, cut into gates (x already holds the product of the layer's input), a step gives
//
//   RNN   h' = tanh(a) or relu(a)
//         (Elman, "Finding structure in time", 1990)
//   LSTM  i, f, g, o = a;  c' = s(f) c + s(i) tanh(g);  h' = s(o) tanh(c')
//         (Hochreiter, Schmidhuber, "Long short-term memory", 1997; Gers et al., 2000)
//   GRU   r, z = s(a);  n = tanh(x_n + r (weight_n h + bias_n));  h' = (1 - z) n + z h
//         (Cho et al., "Learning phrase representations using RNN encoder-decoder", EMNLP 2014)
//
// Sequences of different lengths are packed without padding, the longest first:
//
//   counts     4 2 1         rows that step 0, 1, 2 have
//   rows       abcd ab a     of x: row i of a step belongs to sequence i
//
// A sequence is at its end when the counts fall below it. In reverse, against the order of time,
// each begins at its own end, with its initial state.
#pragma once

#include <vector>

#include "core/backend.h"

namespace capstan {

/// The states [states, rows, width] after each step of `cell`, for x [rows, gates * width], the
/// initial state [states, batch, width], weight [gates * width, width] and bias [gates * width]
/// (may be null); how many gates and states there are says sizes_of(cell). `counts` fall from batch
/// and add up to rows. Throws ShapeError, DtypeError (floating point, all equal), DeviceError, and
/// ValueError for counts that do not fall from batch.
Tensor recurrence(Cell cell, const Tensor& x, const Tensor& state, const Tensor& weight,
                  const Tensor* bias, const std::vector<int64_t>& counts, bool reverse = false);

}  // namespace capstan
