// Collectives on the tape, across processes.
#include <doctest/doctest.h>

#include "distributed/comm/mpi.h"
#include "tests/distributed/differentiable_checks.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("the gradient of each collective is that of the sum of all ranks' losses") {
  for (bool share : {true, false}) check_gradients(*make_mpi({.share_memory = share}));
}

}  // namespace
}  // namespace capstan::distributed::testing
