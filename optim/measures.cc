#include "optim/measures.h"

#include <cmath>
#include <mutex>

#include "autograd/reduce.h"
#include "core/backend.h"
#include "core/dtype.h"
#include "core/raise.h"
#include "core/threads.h"

namespace capstan::optim {

double two_norm(const Tensor& tensor) { return std::sqrt(backend(tensor).sum_of_squares(tensor)); }

void add_squares(const Tensor& tensor, ExactSum& sum) {
  if (tensor.device().kind != Device::Kind::cpu) {
    raise<DeviceError>("[add_squares] takes a tensor on a CPU, got one on {}", tensor.device());
  }
  constexpr int64_t kBlock = 1 << 15, kSums = 4;  // several, as additions wait for the one before
  std::mutex mutex;
  visit_dtype(tensor.dtype(), [&]<class T>() {
    if constexpr (!std::is_floating_point_v<compute_type<T>>) {
      wrong_dtype("add_squares", "floating point", tensor.dtype());
    } else {
      const T* const x = tensor.data<T>();
      parallel_for(tensor.numel(), kBlock, [&](int64_t begin, int64_t end) {
        ExactSum parts[kSums];
        for (int64_t i = begin; i < end; ++i) {
          const auto value = static_cast<double>(static_cast<compute_type<T>>(x[i]));
          parts[i % kSums].add(value * value);
        }
        const std::lock_guard lock(mutex);
        for (const ExactSum& part : parts) sum.add(part);
      });
    }
  });
}

bool all_finite(const Tensor& tensor) {
  if (std::isfinite(two_norm(tensor))) return true;
  // Squares of float64 may overflow where the elements do not. NaN goes through both.
  return std::isfinite(max(tensor).item<double>()) && std::isfinite(min(tensor).item<double>());
}

}  // namespace capstan::optim
