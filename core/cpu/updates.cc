// Optimizer steps, one pass over the parameter's elements each.
#include <cmath>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/loop.h"

namespace capstan {

// PyTorch's form of momentum (Sutskever et al., "On the importance of initialization and momentum
// in deep learning", 2013, with the rate outside the buffer):
//   g = grad + weight_decay p;  b = momentum b + g (b starts as 0);  p -= rate * b
// and with Nesterov's: p -= rate * (g + momentum b).
void CpuBackend::sgd(const SgdStep& s, const Tensor& parameter, const Tensor& grad,
                     const Tensor* momentum) {
  visit_floating(parameter.dtype(), "sgd", [&]<class T>() {
    T* const p = parameter.mutable_data<T>();
    const T* const g = grad.data<T>();
    T* const b = momentum ? momentum->mutable_data<T>() : nullptr;
    const T rate(s.rate), decay(s.weight_decay), keep(s.momentum);
    parallel_for(parameter.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
      const auto with_momentum = [&](auto direction) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) {
          const T slope = g[i] + decay * p[i];
          b[i] = keep * b[i] + slope;
          p[i] -= rate * direction(b[i], slope);
        }
      };
      if (!b) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) p[i] -= rate * (g[i] + decay * p[i]);
      } else if (s.nesterov) {
        with_momentum([keep](T momentum, T slope) { return slope + keep * momentum; });
      } else {
        with_momentum([](T momentum, T) { return momentum; });
      }
    });
  });
}

// Loshchilov, Hutter: "Decoupled weight decay regularization", 2019, algorithm 2 (AdamW).
void CpuBackend::adam(const AdamStep& s, const Tensor& parameter, const Tensor& grad,
                      const Tensor& first_moment, const Tensor& second_moment) {
  const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(s.step));
  const double correction2 = 1 - std::pow(s.beta2, static_cast<double>(s.step));
  visit_floating(parameter.dtype(), "adam", [&]<class T>() {
    T* const p = parameter.mutable_data<T>();
    const T* const g = grad.data<T>();
    T* const m = first_moment.mutable_data<T>();
    T* const v = second_moment.mutable_data<T>();
    const T beta1(s.beta1), beta2(s.beta2), rest1(1 - s.beta1), rest2(1 - s.beta2);
    const T keep(1 - s.rate * s.weight_decay), rate(s.rate / correction1);
    const T scale(1 / std::sqrt(correction2)), epsilon(s.epsilon);
    parallel_for(parameter.numel(), cpu::kGrain, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) {
        m[i] = beta1 * m[i] + rest1 * g[i];
        v[i] = beta2 * v[i] + rest2 * (g[i] * g[i]);
        p[i] = keep * p[i] - rate * (m[i] / (std::sqrt(v[i]) * scale + epsilon));
      }
    });
  });
}

}  // namespace capstan
