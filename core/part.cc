#include "core/part.h"

#include "core/raise.h"

namespace capstan {

Part part_of(const Shape& shape, const AxisParts& parts) {
  const AxisPart* of_axis[kMaxRank] = {};
  Shape whole = shape;
  for (const AxisPart& part : parts) {
    const int axis = normalize_axis("part_of", part.axis, shape.rank());
    if (of_axis[axis]) raise<ValueError>("[part_of] two parts are of axis {} of {}", axis, shape);
    if (part.blocks < 1 || part.step < 1 || part.first < 0 ||
        part.first + (part.blocks - 1) * part.step >= part.of) {
      raise<ValueError>(
          "[part_of] there are {} blocks, got {} of them, the first {}, in steps of {}", part.of,
          part.blocks, part.first, part.step);
    }
    if (shape[axis] % part.blocks != 0) {
      raise<ShapeError>("[part_of] axis {} must be {} equal blocks, got {}", axis, part.blocks,
                        shape);
    }
    of_axis[axis] = &part;
    whole[axis] = shape[axis] / part.blocks * part.of;
  }
  const Strides strides = dense_strides(whole);
  Part result{.layout = {}, .whole = numel(whole)};
  Layout& layout = result.layout;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const AxisPart part = of_axis[axis] ? *of_axis[axis] : AxisPart{axis, 0, 1};
    const int64_t size = shape[axis] / part.blocks;  // of a block
    layout.offset += part.first * size * strides[axis];
    if (part.blocks > 1) {
      layout.shape.push_back(part.blocks);
      layout.strides.push_back(part.step * size * strides[axis]);
    }
    layout.shape.push_back(size);
    layout.strides.push_back(strides[axis]);
  }
  return result;
}

}  // namespace capstan
