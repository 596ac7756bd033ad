// Test cases that go wrong in each way that ranks can; mpi_main_test.sh runs them one at a time.
#include <doctest/doctest.h>
#include <mpi.h>

#include <cstdlib>

#include "tests/testing/mpi.h"

using capstan::testing::world_rank;

TEST_CASE("nothing fails") { MPI_Barrier(MPI_COMM_WORLD); }

TEST_CASE("rank 1 fails at the end") {
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK(world_rank() != 1);
}

TEST_CASE("rank 1 fails while rank 0 waits for it") {
  REQUIRE(world_rank() != 1);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("rank 1 dies") {
  if (world_rank() == 1) std::abort();
  MPI_Barrier(MPI_COMM_WORLD);
}
