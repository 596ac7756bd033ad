// The rows of recurrence() and ctc_loss().
#pragma once

#include "autograd/ctc.h"
#include "autograd/recurrence.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline std::vector<Operation> recurrence_operations() {
  // Cases tell by the batch how many rows each step has, as in sequence_families.py.
  const auto run = [](Cell cell, bool packed, bool reverse = false) {
    return [=](const Tensors& x) {
      const int64_t batch = x[1].size(1);
      std::vector<int64_t> counts(batch ? x[0].size(0) / batch : 2, batch);
      if (packed) counts = {4, 2, 2, 1};
      return recurrence(cell, x[0], x[1], x[2], &x[3], counts, reverse);
    };
  };
  Operation row{"recurrence", {}, {}};
  for (const auto& [name, cell] : {std::pair{"tanh", Cell::rnn_tanh},
                                   {"relu", Cell::rnn_relu},
                                   {"lstm", Cell::lstm},
                                   {"gru", Cell::gru}}) {
    row.variants[name] = run(cell, false);
    row.variants[std::string(name) + "_packed"] = run(cell, true);
    row.variants[std::string(name) + "_reverse"] = run(cell, true, true);
  }
  row.variants["no_bias"] = [](const Tensors& x) {
    return recurrence(Cell::gru, x[0], x[1], x[2], nullptr, {3, 2});
  };

  const auto gru = [](const Tensor& x, const Tensor& state, const Tensor& weight,
                      const Tensor& bias) {
    return [=] { return recurrence(Cell::gru, x, state, weight, &bias, {2, 1}); };
  };
  const auto counted = [](const std::vector<int64_t>& counts) {
    return [=] {
      return recurrence(Cell::gru, of({3, 6}), of({1, 2, 2}), of({6, 2}), nullptr, counts);
    };
  };
  const Tensor x = of({3, 6}), h = of({1, 2, 2}), w = of({6, 2}), b = of({6});
  row.failures = {
      fails<ShapeError>("[rows, 3 * width], a state [1, batch, width], weight [3 * width, width] "
                        "and bias [3 * width], got [3, 5], [1, 2, 2], [6, 2] and [6]",
                        gru(of({3, 5}), h, w, b)),
      fails<ShapeError>("got [3, 6], [2, 2, 2]", gru(x, of({2, 2, 2}), w, b)),
      fails<ShapeError>("got [3, 6], [1, 2, 3]", gru(x, of({1, 2, 3}), w, b)),
      fails<ShapeError>("got [3, 6], [2, 2]", gru(x, of({2, 2}), w, b)),
      fails<ShapeError>("[1, 2, 2], [8, 2]", gru(x, h, of({8, 2}), b)),
      fails<ShapeError>("[1, 2, 2], [12]", gru(x, h, of({12}), b)),
      fails<ShapeError>("and [5]", gru(x, h, w, of({5}))),
      fails<ShapeError>("add up to the rows of x [3, 6], got 4", counted({2, 2})),
      fails<ShapeError>("add up to the rows of x [3, 6], got 0", counted({})),
      fails<ValueError>("fall from the batch of 2 to 0, got 1 at position 0", counted({1, 1, 1})),
      fails<ValueError>("got 2 at position 2", counted({2, 1, 2})),
      fails<ValueError>("got -1 at position 2", counted({2, 2, -1})),
      fails<DtypeError>("floating point, got int64", gru(whole({3, 6}), h, w, b)),
      fails<DtypeError>("equal, got float32 and float64",
                        gru(x, of({1, 2, 2}, Dtype::float64), w, b)),
      fails<DtypeError>("equal, got float32 and float64", gru(x, h, of({6, 2}, Dtype::float64), b)),
      fails<DtypeError>("equal, got float32 and float64", gru(x, h, w, of({6}, Dtype::float64))),
      fails<DeviceError>("cpu:0 and meta", gru(x, elsewhere({1, 2, 2}), w, b)),
      fails<DeviceError>("cpu:0 and meta", gru(x, h, elsewhere({6, 2}), b))};
  return {row};
}

