// gather, scatter and true_positions against plain loops.
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

/// Indices in [0, size) of any layout.
std::vector<Tensor> index_layouts(const Shape& shape, int64_t size) {
  std::vector<Tensor> all = layouts(shape, Dtype::int64);
  for (Tensor& indices : all) {
    auto values = indices.to_vector<int64_t>();
    for (int64_t& value : values) value = (value % size + size) % size;
    const Tensor wide = zeros({numel(shape), 2}, {.dtype = Dtype::int64});
    const Tensor column = view_of(wide, wide.layout().selected(1, 1));
    copy_elements(from_vector(values, {numel(shape)}), column);
    indices = view_of(wide, *column.layout().viewed(shape));
  }
  return all;
}

int64_t flat(const Dims& index, const Shape& shape) {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) at = at * shape[axis] + index[axis];
  return at;
}

}  // namespace

TEST_CASE("gather and scatter follow their indices, along every axis and layout") {
  for (const Dtype dtype : kNumeric) {
    for (int axis = 0; axis < 3; ++axis) {
      Shape shape = {4, 3, 5}, chosen = shape;
      chosen[axis] = 7;
      for (const Tensor& in : layouts(shape, dtype)) {
        for (const Tensor& indices : index_layouts(chosen, shape[axis])) {
          const auto values = in.to_vector<double>();
          const auto index = indices.to_vector<int64_t>();
          std::vector<double> expected;
          size_t i = 0;
          for_each_index(chosen, [&](Dims at) {
            at[axis] = index[i++];
            expected.push_back(values[flat(at, shape)]);
          });
          const Tensor out = empty(chosen, {.dtype = dtype});
          cpu().gather(in, axis, indices, out);
          CHECK(out.to_vector<double>() == expected);

          for (const bool add : {false, true}) {
            const Tensor target = some_values(shape, dtype, 8);
            auto sums = target.to_vector<double>();
            i = 0;
            for_each_index(chosen, [&](Dims at) {
              at[axis] = index[i];
              double& sum = sums[flat(at, shape)];
              sum = (add ? sum : 0) + expected[i++];
              if (dtype == Dtype::uint8) sum = static_cast<uint8_t>(static_cast<int>(sum));
            });
            cpu().scatter(out, axis, indices, target, add);
            CHECK(error_of(target, sums) < 10 * tolerance(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("gather and scatter give the same bits on any number of threads") {
  const Tensor in = some_values({300, 200});
  const Tensor indices = index_layouts({300, 500}, 200)[0];
  check_threads([&] {
    const Tensor out = empty({300, 500});
    cpu().gather(in, 1, indices, out);
    return out;
  });
  for (const bool add : {false, true}) {
    check_threads([&] {
      const Tensor out = dense_copy(in);
      cpu().scatter(some_values({300, 500}, Dtype::float32, 4), 1, indices, out, add);
      return out;
    });
  }
}

TEST_CASE("true positions count up") {
  for (const int64_t count : {0, 1, 1000}) {
    const Tensor mask = some_values({count}, Dtype::boolean);
    std::vector<int64_t> expected;
    for (int64_t i = 0; i < count; ++i) {
      if (mask.data<bool>()[i]) expected.push_back(i);
    }
    CHECK(cpu().true_positions(mask).to_vector<int64_t>() == expected);
  }
}
