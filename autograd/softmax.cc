#include "autograd/softmax.h"

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/indexing.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

/// grad - softmax * sum(grad) along rows, softmax = exp(y), in one kernel.
Tensor log_softmax_grad(const Tensor& grad, const Tensor& y) {
  const Tensor out = empty_like(grad);
  backend(out).log_softmax_grad(contiguous(detach(grad)), contiguous(detach(y)), out);
  return record("log_softmax", out, inputs(grad, y),
                [grad = Saved(grad), y = Saved(y)](const Tensor& g) {
                  const Tensor p = exp(y.get());
                  const Tensor toward = sum(g * p, {-1}, true), total = sum(grad.get(), {-1}, true);
                  return gradients(g - toward, -total * (g * p));
                });
}

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) {
  if (const Autocasting on; on) return softmax(on.wide(x), axis);
  check_floating("softmax", x.dtype());
  normalize_axis("softmax", axis, x.rank());
  const Tensor y = no_grad([&] { return exp(log_softmax(x, axis)); });
  return record("softmax", y, inputs(x), [y = Saved::output(y), axis](const Tensor& grad) {
    const Tensor p = y.get();
    return gradients(p * (grad - sum(grad * p, {axis}, true)));
  });
}

Tensor log_softmax(const Tensor& x, int64_t axis) {
  if (const Autocasting on; on) return log_softmax(on.wide(x), axis);
  check_floating("log_softmax", x.dtype());
  const int last = x.rank() - 1;
  if (const int a = normalize_axis("log_softmax", axis, x.rank()); a != last) {
    return transpose(log_softmax(transpose(x, a, last)), a, last);
  }
  if (x.rank() != 2) {
    Shape rows = x.shape();
    rows.erase(last);
    return reshape(log_softmax(reshape(x, {numel(rows), x.size(-1)})), x.shape());
  }
  Tensor out = empty_like(x);
  backend(out).log_softmax(contiguous(detach(x)), out);
  return record("log_softmax", out, inputs(x), [out = Saved::output(out)](const Tensor& grad) {
    return gradients(log_softmax_grad(grad, out.get()));
  });
}

