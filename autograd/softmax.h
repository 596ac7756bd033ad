// Defines the differentiable softmax family and the losses over classes.
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
/// [0, classes) or `ignore`, whose samples count nothing; or logits [n, classes, ...] and targets
/// [n, ...], as of an image's pixels. Targets of the logits' shape and dtype are distributions over
/// the classes, as mixup() makes them: the loss is -sum(target * log softmax(logits)), and the mean
/// is over all samples. Throws ShapeError, DtypeError, DeviceError, and ValueError naming the first
/// target out of range.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     LossReduction reduction = LossReduction::mean, int64_t ignore = -100);

/// What a loss over classes may take into account.
struct ClassLossOptions {
  LossReduction reduction = LossReduction::mean;  // of weighted losses: over the sum of weights
  int64_t ignore = -100;
  double label_smoothing = 0;  // a target gets 1 - smoothing, and every class smoothing / classes
  Tensor weights = {};         // [classes], of the logits' dtype; undefined: 1
};

/// cross_entropy() with these options (label smoothing: Szegedy et al., "Rethinking the Inception
/// architecture", CVPR 2016, section 7). Throws ValueError for a smoothing outside [0, 1].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options);
/// -log_p[target] a sample, for log_p [n, classes] or [n, classes, ...], the result of
/// log_softmax(). There is no label smoothing: ValueError.
Tensor nll_loss(const Tensor& log_p, const Tensor& targets, const ClassLossOptions& options = {});

}  // namespace capstan
