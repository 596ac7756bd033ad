#include "autograd/losses.h"

#include <limits>

#include "autograd/elementwise.h"
#include "autograd/reduce.h"
#include "autograd/statistics.h"
#include "core/raise.h"

namespace capstan {

namespace {

void check_pair(const char* operation, const Tensor& a, const Tensor& b) {
  if (!is_floating(a.dtype())) wrong_dtype(operation, "float32 or float64", a.dtype());
  if (a.dtype() != b.dtype()) {
    raise<DtypeError>("[{}] dtypes must be equal, got {} and {}", operation, a.dtype(), b.dtype());
  }
  if (a.shape() != b.shape()) {
    raise<ShapeError>("[{}] shapes must be equal, got {} and {}", operation, a.shape(), b.shape());
  }
  check_same_device(operation, a.device(), b.device());
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

Tensor reduced(const Tensor& losses, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  const Tensor total = sum(losses);
  if (reduction == LossReduction::sum) return total;
  return total / static_cast<double>(std::max<int64_t>(losses.numel(), 1));
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
  check_pair("mse_loss", x, target);
  return reduced(square(x - target), reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  check_pair("l1_loss", x, target);
  return reduced(absolute(x - target), reduction);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta, LossReduction reduction) {
  check_pair("smooth_l1_loss", x, target);
  check_positive("smooth_l1_loss", "beta", beta);
  return reduced(bent_parabola(x - target, beta) / beta, reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, double delta, LossReduction reduction) {
  check_pair("huber_loss", x, target);
  check_positive("huber_loss", "delta", delta);
  return reduced(bent_parabola(x - target, delta), reduction);
}

Tensor binary_cross_entropy(const Tensor& p, const Tensor& target, LossReduction reduction) {
  check_pair("binary_cross_entropy", p, target);
  const Tensor outside = logical_or(less(p, scalar_beside(p, 0)), greater(p, scalar_beside(p, 1)));
  check_values("binary_cross_entropy", "probabilities must be in [0, 1]", logical_not(outside));
  const auto limited = [](const Tensor& logarithm) { return at_least(logarithm, -100); };
  return reduced(-(target * limited(log(p)) + (1 - target) * limited(log1p(-p))), reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        LossReduction reduction, const Tensor* positive_weight) {
  check_pair("binary_cross_entropy_with_logits", x, target);
  // -log(1 - sigmoid(x)) = softplus(x), and -log(sigmoid(x)) = softplus(x) - x = softplus(-x).
  if (!positive_weight) return reduced(softplus(x) - x * target, reduction);
  check_same_device("binary_cross_entropy_with_logits", x.device(), positive_weight->device());
  if (broadcast("binary_cross_entropy_with_logits", x.shape(), positive_weight->shape()) !=
      x.shape()) {
    raise<ShapeError>("[binary_cross_entropy_with_logits] weight {} must broadcast to input {}",
                      positive_weight->shape(), x.shape());
  }
  return reduced(target * *positive_weight * softplus(-x) + (1 - target) * softplus(x), reduction);
}

Tensor kl_div(const Tensor& log_q, const Tensor& p, LossReduction reduction) {
  check_pair("kl_div", log_q, p);
  if (p.rank() < 1) raise<ShapeError>("[kl_div] takes [..., classes], got {}", p.shape());
  const Tensor none = equal(p, scalar_beside(p, 0));
  const Tensor log_p = log(where(none, scalar_beside(p, 1), p));
  return reduced(sum(p * (log_p - log_q), {-1}), reduction);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis, double epsilon) {
  check_pair("cosine_similarity", a, b);
  check_positive("cosine_similarity", "epsilon", epsilon);
  normalize_axis("cosine_similarity", axis, a.rank());
  const auto squared = [&](const Tensor& x) {
    return at_least(sum(square(x), {axis}), epsilon * epsilon);
  };
  return sum(a * b, {axis}) / sqrt(squared(a) * squared(b));
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             LossReduction reduction) {
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
  const Tensor cosine =
      sum(a * b, {1}) / sqrt((sum(square(a), {1}) + 1e-12) * (sum(square(b), {1}) + 1e-12));
  return reduced(where(alike, 1 - cosine, relu(cosine - margin)), reduction);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, LossReduction reduction) {
  check_pair("triplet_margin_loss", anchor, positive);
  check_pair("triplet_margin_loss", anchor, negative);
  check_positive("triplet_margin_loss", "p", p);
  if (anchor.rank() < 1) {
    raise<ShapeError>("[triplet_margin_loss] takes [..., d], got {}", anchor.shape());
  }
  const auto apart = [&](const Tensor& other) { return norm(anchor - other + 1e-6, p, {-1}); };
  return reduced(relu(apart(positive) - apart(negative) + margin), reduction);
}

}  // namespace capstan
