// Element-wise kernels against the same functions in float64.
#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const std::vector<Shape> kShapes = {{}, {1}, {7}, {0, 3}, {5, 1, 9}, {3, 70, 33}};

struct UnaryCase {
  Unary op;
  double (*reference)(double);
  bool floating_only;
};

const std::vector<UnaryCase> kUnary = {
    {Unary::negate, [](double x) { return -x; }, false},
    {Unary::absolute, [](double x) { return std::fabs(x); }, false},
    {Unary::square, [](double x) { return x * x; }, false},
    {Unary::relu, [](double x) { return x < 0 ? 0 : x; }, false},
    {Unary::exp, [](double x) { return std::exp(x); }, true},
    {Unary::log, [](double x) { return std::log(x); }, true},
    {Unary::sqrt, [](double x) { return std::sqrt(x); }, true},
    {Unary::reciprocal, [](double x) { return 1 / x; }, true},
    {Unary::tanh, [](double x) { return std::tanh(x); }, true},
    {Unary::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, true},
    {Unary::sign, [](double x) { return x > 0   ? 1.0
                                        : x < 0 ? -1.0
                                                : 0.0; }, false},
    {Unary::floor, [](double x) { return std::floor(x); }, false},
    {Unary::ceil, [](double x) { return std::ceil(x); }, false},
    {Unary::trunc, [](double x) { return std::trunc(x); }, false},
    {Unary::round, [](double x) { return std::nearbyint(x); }, false},
    {Unary::rsqrt, [](double x) { return 1 / std::sqrt(x); }, true},
    {Unary::exp2, [](double x) { return std::exp2(x); }, true},
    {Unary::expm1, [](double x) { return std::expm1(x); }, true},
    {Unary::log2, [](double x) { return std::log2(x); }, true},
    {Unary::log10, [](double x) { return std::log10(x); }, true},
    {Unary::log1p, [](double x) { return std::log1p(x); }, true},
    {Unary::sin, [](double x) { return std::sin(x); }, true},
    {Unary::cos, [](double x) { return std::cos(x); }, true},
    {Unary::tan, [](double x) { return std::tan(x); }, true},
    {Unary::asin, [](double x) { return std::asin(x); }, true},
    {Unary::acos, [](double x) { return std::acos(x); }, true},
    {Unary::atan, [](double x) { return std::atan(x); }, true},
    {Unary::sinh, [](double x) { return std::sinh(x); }, true},
    {Unary::cosh, [](double x) { return std::cosh(x); }, true},
    {Unary::asinh, [](double x) { return std::asinh(x); }, true},
    {Unary::acosh, [](double x) { return std::acosh(x); }, true},
    {Unary::atanh, [](double x) { return std::atanh(x); }, true},
    {Unary::erf, [](double x) { return std::erf(x); }, true},
};

struct BinaryCase {
  Binary op;
  double (*reference)(double, double);
  bool floating_only;
};

const std::vector<BinaryCase> kBinary = {
    {Binary::add, [](double a, double b) { return a + b; }, false},
    {Binary::subtract, [](double a, double b) { return a - b; }, false},
    {Binary::multiply, [](double a, double b) { return a * b; }, false},
    {Binary::maximum, [](double a, double b) { return a > b || a != a ? a : b; }, false},
    {Binary::minimum, [](double a, double b) { return a < b || a != a ? a : b; }, false},
    {Binary::divide, [](double a, double b) { return a / b; }, true},
    {Binary::atan2, [](double a, double b) { return std::atan2(a, b); }, true},
    {Binary::power, [](double a, double b) { return std::pow(a, b); }, true},
    {Binary::relu_grad, [](double g, double y) { return y > 0 ? g : 0; }, true},
    {Binary::tanh_grad, [](double g, double y) { return g * (1 - y * y); }, true},
    {Binary::sigmoid_grad, [](double g, double y) { return g * y * (1 - y); }, true},
};

/// f of each element, in float64; uint8 wraps around.
std::vector<double> reference(const Tensor& in, double (*f)(double)) {
  std::vector<double> values = in.to_vector<double>();
  for (double& x : values) {
    x = f(x);
    if (in.dtype() == Dtype::uint8) x = static_cast<uint8_t>(static_cast<int>(x));
  }
  return values;
}

