// Groups: several calls as one entry of the queue.
#include <atomic>
#include <chrono>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "tests/distributed/comm/collectives.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::testing;
using namespace std::chrono_literals;

TEST_CASE("a group runs its collectives in order and has one work") {
  for (int n = 1; n <= 5; ++n) {
    both_ways(n, [&](Communicator& c) {
      const Tensor x = full({1000}, 1), y = full({7}, c.rank()), z = full({3}, c.rank());
      const int64_t before = c.traffic().collectives;
      Work inside;
      const Work work = c.group([&] {
        inside = c.all_reduce(x, Reduce::sum, "first");
        c.all_reduce(x, Reduce::sum, "second");  // of the first one's result
        c.broadcast(y, n - 1, "third");
        c.all_reduce(z, Reduce::max);
        CHECK(!inside.done());
      });
      work.wait();
      inside.wait();
      check_equal(x, [&](int64_t) { return n * n; });
      check_equal(y, [&](int64_t) { return n - 1; });
      check_equal(z, [&](int64_t) { return n - 1; });
      CHECK(c.traffic().collectives == before + 4);
      CHECK(c.flight_record().find("\"third\": done") != std::string::npos);
      CHECK(work.started() == inside.started());
      CHECK(c.group([] {}).done());
    });
  }
}

TEST_CASE("ranks of a group may send to each other in any order") {
  for (int n : {1, 2, 3, 5}) both_ways(n, check_sends_in_group);
}

TEST_CASE("tensors of a group may go before it is done") {
  both_ways(3, [](Communicator& c) {
    const Tensor in = zeros({100'000});
    Work work;
    {
      const Tensor out = full({100'000}, c.rank());
      work = c.group([&] {
        c.send(out, (c.rank() + 1) % 3);
        c.recv(in, (c.rank() + 2) % 3);
      });
    }
    work.wait();
    check_equal(in, [&](int64_t) { return (c.rank() + 2) % 3; });
  });
}

TEST_CASE("a group that throws queues nothing, and what a group cannot hold is refused") {
  both_ways(2, [](Communicator& c) {
    const Tensor x = full({10}, 1);
    Work given_up;
    CHECK_THROWS_WITH_AS(c.group([&] {
      given_up = c.all_reduce(x);
      throw ValueError("no");
    }),
                         "no", ValueError);
    CHECK_THROWS_AS(given_up.wait(), SharedError);
    CHECK_THROWS_AS(c.group([&] { c.group([] {}); }), ValueError);
    CHECK_THROWS_AS(c.group([&] { c.barrier().wait(); }), ValueError);
    CHECK_THROWS_AS(c.group([&] { c.split(0); }), ValueError);
    CHECK_THROWS_AS(c.group([&] { c.all_gather_strings("a"); }), ValueError);
    CHECK_THROWS_AS(c.group([&] { c.broadcast_string("a", 0); }), ValueError);
    CHECK_THROWS_AS(c.group([&] { c.shared_zeros({3}); }), ValueError);
    CHECK(c.traffic().collectives == 0);
    // Another communicator is not part of it.
    const auto part = c.split(0);
    const Work work = c.group([&] {
      c.all_reduce(x);
      part->all_reduce(full({3}, 1)).wait();
    });
    work.wait();
    check_equal(x, [](int64_t) { return 2; });
  });
}

TEST_CASE("a failure inside a group is that of the group, and names the call") {
  both_ways(3, [](Communicator& world) {
    const auto c = world.split(0);
    const bool other = c->rank() == 2;
    const std::string text = error_of([&] {
      c->group([&] {
         c->all_reduce(zeros({10}), Reduce::sum, "a");
         c->all_reduce(zeros({10}), Reduce::sum, other ? "c" : "b");
         c->barrier("d");
       }).wait();
    });
    check_shared(world, text, "call 2 all_reduce sum float32[10] \"b\"");
    const std::string record = c->flight_record();
    CHECK(record.find("\"a\": done") != std::string::npos);
    CHECK(record.find("barrier \"d\": failed") != std::string::npos);
  });
}

}  // namespace
