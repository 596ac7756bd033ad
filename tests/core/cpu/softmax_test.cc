// Softmax and cross-entropy against their definitions in float64.
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr int64_t kIgnore = -100;

/// log softmax of [rows, classes] in float64.
std::vector<double> log_softmax(const Tensor& x) {
  std::vector<double> values = x.to_vector<double>();
  const int64_t classes = x.size(1);
  for (int64_t i = 0; i < x.size(0); ++i) {
    double* const row = &values[i * classes];
    const double most = *std::max_element(row, row + classes);
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += std::exp(row[j] - most);
    for (int64_t j = 0; j < classes; ++j) row[j] -= most + std::log(sum);
  }
  return values;
}

const std::vector<Shape> kShapes = {{1, 1}, {3, 10}, {7, 33}, {65, 257}, {2, 1000}, {0, 4}};

}  // namespace

TEST_CASE("log softmax and its gradient match float64") {
  for (const Dtype dtype : kFloating) {
    for (const Shape& shape : kShapes) {
      const Tensor x = some_values(shape, dtype, 1), grad = some_values(shape, dtype, 2);
      const Tensor y = empty_like(x), dx = empty_like(x);
      cpu().log_softmax(x, y);
      const auto expected = log_softmax(x);
      CHECK(error_of(y, expected) < 3 * tolerance(dtype));

      cpu().log_softmax_grad(grad, y, dx);
      auto slopes = grad.to_vector<double>();
      for (int64_t i = 0; i < shape[0]; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < shape[1]; ++j) sum += slopes[i * shape[1] + j];
        for (int64_t j = 0; j < shape[1]; ++j) {
          slopes[i * shape[1] + j] -= std::exp(expected[i * shape[1] + j]) * sum;
        }
      }
      CHECK(error_of(dx, slopes) < 20 * tolerance(dtype));
      check_threads([&] { return cpu().log_softmax(x, y), dense_copy(y); });
      check_threads([&] { return cpu().log_softmax_grad(grad, y, dx), dense_copy(dx); });
    }
  }
}

TEST_CASE("cross-entropy and its gradient match float64, ignored rows are 0") {
  for (const Dtype dtype : kFloating) {
    for (const Shape& shape : kShapes) {
      const auto [rows, classes] = std::pair{shape[0], shape[1]};
      const Tensor x = some_values(shape, dtype, 1), grad = some_values({rows}, dtype, 2);
      std::vector<int64_t> labels(rows);
      for (int64_t i = 0; i < rows; ++i) labels[i] = i % 3 == 1 ? kIgnore : i * 7 % classes;
      const Tensor targets = from_vector(labels, {rows});
      const TensorOptions options{.dtype = dtype};
      const Tensor losses = empty({rows}, options), sums = empty({rows, 2}, options);
      const Tensor dx = full(shape, NAN, options);
      cpu().cross_entropy(x, targets, kIgnore, losses, sums);
      cpu().cross_entropy_grad(grad, x, targets, kIgnore, sums, dx);

      const auto logs = log_softmax(x), slopes = grad.to_vector<double>();
      std::vector<double> loss(rows), expected(x.numel());
      for (int64_t i = 0; i < rows; ++i) {
        if (labels[i] == kIgnore) continue;
        loss[i] = -logs[i * classes + labels[i]];
        for (int64_t j = 0; j < classes; ++j) {
          const double p = std::exp(logs[i * classes + j]) - (j == labels[i]);
          expected[i * classes + j] = p * slopes[i];
        }
      }
      CHECK(error_of(losses, loss) < 3 * tolerance(dtype));
      CHECK(error_of(dx, expected) < 3 * tolerance(dtype));
      check_threads([&] {
        cpu().cross_entropy_grad(grad, x, targets, kIgnore, sums, dx);
        return dense_copy(dx);
      });
    }
  }
}

TEST_CASE("large and infinite logits stay finite; a masked class has probability exactly 0") {
  for (const Dtype dtype : kFloating) {
    const Tensor x = empty({2, 3}, {.dtype = dtype}), y = empty_like(x), dx = empty_like(x);
    copy_elements(from_vector<double>({1e4, 1e4, -INFINITY, -1e4, 0, 1e4}, {2, 3}), x);
    cpu().log_softmax(x, y);
    CHECK(error_of(y, {-std::log(2.0), -std::log(2.0), -INFINITY, -2e4, -1e4, 0}) < 1e-6);
    cpu().log_softmax_grad(ones({2, 3}, {.dtype = dtype}), y, dx);
    CHECK(dx.to_vector<double>()[2] == 1);  // 1 - 0 * 3
    const Tensor losses = empty({2}, {.dtype = dtype}), sums = empty({2, 2}, {.dtype = dtype});
    const Tensor targets = from_vector<int64_t>({0, 0}, {2});
    cpu().cross_entropy(x, targets, kIgnore, losses, sums);
    CHECK(error_of(losses, {std::log(2.0), 2e4}) < 1e-6);
    cpu().cross_entropy_grad(ones({2}, {.dtype = dtype}), x, targets, kIgnore, sums, dx);
    CHECK(dx.to_vector<double>()[2] == 0);
  }
  const Tensor y = empty({1, 3});
  cpu().log_softmax(from_vector<float>({1, NAN, 2}, {1, 3}), y);
  for (const double value : y.to_vector<double>()) CHECK(std::isnan(value));
}

TEST_CASE("the known answer of three rows, one ignored") {
  const Tensor x = from_vector<double>({2, 1, 0, 0, 1, 2, 1, 1, 1}, {3, 3});
  const Tensor losses = empty({3}, {.dtype = Dtype::float64}),
               sums = empty({3, 2}, {.dtype = Dtype::float64});
  cpu().cross_entropy(x, from_vector<int64_t>({0, kIgnore, 2}, {3}), kIgnore, losses, sums);
  const auto loss = losses.to_vector<double>();
  CHECK((loss[0] + loss[2]) / 2 == doctest::Approx(0.7531091266).epsilon(1e-10));
}
