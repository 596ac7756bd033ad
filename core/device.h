// Defines Device: where a tensor's bytes live.
//
// Every "cpu:i" is host memory; several of them let multi-device logic run on one laptop. "meta"
// holds shapes and no bytes. "cuda:i" needs a build with --config=cuda.
#pragma once

#include <string>
#include <string_view>

namespace capstan {

struct Device {
  enum class Kind : unsigned char { cpu, cuda, meta };

  Kind kind = Kind::cpu;
  int index = 0;

  static Device cpu(int index = 0) { return {Kind::cpu, index}; }
  static Device cuda(int index = 0) { return {Kind::cuda, index}; }
  static Device meta() { return {Kind::meta, 0}; }

  /// Reads "cpu", "cpu:1", "cuda:0" or "meta". Throws DeviceError for anything else.
  static Device parse(std::string_view text);

  friend bool operator==(const Device&, const Device&) = default;
};

/// Throws DeviceError unless `operation` finds its tensors on one device.
void check_same_device(const char* operation, Device a, Device b);

/// "cpu:0", "cuda:1", "meta".
std::string to_string(Device device);

}  // namespace capstan