std::vector<double> reference(const Tensor& a, const Tensor& b, double (*f)(double, double)) {
  std::vector<double> values = a.to_vector<double>();
  const std::vector<double> others = b.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = f(values[i], others[i]);
    if (a.dtype() == Dtype::uint8) values[i] = static_cast<uint8_t>(static_cast<int>(values[i]));
  }
  return values;
}

}  // namespace

TEST_CASE("unary functions match float64, for every layout and dtype") {
  for (const UnaryCase& test : kUnary) {
    for (const Dtype dtype : kNumeric) {
      if (test.floating_only && !is_floating(dtype)) {
        const Tensor in = some_values({3}, dtype);
        CHECK_THROWS_AS(cpu().unary(test.op, in, empty_like(in)), DtypeError);
        continue;
      }
      for (const Shape& shape : kShapes) {
        for (const Tensor& in : layouts(shape, dtype)) {
          const Tensor out = empty(shape, {.dtype = dtype});
          cpu().unary(test.op, in, out);
          CAPTURE(static_cast<int>(test.op));
          CAPTURE(to_string(dtype));
          CAPTURE(to_string(shape));
          CHECK(error_of(out, reference(in, test.reference)) < 3 * tolerance(dtype));
        }
      }
    }
  }
}

TEST_CASE("every entry is tested") {
  CHECK(kUnary.size() == static_cast<size_t>(Unary::count));
  CHECK(kBinary.size() + 2 == static_cast<size_t>(Binary::count));  // and the two below
}

TEST_CASE("floor_divide and remainder put a together again, with the signs of floor") {
  for (const Dtype dtype : kNumeric) {
    const Tensor a = some_values({500}, dtype), b = some_values({500}, dtype, 9);
    const auto tops = a.to_vector<double>();
    auto bottoms = b.to_vector<double>();
    for (double& bottom : bottoms) bottom = bottom == 0 ? 3 : bottom;
    copy_elements(from_vector(bottoms, {500}), b);
    const Tensor quotient = empty_like(a), rest = empty_like(a);
    cpu().binary(Binary::floor_divide, a, b, quotient);
    cpu().binary(Binary::remainder, a, b, rest);
    std::vector<double> quotients, rests;
    for (size_t i = 0; i < tops.size(); ++i) {
      quotients.push_back(std::floor(tops[i] / bottoms[i]));
      rests.push_back(tops[i] - quotients[i] * bottoms[i]);
    }
    CAPTURE(to_string(dtype));
    CHECK(error_of(quotient, quotients) == 0);
    CHECK(error_of(rest, rests) < 10 * tolerance(dtype));
  }
  const Tensor least = from_vector<int64_t>({INT64_MIN, 7}, {2}),
               minus = full({2}, -1, {Dtype::int64});
  const Tensor out = empty_like(least);
  cpu().binary(Binary::floor_divide, least, minus, out);
  CHECK(out.to_vector<int64_t>() == std::vector<int64_t>{INT64_MIN, -7});
  cpu().binary(Binary::remainder, least, minus, out);
  CHECK(out.to_vector<int64_t>() == std::vector<int64_t>{0, 0});
}

TEST_CASE("unary functions at the edges") {
  for (const Dtype dtype : kFloating) {
    const Tensor in = empty({9}, {.dtype = dtype});
    copy_elements(from_vector<double>({-kInf, kInf, kNan, 0, 1000, -1000, -104, 20, -20}, {9}), in);
    const Tensor out = empty_like(in);
    for (const UnaryCase& test : kUnary) {
      cpu().unary(test.op, in, out);
      CAPTURE(static_cast<int>(test.op));
      std::vector<double> expected = reference(in, test.reference);
      if (dtype == Dtype::float32) {  // which may be infinite where float64 is not
        for (double& value : expected) value = static_cast<float>(value);
      }
      CHECK(error_of(out, expected) < 1e-6);
    }
    cpu().unary(Unary::exp, in, out);
    CHECK(out.to_vector<double>()[0] == 0);
    CHECK(out.to_vector<double>()[5] == 0);
    cpu().unary(Unary::sigmoid, in, out);
    CHECK(out.to_vector<double>()[0] == 0);
  }
}

