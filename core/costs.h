// Defines CountCosts, which adds up what a program's operations on Device::meta() would cost on
// another device: floating-point operations, and bytes read and written.
//
// The rules, one a kernel, stand in core/meta/meta_backend.cc. They count what the kernel's formula
// needs, whatever an implementation makes of it:
//
//   CountCosts costs;
//   backward(cross_entropy(model(images), labels));  // a model and tensors on meta
//   std::cout << to_string(costs);                   // a row a kernel, and the total
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace capstan {

/// What one or more calls of kernels cost.
struct Cost {
  int64_t calls = 0;
  int64_t flops = 0;       // a multiply-add is two
  int64_t bytes_read = 0;  // of each input once, without the repeats of broadcasting
  int64_t bytes_written = 0;

  Cost& operator+=(const Cost& other);
  bool operator==(const Cost&) const = default;
};

/// Counts the kernels that run on meta on this thread while it lives. They nest: an outer one
/// counts what an inner one does. Views and results that are an input itself cost nothing.
class CountCosts {
 public:
  CountCosts();
  ~CountCosts();
  CountCosts(const CountCosts&) = delete;
  CountCosts& operator=(const CountCosts&) = delete;

  const Cost& total() const { return total_; }
  int64_t flops() const { return total_.flops; }
  int64_t bytes_read() const { return total_.bytes_read; }
  int64_t bytes_written() const { return total_.bytes_written; }
  /// By the kernel's name in core/backend.h.
  const std::map<std::string, Cost>& by_kernel() const { return by_kernel_; }

  /// For kernels: what one call costs.
  static void add(const char* kernel, const Cost& cost);

 private:
  Cost total_;
  std::map<std::string, Cost> by_kernel_;
  CountCosts* outer_;
};

/// A table: a row a kernel, and the total.
std::string to_string(const CountCosts& costs);

}  // namespace capstan
