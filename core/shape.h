// Defines Dims, a short list of integers held in place, and its two uses: Shape and Strides.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace capstan {

/// The most axes a tensor may have.
inline constexpr int kMaxRank = 8;

/// A list of at most kMaxRank integers, without an allocation: tensors are made too often for one.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(values.begin(), values.end()) {}
  explicit Dims(std::span<const int64_t> values)
      : Dims(values.data(), values.data() + values.size()) {}

  /// `rank` times `value`.
  static Dims filled(int rank, int64_t value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t operator[](int axis) const { return values_[axis]; }
  int64_t& operator[](int axis) { return values_[axis]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + rank_; }
  int64_t* begin() { return values_; }
  int64_t* end() { return values_ + rank_; }
  int64_t back() const { return values_[rank_ - 1]; }

  /// Appends one value. Throws ShapeError beyond kMaxRank.
  void push_back(int64_t value);
  /// Inserts before `axis`, or removes at `axis`.
  void insert(int axis, int64_t value);
  void erase(int axis);

  friend bool operator==(const Dims& a, const Dims& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  Dims(const int64_t* first, const int64_t* last);

  int rank_ = 0;
  int64_t values_[kMaxRank] = {};  // copied whole, which is faster than a loop over rank_
};

/// Sizes of a tensor's axes; a scalar has none.
using Shape = Dims;
/// Elements to step over for the next index along each axis; 0 repeats, negative walks backwards.
using Strides = Dims;

/// The product of the sizes: 1 for a scalar. Throws ShapeError if 63 bits cannot hold it, zeros
/// left out: the strides of an empty tensor have to fit too.
int64_t numel(const Shape& shape);

/// Strides of a dense row-major tensor.
Strides dense_strides(const Shape& shape);

/// The shape that `a` and `b` broadcast to: axes are aligned at the right, and each pair must be
/// equal or contain a 1. Throws ShapeError naming `operation`.
Shape broadcast(const char* operation, const Shape& a, const Shape& b);

/// `axis` counted from the front; negative counts from the back. Throws ShapeError out of range.
int normalize_axis(const char* operation, int64_t axis, int rank);

/// A set of axes: axis a is in it if bit a is.
class AxisSet {
 public:
  /// Axes as normalize_axis() takes them. Throws ShapeError out of range or for one named twice.
  AxisSet(const char* operation, const Dims& axes, int rank);
  bool operator[](int axis) const { return bits_ >> axis & 1; }

 private:
  unsigned bits_ = 0;
};

/// "[2, 3]"; "[]" for a scalar.
std::string to_string(const Dims& dims);

}  // namespace capstan
