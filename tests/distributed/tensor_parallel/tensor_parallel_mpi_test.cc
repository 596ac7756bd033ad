// Tensor parallelism across processes: every number of ranks ends where one rank does.
#include "distributed/comm/mpi.h"
#include "optim/adamw.h"
#include "tests/distributed/tensor_parallel/gpts.h"

namespace capstan::distributed {
namespace {

using models::Gpt;

TEST_CASE("processes train a cut Gpt like one process the whole one") {
  for (bool share : {true, false}) {
    const auto ranks = make_mpi({.share_memory = share});
    for (bool sequence : {false, true}) {
      Gpt whole = make_gpt(gpt2(), Dtype::float64, 0.1);
      Gpt gpt = make_gpt(gpt2(), Dtype::float64, 0.1);
      const TensorParallel parallel(gpt, models::gpt_plan({.sequence = sequence}), *ranks);
      optim::AdamW alone(whole.parameters()), together(gpt.parameters());
      for (int64_t step = 0; step < 5; ++step) {
        manual_seed(step);
        const Tensor expected = whole_loss(whole, text(step));
        backward(expected);
        alone.step(1e-3);
        alone.zero_grad();
        manual_seed(step);
        const Tensor loss =
            parallel.cross_entropy("head", gpt(text(step).inputs), text(step).targets);
        backward(loss);
        together.step(1e-3);
        together.zero_grad();
        CHECK(std::abs(loss.item<double>() - expected.item<double>()) < 1e-11);
      }
      CHECK(difference(parallel.whole(gpt.parameters()), whole.parameters()) < 1e-11);
    }
  }
}

}  // namespace
}  // namespace capstan::distributed
