#include "core/backend.h"

#include "core/cpu/cpu_backend.h"
#include "core/cuda/device.h"
#include "core/meta/meta_backend.h"
#include "core/raise.h"

namespace capstan {

Backend& backend(Device device, Dtype dtype) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return cpu_backend(dtype);
    case Device::Kind::meta:
      return meta_backend();
    case Device::Kind::cuda:
      break;
  }
  raise<DeviceError>("[device] {} cannot be used: {}", device, cuda_description());
}

}  // namespace capstan
