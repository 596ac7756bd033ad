#include "core/cpu/cpu_backend.h"

namespace capstan {

Backend& cpu_backend() {
  static CpuBackend backend;
  return backend;
}

}  // namespace capstan
