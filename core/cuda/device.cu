// The answers of core/cuda/device.h under --config=cuda, from the CUDA runtime.
//
// A missing driver is no error here: the program links to the runtime alone, starts anywhere, and
// learns from driver version 0 that there is none (CUDA Runtime API, "Version Management").
#include <cuda_runtime.h>

#include "core/cuda/device.h"

namespace capstan {
namespace {

/// "13.0" for CUDA's 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version;
}

/// The version of CUDA that the driver supports; 0 where no driver is installed.
int driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return version;
}

}  // namespace

int cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string cuda_description() {
  const std::string runtime = "CUDA runtime " + version_text(runtime_version());
  const int driver = driver_version();
  if (driver == 0) return runtime + ", no devices: no NVIDIA driver is installed";

  const std::string both = runtime + ", driver for " + version_text(driver);
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return both + ", no devices: " + cudaGetErrorString(error);
  }
  std::string text = both;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    text += "; cuda:" + std::to_string(i) + " " + properties.name + ", " +
            std::to_string(properties.totalGlobalMem >> 30) + " GiB, sm_" +
            std::to_string(properties.major) + std::to_string(properties.minor);
  }
  return text;
}

}  // namespace capstan
