#include "distributed/tensor_parallel/vocabulary.h"

#include "autograd/arithmetic.h"
#include "autograd/autocast.h"
#include "autograd/functions.h"
#include "autograd/indexing.h"
#include "autograd/node.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "distributed/tensor_parallel/door.h"

namespace capstan::distributed {
namespace {

/// This rank's slice of the classes, which is the last axis of the logits.
Slice check_slice(const char* operation, const Tensor& logits, int64_t classes,
                  const Communicator& ranks) {
  const Slice slice = slice_of(classes, ranks.rank(), ranks.size());
  if (!is_floating(logits.dtype())) {
    raise<DtypeError>("[{}] takes floating point, got {}", operation, logits.dtype());
  }
  if (logits.rank() == 0 || logits.size(-1) != slice.count) {
    raise<ShapeError>("[{}] rank {} of {} has {} of the {} classes, got logits {}", operation,
                      ranks.rank(), ranks.size(), slice.count, classes, logits.shape());
  }
  return slice;
}

/// The number of targets that are not ignored.
int64_t count_targets(const Tensor& targets, int64_t classes, int64_t ignore) {
  int64_t count = 0;
  for (const int64_t target : targets.to_vector<int64_t>()) {
    if (target == ignore) continue;
    if (target < 0 || target >= classes) {
      raise<ValueError>(
          "[vocabulary_cross_entropy] targets must be in [0, {}) or the ignored {}, got {}",
          classes, ignore, target);
    }
    ++count;
  }
  return count;
}

/// The largest logit of each row over all ranks, off the tape: [rows, 1].
Tensor largest(const Tensor& rows, Communicator& ranks) {
  const Tensor most = dense_copy(max(detach(rows), {1}, true));
  ranks.all_reduce(most, Reduce::max, "largest logits").wait();
  return most;
}

}  // namespace

Tensor vocabulary_cross_entropy(const Tensor& logits, const Tensor& targets, int64_t classes,
                                Communicator& ranks, LossReduction reduction, int64_t ignore) {
  if (const Autocasting on; on) {
    return vocabulary_cross_entropy(on.wide(logits), targets, classes, ranks, reduction, ignore);
  }
  constexpr const char* kName = "vocabulary_cross_entropy";
  const Slice slice = check_slice(kName, logits, classes, ranks);
  if (targets.dtype() != Dtype::int64) {
    raise<DtypeError>("[{}] targets must be int64, got {}", kName, targets.dtype());
  }
  Shape places = logits.shape();
  places.erase(places.rank() - 1);
  if (targets.shape() != places) {
    raise<ShapeError>("[{}] takes logits [..., classes] and targets [...], got {} and {}", kName,
                      logits.shape(), targets.shape());
  }
  const int64_t counted = count_targets(targets, classes, ignore), count = targets.numel();
  const Tensor rows = cast(reshape(logits, {count, slice.count}), compute_dtype(logits.dtype()));
  const Tensor labels = reshape(targets, {count, 1});

  const Tensor x = rows - largest(rows, ranks);
  const Tensor place = labels - static_cast<double>(slice.first);
  const Tensor here =
      logical_and(greater_equal(place, 0), less(place, static_cast<double>(slice.count)));
  const Tensor target =
      where(here, gather(x, 1, where(here, place, scalar_beside(place, 0))), scalar_beside(x, 0));
  const Tensor all = door::leave(cat({sum(exp(x), {1}, true), target}, 1), ranks,
                                 "sums of exponentials, target logits");  // [rows, 2]
  const Tensor losses = where(equal(squeeze(labels, 1), static_cast<double>(ignore)),
                              scalar_beside(x, 0), log(select(all, 1, 0)) - select(all, 1, 1));
  if (reduction == LossReduction::none) return cast(reshape(losses, places), logits.dtype());
  const Tensor total = sum(losses);
  if (reduction == LossReduction::sum) return cast(total, logits.dtype());
  return cast(total / static_cast<double>(std::max<int64_t>(counted, 1)), logits.dtype());
}

Tensor vocabulary_argmax(const Tensor& logits, int64_t classes, Communicator& ranks) {
  const Slice slice = check_slice("vocabulary_argmax", logits, classes, ranks);
  Shape places = logits.shape();
  places.erase(places.rank() - 1);
  const int64_t count = numel(places);
  const Tensor rows = reshape(detach(logits), {count, slice.count});
  const Tensor all = largest(rows, ranks);
  // Ranks that do not have the largest logit name a class beyond the last.
  const Tensor own = argmax(rows, 1, true) + static_cast<double>(slice.first);
  const Tensor candidates =
      where(less(max(rows, {1}, true), all), scalar_beside(own, static_cast<double>(classes)), own);
  const Tensor best = dense_copy(candidates);
  ranks.all_reduce(best, Reduce::min, "classes of the largest logits").wait();
  return reshape(best, places);
}

}  // namespace capstan::distributed
