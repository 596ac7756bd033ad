// Defines the differentiable losses that compare two tensors of equal shape; those over classes are
// in softmax.h.
//
// Both tensors are floating point, of one dtype and device, or else DtypeError, ShapeError or
// DeviceError is thrown. LossReduction::none gives a loss an element unless said otherwise; the
// mean of none is 0.
#pragma once

#include "autograd/softmax.h"

namespace capstan {

/// (x - target)^2
Tensor mse_loss(const Tensor& x, const Tensor& target,
                LossReduction reduction = LossReduction::mean);
/// |x - target|
Tensor l1_loss(const Tensor& x, const Tensor& target,
               LossReduction reduction = LossReduction::mean);
/// With d = |x - target|: d^2 / (2 beta) where d < beta, else d - beta / 2 (Girshick, "Fast R-CNN",
/// ICCV 2015). Throws ValueError unless beta is above 0.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                      LossReduction reduction = LossReduction::mean);
/// delta times smooth_l1_loss with beta = delta (Huber, 1964). Throws ValueError unless delta is
/// above 0.
Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                  LossReduction reduction = LossReduction::mean);

/// -(target log p + (1 - target) log(1 - p)), with logarithms cut off at -100. Throws ValueError
/// for a p outside [0, 1].
Tensor binary_cross_entropy(const Tensor& p, const Tensor& target,
                            LossReduction reduction = LossReduction::mean);
/// The same of p = sigmoid(x), without overflow. `positive_weight`, which broadcasts to x,
/// multiplies the first term.
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        LossReduction reduction = LossReduction::mean,
                                        const Tensor* positive_weight = nullptr);
/// The divergence of the last axis' distributions, sum(p (log p - log_q)), for log_q [..., classes]
/// and p [..., classes]: a loss a distribution, not an element. 0 log 0 is 0. Its mean is PyTorch's
/// "batchmean" for [n, classes].
Tensor kl_div(const Tensor& log_q, const Tensor& p, LossReduction reduction = LossReduction::mean);

/// a . b / sqrt(max(a . a, epsilon^2) max(b . b, epsilon^2)) along an axis, which disappears.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis = -1,
                         double epsilon = 1e-8);
/// 1 - cosine of a [n, d] and b [n, d] where target [n] is 1, max(0, cosine - margin) where it is
/// -1: a loss a pair. Throws ValueError for another target.
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             double margin = 0, LossReduction reduction = LossReduction::mean);
/// max(0, |anchor - positive| - |anchor - negative| + margin), with p-norms along the last axis of
/// differences to which 1e-6 is added: a loss a triplet (Balntas et al., BMVC 2016).
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2,
                           LossReduction reduction = LossReduction::mean);

}  // namespace capstan
