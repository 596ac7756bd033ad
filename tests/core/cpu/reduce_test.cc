// Reductions against plain loops in float64.
#include <cmath>
#include <map>

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
  const std::map<Reduction, double> start = {{Reduction::sum, 0},
                                             {Reduction::product, 1},
                                             {Reduction::max, -INFINITY},
                                             {Reduction::min, INFINITY}};
  std::vector<double> result(numel(out), start.at(op));
  const auto values = in.to_vector<double>();
  size_t i = 0;
  for_each_index(in.shape(), [&](const Dims& index) {
    const double x = values[i++];
    double& r = result[position(index, out)];
    if (op == Reduction::sum) r += x;
    if (op == Reduction::product) r *= x;
    if (op == Reduction::max) r = std::isnan(r) || r > x ? r : x;
    if (op == Reduction::min) r = std::isnan(r) || r < x ? r : x;
  });
  return result;
}

Tensor reduce(Reduction op, const Tensor& in, unsigned axes) {
  const bool widens =
      (op == Reduction::sum || op == Reduction::product) && !is_floating(in.dtype());
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

TEST_CASE("products of blocks, rows and columns") {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::int64, Dtype::uint8}) {
    for (const Shape& shape : {Shape{0}, Shape{7}, Shape{2, 9}, Shape{3, 20'001}}) {
      const Tensor in = empty(shape, {.dtype = dtype});  // ones, but for a few
      fill_elements(in, 1);
      for (int64_t i = 0; i < std::min<int64_t>(2, in.numel()); ++i) {
        const Tensor flat = view_of(in, Layout::dense({in.numel()}));
        fill_elements(view_of(flat, flat.layout().selected(0, i * (in.numel() - 1))), 3);
      }
      for (unsigned axes = 1; axes < (1u << shape.rank()); ++axes) {
        const Tensor out = reduce(Reduction::product, in, axes);
        CHECK(error_of(out, reference(Reduction::product, in, out.shape())) == 0);
        check_threads([&] { return reduce(Reduction::product, in, axes); });
      }
    }
  }
}

TEST_CASE("the position of an extreme is the first of equals, and NaN wins") {
  for (const Reduction op : {Reduction::max, Reduction::min}) {
    const double sign = op == Reduction::max ? 1 : -1;
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
            const double value = sign * values[i++];
            if (value > best[at]) best[at] = value, expected[at] = index[axis];
          });
          const Tensor out = empty(shape, {.dtype = Dtype::int64});
          cpu().extreme_position(op, in, axis, out);
          CHECK(out.to_vector<int64_t>() == expected);
        }
      }
    }
    const Tensor out = empty({1}, {.dtype = Dtype::int64});
    cpu().extreme_position(op, from_vector<float>({1, 5, NAN, 9, NAN}, {5}), 0, out);
    CHECK(out.item<int64_t>() == 2);
    cpu().extreme_position(op, from_vector<float>({2, 2, 2}, {3}), 0, out);
    CHECK(out.item<int64_t>() == 0);
    check_threads([&] {
      const Tensor wide = some_values({300, 400}), where = empty({300, 1}, {Dtype::int64});
      cpu().extreme_position(op, wide, 1, where);
      return where;
    });
  }
}

TEST_CASE("cumulative sums along every axis") {
  for (const Dtype dtype :
       {Dtype::float32, Dtype::float64, Dtype::int64, Dtype::int32, Dtype::uint8, Dtype::boolean}) {
    const Dtype wide = is_floating(dtype) ? dtype : Dtype::int64;
    for (const Tensor& in : layouts({3, 5, 40}, dtype)) {
      for (int axis = 0; axis < 3; ++axis) {
        const auto values = in.to_vector<double>();
        std::vector<double> expected = values;
        int64_t step = 1;
        for (int i = axis + 1; i < 3; ++i) step *= in.shape()[i];
        size_t i = 0;
        for_each_index(in.shape(), [&](const Dims& index) {
          if (index[axis] > 0) expected[i] += expected[i - step];
          ++i;
        });
        const Tensor out = empty(in.shape(), {.dtype = wide});
        cpu().cumulative_sum(in, axis, out);
        CHECK(error_of(out, expected) < 10 * tolerance(dtype));
        check_threads([&] {
          const Tensor again = empty(in.shape(), {.dtype = wide});
          cpu().cumulative_sum(in, axis, again);
          return again;
        });
      }
    }
  }
  const Tensor many = full({10'000'000}, 0.1f), sums = empty_like(many);
  cpu().cumulative_sum(many, 0, sums);
  CHECK(sums.data<float>()[9'999'999] == doctest::Approx(1e7 * double(0.1f)).epsilon(1e-6));
  cpu().cumulative_sum(empty({2, 0}), 1, empty({2, 0}));
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