inline std::vector<Operation> ctc_operations() {
  // Sequences i are i * shorter frames shorter than all and have so many labels less, as in
  // sequence_families.py.
  const auto loss = [](const CtcOptions& options, int64_t shorter = 0) {
    return [=](const Tensors& x) {
      std::vector<int64_t> frames, labels;
      for (int64_t i = 0; i < x[0].size(1); ++i) {
        frames.push_back(std::max<int64_t>(0, x[0].size(0) - i * shorter));
        labels.push_back(std::max<int64_t>(0, x[1].size(1) - i * shorter));
      }
      return ctc_loss(log_softmax(x[0]), x[1], frames, labels, options);
    };
  };
  using Lengths = std::vector<int64_t>;
  const auto of_lengths = [](const Lengths& frames, const Lengths& labels) {
    return [=] { return ctc_loss(of({3, 2, 4}), ones({2, 2}, {Dtype::int64}), frames, labels); };
  };
  const auto of_tensors = [](const Tensor& log_p, const Tensor& targets, int64_t blank = 0) {
    return [=] { return ctc_loss(log_p, targets, {3, 3}, {2, 2}, {.blank = blank}); };
  };
  const auto label = [=](int64_t value) {
    return of_tensors(of({3, 2, 4}), from_vector<int64_t>({1, 2, 3, value}, {2, 2}));
  };
  const Tensor log_p = of({3, 2, 4});
  return {
      {"ctc_loss",
       {{"mean", loss({})},
        {"sum", loss({.reduction = LossReduction::sum})},
        {"none", loss({.reduction = LossReduction::none})},
        {"shorter", loss({.reduction = LossReduction::none}, 1)},
        {"blank", loss({.blank = 2})},
        {"infinite", loss({.reduction = LossReduction::none})},
        {"zero_infinity", loss({.zero_infinity = true})}},
       {fails<ShapeError>("got [2, 4] and [2, 2]", of_tensors(of({2, 4}), whole({2, 2}))),
        fails<ShapeError>("got [3, 2, 4] and [4]", of_tensors(log_p, whole({4}))),
        fails<ShapeError>("got [3, 2, 4] and [3, 2]", of_tensors(log_p, whole({3, 2}))),
        fails<ShapeError>("a length of the inputs for each of 2 sequences, got 1",
                          of_lengths({3}, {2, 2})),
        fails<ShapeError>("a length of the targets for each of 2 sequences, got 3",
                          of_lengths({3, 3}, {2, 2, 2})),
        fails<ValueError>("lengths of the inputs must be in [0, 3], got 4 at position 1",
                          of_lengths({3, 4}, {2, 2})),
        fails<ValueError>("lengths of the inputs must be in [0, 3], got -1 at position 0",
                          of_lengths({-1, 3}, {2, 2})),
        fails<ValueError>("lengths of the targets must be in [0, 2], got 3 at position 0",
                          of_lengths({3, 3}, {3, 2})),
        fails<ValueError>("blank must be in [0, 4), got 4", of_tensors(log_p, whole({2, 2}), 4)),
        fails<ValueError>("blank must be in [0, 4), got -1", of_tensors(log_p, whole({2, 2}), -1)),
        fails<ValueError>("in [0, 4) and not the blank 0, got 4 at [1, 1]", label(4)),
        fails<ValueError>("got -1 at [1, 1]", label(-1)),
        fails<ValueError>("got 0 at [1, 1]", label(0)),
        fails<DtypeError>("floating point, got int64", of_tensors(whole({3, 2, 4}), whole({2, 2}))),
        fails<DtypeError>("int64 targets, got float32", of_tensors(log_p, of({2, 2}))),
        fails<DeviceError>("cpu:0 and meta", of_tensors(log_p, elsewhere({2, 2}, Dtype::int64)))},
       true,
       false}};
}

}  // namespace capstan::testing
