// Defines how the tests compare training under Fsdp with that of one rank: the same steps, with
// uneven shares or none on some ranks, under momentum and clipping.
#pragma once

#include <doctest/doctest.h>

#include <cmath>

#include "distributed/comm/self.h"
#include "optim/sgd.h"
#include "tests/distributed/fsdp/fsdp_models.h"

namespace capstan::distributed::testing {

using Floats = std::vector<float>;

/// All parameters, whole, one after another.
inline Floats weights_of(nn::Module& model) {
  Floats all;
  for (const auto& [_, parameter] : model.parameters()) {
    for (float value : parameter.to_vector<float>()) all.push_back(value);
  }
  return all;
}

inline void check_near(const Floats& got, const Floats& expected) {
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
  CHECK(worst < 1e-5);
}

/// Runs steps of two passes under Sgd; `count(rank, step, pass)` samples on each rank.
template <class Model, class Count>
Floats train(Communicator& c, Model& model, int stage, const FsdpOptions& options,
             const Count& count) {
  const auto path = strategy(model, c, stage, options);
  optim::Sgd sgd(path->parameters(), {.momentum = 0.9});
  for (int64_t step = 0; step < 6; ++step) {
    for (int64_t pass : {0, 1}) {
      const Sync sync = pass == 1 ? Sync::yes : Sync::no;
      const int64_t here = count(c.rank(), step, pass);
      if (here == 0) {
        path->backward_without_data(sync);
        continue;
      }
      const Samples s = samples(step, 10 * c.rank() + pass, here);
      path->backward(cross_entropy(model(s.x), s.y), static_cast<double>(here), sync);
    }
    path->clip_grad_norm(0.7);
    sgd.step(0.1);
    path->after_step();
    sgd.zero_grad();
  }
  if (stage == 0) return weights_of(model);
  const auto full = dynamic_cast<Fsdp&>(*path).full_parameters();
  return weights_of(model);
}

/// 0 to 3 samples.
inline int64_t uneven(int rank, int64_t step, int64_t pass) {
  return (2 * rank + step + 3 * pass) % 4;
}

/// The same steps on one rank: Ddp runs every rank's passes, one after the other.
inline Floats alone(int ranks) {
  Tower model;
  const auto self = make_self();
  Ddp ddp(model, *self);
  optim::Sgd sgd(model.parameters(), {.momentum = 0.9});
  for (int64_t step = 0; step < 6; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int64_t pass : {0, 1}) {
        const int64_t here = uneven(rank, step, pass);
        if (here == 0) continue;
        const Samples s = samples(step, 10 * rank + pass, here);
        ddp.backward(cross_entropy(model(s.x), s.y), static_cast<double>(here), Sync::no);
      }
    }
    ddp.backward_without_data();
    ddp.clip_grad_norm(0.7);
    sgd.step(0.1);
    sgd.zero_grad();
  }
  return weights_of(model);
}

}  // namespace capstan::distributed::testing
