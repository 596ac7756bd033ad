// Defines MixtureOfExperts, a feed-forward layer of many, of which each token meets a few: experts
// spread over ranks (Lepikhin et al., "GShard: scaling giant models with conditional computation
// and automatic sharding", 2020; Fedus et al., "Switch transformers", 2021).
//
// A router gives each token x a probability for each expert; the `chosen` largest take it:
//
//   p = softmax(router(x))        y = sum over chosen experts e of g_e expert_e(x)
//
// where g is p of the chosen ones, divided by their sum if there are several. So parameters grow
// with the experts, and the work of a token does not. With n ranks each holds every n-th part of
// the experts, and tokens travel: one all-to-all brings each to the ranks of its experts, and
// another brings the results back. How many go where differs from call to call, so counts go ahead.
//
//   rank 0   tokens a b c   --->   expert 0: a c f     --->   a b c
//   rank 1   tokens d e f   --->   expert 1: b d e     --->   d e f
//
// Balance. Nothing else keeps the router from sending all to one expert, so a loss is added that is
// smallest where tokens are spread evenly (Fedus et al., section 2.2):
//
//   balance = experts * sum over e of f_e P_e
//
// f_e is the part of all choices that fell on e, P_e the mean probability of e; both over the
// tokens of all ranks, or, with `own_balance`, of each rank alone: then a run whose passes are the
// same ones on any number of ranks has the same losses. Only P has a gradient. Add a hundredth of
// it, say, to the loss.
//
// Capacity. On accelerators shapes should not change, and a crowded expert makes all wait: with a
// capacity an expert takes only so many of each rank's tokens, all first choices before any second
// one, and what comes later passes it by (in a block x + layer(x), unchanged). Without one, as here
// by default, nothing is dropped.
//
// Gradients. An expert sees the tokens of all ranks, so backward gives it the gradient of the sum
// of the ranks' losses (differentiable.h), which a Ddp over the same ranks needs only to divide by
// the weight of all. Router and everything around are replicas, which it averages as ever:
//
//   Ddp ddp(model, ranks, {.spread = {"*.experts.*"}});
//
// That is exact for any numbers of tokens. A rank that has no samples takes part all the same, with
// none: ddp.pass([&] { backward(sum(model(none))); }, {.weight = 0}, Sync::yes).
#pragma once

#include "distributed/comm/communicator.h"
#include "nn/transformer.h"

namespace capstan::distributed {

struct MixtureOptions {
  int64_t experts = 8;
  int64_t chosen = 2;     // experts that take each token
  int64_t hidden = 2048;  // of each expert
  /// An expert takes at most capacity * tokens * chosen / experts of a rank's tokens, rounded up.
  /// 0: all that come.
  double capacity = 0;
  bool own_balance = false;  // balance, shares and dropped are of this rank's tokens
};

/// x [..., width], this rank's tokens, any number of them, to the same shape. Calls are
/// collectives, forward and backward.
struct MixtureOfExperts : nn::Module {
  /// Starts with the same numbers on any number of ranks, where generators are equal. Throws
  /// SharedError if the ranks' sizes differ; ValueError for experts that the ranks cannot share
  /// evenly, sizes below 1, more chosen than there are experts, and a negative capacity.
  MixtureOfExperts(int64_t width, const MixtureOptions& options, Communicator& ranks);
  /// With all experts on this rank, until they are spread().
  MixtureOfExperts(int64_t width, const MixtureOptions& options);

  /// Keeps this rank's experts of all; to be done before an optimizer or a strategy is attached.
  /// The numbers must be the same on all ranks. Throws as the constructor does. A collective.
  void spread(Communicator& ranks);

  nn::Linear router;
  nn::ModuleDict<nn::FeedForward> experts;  // this rank's, by their numbers among all: "5"
  CAPSTAN_MODULE(MixtureOfExperts, router, experts)

  /// Throws ShapeError for another last axis.
  Tensor forward(const Tensor& x);

  /// Of the last call, equal on all ranks unless each has its own: the loss for the router's
  /// balance; what part of all choices each expert got [experts], and how many choices its capacity
  /// dropped.
  Tensor balance, shares;
  int64_t dropped = 0;

 private:
  MixtureOptions options_;
  std::shared_ptr<Communicator> alone_;  // this rank
  Communicator* ranks_;
};

/// Spreads the experts of all mixtures in a model; as MixtureOfExperts::spread(). Throws ValueError
/// for a model without any, too.
void spread_experts(nn::Module& model, Communicator& ranks);

}  // namespace capstan::distributed
