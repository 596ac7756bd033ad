#include "autograd/ctc.h"

#include <algorithm>

#include "autograd/autocast.h"
#include "autograd/elementwise.h"
#include "autograd/operands.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/backend.h"
#include "core/raise.h"

namespace capstan {

namespace {

void check_lengths(const char* what, const std::vector<int64_t>& lengths, int64_t batch,
                   int64_t most) {
  if (static_cast<int64_t>(lengths.size()) != batch) {
    raise<ShapeError>("[ctc_loss] needs a length of the {} for each of {} sequences, got {}", what,
                      batch, lengths.size());
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > most) {
      raise<ValueError>("[ctc_loss] lengths of the {} must be in [0, {}], got {} at position {}",
                        what, most, lengths[i], i);
    }
  }
}

void check(const Tensor& log_p, const Tensor& targets, const std::vector<int64_t>& input_lengths,
           const std::vector<int64_t>& target_lengths, int64_t blank) {
  check_floating("ctc_loss", log_p.dtype());
  if (targets.dtype() != Dtype::int64) wrong_dtype("ctc_loss", "int64 targets", targets.dtype());
  check_same_device("ctc_loss", log_p.device(), targets.device());
  if (log_p.rank() != 3 || targets.rank() != 2 || targets.size(0) != log_p.size(1)) {
    raise<ShapeError>(
        "[ctc_loss] takes log_p [n, batch, classes] and targets [batch, longest], got {} and {}",
        log_p.shape(), targets.shape());
  }
  const int64_t classes = log_p.size(2), longest = targets.size(1);
  check_lengths("inputs", input_lengths, log_p.size(1), log_p.size(0));
  check_lengths("targets", target_lengths, log_p.size(1), longest);
  if (blank < 0 || blank >= classes) {
    raise<ValueError>("[ctc_loss] blank must be in [0, {}), got {}", classes, blank);
  }
  if (targets.device().kind == Device::Kind::meta) return;
  const int64_t* const labels = targets.data<int64_t>();
  for (size_t i = 0; i < target_lengths.size(); ++i) {
    for (int64_t j = 0; j < target_lengths[i]; ++j) {
      const int64_t label = labels[static_cast<int64_t>(i) * longest + j];
      if (label < 0 || label >= classes || label == blank) {
        raise<ValueError>(
            "[ctc_loss] labels must be in [0, {}) and not the blank {}, got {} at [{}, {}]",
            classes, blank, label, i, j);
      }
    }
  }
}

}  // namespace

Tensor ctc_loss(const Tensor& log_p, const Tensor& targets,
                const std::vector<int64_t>& input_lengths,
                const std::vector<int64_t>& target_lengths, const CtcOptions& options) {
  if (const Autocasting on; on) {
    return ctc_loss(on.wide(log_p), targets, input_lengths, target_lengths, options);
  }
  if (is_half(log_p.dtype())) {
    return cast(ctc_loss(in_compute_dtype(log_p), targets, input_lengths, target_lengths, options),
                log_p.dtype());
  }
  const Tensor scores = contiguous(log_p), labels = contiguous(targets);
  check(scores, labels, input_lengths, target_lengths, options.blank);
  const int64_t batch = scores.size(1);
  const TensorOptions like{scores.dtype(), scores.device()};
  Tensor losses = empty({batch}, like);
  const Tensor alphas =
      empty({batch, scores.size(0), 2 * labels.size(1) + 1}, {Dtype::float64, scores.device()});
  backend(losses).ctc_loss(scores, labels, {input_lengths, target_lengths}, options.blank, losses,
                           alphas);
  losses = record("ctc_loss", losses, inputs(scores),
                  [scores = Saved(scores), labels = Saved(labels), losses = Saved::output(losses),
                   alphas = Saved(alphas), input_lengths, target_lengths,
                   blank = options.blank](const Tensor& grad) {
                    if (grad_enabled())
                      raise<GradientError>("[ctc_loss] has no gradient of the gradient");
                    const Tensor x = scores.get(), out = empty_like(x);
                    backend(out).ctc_loss_grad(contiguous(grad), x, labels.get(),
                                               {input_lengths, target_lengths}, blank, losses.get(),
                                               alphas.get(), out);
                    return gradients(Tensor(out));
                  });
  if (options.zero_infinity) losses = where(isinf(losses), scalar_beside(losses, 0), losses);
  if (options.reduction == LossReduction::none) return losses;
  if (options.reduction == LossReduction::sum) return sum(losses);
  std::vector<double> counts;
  for (int64_t length : target_lengths) counts.push_back(std::max<double>(1, length));
  const Tensor lengths = empty({batch}, like);
  copy_elements(from_vector(counts, {batch}), lengths);
  return sum(losses / lengths) / static_cast<double>(std::max<int64_t>(1, batch));
}

}  // namespace capstan
