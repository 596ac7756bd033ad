// The row of recurrence().
#pragma once

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

}  // namespace capstan::testing
