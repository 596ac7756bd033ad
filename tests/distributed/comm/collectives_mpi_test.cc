// The collectives and failures of the MPI communicator, under mpirun.
#include <thread>

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

TEST_CASE("parts of parts, many alive at once, made by several threads, one after the other") {
  const auto world = make_mpi();
  std::vector<std::unique_ptr<Communicator>> parts;
  for (int i = 0; i < 40; ++i) {
    Communicator& whole = parts.empty() ? *world : *parts[i / 2];
    parts.push_back(whole.split(i % 4 == 3 ? 0 : whole.rank() % 2, -whole.rank()));
  }
  for (const auto& part : parts) check_all_reduce(*part, Dtype::int32, 17);

  const auto copy = world->split(0), other_copy = world->split(0);
  std::unique_ptr<Communicator> one, other;
  std::thread thread([&] { one = copy->split(0); });
  other = other_copy->split(0);
  thread.join();
  // Calls on the two cross: were their messages one another's, the sums would be wrong.
  std::thread crossing([&] { check_all_reduce(*one, Dtype::float32, 1000); });
  check_all_reduce(*other, Dtype::int64, 500);
  crossing.join();

  for (int i = 0; i < 500; ++i) world->split(i % 2)->barrier().wait();
}

TEST_CASE("MPI's own all-reduce in a part of the ranks") {
  const auto world = make_mpi({.all_reduce = Algorithm::mpi});
  const auto part = world->split(world->rank() % 2), all = world->split(0, -world->rank());
  for (Communicator* c : {part.get(), all.get(), world.get()}) {
    check_all_reduce(*c, Dtype::float32, 1000);
  }
}

TEST_CASE("agree and together") { check_agreement(*make_mpi()); }
TEST_CASE("calls that differ fail on all ranks with one text, and others go on") {
  check_calls_that_differ(*make_mpi());
}
TEST_CASE("a timeout") { check_timeout(*make_mpi(), *make_mpi({.timeout = 1s})); }
TEST_CASE("a failing rank") { check_failing_rank(*make_mpi()); }

}  // namespace