TEST_CASE("an element's result does not depend on its place, address or neighbours") {
  const Tensor base = some_values({200});
  for (const UnaryCase& test : kUnary) {
    const Tensor expected = empty({200});
    cpu().unary(test.op, base, expected);
    for (int64_t start = 0; start < 40; ++start) {
      for (const int64_t step : {1, 3}) {
        const Tensor in = view_of(base, base.layout().sliced(0, start, 200 - start, step));
        const Tensor out = empty(in.shape());
        cpu().unary(test.op, in, out);
        CHECK(same_bits(out, dense_copy(view_of(expected, expected.layout().sliced(
                                                              0, start, 200 - start, step)))));
      }
    }
  }
  for (const BinaryCase& test : kBinary) {
    const Tensor expected = empty({200}), other = some_values({200}, Dtype::float32, 9);
    cpu().binary(test.op, base, other, expected);
    for (int64_t start = 0; start < 20; ++start) {
      const Layout part = base.layout().sliced(0, start, 200 - start);
      const Tensor out = empty(part.shape);
      cpu().binary(test.op, view_of(base, part), view_of(other, part), out);
      CHECK(same_bits(out, dense_copy(view_of(expected, part))));
    }
  }
}

TEST_CASE("binary functions match float64, for every pair of layouts") {
  for (const BinaryCase& test : kBinary) {
    for (const Dtype dtype : kNumeric) {
      if (test.floating_only && !is_floating(dtype)) {
        const Tensor in = some_values({3}, dtype);
        CHECK_THROWS_AS(cpu().binary(test.op, in, in, empty_like(in)), DtypeError);
        continue;
      }
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{0, 3}, Shape{5, 1, 9}, Shape{3, 7, 33}}) {
        for (const Tensor& a : layouts(shape, dtype, 1)) {
          for (const Tensor& b : layouts(shape, dtype, 5)) {
            const Tensor out = empty(shape, {.dtype = dtype});
            cpu().binary(test.op, a, b, out);
            CAPTURE(static_cast<int>(test.op));
            CAPTURE(to_string(dtype));
            CHECK(error_of(out, reference(a, b, test.reference)) < 3 * tolerance(dtype));
          }
        }
      }
    }
  }
}

TEST_CASE("binary functions at the edges") {
  const std::vector<double> values = {-kInf, kInf, kNan, 0, 1, -2};
  const int n = static_cast<int>(values.size());
  for (const Dtype dtype : kFloating) {
    const Tensor column = empty({n, 1}, {.dtype = dtype}), row = empty({1, n}, {.dtype = dtype});
    copy_elements(from_vector(values, {n, 1}), column);
    copy_elements(from_vector(values, {1, n}), row);
    const Tensor a = view_of(column, column.layout().expanded({n, n}));
    const Tensor b = view_of(row, row.layout().expanded({n, n}));
    const Tensor out = empty({n, n}, {.dtype = dtype});
    for (const BinaryCase& test : kBinary) {
      cpu().binary(test.op, a, b, out);
      CHECK(error_of(out, reference(a, b, test.reference)) < 1e-6);
    }
  }
}

TEST_CASE("integers wrap around") {
  const Tensor most = full({3}, 0x7fffffff, {.dtype = Dtype::int32});
  const Tensor out = empty_like(most);
  cpu().binary(Binary::add, most, full({3}, 1, {.dtype = Dtype::int32}), out);
  CHECK(out.to_vector<int64_t>() == std::vector<int64_t>(3, -2147483648));
  cpu().unary(Unary::negate, out, out);
  CHECK(out.to_vector<int64_t>() == std::vector<int64_t>(3, -2147483648));
}

TEST_CASE("binary works in place, into strided outputs too") {
  for (const Tensor& target : layouts({4, 5, 67})) {
    if (target.strides()[0] == 0 || target.strides()[2] == 0) continue;
    const Tensor other = some_values({4, 5, 67}, Dtype::float32, 8);
    const auto expected = reference(target, other, [](double a, double b) { return a - b; });
    cpu().binary(Binary::subtract, target, other, target);
    CHECK(error_of(target, expected) < 1e-6);
    const auto reversed = reference(other, target, [](double a, double b) { return a - b; });
    cpu().binary(Binary::subtract, other, target, target);
    CHECK(error_of(target, reversed) < 1e-6);
  }
}

