#include "core/costs.h"

#include <fmt/format.h>

#include <utility>

namespace capstan {

namespace {
thread_local CountCosts* counting = nullptr;  // the innermost one
}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  calls += other.calls;
  flops += other.flops;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  return *this;
}

CountCosts::CountCosts() : outer_(std::exchange(counting, this)) {}
CountCosts::~CountCosts() { counting = outer_; }

void CountCosts::add(const char* kernel, const Cost& cost) {
  for (CountCosts* costs = counting; costs; costs = costs->outer_) {
    costs->total_ += cost;
    costs->by_kernel_[kernel] += cost;
  }
}

std::string to_string(const CountCosts& costs) {
  constexpr const char* kRow = "{:<20}{:>12}{:>20}{:>20}{:>20}\n";
  std::string table = fmt::format(kRow, "kernel", "calls", "FLOPs", "bytes read", "bytes written");
  const auto row = [&](const std::string& name, const Cost& cost) {
    table += fmt::format(kRow, name, cost.calls, cost.flops, cost.bytes_read, cost.bytes_written);
  };
  for (const auto& [kernel, cost] : costs.by_kernel()) row(kernel, cost);
  row("total", costs.total());
  return table;
}

}  // namespace capstan