namespace {

/// The number of targets that are not ignored. Throws ValueError for one that is out of range.
int64_t count_targets(const char* operation, const Tensor& targets, int64_t classes,
                      int64_t ignore) {
  if (targets.device().kind == Device::Kind::meta) return targets.numel();
  const int64_t* values = targets.data<int64_t>();
  int64_t count = 0;
  for (int64_t i = 0; i < targets.numel(); ++i) {
    if (values[i] == ignore) continue;
    if (values[i] < 0 || values[i] >= classes) {
      raise<ValueError>("[{}] targets must be in [0, {}) or the ignored {}, got {} at position {}",
                        operation, classes, ignore, values[i], i);
    }
    ++count;
  }
  return count;
}

/// softmax(logits) less 1 at the targets; 0 in rows that are ignored.
Tensor cross_entropy_slope(const Tensor& logits, const Tensor& targets, int64_t ignore) {
  const TensorOptions position{Dtype::int64, logits.device()};
  const Tensor column = unsqueeze(targets, 1);  // [n, 1]
  const Tensor is_target = equal(column, arange(logits.shape()[1], position));
  const Tensor counts = not_equal(column, full({}, static_cast<double>(ignore), position));
  return where(counts, softmax(logits, 1) - cast(is_target, logits.dtype()),
               scalar_beside(logits, 0));
}

void check_classes(const char* operation, const Tensor& logits, const Tensor& targets) {
  check_floating(operation, logits.dtype());
  if (targets.dtype() != Dtype::int64) wrong_dtype(operation, "int64 targets", targets.dtype());
  if (logits.rank() != 2 || targets.shape() != Shape{logits.shape()[0]}) {
    raise<ShapeError>("[{}] takes logits [n, classes] and targets [n], got {} and {}", operation,
                      logits.shape(), targets.shape());
  }
  check_same_device(operation, logits.device(), targets.device());
}

void check_smoothing(const char* operation, double smoothing) {
  if (!(smoothing >= 0 && smoothing <= 1)) {
    raise<ValueError>("[{}] label smoothing must be in [0, 1], got {}", operation, smoothing);
  }
}

void check_weights(const char* operation, const Tensor& logits, const Tensor& weights) {
  const int64_t classes = logits.shape()[1];
  if (weights.shape() != Shape{classes}) {
    raise<ShapeError>("[{}] weights must be [{}] for logits {}, got {}", operation, classes,
                      logits.shape(), weights.shape());
  }
  if (weights.dtype() != logits.dtype()) {
    raise<DtypeError>("[{}] weights must be {} as the logits, got {}", operation, logits.dtype(),
                      weights.dtype());
  }
  check_same_device(operation, logits.device(), weights.device());
}

ClassLossOptions with_wide_weights(ClassLossOptions options) {
  if (options.weights.defined()) options.weights = in_compute_dtype(options.weights);
  return options;
}

/// Calls `loss` with the samples of logits [n, classes, ...] and targets [n, ...] as rows.
template <class Loss>
Tensor over_rows(const char* operation, const Tensor& logits, const Tensor& targets,
                 LossReduction reduction, const Loss& loss) {
  if (logits.rank() <= 2) {
    check_classes(operation, logits, targets);
    return loss(logits, targets);
  }
  Shape samples = logits.shape();
  samples.erase(1);
  if (targets.shape() != samples) {
    raise<ShapeError>("[{}] takes logits [n, classes, ...] and targets [n, ...], got {} and {}",
                      operation, logits.shape(), targets.shape());
  }
  const int64_t count = targets.numel();
  const Tensor rows = reshape(move_axis(logits, 1, -1), {count, logits.shape()[1]});
  const Tensor result = over_rows(operation, rows, reshape(targets, {count}), reduction, loss);
  return reduction == LossReduction::none ? reshape(result, samples) : result;
}

/// The losses of samples as one, in `dtype`. A mean divides their sum by `divisor`, a number or a
/// tensor.
template <class Divisor>
Tensor reduced(const Tensor& losses, LossReduction reduction, const Divisor& divisor, Dtype dtype) {
  if (reduction == LossReduction::none) return cast(losses, dtype);
  const Tensor total = sum(in_compute_dtype(losses));
  return cast(reduction == LossReduction::mean ? total / divisor : total, dtype);
}

/// A count to divide by.
double at_least_one(int64_t samples) { return static_cast<double>(std::max<int64_t>(samples, 1)); }

// The loss of rows comes in three forms: by one kernel, where that can do it; of operations, with
// label smoothing and weights; and of distributions. Each makes losses [n], which it reduces.

Tensor fused_loss(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options) {
  const Tensor labels = contiguous(targets);
  const int64_t rows = logits.shape()[0], ignore = options.ignore;
  const int64_t counted = count_targets("cross_entropy", labels, logits.shape()[1], ignore);
  const TensorOptions like{logits.dtype(), logits.device()};
  Tensor losses = empty({rows}, like),
         log_sums = empty({rows, 2}, {compute_dtype(like.dtype), like.device});
  backend(losses).cross_entropy(contiguous(detach(logits)), labels, ignore, losses, log_sums);
  losses = record(
      "cross_entropy", losses, inputs(logits),
      [logits = Saved(logits), labels = Saved(labels), log_sums = Saved(log_sums),
       ignore](const Tensor& grad) {
        const Tensor scores = logits.get();
        if (grad_enabled()) {  // to be differentiated again
          return gradients(unsqueeze(grad, 1) * cross_entropy_slope(scores, labels.get(), ignore));
        }
        const Tensor out = empty_like(scores);
        backend(out).cross_entropy_grad(contiguous(grad), contiguous(scores), labels.get(), ignore,
                                        log_sums.get(), out);
        return gradients(Tensor(out));
      });
  return reduced(losses, options.reduction, at_least_one(counted), like.dtype);
}

/// Of samples' logarithms of probabilities.
Tensor composed_loss(const char* operation, const Tensor& log_p, const Tensor& targets,
                     const ClassLossOptions& options) {
  const int64_t classes = log_p.shape()[1];
  const double smoothing = options.label_smoothing;
  check_smoothing(operation, smoothing);
  if (options.weights.defined()) check_weights(operation, log_p, options.weights);
  count_targets(operation, contiguous(targets), classes, options.ignore);

  const Tensor scores = in_compute_dtype(log_p), zero = scalar_beside(scores, 0);
  const Tensor weights = options.weights.defined()
                             ? in_compute_dtype(options.weights)
                             : ones({classes}, {scores.dtype(), scores.device()});
  const Tensor ignored = equal(targets, scalar_beside(targets, options.ignore));
  const Tensor places = where(ignored, scalar_beside(targets, 0), targets);
  const Tensor shares = where(ignored, zero, take_rows(weights, places));  // [n]
  const Tensor picked = squeeze(gather(scores, 1, unsqueeze(places, 1)), 1);
  Tensor losses = where(ignored, zero, -picked * shares);
  if (smoothing > 0) {
    const Tensor even = where(ignored, zero, -sum(scores * weights, {1}));
    losses = losses * (1 - smoothing) + even * (smoothing / static_cast<double>(classes));
  }
  const Tensor total = sum(shares);  // 0 only where no sample counts
  const Tensor divisor = where(equal(total, zero), scalar_beside(total, 1), total);
  return reduced(losses, options.reduction, divisor, log_p.dtype());
}

bool are_distributions(const Tensor& logits, const Tensor& targets) {
  return is_floating(targets.dtype()) && targets.rank() == logits.rank();
}

/// Of distributions over the classes, for samples that need not be rows.
Tensor distribution_loss(const Tensor& logits, const Tensor& targets,
                         const ClassLossOptions& options) {
  constexpr const char* kName = "cross_entropy";
  check_floating(kName, logits.dtype());
  check_same_device(kName, logits.device(), targets.device());
  if (logits.rank() < 2 || targets.shape() != logits.shape()) {
    raise<ShapeError>(
        "[{}] distributions must have the shape of logits [n, classes, ...], got {} "
        "and {}",
        kName, targets.shape(), logits.shape());
  }
  if (targets.dtype() != logits.dtype()) {
    raise<DtypeError>("[{}] distributions must be {} as the logits, got {}", kName, logits.dtype(),
                      targets.dtype());
  }
  check_smoothing(kName, options.label_smoothing);
  const int64_t classes = logits.shape()[1];
  Tensor shares = in_compute_dtype(targets);
  if (options.label_smoothing > 0) {
    shares =
        shares * (1 - options.label_smoothing) + options.label_smoothing / at_least_one(classes);
  }
  if (options.weights.defined()) {
    check_weights(kName, logits, options.weights);
    Shape aligned = Dims::filled(logits.rank() - 1, 1);
    aligned[0] = classes;
    shares = shares * reshape(in_compute_dtype(options.weights), aligned);
  }
  const Tensor losses = -sum(shares * log_softmax(in_compute_dtype(logits), 1), {1});
  return reduced(losses, options.reduction, at_least_one(losses.numel()), logits.dtype());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, LossReduction reduction,
                     int64_t ignore) {
  return cross_entropy(logits, targets, ClassLossOptions{.reduction = reduction, .ignore = ignore});
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options) {
  if (const Autocasting on; on) {
    return cross_entropy(on.wide(logits), targets, with_wide_weights(options));
  }
  if (are_distributions(logits, targets)) return distribution_loss(logits, targets, options);
  const bool plain = options.label_smoothing == 0 && !options.weights.defined();
  return over_rows("cross_entropy", logits, targets, options.reduction,
                   [&](const Tensor& rows, const Tensor& labels) {
                     return plain ? fused_loss(rows, labels, options)
                                  : composed_loss("cross_entropy", log_softmax(rows), labels,
                                                  options);
                   });
}

Tensor nll_loss(const Tensor& log_p, const Tensor& targets, const ClassLossOptions& options) {
  if (const Autocasting on; on) {
    return nll_loss(on.wide(log_p), targets, with_wide_weights(options));
  }
  if (options.label_smoothing != 0) {
    raise<ValueError>("[nll_loss] has no label smoothing, got {}: use cross_entropy()",
                      options.label_smoothing);
  }
  return over_rows("nll_loss", log_p, targets, options.reduction,
                   [&](const Tensor& rows, const Tensor& labels) {
                     return composed_loss("nll_loss", rows, labels, options);
                   });
}

}  // namespace capstan
