#include "core/device.h"

#include <charconv>

#include "core/raise.h"

namespace capstan {

Device Device::parse(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  int index = 0;
  bool valid = true;
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    valid = error == std::errc() && end == digits.data() + digits.size() && index >= 0;
  }
  if (valid && kind == "cpu") return cpu(index);
  if (valid && kind == "cuda") return cuda(index);
  if (text == "meta") return meta();
  raise<DeviceError>("[device] expected cpu, cpu:N, cuda:N or meta, got '{}'", text);
}

void check_same_device(const char* operation, Device a, Device b) {
  if (a == b) return;
  raise<DeviceError>("[{}] tensors must be on one device, got {} and {}", operation, a, b);
}

std::string to_string(Device device) {
  if (device.kind == Device::Kind::meta) return "meta";
  return fmt::format("{}:{}", device.kind == Device::Kind::cpu ? "cpu" : "cuda", device.index);
}

}  // namespace capstan