TEST_CASE("comparisons, with NaN unequal to everything") {
  const std::vector<std::pair<Compare, bool (*)(double, double)>> cases = {
      {Compare::equal, [](double a, double b) { return a == b; }},
      {Compare::not_equal, [](double a, double b) { return a != b; }},
      {Compare::less, [](double a, double b) { return a < b; }},
      {Compare::less_equal, [](double a, double b) { return a <= b; }},
      {Compare::greater, [](double a, double b) { return a > b; }},
      {Compare::greater_equal, [](double a, double b) { return a >= b; }},
  };
  for (const auto& [op, holds] : cases) {
    for (const Dtype dtype : kNumeric) {
      for (const Tensor& a : layouts({9, 11}, dtype, 1)) {
        for (const Tensor& b : layouts({9, 11}, dtype, 1)) {
          if (is_floating(dtype)) fill_elements(view_of(b, b.layout().sliced(0, 0, 1)), kNan);
          const Tensor out = empty({9, 11}, {.dtype = Dtype::boolean});
          cpu().compare(op, a, b, out);
          const auto x = a.to_vector<double>(), y = b.to_vector<double>();
          std::vector<double> expected(x.size());
          for (size_t i = 0; i < x.size(); ++i) expected[i] = holds(x[i], y[i]);
          CHECK(out.to_vector<double>() == expected);
        }
      }
    }
  }
}

TEST_CASE("where chooses element by element") {
  for (const Dtype dtype : kNumeric) {
    for (const Tensor& condition : layouts({6, 13}, Dtype::boolean, 3)) {
      for (const Tensor& a : layouts({6, 13}, dtype, 1)) {
        for (const Tensor& b : layouts({6, 13}, dtype, 7)) {
          const Tensor out = empty({6, 13}, {.dtype = dtype});
          cpu().where(condition, a, b, out);
          const auto c = condition.to_vector<double>(), x = a.to_vector<double>();
          auto expected = b.to_vector<double>();
          for (size_t i = 0; i < c.size(); ++i) expected[i] = c[i] != 0 ? x[i] : expected[i];
          CHECK(out.to_vector<double>() == expected);
        }
      }
    }
  }
}

TEST_CASE("fill and copy reach exactly their elements, in any layout and dtype") {
  for (const Dtype from : kNumeric) {
    for (const Dtype to : kNumeric) {
      const Tensor base = full({5, 31}, 7, {.dtype = to});
      const Layout part = base.layout().sliced(1, 3, 29, 2).transposed(0, 1);
      for (const Tensor& in : layouts(part.shape, from)) {
        cpu().fill(base, 7);
        cpu().copy(in, view_of(base, part));
        const auto source = in.to_vector<double>();
        const auto got = base.to_vector<double>();
        for (int64_t i = 0; i < 5; ++i) {
          for (int64_t j = 0; j < 31; ++j) {
            const bool inside = j >= 3 && j < 29 && (j - 3) % 2 == 0;
            double expected = inside ? source[(j - 3) / 2 * 5 + i] : 7;
            if (to == Dtype::float32) expected = static_cast<float>(expected);
            if (to == Dtype::int64) expected = std::trunc(expected);
            if (to == Dtype::int32) expected = std::trunc(expected);
            if (to == Dtype::uint8) expected = static_cast<uint8_t>(static_cast<int>(expected));
            REQUIRE(got[i * 31 + j] == expected);
          }
        }
      }
      cpu().fill(base, 1);
      cpu().fill(view_of(base, part), 0);
      double sum = 0;
      for (const double value : base.to_vector<double>()) sum += value;
      CHECK(sum == 5 * 31 - numel(part.shape));
    }
  }
  const Tensor flags = empty({3}, {.dtype = Dtype::boolean});
  cpu().copy(from_vector<double>({0, 0.5, kNan}, {3}), flags);
  CHECK(flags.to_vector<double>() == std::vector<double>{0, 1, 1});
}

TEST_CASE("element-wise results are the same on any number of threads") {
  const Shape shape = {3, 50000};
  for (const Tensor& in : layouts(shape)) {
    for (const UnaryCase& test : kUnary) {
      check_threads([&] {
        const Tensor out = empty(shape);
        cpu().unary(test.op, in, out);
        return out;
      });
    }
    check_threads([&] {
      const Tensor out = empty(shape);
      cpu().binary(Binary::power, in, some_values(shape, Dtype::float32, 4), out);
      return out;
    });
    const Tensor out = empty(shape);
    cpu().unary(Unary::square, in, out);
    CHECK(error_of(out, reference(in, [](double x) { return x * x; })) < 1e-6);
  }
}
