// The collectives and failures of the MPI communicator, under mpirun.
#include "distributed/comm/mpi.h"
#include "tests/distributed/comm/collectives.h"
#include "tests/distributed/comm/failures.h"
#include "tests/testing/mpi.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::testing;
using namespace std::chrono_literals;
using capstan::testing::world_rank;
using capstan::testing::world_size;

TEST_CASE("every collective, dtype and operation, by messages") {
  const auto c = make_mpi({.share_memory = false});
  for (Dtype dtype : kDtypes) {
    for (int64_t count : {0, 17, 1000}) check_collectives(*c, dtype, count);
  }
  check_collectives(*c, Dtype::float32, 100'003);
  check_same_bits(*c, 12'347);
}

TEST_CASE("every collective, dtype and operation") {
  const auto c = make_mpi();
  CHECK(c->rank() == world_rank());
  CHECK(c->size() == world_size());
  CHECK(c->local_rank() == world_rank());  // one machine
  CHECK(c->host(c->size() - 1) == c->host(0));
  for (Dtype dtype : kDtypes) {
    for (int64_t count : {0, 1, 3, 17, 1000}) check_collectives(*c, dtype, count);
  }
  check_collectives(*c, Dtype::float32, 100'003);
  for (Dtype dtype : kDtypes) check_shared_memory(*c, dtype, 1000);
  check_shared_memory(*c, Dtype::float32, 100'003);
  check_same_bits(*c, 12'347);
}

TEST_CASE("all-reduces by each algorithm") {
  for (Algorithm algorithm : kAlgorithms) {
    const auto c = make_mpi({.all_reduce = algorithm});
    for (int64_t count : {0, 1, 17, 100'003}) check_all_reduce(*c, Dtype::float32, count);
    for (Dtype dtype : kDtypes) check_all_reduce(*c, dtype, 1000);
    check_same_bits(*c, 12'347);
  }
}

TEST_CASE("bytes of a ring") {
  const auto c = make_mpi({.all_reduce = Algorithm::ring});
  const int64_t n = c->size(), bytes = 240'000;  // whole elements on 1 to 5 ranks
  c->all_reduce(zeros({bytes / 4})).wait();
  CHECK(c->traffic().bytes_sent == 2 * (n - 1) * bytes / n);
}

TEST_CASE("sends in a group") { check_sends_in_group(*make_mpi()); }
TEST_CASE("split, and several communicators at once") { check_split(*make_mpi()); }
TEST_CASE("agree and together") { check_agreement(*make_mpi()); }
TEST_CASE("calls that differ fail on all ranks with one text, and others go on") {
  check_calls_that_differ(*make_mpi());
}
TEST_CASE("a timeout") { check_timeout(*make_mpi(), *make_mpi({.timeout = 1s})); }
TEST_CASE("a failing rank") { check_failing_rank(*make_mpi()); }

}  // namespace
