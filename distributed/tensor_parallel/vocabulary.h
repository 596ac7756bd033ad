// Defines the loss, and the best class, of logits whose classes are cut over ranks (Shoeybi et al.,
// "Megatron-LM", 2019, section 3).
//
// A language model's logits, tokens x vocabulary, are often its largest tensor, and joining them
// would send all of it. The cross-entropy needs three numbers a token from the other ranks:
//
//   m = max over all classes of x      one number a rank: its own maximum
//   s = sum over all classes of exp(x - m)
//   t = x - m of the target            0 on the ranks that have another part of the classes
//   loss = log(s) - t
//
// Backward sends nothing: a rank's part of softmax(x) is exp(x - m) / s, with its own x.
#pragma once

#include "autograd/softmax.h"
#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// cross_entropy() of logits whose last axis is this rank's slice (slice_of) of the classes: logits
/// [..., slice], targets int64 [...], equal on all ranks, as is the result. Throws ShapeError,
/// DtypeError and ValueError as cross_entropy() does.
Tensor vocabulary_cross_entropy(const Tensor& logits, const Tensor& targets, int64_t classes,
                                Communicator& ranks, LossReduction reduction = LossReduction::mean,
                                int64_t ignore = -100);

/// The class with the largest logit, the first of equals, int64 [...], equal on all ranks.
Tensor vocabulary_argmax(const Tensor& logits, int64_t classes, Communicator& ranks);

}  // namespace capstan::distributed
