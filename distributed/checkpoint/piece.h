// Defines Piece, what one rank holds of one tensor of the whole model.
//
// Strategies cut models differently, and name none of the parts: a piece has the model's own name
// for the whole tensor, and says which region of it the rank holds. All that goes beyond a rank
// (saving, loading on another layout, hashing, consolidating) works on lists of pieces and needs to
// know no strategy:
//
//   Ddp                whole(name, tensor)                                    the same on each rank
//   Fsdp               {name, Region::whole(shape).range(first, last), flat}
//   tensor parallel    {name, Region::slice(shape, axis, first, count), part}
//   both               {name, Region::slice(...).range(first, last), flat}
//   pipeline           those of a stage's tensors
//
// Equal regions on several ranks are copies of one: one rank's is taken. An optimizer's state has
// names "<parameter>.<quantity>", and each quantity is cut as its parameter is.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"
#include "distributed/checkpoint/region.h"

namespace capstan::distributed {

struct Piece {
  std::string name;  // of the whole tensor
  Region region;
  Tensor values;  // region.count() elements in row-major order, of any shape
};

using Pieces = std::vector<Piece>;

/// All of a tensor.
Piece whole(std::string name, Tensor values);
/// All of each: a model's state_dict(), an optimizer's state() where every rank has everything.
Pieces whole(const NamedTensors& tensors);

/// What each rank has of its own, as one tensor with an axis for the ranks in front: this is the
/// part of `rank` of [ranks, ...].
Piece of_rank(std::string name, Tensor values, int rank, int ranks);

/// Throws ShapeError, naming the piece, for a region as check(name, region) does and for another
/// number of values; DeviceError for values that are not on a CPU; ValueError for an empty name or
/// handle.
void check(const Piece& piece);

/// Copies what both pieces hold, and returns how many elements that is. Throws ShapeError as
/// overlap() does, DtypeError for different dtypes.
int64_t copy_overlap(const Piece& from, const Piece& to);

}  // namespace capstan::distributed
