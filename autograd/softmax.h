// Defines the differentiable softmax family.
#pragma once

#include "core/tensor.h"

namespace capstan {

/// exp(x) / sum(exp(x)) along an axis, and its logarithm, without overflow. Floating point only.
Tensor softmax(const Tensor& x, int64_t axis = -1);
Tensor log_softmax(const Tensor& x, int64_t axis = -1);

/// How the losses of samples become one.
enum class LossReduction {
  none,  // one loss a sample
  sum,
  mean,  // over the samples that are not ignored; 0 if there are none, so that an empty batch adds
         // nothing
};

/// -log softmax(logits)[target] a sample. logits [n, classes], targets int64 [n] with values in
/// [0, classes) or `ignore`, whose samples count nothing. Throws ShapeError, DtypeError,
/// DeviceError, and ValueError naming the first target out of range.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     LossReduction reduction = LossReduction::mean, int64_t ignore = -100);

}  // namespace capstan
