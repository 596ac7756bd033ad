// Defines Region, which elements of a tensor one rank holds, and how two regions meet.
//
// Layouts cut tensors in two ways. Tensor parallelism cuts along an axis, which leaves a box.
// Sharding cuts a flat list of elements wherever a rank's share ends, in the middle of a row if
// need be, which leaves a range. Both at once leave a range of a box's elements, and that describes
// every layout there is:
//
//   the tensor, [4, 6]       a box of it: start [0, 2],     a range of the box: begin 3, end 9
//   . . . . . .              shape [4, 3]
//   . . . . . .              . . a a a .                    . . . . . .
//   . . . . . .              . . a a a .                    . . b b b .
//   . . . . . .              . . a a a .                    . . b b b .
//                            . . a a a .                    . . . . . .
//
// What one layout holds and another wants is where two regions overlap: overlap() lists it as runs
// of elements that lie one after another in both, so that copying is memcpy and reading is a read
// at an offset.
#pragma once

#include <string>
#include <vector>

#include "core/shape.h"

namespace capstan::distributed {

struct Region {
  Shape global;                // of the whole tensor
  Shape start, shape;          // a box in it
  int64_t begin = 0, end = 0;  // those of the box's elements, counted in row-major order

  static Region whole(const Shape& global);
  static Region box(const Shape& global, const Shape& start, const Shape& shape);
  /// What is left of the tensor where one axis is cut to `count` indices from `first` on.
  static Region slice(const Shape& global, int64_t axis, int64_t first, int64_t count);
  /// Elements [first, last) of this region's.
  Region range(int64_t first, int64_t last) const {
    return {global, start, shape, begin + first, begin + last};
  }

  int64_t count() const { return end - begin; }
  bool is_box() const { return begin == 0 && end == numel(shape); }
  bool is_whole() const { return is_box() && shape == global; }
  bool operator==(const Region&) const = default;
};

/// Indices along each axis, and the range if there is one: "[0:4, 2:5]", "[0:4, 2:5] 3:9".
std::string to_string(const Region& region);

/// Throws ShapeError, with `name` in the text, unless the box lies in the tensor and the range in
/// the box.
void check(const std::string& name, const Region& region);

/// Elements that lie one after another in two regions; places count from each region's first.
struct Run {
  int64_t from, to, count;
  bool operator==(const Run&) const = default;
};

/// The elements that both regions hold, in ascending order in both, in runs as long as they can be.
/// Throws ShapeError for regions of tensors of different shapes.
std::vector<Run> overlap(const Region& from, const Region& to);

/// Says in words why `regions` do not hold each element of a tensor once: what is missing, or which
/// two overlap. Empty if they do. Equal regions are copies, which count once.
std::string cover_fault(const Shape& global, std::vector<Region> regions);

}  // namespace capstan::distributed
