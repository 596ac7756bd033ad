// Reductions against plain loops in float64.
#include <cmath>

#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

Dims reduced_shape(Dims shape, unsigned axes) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes >> axis & 1) shape[axis] = 1;
  }
  return shape;
}

int64_t position(const Dims& index, const Dims& shape) {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    at = at * shape[axis] + (shape[axis] == 1 ? 0 : index[axis]);
  }
  return at;
}

std::vector<double> reference(Reduction op, const Tensor& in, const Shape& out) {
  std::vector<double> result(numel(out), op == Reduction::sum   ? 0
                                         : op == Reduction::max ? -INFINITY
                                                                : INFINITY);
  const auto values = in.to_vector<double>();
  size_t i = 0;
  for_each_index(in.shape(), [&](const Dims& index) {
    const double x = values[i++];
    double& r = result[position(index, out)];
    if (op == Reduction::sum) r += x;
    if (op == Reduction::max) r = std::isnan(r) || r > x ? r : x;
    if (op == Reduction::min) r = std::isnan(r) || r < x ? r : x;
  });
  return result;
}

Tensor reduce(Reduction op, const Tensor& in, unsigned axes) {
  const bool widens = op == Reduction::sum && !is_floating(in.dtype());
  const Tensor out =
      empty(reduced_shape(in.shape(), axes), {.dtype = widens ? Dtype::int64 : in.dtype()});
  cpu().reduce(op, in, out);
  return out;
}

constexpr Reduction kAll[] = {Reduction::sum, Reduction::max, Reduction::min};

}  // namespace

TEST_CASE("reductions over every set of axes, layout and dtype match float64") {
  const Shape shape = {3, 5, 2, 37};
  for (const Dtype dtype :
       {Dtype::float32, Dtype::float64, Dtype::int64, Dtype::int32, Dtype::uint8, Dtype::boolean}) {
    for (const Tensor& in : layouts(shape, dtype)) {
      for (unsigned axes = 0; axes < 16; ++axes) {
        for (const Reduction op : kAll) {
          CAPTURE(static_cast<int>(op));
          CAPTURE(axes);
          CAPTURE(to_string(dtype));
          CHECK(error_of(reduce(op, in, axes), reference(op, in, reduced_shape(shape, axes))) <
                tolerance(dtype));
        }
      }
    }
  }
}

TEST_CASE("long reductions are cut into blocks, in rows and in columns") {
  for (const Shape& shape : {Shape{40001}, Shape{2, 20011}, Shape{20011, 2}, Shape{3001, 7, 3},
                             Shape{700, 600}, Shape{1, 9, 1, 8191}}) {
    for (const Tensor& in : layouts(shape)) {
      for (unsigned axes = 0; axes < 1u << shape.rank(); ++axes) {
        for (const Reduction op : kAll) {
          CAPTURE(to_string(shape));
          CAPTURE(axes);
          const Shape out = reduced_shape(shape, axes);
          CHECK(error_of(reduce(op, in, axes), reference(op, in, out)) < 1e-6);
          check_threads([&] { return reduce(op, in, axes); });
        }
      }
    }
  }
}

TEST_CASE("scalars and empty tensors") {
  CHECK(reduce(Reduction::sum, scalar(3), 0).item<double>() == 3);
  CHECK(reduce(Reduction::sum, empty({0}), 1).to_vector<double>() == std::vector<double>{0});
  CHECK(reduce(Reduction::sum, empty({0, 3}), 1).to_vector<double>() == std::vector<double>(3, 0));
  CHECK(reduce(Reduction::sum, empty({0, 3}), 2).numel() == 0);
  CHECK(reduce(Reduction::max, empty({0, 3}), 2).numel() == 0);
}

TEST_CASE("NaN and infinities") {
  for (const Dtype dtype : kFloating) {
    for (const int64_t place : {0, 5, 99}) {
      const Tensor in = some_values({100}, dtype);
      fill_elements(view_of(in, in.layout().sliced(0, place, place + 1)), NAN);
      for (const Reduction op : kAll) CHECK(std::isnan(reduce(op, in, 1).item<double>()));
      const Tensor column = view_of(in, Layout{{100, 1}, {1, 1}, 0});
      for (const Reduction op : kAll) CHECK(std::isnan(reduce(op, column, 1).item<double>()));
    }
    CHECK(reduce(Reduction::max, full({3}, -INFINITY, {.dtype = dtype}), 1).item<double>() ==
          -INFINITY);
    CHECK(reduce(Reduction::min, full({3}, INFINITY, {.dtype = dtype}), 1).item<double>() ==
          INFINITY);
  }
}

TEST_CASE("a float32 sum of ten million elements is exact to its rounding") {
  const int64_t n = 10'000'000;
  const Tensor in = full({n}, 0.1f);
  const double exact = n * static_cast<double>(0.1f);
  CHECK(std::abs(reduce(Reduction::sum, in, 1).item<double>() / exact - 1) < 1e-7);
  const Tensor tall = view_of(in, Layout::dense({n / 2, 2}));
  for (const double sum : reduce(Reduction::sum, tall, 1).to_vector<double>()) {
    CHECK(std::abs(sum / (exact / 2) - 1) < 1e-7);
  }
}

TEST_CASE("a sum does not depend on the address") {
  const Tensor base = some_values({1100});
  const Tensor part = view_of(base, base.layout().sliced(0, 3, 1006));
  CHECK(same_bits(reduce(Reduction::sum, part, 1), reduce(Reduction::sum, dense_copy(part), 1)));
}

TEST_CASE("argmax takes the first of equals, and NaN above all") {
  for (const Dtype dtype : kNumeric) {
    for (const Tensor& in : layouts({4, 6, 11}, dtype)) {
      for (int axis = 0; axis < 3; ++axis) {
        const Shape shape = reduced_shape(in.shape(), 1u << axis);
        const auto values = in.to_vector<double>();
        std::vector<double> best(numel(shape), -INFINITY);
        std::vector<int64_t> expected(numel(shape), 0);
        size_t i = 0;
        for_each_index(in.shape(), [&](const Dims& index) {
          const int64_t at = position(index, shape);
          if (values[i] > best[at]) best[at] = values[i], expected[at] = index[axis];
          ++i;
        });
        const Tensor out = empty(shape, {.dtype = Dtype::int64});
        cpu().argmax(in, axis, out);
        CHECK(out.to_vector<int64_t>() == expected);
      }
    }
  }
  const Tensor out = empty({1}, {.dtype = Dtype::int64});
  cpu().argmax(from_vector<float>({1, 5, NAN, 9, NAN}, {5}), 0, out);
  CHECK(out.item<int64_t>() == 2);
  cpu().argmax(from_vector<float>({2, 2, 1}, {3}), 0, out);
  CHECK(out.item<int64_t>() == 0);
}

TEST_CASE("sum of squares in float64") {
  for (const Dtype dtype : kFloating) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{7}, Shape{300, 401}}) {
      const Tensor in = some_values(shape, dtype);
      double expected = 0;
      for (const double x : in.to_vector<double>()) expected += x * x;
      CHECK(cpu().sum_of_squares(in) == doctest::Approx(expected).epsilon(1e-12));
      check_threads([&] { return scalar(cpu().sum_of_squares(in), {.dtype = Dtype::float64}); });
    }
  }
}
