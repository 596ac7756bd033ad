// The answers of core/cuda/device.h in a build without --config=cuda.
#include "core/cuda/device.h"

namespace capstan {

int cuda_device_count() { return 0; }

std::string cuda_description() {
  return "no CUDA: this program was built without it; build with --config=cuda";
}

}  // namespace capstan
