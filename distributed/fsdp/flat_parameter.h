// Defines FlatParameter: some parameters of a unit in one piece of memory, of which each rank owns
// a part, its shard.
//
//   weight [3, 4], bias [3], on 2 ranks, with lines of 4 elements, to keep the picture small:
//
//   whole   w w w w | w w w w | w w w w | b b b . | . . . . | . . . .       . stands for padding
//           |---- shard of rank 0 ------| |---- shard of rank 1 -----|
//
// Every parameter begins on a cache line, and so does every shard; all shards are of one length. So
// a parameter may be on one rank, on several, or be cut in the middle of a row; nothing depends on
// where. The padding is less than a line for each parameter, and than a line for each rank.
//
// The model's parameters are views of `whole`, whose memory can be given back (Storage::release)
// while the handles stay: after a gather they read what was there before, and the tape sees no
// change. The shard has memory of its own, or is its place in `whole` where that always stays.
//
// Between forward and backward a rank may keep a larger part than its shard: `whole` cut among
// fewer ranks. The next gather is theirs alone.
#pragma once

#include "core/recipe.h"
#include "core/tensor.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

class FlatParameter {
 public:
  /// `parameters`, at least one, are of one dtype on one device; they keep their numbers. With
  /// `stays` and a shard on the same device, `whole` always has memory. Given a recipe, the numbers
  /// of `parameters`, which are on meta, are made one after the other, on `device`.
  FlatParameter(std::string tag, NamedTensors parameters, Communicator& ranks, bool stays,
                Device shard_device, const Recipe* recipe, Device device);

  const std::string& tag() const { return tag_; }
  const NamedTensors& parameters() const { return parameters_; }
  const Tensor& whole() const { return whole_; }
  const Tensor& shard() const { return shard_; }
  /// Where elements of a parameter are: [first, last) of its elements in this rank's shard, at
  /// `offset` of it; none: first = last = offset = 0.
  struct Range {
    int64_t first = 0, last = 0, offset = 0;
    int64_t count() const { return last - first; }
  };
  Range range(size_t parameter) const { return ranges_[parameter]; }

  /// True if `whole` has memory, its numbers there or on their way.
  bool is_gathered() const { return whole_.storage().data() || whole_.numel() == 0; }
  /// Starts to fetch the other ranks' shards into `whole`. A collective of `ranks`; where a part
  /// was kept, of those among whom it was.
  Work gather(Communicator& ranks);
  /// Tells that the next gather brings other numbers, so that the tape sees a change.
  void shard_changed() {
    changed_ = true;
    forget_kept();
  }
  /// Copies this rank's part of `whole`, which is there, cut evenly among the ranks of `near`.
  void keep(Communicator& near);
  bool is_kept() const { return near_; }
  void forget_kept();
  /// Gives the memory of `whole` back, once it has arrived.
  void release();
  /// Takes over what was written into this rank's part of `whole`.
  void adopt();

 private:
  Tensor own_place() const;

  std::string tag_;
  NamedTensors parameters_;
  Tensor whole_;  // [ranks * length]
  Tensor shard_;  // [length]
  Tensor kept_;   // [ranks / near * length], from keep() on
  Communicator* near_ = nullptr;
  std::vector<Range> ranges_;
  int rank_ = 0;
  bool shard_is_view_ = false;
  bool changed_ = false;  // since the last gather
};

/// A tensor over the elements of `flat` that are `range`, of as many axes as `shape` has, all of
/// size 1 but the last: what goes by a parameter's number of axes (weight decay, say) still can.
Tensor part_of(const Tensor& flat, const FlatParameter::Range& range, const Shape& shape);

}  // namespace capstan::distributed
