#include "autograd/attention.h"

#include <cmath>
#include <limits>

#include "autograd/autocast.h"
#include "autograd/dropout.h"
#include "autograd/elementwise.h"
#include "autograd/indexing.h"
#include "autograd/matmul.h"
#include "autograd/operands.h"
#include "autograd/rearrange.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/create.h"
#include "core/raise.h"

namespace capstan {

namespace {

constexpr const char* kName = "scaled_dot_product_attention";
constexpr double kNever = -std::numeric_limits<double>::infinity();

void check(const Tensor& q, const Tensor& k, const Tensor& v) {
  check_floating(kName, q.dtype());
  for (const Tensor* t : {&k, &v}) check_alike(kName, q, *t);
  const bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k.size(0) == q.size(0) &&
                    v.size(0) == q.size(0) && k.size(3) == q.size(3) && v.size(1) == k.size(1) &&
                    v.size(2) == k.size(2);
  if (!fits) {
    raise<ShapeError>(
        "[{}] takes q [batch, heads, m, d], k [batch, groups, n, d] and v [batch, groups, n, e], "
        "got {}, {} and {}",
        kName, q.shape(), k.shape(), v.shape());
  }
  if (k.size(1) == 0 ? q.size(1) != 0 : q.size(1) % k.size(1) != 0) {
    raise<ShapeError>("[{}] {} heads cannot share {} groups of keys evenly", kName, q.size(1),
                      k.size(1));
  }
}

/// The mask as a constant to be added to scores of shape [batch, heads, m, n].
Tensor additive_mask(const Tensor& q, const Shape& scores, const Tensor& mask) {
  if (!mask.defined()) return mask;
  if (mask.requires_grad()) {
    raise<GradientError>("[{}] the mask gets no gradient: detach() it", kName);
  }
  if (mask.dtype() != Dtype::boolean && mask.dtype() != q.dtype()) {
    raise<DtypeError>("[{}] a mask must be bool or {} as the queries, got {}", kName, q.dtype(),
                      mask.dtype());
  }
  check_same_device(kName, q.device(), mask.device());
  if (broadcast(kName, mask.shape(), scores) != scores) {
    raise<ShapeError>("[{}] mask {} does not broadcast to the scores {}", kName, mask.shape(),
                      scores);
  }
  const Tensor bias = mask.dtype() == Dtype::boolean
                          ? where(mask, scalar_beside(q, 0), scalar_beside(q, kNever))
                          : mask;
  return expand(bias, scores);
}

/// Each group of x [batch, groups, n, d] once for every head: [batch, heads, n, d].
Tensor for_heads(const Tensor& x, int64_t heads) {
  const int64_t batch = x.size(0), groups = x.size(1), n = x.size(2), d = x.size(3);
  if (heads == groups) return x;
  const Shape shared{batch, groups, heads / groups, n, d};
  return reshape(expand(unsqueeze(x, 2), shared), {batch, heads, n, d});
}

/// The reverse for gradients.
Tensor to_groups(const Tensor& grad, int64_t groups) {
  const int64_t batch = grad.size(0), heads = grad.size(1), n = grad.size(2), d = grad.size(3);
  if (heads == groups) return grad;
  return sum(reshape(grad, {batch, groups, heads / groups, n, d}), {2});
}

/// The matrix of weights [batch, heads, m, n] before dropout, made of operations; `k` has a group
/// for each head.
Tensor weights_of(const Tensor& q, const Tensor& k, const AttentionRules& rules) {
  Tensor scores = matmul(q, transpose(k, 2, 3)) * rules.scale;
  if (rules.mask.defined()) scores = scores + rules.mask;
  if (rules.causal) {
    const int64_t m = q.size(2), n = k.size(2);
    const Tensor seen = tril(ones({m, n}, {Dtype::boolean, q.device()}), n - m);
    scores = where(seen, scores, scalar_beside(scores, kNever));
  }
  // A row of -inf only has no softmax; such a query gets nothing.
  const Tensor blind = equal(max(detach(scores), {-1}, true), scalar_beside(scores, kNever));
  return masked_fill(softmax(masked_fill(scores, blind, 0), -1), blind, 0);
}

/// The gradients made of operations, so that they have gradients themselves.
std::array<Tensor, 3> recorded_grads(const Tensor& grad, const Tensor& q, const Tensor& k,
                                     const Tensor& v, const AttentionRules& rules) {
  const Tensor keys = for_heads(k, q.size(1)), values = for_heads(v, q.size(1));
  const auto dropped = [&](const Tensor& x) {
    Generator again(rules.seed, rules.offset);
    return dropout(x, rules.dropout, {rules.place, x.numel()}, again);
  };
  const Tensor p = weights_of(q, keys, rules);
  const Tensor slopes = dropped(matmul(grad, transpose(values, 2, 3)));
  const Tensor scores = p * (slopes - sum(slopes * p, {-1}, true)) * rules.scale;
  return {matmul(scores, keys), to_groups(matmul(transpose(scores, 2, 3), q), k.size(1)),
          to_groups(matmul(transpose(dropped(p), 2, 3), grad), k.size(1))};
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options, Generator& generator) {
  if (const Autocasting on; on) {
    AttentionOptions narrow = options;
    if (options.mask.defined()) narrow.mask = on.narrow(options.mask);
    return scaled_dot_product_attention(on.narrow(q), on.narrow(k), on.narrow(v), narrow,
                                        generator);
  }
  check(q, k, v);
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    raise<ValueError>("[{}] dropout must be in [0, 1), got {}", kName, options.dropout);
  }
  const int64_t batch = q.size(0), heads = q.size(1), m = q.size(2), n = k.size(2);
  const double usual = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, q.size(3))));
  AttentionRules rules{.mask = additive_mask(q, {batch, heads, m, n}, options.mask),
                       .causal = options.causal,
                       .scale = options.scale.value_or(usual),
                       .dropout = options.dropout};
  if (rules.dropout > 0) {
    rules.seed = generator.seed();
    const Part part = part_of({batch, heads, m, n}, options.parts);
    if (part.layout.shape.rank() != 4) {
      raise<ValueError>("[{}] the weights of a call are one block along each axis", kName);
    }
    rules.offset = generator.advance(part.whole);
    rules.place = part.layout;
  }
  const Tensor queries = contiguous(q), keys = contiguous(k), values = contiguous(v);
  const Tensor out = empty({batch, heads, m, v.size(3)}, {q.dtype(), q.device()});
  const Tensor log_sums = empty({batch, heads, m, 2}, {compute_dtype(q.dtype()), q.device()});
  backend(out).attention(queries, keys, values, rules, out, log_sums);
  return record(
      kName, out, inputs(queries, keys, values),
      [rules, out = Saved::output(out), log_sums = Saved(log_sums), queries = Saved(queries),
       keys = Saved(keys), values = Saved(values)](const Tensor& grad) {
        const Tensor q = queries.get(), k = keys.get(), v = values.get();
        if (grad_enabled()) return recorded_grads(grad, q, k, v, rules);
        const auto grads = gradients(empty_like(q), empty_like(k), empty_like(v));
        backend(grad).attention_grad(contiguous(grad), q, k, v, rules, out.get(), log_sums.get(),
                                     grads[0], grads[1], grads[2]);
        return grads;
      });
}

Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options) {
  check_floating("rotary_embedding", x.dtype());
  if (x.rank() < 2 || x.size(-1) % 2 != 0) {
    raise<ShapeError>("[rotary_embedding] takes [..., n, d] with an even d, got {}", x.shape());
  }
  if (!(options.base > 0)) {
    raise<ValueError>("[rotary_embedding] base must be above 0, got {}", options.base);
  }
  const int64_t n = x.size(-2), d = x.size(-1), half = d / 2;
  const TensorOptions whole{Dtype::int64, x.device()};
  const Tensor positions =
      cast(arange(n, whole), Dtype::float64) + static_cast<double>(options.offset);
  const Tensor pairs = cast(arange(half, whole), Dtype::float64);
  const Tensor speeds =
      power(options.base, pairs * (-2.0 / static_cast<double>(std::max<int64_t>(1, d))));
  const Tensor angles = unsqueeze(positions, 1) * speeds;  // [n, d / 2]
  const Tensor c = cast(cos(angles), x.dtype()), s = cast(sin(angles), x.dtype());

  const int64_t step = options.interleaved ? 2 : 1, second = options.interleaved ? 1 : half;
  const Tensor a = slice(x, -1, 0, options.interleaved ? d : half, step);
  const Tensor b = slice(x, -1, second, d, step);
  const Tensor left = a * c - b * s, right = b * c + a * s;
  if (!options.interleaved) return cat({left, right}, -1);
  return reshape(stack({left, right}, -1), x.shape());
}

}  // namespace capstan
