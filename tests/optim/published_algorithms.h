// Defines the optimizers that PyTorch 1.13 does not have, as their papers write them: element by
// element, in float64, and slow. What is kept between steps are named vectors of numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/shape.h"

namespace capstan::testing {

using Numbers = std::vector<double>;
using Memory = std::map<std::string, Numbers>;
/// Changes p, of `shape`, by the gradient g, in step number t (from 1).
using Algorithm = std::function<void(Numbers& p, const Numbers& g, const Shape& shape, double rate,
                                     int t, Memory& memory)>;

inline double norm(const Numbers& x) {
  double squares = 0;
  for (const double each : x) squares += each * each;
  return std::sqrt(squares);
}
inline double root_mean_square(const Numbers& x) {
  return norm(x) / std::sqrt(static_cast<double>(x.size()));
}

/// You et al., 2020, algorithm 2.
inline Algorithm lamb(double beta1, double beta2, double epsilon, double decay, bool adapt) {
  return [=](Numbers& p, const Numbers& g, const Shape&, double rate, int t, Memory& memory) {
    Numbers &m = memory["m"], &v = memory["v"], u = p;
    m.resize(p.size()), v.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(beta1, t)), v_hat = v[i] / (1 - std::pow(beta2, t));
      u[i] = m_hat / (std::sqrt(v_hat) + epsilon) + decay * p[i];
    }
    const double trust = adapt ? norm(p) / norm(u) : 1;
    for (size_t i = 0; i < p.size(); ++i) p[i] -= rate * trust * u[i];
  };
}

/// You, Gitman, Ginsburg, 2017, algorithm 1.
inline Algorithm lars(double momentum, double decay, double coefficient, bool adapt) {
  return [=](Numbers& p, const Numbers& g, const Shape&, double rate, int, Memory& memory) {
    Numbers& v = memory["v"];
    v.resize(p.size());
    const double local = adapt ? coefficient * norm(p) / (norm(g) + decay * norm(p)) : 1;
    for (size_t i = 0; i < p.size(); ++i) {
      v[i] = momentum * v[i] + rate * local * (g[i] + decay * p[i]);
      p[i] -= v[i];
    }
  };
}

/// Chen et al., 2023, algorithm 2.
inline Algorithm lion(double beta1, double beta2, double decay) {
  return [=](Numbers& p, const Numbers& g, const Shape&, double rate, int, Memory& memory) {
    Numbers& m = memory["m"];
    m.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      const double c = beta1 * m[i] + (1 - beta1) * g[i];
      p[i] -= rate * ((c > 0 ? 1 : c < 0 ? -1 : 0) + decay * p[i]);
      m[i] = beta2 * m[i] + (1 - beta2) * g[i];
    }
  };
}

/// Shazeer, Stern, 2018, algorithms 4 and 5. Only the last two axes are factored.
inline Algorithm adafactor(double decay_power, double epsilon1, double epsilon2, double threshold,
                           double weight_decay) {
  return [=](Numbers& p, const Numbers& g, const Shape& shape, double rate, int t, Memory& memory) {
    const double beta = 1 - std::pow(t, -decay_power);
    Numbers u = g;
    if (shape.rank() < 2) {
      Numbers& v = memory["v"];
      v.resize(p.size());
      for (size_t i = 0; i < p.size(); ++i) {
        v[i] = beta * v[i] + (1 - beta) * (g[i] * g[i] + epsilon1);
        u[i] = g[i] / std::sqrt(v[i]);
      }
    } else {
      const size_t n = shape[shape.rank() - 2], m = shape[shape.rank() - 1];
      for (size_t matrix = 0; matrix < p.size() / (n * m); ++matrix) {
        Numbers &r = memory["r" + std::to_string(matrix)],
                &c = memory["c" + std::to_string(matrix)];
        r.resize(n), c.resize(m);
        Numbers row_mean(n), column_mean(m);
        for (size_t i = 0; i < n; ++i) {
          for (size_t j = 0; j < m; ++j) {
            const double x = g[(matrix * n + i) * m + j];
            row_mean[i] += (x * x + epsilon1) / static_cast<double>(m);
            column_mean[j] += (x * x + epsilon1) / static_cast<double>(n);
          }
        }
        double mean = 0;
        for (size_t i = 0; i < n; ++i) {
          r[i] = beta * r[i] + (1 - beta) * row_mean[i];
          mean += r[i] / static_cast<double>(n);
        }
        for (size_t j = 0; j < m; ++j) c[j] = beta * c[j] + (1 - beta) * column_mean[j];
        for (size_t i = 0; i < n; ++i) {
          for (size_t j = 0; j < m; ++j) {
            u[(matrix * n + i) * m + j] /= std::sqrt(r[i] * c[j] / mean);
          }
        }
      }
    }
    const double scale = std::max(epsilon2, root_mean_square(p));
    const double clip = std::max(1.0, root_mean_square(u) / threshold);
    for (size_t i = 0; i < p.size(); ++i) {
      p[i] -= rate * scale * u[i] / clip + rate * weight_decay * p[i];
    }
  };
}

/// Jordan et al., 2024; the matrix has the first axis as rows.
inline Algorithm muon(double momentum, double weight_decay, bool nesterov) {
  return [=](Numbers& p, const Numbers& g, const Shape& shape, double rate, int, Memory& memory) {
    const size_t n = shape[0], m = p.size() / n;
    Numbers &b = memory["b"], x = p;
    b.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      b[i] = momentum * b[i] + g[i];
      x[i] = nesterov ? g[i] + momentum * b[i] : b[i];
    }
    const double length = norm(x) + 1e-7;
    for (double& each : x) each /= length;
    // a [rows, inner] times b [inner, columns]
    const auto product = [](const Numbers& a, const Numbers& b, size_t rows, size_t inner,
                            size_t columns) {
      Numbers c(rows * columns);
      for (size_t i = 0; i < rows; ++i) {
        for (size_t k = 0; k < inner; ++k) {
          for (size_t j = 0; j < columns; ++j) {
            c[i * columns + j] += a[i * inner + k] * b[k * columns + j];
          }
        }
      }
      return c;
    };
    for (int iteration = 0; iteration < 5; ++iteration) {
      Numbers turned(x.size());
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < m; ++j) turned[j * n + i] = x[i * m + j];
      }
      const Numbers s = product(x, turned, n, m, n), ss = product(s, s, n, n, n);
      Numbers polynomial(n * n);
      for (size_t i = 0; i < n * n; ++i) polynomial[i] = -4.7750 * s[i] + 2.0315 * ss[i];
      const Numbers rest = product(polynomial, x, n, n, m);
      for (size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + rest[i];
    }
    const double scale = std::sqrt(std::max(1.0, static_cast<double>(n) / static_cast<double>(m)));
    for (size_t i = 0; i < p.size(); ++i) {
      p[i] -= rate * (scale * x[i] + weight_decay * p[i]);
    }
  };
}

}  // namespace capstan::testing
