#include "distributed/expert_parallel/mixture_of_experts.h"

#include <cmath>
#include <numeric>

#include "autograd/arithmetic.h"
#include "autograd/indexing.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/sort.h"
#include "autograd/views.h"
#include "core/raise.h"
#include "distributed/comm/self.h"
#include "distributed/differentiable.h"

namespace capstan::distributed {
namespace {

Tensor to_tensor(const std::vector<int64_t>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

/// The choices of this rank's tokens, sorted by expert.
struct Choices {
  std::vector<int64_t> order;  // token * chosen + rank of the choice, as they are sent
  Counts counts;               // by expert
  int64_t dropped = 0;
};

Choices sort_choices(const std::vector<int64_t>& experts, const MixtureOptions& options) {
  const int64_t chosen = options.chosen, tokens = static_cast<int64_t>(experts.size()) / chosen;
  const double most = std::ceil(options.capacity * static_cast<double>(tokens * chosen) /
                                static_cast<double>(options.experts));
  std::vector<std::vector<int64_t>> taken(options.experts);
  Choices choices;
  for (int64_t choice = 0; choice < chosen; ++choice) {
    for (int64_t token = 0; token < tokens; ++token) {
      const int64_t place = token * chosen + choice;
      std::vector<int64_t>& expert = taken[experts[place]];
      if (options.capacity > 0 && static_cast<double>(expert.size()) >= most) {
        ++choices.dropped;
      } else {
        expert.push_back(place);
      }
    }
  }
  for (const std::vector<int64_t>& expert : taken) {
    choices.order.insert(choices.order.end(), expert.begin(), expert.end());
    choices.counts.push_back(static_cast<int64_t>(expert.size()));
  }
  return choices;
}

/// Sums of neighbouring counts, `each` at a time.
Counts sums(const Counts& counts, int64_t each) {
  Counts sums;
  for (size_t i = 0; i < counts.size(); i += each) {
    sums.push_back(std::accumulate(counts.begin() + i, counts.begin() + i + each, int64_t{0}));
  }
  return sums;
}

/// Rows that come sorted by rank, then by expert, in the order of experts, then ranks: the row that
/// comes to each place. counts [ranks, experts].
std::vector<int64_t> by_expert(const Counts& counts, int64_t experts) {
  std::vector<int64_t> firsts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), firsts.begin(), int64_t{0});
  std::vector<int64_t> rows;
  for (int64_t expert = 0; expert < experts; ++expert) {
    for (size_t i = expert; i < counts.size(); i += experts) {
      for (int64_t k = 0; k < counts[i]; ++k) rows.push_back(firsts[i] + k);
    }
  }
  return rows;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

/// The width, once all is well.
int64_t checked(int64_t width, const MixtureOptions& o, Communicator& ranks) {
  ranks.agree("mixture of experts",
              fmt::format("width {}, {} experts, {} chosen, hidden {}, capacity {}, own balance {}",
                          width, o.experts, o.chosen, o.hidden, o.capacity, o.own_balance));
  if (width < 1 || o.hidden < 1 || o.experts < 1 || o.chosen < 1 || o.chosen > o.experts) {
    raise<ValueError>(
        "[mixture_of_experts] width, hidden, experts and chosen must be 1 or more, and no "
        "more chosen than there are, got {}, {}, {} and {}",
        width, o.hidden, o.experts, o.chosen);
  }
  if (!(o.capacity >= 0 && std::isfinite(o.capacity))) {
    raise<ValueError>("[mixture_of_experts] capacity must be 0 or more, got {}", o.capacity);
  }
  if (o.experts % ranks.size() != 0) {
    raise<ValueError>("[mixture_of_experts] {} ranks cannot share {} experts evenly", ranks.size(),
                      o.experts);
  }
  return width;
}

}  // namespace

MixtureOfExperts::MixtureOfExperts(int64_t width, const MixtureOptions& options,
                                   Communicator& ranks)
    : router(checked(width, options, ranks), options.experts, {.bias = false}),
      options_(options),
      alone_(make_self()),
      ranks_(&ranks) {
  const int64_t own = options.experts / ranks.size();
  for (int64_t i = 0; i < options.experts; ++i) {
    // All are made, so that each has the same numbers on any rank; others' are forgotten at once.
    nn::FeedForward expert(width, {.hidden = options.hidden, .dropout = 0, .gelu = true});
    if (i / own == ranks.rank()) experts.emplace(std::to_string(i), std::move(expert));
  }
}

MixtureOfExperts::MixtureOfExperts(int64_t width, const MixtureOptions& options)
    : MixtureOfExperts(width, options, *make_self()) {
  ranks_ = alone_.get();
}

void MixtureOfExperts::spread(Communicator& ranks) {
  checked(router.weight.size(1), options_, ranks);
  const int64_t own = options_.experts / ranks.size();
  for (int64_t i = 0; i < options_.experts; ++i) {
    if (i / own != ranks.rank()) experts.erase(std::to_string(i));
  }
  ranks_ = &ranks;
}

void spread_experts(nn::Module& model, Communicator& ranks) {
  bool found = false;
  for (const auto& [_, module] : model.modules()) {
    auto* mixture = dynamic_cast<MixtureOfExperts*>(module);
    if (mixture) mixture->spread(ranks);
    found = found || mixture;
  }
  if (!found)
    raise<ValueError>("[spread_experts] a {} has no mixture of experts", model.type_name());
}

Tensor MixtureOfExperts::forward(const Tensor& x) {
  const int64_t width = router.weight.size(1), chosen = options_.chosen, count = options_.experts;
  if (x.rank() < 1 || x.size(-1) != width) {
    raise<ShapeError>("[mixture_of_experts] takes [..., {}], got {}", width, x.shape());
  }
  Communicator& ranks = *ranks_;
  const Tensor tokens = reshape(x, {x.numel() / width, width});
  const Tensor p = softmax(cast(router(tokens), compute_dtype(x.dtype())), 1);
  const Sorted best = topk(p, chosen, 1);
  const Choices choices = sort_choices(best.indices.to_vector<int64_t>(), options_);

  // Balance, over all ranks' tokens or this one's.
  Communicator& counted = options_.own_balance ? *alone_ : ranks;
  std::vector<double> wanted(count + 2);  // how often each expert was chosen; tokens; dropped
  for (int64_t expert : best.indices.to_vector<int64_t>()) wanted[expert] += 1;
  wanted[count] = static_cast<double>(tokens.size(0));
  wanted[count + 1] = static_cast<double>(choices.dropped);
  const Tensor totals = from_vector(wanted, {count + 2});
  counted.all_reduce(totals, Reduce::sum, "choices of experts").wait();
  const double all_tokens = std::max(1.0, totals.to_vector<double>()[count]);
  dropped = static_cast<int64_t>(totals.to_vector<double>()[count + 1]);
  shares = cast(slice(totals, 0, 0, count) / (all_tokens * static_cast<double>(chosen)), p.dtype());
  const Tensor means =
      differentiable::all_reduce(sum(p, {0}), counted, "probabilities of experts") / all_tokens;
  balance = sum(shares * means) * static_cast<double>(count);

  // To the experts.
  const int64_t own = count / ranks.size();
  const Tensor sent = to_tensor(choices.counts), received = empty_like(sent);
  ranks.all_to_all(sent, received, "tokens for each expert").wait();
  const Counts arrived = received.to_vector<int64_t>();  // [ranks, own]
  const Counts out = sums(choices.counts, own), in = sums(arrived, own);
  std::vector<int64_t> token_of;
  for (int64_t place : choices.order) token_of.push_back(place / chosen);
  const Tensor traveling = take_rows(tokens, to_tensor(token_of));
  const Tensor here = differentiable::all_to_all(traveling, out, in, ranks, "tokens");

  const std::vector<int64_t> order = by_expert(arrived, own);
  const Tensor sorted = take_rows(here, to_tensor(order));
  std::vector<Tensor> results;
  int64_t first = 0;
  for (int64_t i = 0; i < own; ++i) {
    int64_t rows = 0;
    for (int r = 0; r < ranks.size(); ++r) rows += arrived[r * own + i];
    nn::FeedForward& expert = experts.at(std::to_string(ranks.rank() * own + i));
    results.push_back(expert(slice(sorted, 0, first, first + rows)));
    first += rows;
  }
  const Tensor done = take_rows(cat(results), to_tensor(inverse(order)));

  // And back, each weighted, to its token.
  const Tensor back = differentiable::all_to_all(done, in, out, ranks, "results of experts");
  const Tensor gates = chosen == 1 ? best.values : best.values / sum(best.values, {1}, true);
  const Tensor weights = take_rows(reshape(gates, {-1, 1}), to_tensor(choices.order));
  const Tensor none = zeros(tokens.shape(), {x.dtype(), x.device()});
  return reshape(index_add(none, 0, to_tensor(token_of), back * cast(weights, x.dtype())),
                 x.shape());
}

}  // namespace capstan::distributed
