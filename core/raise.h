// Defines raise(): throws a typed error with a formatted message. For .cc files only, so that no
// public header pulls in the formatting library.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/device.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/shape.h"

namespace capstan::detail {
/// Formats a T as its to_string(), for "{}".
template <class T>
struct TextFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(const T& value, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{}", to_string(value));
  }
};
}  // namespace capstan::detail

template <>
struct fmt::formatter<capstan::Dims> : capstan::detail::TextFormatter<capstan::Dims> {};
template <>
struct fmt::formatter<capstan::Dtype> : capstan::detail::TextFormatter<capstan::Dtype> {};
template <>
struct fmt::formatter<capstan::Device> : capstan::detail::TextFormatter<capstan::Device> {};

namespace capstan {

/// raise<ShapeError>("[matmul] inner sizes must agree, got {} and {}", a.shape(), b.shape());
template <class E, class... Args>
[[noreturn]] void raise(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace capstan
