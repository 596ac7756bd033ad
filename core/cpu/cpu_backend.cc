// The one CpuBackend, and the setting of Eigen that it needs.
#include "core/cpu/cpu_backend.h"

#include <Eigen/Core>

namespace capstan {

Backend& cpu_backend() {
  static CpuBackend backend;
  // Eigen cuts a product's sums to fit the first cache. One size for all machines, that of nearly
  // all of them, gives the same bits on all; the other caches change the order of work only.
  [[maybe_unused]] static const bool pinned = [] {
    Eigen::setCpuCacheSizes(32 << 10, Eigen::l2CacheSize(), Eigen::l3CacheSize());
    return true;
  }();
  return backend;
}

}  // namespace capstan
