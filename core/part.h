// Defines Part: which elements of a larger tensor, one that is spread over ranks, a tensor has.
//
// Whoever draws random numbers for a part draws what one rank would have drawn for these elements
// of the whole: number i of a stream belongs to element i of the whole tensor, wherever it lies.
#pragma once

#include <vector>

#include "core/layout.h"

namespace capstan {

/// Along one axis, which is cut into `of` equal blocks, a tensor has some, one after another:
/// `first`, first + step and so on.
struct AxisPart {
  int64_t axis;  // as normalize_axis() takes it
  int64_t first, of;
  int64_t blocks = 1, step = 1;

  bool operator==(const AxisPart&) const = default;
};
using AxisParts = std::vector<AxisPart>;

struct Part {
  /// Element i of the part, in row-major order, is element i of this layout of the dense whole. An
  /// axis with several blocks is two axes here.
  Layout layout;
  int64_t whole;  // how many elements the whole has
};

/// Of a tensor of `shape` that is cut along some axes; without any it is the whole. Throws
/// ShapeError for an axis that is not there, or whose size the blocks do not divide; ValueError for
/// an axis that is named twice, and for blocks that are not among the `of`.
Part part_of(const Shape& shape, const AxisParts& parts);

}  // namespace capstan
