// Optimizer steps against their formulas in float64.
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

const Shape kShape = {3, 50, 331};  // more than one block, and not a multiple of a vector

}  // namespace

TEST_CASE("three SGD steps match float64 for every variant") {
  for (const Dtype dtype : kFloating) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool nesterov : {false, true}) {
        for (const double decay : {0.0, 0.1}) {
          const auto steps = [&](std::vector<double>* p, std::vector<double>* b) {
            const Tensor parameter = some_values(kShape, dtype, 1);
            const Tensor buffer = zeros(kShape, {.dtype = dtype});
            if (p) *p = parameter.to_vector<double>();
            for (uint32_t i = 0; i < 3; ++i) {
              const Tensor grad = some_values(kShape, dtype, 10 + i);
              const SgdStep step{0.1, momentum, decay, nesterov};
              cpu().sgd(step, parameter, grad, momentum > 0 ? &buffer : nullptr);
              if (!p) continue;
              const auto g = grad.to_vector<double>();
              for (size_t k = 0; k < g.size(); ++k) {
                double slope = g[k] + decay * (*p)[k];
                if (momentum > 0) {
                  (*b)[k] = momentum * (*b)[k] + slope;
                  slope = nesterov ? slope + momentum * (*b)[k] : (*b)[k];
                }
                (*p)[k] -= 0.1 * slope;
              }
            }
            return parameter;
          };
          std::vector<double> p, b(numel(kShape));
          CHECK(error_of(steps(&p, &b), p) < 5 * tolerance(dtype));
          check_threads([&] { return steps(nullptr, nullptr); });
        }
      }
    }
  }
}

TEST_CASE("three AdamW steps match float64") {
  for (const Dtype dtype : kFloating) {
    const auto steps = [&](std::vector<double>* p) {
      const Tensor parameter = some_values(kShape, dtype, 1);
      const Tensor first = zeros(kShape, {.dtype = dtype}),
                   second = zeros(kShape, {.dtype = dtype});
      std::vector<double> m(numel(kShape)), v(numel(kShape));
      if (p) *p = parameter.to_vector<double>();
      for (int step = 1; step <= 3; ++step) {
        const Tensor grad = some_values(kShape, dtype, 10 + step);
        cpu().adam({0.01, 0.9, 0.99, 1e-8, 0.1, step}, parameter, grad, first, second);
        if (!p) continue;
        const auto g = grad.to_vector<double>();
        for (size_t k = 0; k < g.size(); ++k) {
          m[k] = 0.9 * m[k] + 0.1 * g[k];
          v[k] = 0.99 * v[k] + 0.01 * g[k] * g[k];
          const double m_hat = m[k] / (1 - std::pow(0.9, step));
          const double v_hat = v[k] / (1 - std::pow(0.99, step));
          (*p)[k] -= 0.01 * (0.1 * (*p)[k] + m_hat / (std::sqrt(v_hat) + 1e-8));
        }
      }
      return parameter;
    };
    std::vector<double> p;
    CHECK(error_of(steps(&p), p) < 5 * tolerance(dtype));
    check_threads([&] { return steps(nullptr); });
  }
}

TEST_CASE("the known answer of AdamW on one number") {
  const Tensor p = ones({1}, {.dtype = Dtype::float64});
  const Tensor m = zeros({1}, {.dtype = Dtype::float64}), v = zeros({1}, {.dtype = Dtype::float64});
  const double grads[] = {0.1, -0.2, 0.3}, expected[] = {0.9989900001, 0.9993461137, 0.9989928792};
  for (int i = 0; i < 3; ++i) {
    const Tensor grad = full({1}, grads[i], {.dtype = Dtype::float64});
    cpu().adam({1e-3, 0.9, 0.999, 1e-8, 1e-2, i + 1}, p, grad, m, v);
    CHECK(std::abs(p.item<double>() - expected[i]) < 5e-11);
  }
}

TEST_CASE("steps of empty parameters") {
  const Tensor none = empty({0, 3});
  cpu().sgd({0.1, 0.9, 0, false}, none, none, &none);
  cpu().adam({0.1, 0.9, 0.99, 1e-8, 0, 1}, none, none, none, none);
}
