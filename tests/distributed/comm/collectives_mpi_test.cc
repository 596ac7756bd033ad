// The collectives and failures of the MPI communicator, under mpirun.
#include <thread>

#include "distributed/comm/mpi.h"
#include "tests/distributed/comm/collectives.h"
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
    check_same_bits(*c, 12'347);
  }
}

TEST_CASE("bytes of a ring") {
  const auto c = make_mpi({.all_reduce = Algorithm::ring});
  const int64_t n = c->size(), bytes = 100'000;
  c->all_reduce(zeros({bytes / 4})).wait();
  CHECK(c->traffic().bytes_sent == 2 * (n - 1) * bytes / n);
}

TEST_CASE("split, and several communicators at once") {
  const auto c = make_mpi();
  const auto part = c->split(c->rank() % 2, -c->rank());
  CHECK(part->size() == (c->size() + 1 - c->rank() % 2) / 2);
  CHECK(part->rank() == part->size() - 1 - c->rank() / 2);
  const auto first = c->split(c->rank() == 0 ? 0 : -1);
  CHECK((first != nullptr) == (c->rank() == 0));
  const Tensor x = full({100'000}, 1), y = full({100'000}, 1);
  const Work a = part->all_reduce(x), b = c->all_reduce(y);
  b.wait();
  a.wait();
  check_equal(x, [&](int64_t) { return part->size(); });
  check_equal(y, [&](int64_t) { return c->size(); });
}

TEST_CASE("agree and together") {
  const auto c = make_mpi();
  const bool last = c->rank() == c->size() - 1;
  c->agree("options", "same");
  const std::string text = error_of([&] { c->agree("options", last ? "b" : "a"); });
  if (c->size() > 1) check_shared(*c, text, "[agree] options must be the same on all ranks");
  const std::string other = error_of([&] {
    c->together("reading", [&] {
      if (last) throw IoError("[read] no file");
    });
  });
  check_shared(*c, other, "[read] no file");
}

TEST_CASE("calls that differ fail on all ranks with one text, and others go on") {
  const auto world = make_mpi();
  if (world->size() == 1) return;
  for (int64_t count : {10, 1'000'000}) {
    const auto c = world->split(0);
    const bool last = c->rank() == c->size() - 1;
    const Tensor x = full({count}, 1);
    const std::string text = error_of([&] {
      (last ? c->broadcast(x, 0, "weights") : c->all_reduce(x, Reduce::sum, "bucket")).wait();
    });
    CHECK(error_of([&] { c->barrier(); }) == text);
    check_shared(*world, text, "\"weights\"");
    check_shared(*world, text, "\"bucket\"");
  }
  check_collectives(*world, Dtype::float32, 1000);
}

TEST_CASE("a timeout") {
  const auto world = make_mpi();
  if (world->size() == 1) return;
  const auto c = make_mpi({.timeout = 300ms});
  const bool last = c->rank() == c->size() - 1;
  const std::string text = error_of([&] {
    if (!last) c->all_reduce(zeros({7}), Reduce::sum, "bucket 4").wait();
    while (c->failure().empty()) std::this_thread::sleep_for(1ms);
    c->barrier();
  });
  check_shared(*world, text,
               "call 1 all_reduce sum float32[7] \"bucket 4\" did not finish within 0.3 s");
}

TEST_CASE("a failing rank") {
  const auto world = make_mpi();
  const auto c = world->split(0);
  const bool last = c->rank() == c->size() - 1;
  const std::string text =
      last ? c->fail("no file") : error_of([&] { c->all_reduce(zeros({300'000})).wait(); });
  check_shared(*world, text, "no file");
  std::string reported;
  CHECK(c->leave(last ? "no file" : text, [&](const std::string& t) { reported = t; }));
  if (c->size() > 1) {
    CHECK(reported ==
          (c->rank() == 0 ? "rank " + std::to_string(c->size() - 1) + ": no file" : ""));
  }
}

}  // namespace
