// Defines einsum(), sums of products written with a letter an axis.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"

namespace capstan {

/// einsum("bik,bkj->bij", {a, b}): the axes of each operand get letters; operands are multiplied
/// where letters are equal, and letters that the result does not name are summed. A letter twice in
/// one operand takes the diagonal, "..." stands for any further axes, which are broadcast, and
/// without "->" the result has the letters that occur once, in alphabetical order. Operands are
/// contracted from left to right. Throws ShapeError for sizes and ValueError for text that do not
/// fit, DtypeError (floating point, all equal), DeviceError.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands);

}  // namespace capstan
