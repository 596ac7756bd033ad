// The rows of choices by index or mask, and of sorting.
#pragma once

#include "autograd/elementwise.h"
#include "autograd/indexing.h"
#include "autograd/sort.h"
#include "tests/autograd/operation.h"

namespace capstan::testing {

inline Tensor at(const std::vector<int64_t>& indices) {
  return from_vector(indices, {static_cast<int64_t>(indices.size())});
}

/// What gather, scatter and scatter_add have in common: f(x, axis, indices).
inline std::vector<Failure> grid_failures(
    const std::function<Tensor(const Tensor&, int64_t, const Tensor&)>& f) {
  return {fails<DtypeError>("int64 indices, got float32", [=] { return f(of({2}), 0, of({1})); }),
          fails<ShapeError>("axis 1 is out of range", [=] { return f(of({2}), 1, whole({1})); }),
          fails<ShapeError>("indices [1, 1] must have the axes of [2]",
                            [=] {
                              return f(of({2}), 0, whole({1, 1}));
                            }),
          fails<ShapeError>("indices [3, 4] must have the axes of [2, 3], at most as long",
                            [=] {
                              return f(of({2, 3}), 1, whole({3, 4}));
                            }),
          fails<ValueError>("in [0, 2), got 2 at position 1",
                            [=] {
                              return f(of({2}), 0, at({0, 2}));
                            }),
          fails<ValueError>("got -1 at position 0", [=] { return f(of({2}), 0, at({-1})); }),
          fails<DeviceError>("cpu:0 and meta",
                             [=] { return f(of({2}), 0, elsewhere({1}, Dtype::int64)); })};
}

inline std::vector<Failure> list_failures(
    const std::function<Tensor(const Tensor&, int64_t, const Tensor&)>& f) {
  return {fails<DtypeError>("int64 indices, got float32", [=] { return f(of({2}), 0, of({1})); }),
          fails<ShapeError>("axis 1 is out of range", [=] { return f(of({2}), 1, at({0})); }),
          fails<ShapeError>("a list [m] of indices, got [1, 1]",
                            [=] {
                              return f(of({2}), 0, whole({1, 1}));
                            }),
          fails<ValueError>("in [0, 2), got 2 at position 1",
                            [=] {
                              return f(of({2}), 0, at({0, 2}));
                            }),
          fails<DeviceError>("cpu:0 and meta",
                             [=] { return f(of({2}), 0, elsewhere({1}, Dtype::int64)); })};
}

/// What is written into x by f(x, source) at indices [1].
inline void add_source_failures(std::vector<Failure>& all,
                                const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
  all.push_back(
      fails<ShapeError>("source must be [1], got [2]", [=] { return f(of({2}), of({2})); }));
  all.push_back(
      fails<DtypeError>("equal, got float32 and int64", [=] { return f(of({2}), whole({1})); }));
  all.push_back(fails<DeviceError>("cpu:0 and meta", [=] { return f(of({2}), elsewhere({1})); }));
}

using Writer = Tensor (*)(const Tensor&, int64_t, const Tensor&, const Tensor&);

inline std::map<std::string, Function> writer_variants(Writer f) {
  const auto along = [f](int64_t axis) {
    return [=](const Tensors& x) { return f(x[0], axis, x[1], x[2]); };
  };
  return {{"rows", along(0)}, {"columns", along(1)}};
}

inline Operation writer_row(const std::string& name, Writer f) {
  Operation row{name, writer_variants(f),
                grid_failures([f](const Tensor& x, int64_t axis, const Tensor& i) {
                  return f(x, axis, i, of(i.shape()));
                })};
  row.variants["cubes"] = [f](const Tensors& x) { return f(x[0], 2, x[1], x[2]); };
  add_source_failures(row.failures, [f](const Tensor& x, const Tensor& source) {
    return f(x, 0, at({1}), source);
  });
  return row;
}

inline std::vector<Failure> mask_failures(
    const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
  return {fails<DtypeError>("a bool mask, got float32", [=] { return f(of({2}), of({2})); }),
          fails<ShapeError>("[2] and [3] do not broadcast",
                            [=] { return f(of({2}), of({3}, Dtype::boolean)); }),
          fails<ShapeError>("the mask [2, 2] does not broadcast to [2]",
                            [=] {
                              return f(of({2}), of({2, 2}, Dtype::boolean));
                            }),
          fails<DeviceError>("cpu:0 and meta",
                             [=] { return f(of({2}), elsewhere({2}, Dtype::boolean)); })};
}

inline std::vector<Operation> indexing_operations() {
  const auto along = [](auto f, int64_t axis) {
    return [=](const Tensors& x) { return f(x[0], axis, x[1]); };
  };
  Operation add_row{"index_add", writer_variants(index_add),
                    list_failures([](const Tensor& x, int64_t axis, const Tensor& i) {
                      return index_add(x, axis, i, of(i.shape()));
                    })};
  add_source_failures(add_row.failures, [](const Tensor& x, const Tensor& source) {
    return index_add(x, 0, at({1}), source);
  });
  Operation fill_row{
      "masked_fill", only([](const Tensors& x) { return masked_fill(x[0], x[1], 1.5); }),
      mask_failures([](const Tensor& x, const Tensor& m) { return masked_fill(x, m, 1); })};
  fill_row.failures.push_back(fails<DtypeError>("int64 cannot hold 0.5", [] {
    return masked_fill(whole({2}), of({2}, Dtype::boolean), 0.5);
  }));
  Operation select_row{"masked_select",
                       only([](const Tensors& x) { return masked_select(x[0], x[1]); }),
                       mask_failures(masked_select), false};
  select_row.failures.push_back(fails<DeviceError>("depends on values", [] {
    return masked_select(elsewhere({2}), elsewhere({2}, Dtype::boolean));
  }));
  return {{"index_select",
           {{"rows", along(index_select, 0)}, {"columns", along(index_select, 1)}},
           list_failures(index_select)},
          add_row,
          {"gather",
           {{"rows", along(gather, 0)}, {"columns", along(gather, 1)}, {"cubes", along(gather, 2)}},
           grid_failures(gather)},
          writer_row("scatter", scatter),
          writer_row("scatter_add", scatter_add),
          fill_row,
          select_row,
          {"nonzero",
           only(nonzero),
           {fails<DeviceError>("depends on values", [] { return nonzero(elsewhere({2})); })},
           false}};
}

inline std::vector<Operation> sorting_operations() {
  const auto one = [](auto f) { return [f](const Tensors& x) { return f(x[0]); }; };
  const auto out_of_range = [](auto f) {
    return fails<ShapeError>("axis 1 is out of range", [f] { return f(of({2})); });
  };
  const auto missing = [](const Tensor& x, int64_t count) {
    return fails<ValueError>("does not have", [=] { return topk(x, count, 0).values; });
  };
  return {
      {"sort",
       {{"values", one([](const Tensor& x) { return sort(x).values; })},
        {"indices", one([](const Tensor& x) { return sort(x).indices; })},
        {"falling", one([](const Tensor& x) { return sort(x, 0, true).values; })}},
       {out_of_range([](const Tensor& x) { return sort(x, 1).values; })}},
      {"argsort",
       {{"rising", one([](const Tensor& x) { return argsort(x, 1); })},
        {"falling", one([](const Tensor& x) { return argsort(x, 1, true); })}},
       {out_of_range([](const Tensor& x) { return argsort(x, 1); })}},
      {"topk",
       {{"largest", one([](const Tensor& x) { return topk(x, 2).values; })},
        {"smallest", one([](const Tensor& x) { return topk(x, 1, 0, false).indices; })},
        {"none", one([](const Tensor& x) { return topk(x, 0, 0).values; })}},
       {out_of_range([](const Tensor& x) { return topk(x, 1, 1).values; }), missing(of({2}), 3),
        missing(of({2}), -1)}},
      {"unique",
       {{"values", one([](const Tensor& x) { return unique(x).values; })},
        {"inverse", one([](const Tensor& x) { return unique(x).inverse; })},
        {"counts", one([](const Tensor& x) { return unique(x).counts; })}},
       {fails<DeviceError>("depends on values", [] { return unique(elsewhere({2})).values; }),
        fails<ShapeError>("axis 2",
                          [] {
                            return unique(of({2, 3}), 2).values;
                          })},
       false},
  };
}

}  // namespace capstan::testing
