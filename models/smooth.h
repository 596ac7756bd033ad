// Defines Smooth, a running average in which recent values count most.
#pragma once

#include <cstdint>

namespace capstan::models {

/// The exponential moving average over about `span` values. The first ones are averaged plainly, so
/// that it starts at the first value and not at zero.
class Smooth {
 public:
  explicit Smooth(int64_t span) : span_(span) {}

  /// Takes in a value and returns the average.
  double add(double value) {
    if (count_ < span_) ++count_;
    average_ += (value - average_) / static_cast<double>(count_);
    return average_;
  }
  double average() const { return average_; }

 private:
  int64_t span_;
  int64_t count_ = 0;
  double average_ = 0;
};

}  // namespace capstan::models
