#include "autograd/losses.h"

#include <limits>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/operands.h"
#include "autograd/reduce.h"
#include "autograd/statistics.h"
#include "core/raise.h"

namespace capstan {

namespace {

void check_pair(const char* operation, const Tensor& a, const Tensor& b) {
  check_floating(operation, a.dtype());
  check_alike(operation, a, b);
  if (a.shape() != b.shape()) {
    raise<ShapeError>("[{}] shapes must be equal, got {} and {}", operation, a.shape(), b.shape());
  }
}

void check_positive(const char* operation, const char* name, double value) {
  if (!(value > 0)) raise<ValueError>("[{}] {} must be above 0, got {}", operation, name, value);
}

/// Throws ValueError unless `good` (bool) is true everywhere.
void check_values(const char* operation, const char* rule, const Tensor& good) {
  if (good.device().kind != Device::Kind::meta && !all(good).item<bool>()) {
    raise<ValueError>("[{}] {}", operation, rule);
  }
}

/// The losses, which were computed in the compute dtype, as one and in the dtype of `x`.
Tensor reduced(const Tensor& losses, LossReduction reduction, const Tensor& x) {
  if (reduction == LossReduction::none) return cast(losses, x.dtype());
  const Tensor total = sum(losses);
  if (reduction == LossReduction::sum) return cast(total, x.dtype());
  return cast(total / static_cast<double>(std::max<int64_t>(losses.numel(), 1)), x.dtype());
}

Tensor difference(const Tensor& x, const Tensor& target) {
  return in_compute_dtype(x) - in_compute_dtype(target);
}

/// d^2 / 2 where |d| < bend, else bend |d| - bend^2 / 2.
Tensor bent_parabola(const Tensor& d, double bend) {
  const Tensor size = absolute(d);
  return where(less(size, scalar_beside(size, bend)), square(d) * 0.5,
               size * bend - bend * bend / 2);
}

Tensor at_least(const Tensor& x, double low) {
  return clamp(x, low, std::numeric_limits<double>::infinity());
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  if (const Autocasting on; on) return mse_loss(on.wide(x), on.wide(target), reduction);
  check_pair("mse_loss", x, target);
  return reduced(square(difference(x, target)), reduction, x);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  if (const Autocasting on; on) return l1_loss(on.wide(x), on.wide(target), reduction);
  check_pair("l1_loss", x, target);
  return reduced(absolute(difference(x, target)), reduction, x);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, LossReduction reduction) {
  if (const Autocasting on; on) return smooth_l1_loss(on.wide(x), on.wide(target), beta, reduction);
  check_pair("smooth_l1_loss", x, target);
  check_positive("smooth_l1_loss", "beta", beta);
  return reduced(bent_parabola(difference(x, target), beta) / beta, reduction, x);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, LossReduction reduction) {
  if (const Autocasting on; on) return huber_loss(on.wide(x), on.wide(target), delta, reduction);
  check_pair("huber_loss", x, target);
  check_positive("huber_loss", "delta", delta);
  return reduced(bent_parabola(difference(x, target), delta), reduction, x);
}

Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, LossReduction reduction) {
  if (const Autocasting on; on) return binary_cross_entropy(on.wide(p), on.wide(target), reduction);
  check_pair("binary_cross_entropy", p, target);
  const Tensor outside = logical_or(less(p, scalar_beside(p, 0)), greater(p, scalar_beside(p, 1)));
  check_values("binary_cross_entropy", "probabilities must be in [0, 1]", logical_not(outside));
  const auto limited = [](const Tensor& logarithm) { return at_least(logarithm, -100); };
  const Tensor q = in_compute_dtype(p), t = in_compute_dtype(target);
  return reduced(-(t * limited(log(q)) + (1 - t) * limited(log1p(-q))), reduction, p);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        LossReduction reduction, const Tensor* positive_weight) {
  if (const Autocasting on; on)
    return binary_cross_entropy_with_logits(on.wide(x), on.wide(target), reduction,
                                            on.wide(positive_weight).get());
  check_pair("binary_cross_entropy_with_logits", x, target);
  // -log(1 - sigmoid(x)) = softplus(x), and -log(sigmoid(x)) = softplus(x) - x = softplus(-x).
  const Tensor y = in_compute_dtype(x), t = in_compute_dtype(target);
  if (!positive_weight) return reduced(softplus(y) - y * t, reduction, x);
  check_same_device("binary_cross_entropy_with_logits", x.device(), positive_weight->device());
  if (broadcast("binary_cross_entropy_with_logits", x.shape(), positive_weight->shape()) !=
      x.shape()) {
    raise<ShapeError>("[binary_cross_entropy_with_logits] weight {} must broadcast to input {}",
                      positive_weight->shape(), x.shape());
  }
  return reduced(t * *positive_weight * softplus(-y) + (1 - t) * softplus(y), reduction, x);
}

Tensor kl_div(const Tensor& log_q, const Tensor& p, LossReduction reduction) {
  if (const Autocasting on; on) return kl_div(on.wide(log_q), on.wide(p), reduction);
  check_pair("kl_div", log_q, p);
  if (p.rank() < 1) raise<ShapeError>("[kl_div] takes [..., classes], got {}", p.shape());
  const Tensor q = in_compute_dtype(p), none = equal(q, scalar_beside(q, 0));
  const Tensor log_p = log(where(none, scalar_beside(q, 1), q));
  return reduced(sum(q * (log_p - in_compute_dtype(log_q)), {-1}), reduction, p);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis, double epsilon) {
  if (const Autocasting on; on) return cosine_similarity(on.wide(a), on.wide(b), axis, epsilon);
  check_pair("cosine_similarity", a, b);
  check_positive("cosine_similarity", "epsilon", epsilon);
  normalize_axis("cosine_similarity", axis, a.rank());
  const Tensor x = in_compute_dtype(a), y = in_compute_dtype(b);
  const auto squared = [&](const Tensor& z) {
    return at_least(sum(square(z), {axis}), epsilon * epsilon);
  };
  return cast(sum(x * y, {axis}) / sqrt(squared(x) * squared(y)), a.dtype());
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             LossReduction reduction) {
  if (const Autocasting on; on)
    return cosine_embedding_loss(on.wide(a), on.wide(b), target, margin, reduction);
  check_pair("cosine_embedding_loss", a, b);
  if (a.rank() != 2 || target.shape() != Shape{a.shape()[0]}) {
    raise<ShapeError>("[cosine_embedding_loss] takes pairs [n, d] and targets [n], got {} and {}",
                      a.shape(), target.shape());
  }
  check_same_device("cosine_embedding_loss", a.device(), target.device());
  const Tensor alike = equal(target, scalar_beside(target, 1));
  const Tensor unlike = equal(target, scalar_beside(target, -1));
  check_values("cosine_embedding_loss", "targets must be 1 or -1", logical_or(alike, unlike));
  // PyTorch adds 1e-12 to squared lengths here, 1e-16 in cosine_similarity.
  const Tensor x = in_compute_dtype(a), y = in_compute_dtype(b);
  const auto squared = [](const Tensor& z) { return sum(square(z), {1}) + 1e-12; };
  const Tensor cosine = sum(x * y, {1}) / sqrt(squared(x) * squared(y));
  return reduced(where(alike, 1 - cosine, relu(cosine - margin)), reduction, a);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, LossReduction reduction) {
  if (const Autocasting on; on)
    return triplet_margin_loss(on.wide(anchor), on.wide(positive), on.wide(negative), margin, p,
                               reduction);
  check_pair("triplet_margin_loss", anchor, positive);
  check_pair("triplet_margin_loss", anchor, negative);
  check_positive("triplet_margin_loss", "p", p);
  if (anchor.rank() < 1) {
    raise<ShapeError>("[triplet_margin_loss] takes [..., d], got {}", anchor.shape());
  }
  const Tensor from = in_compute_dtype(anchor);
  const auto apart = [&](const Tensor& other) {
    return norm(from - in_compute_dtype(other) + 1e-6, p, {-1});
  };
  const Tensor losses = relu(apart(positive) - apart(negative) + margin);
  return reduced(losses, reduction, anchor);
}

}  // namespace capstan
