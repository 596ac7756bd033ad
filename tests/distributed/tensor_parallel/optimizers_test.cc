// Optimizers that look at whole tensors refuse slices, and take what is not cut.
#include <doctest/doctest.h>

#include "core/error.h"
#include "distributed/comm/thread.h"
#include "distributed/tensor_parallel/tensor_parallel.h"
#include "optim/adamw.h"
#include "optim/groups.h"
#include "optim/lamb.h"
#include "tests/distributed/tensor_parallel/gpts.h"

namespace capstan::distributed {
namespace {

TEST_CASE("slices of parameters are refused where whole ones are expected") {
  run_ranks(2, [](Communicator& ranks) {
    models::Gpt gpt = make_gpt(gpt2(), Dtype::float64);
    const TensorParallel parallel(gpt, models::gpt_plan(), ranks);
    const NamedTensors all = gpt.parameters();
    CHECK_THROWS_WITH_AS(optim::Lamb{all}, doctest::Contains("is one rank's part of a parameter"),
                         ValueError);
    optim::AdamW{all};
    optim::Lamb{optim::filter(
        all, [&](const std::string& name, const Tensor&) { return !parallel.slice(name).axis; })};
  });
}

}  // namespace
}  // namespace capstan::distributed
