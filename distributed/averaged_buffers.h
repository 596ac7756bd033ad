// Defines AveragedBuffers, which does for buffers of BufferPolicy::averaged what a Reducer does for
// gradients.
//
// A running mean, say, is each rank's own estimate of the same quantity, from its part of the
// samples. Averaging them, by the weight of those samples, at the end of each window keeps them
// equal: an evaluation or a checkpoint then needs no extra step that could be forgotten, and never
// catches the ranks with different models. (Copying rank 0's over the others in forward, as is done
// elsewhere, throws away what they saw, and changes tensors that the tape may have saved.) Buffers
// of the other policies need nothing here: replicated ones have rank 0's numbers from the start,
// local ones are each rank's own.
#pragma once

#include "distributed/comm/communicator.h"
#include "distributed/name_patterns.h"
#include "nn/module.h"

namespace capstan::distributed {

class AveragedBuffers {
 public:
  /// The buffers of `model` with that policy, but for the `excluded`. Throws DtypeError for one
  /// that is not of floating point numbers, naming it.
  explicit AveragedBuffers(nn::Module& model, const NamePatterns& excluded = {});

  /// Sets each to the sum over the ranks of share * buffer, taken in float64; the shares add up to
  /// 1. A collective, if there are any.
  void average(double share, Communicator& communicator) const;

 private:
  NamedTensors buffers_;
  int64_t elements_ = 0;
};

}  // namespace capstan::distributed
