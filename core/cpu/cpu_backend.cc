// The backends of the CPU, and the setting of Eigen that they need.
#include "core/cpu/cpu_backend.h"

#include <Eigen/Core>

#include "core/cpu/half_backend.h"

namespace capstan {

Backend& cpu_backend(Dtype dtype) {
  static CpuBackend backend;
  static HalfBackend half_backend;
  // Eigen cuts a product's sums to fit the first cache. One size for all machines, that of nearly
  // all of them, gives the same bits on all; the other caches change the order of work only.
  [[maybe_unused]] static const bool pinned = [] {
    Eigen::setCpuCacheSizes(32 << 10, Eigen::l2CacheSize(), Eigen::l3CacheSize());
    return true;
  }();
  return is_half(dtype) ? static_cast<Backend&>(half_backend) : backend;
}

}  // namespace capstan
