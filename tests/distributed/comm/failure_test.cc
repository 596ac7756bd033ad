// Failures of ranks that are threads: each ends in one text on all ranks, soon, and for good.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "tests/distributed/comm/collectives.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::testing;
using namespace std::chrono_literals;

TEST_CASE("calls that differ between ranks are named, and no data is mixed") {
  const Tensor x = zeros({10}), y = zeros({10}, {.dtype = Dtype::int64}), z = zeros({12});
  const std::pair<std::function<Work(Communicator&)>, const char*> cases[] = {
      {[&](Communicator& c) { return c.broadcast(zeros({10}), 0, "b"); },
       "made call 2 broadcast root 0 float32[10] \"b\""},
      {[&](Communicator& c) { return c.all_reduce(zeros({12}), Reduce::sum, "a"); },
       "made call 2 all_reduce sum float32[12] \"a\""},
      {[&](Communicator& c) {
         return c.all_reduce(zeros({10}, {.dtype = Dtype::int64}), Reduce::sum, "a");
       },
       "made call 2 all_reduce sum int64[10] \"a\""},
      {[&](Communicator& c) { return c.all_reduce(zeros({10}), Reduce::max, "a"); },
       "made call 2 all_reduce max float32[10] \"a\""},
      {[&](Communicator& c) { return c.all_reduce(zeros({10}), Reduce::sum, "other"); },
       "made call 2 all_reduce sum float32[10] \"other\""},
      {[&](Communicator& c) { return c.barrier(); }, "made call 2 barrier"},
  };
  for (const auto& [call, name] : cases) {
    both_ways(2, [&](Communicator& world) {
      const auto c = world.split(0);
      c->barrier().wait();
      const Tensor mine = full({10}, 1);
      const std::string text = error_of(
          [&] { (c->rank() == 1 ? call(*c) : c->all_reduce(mine, Reduce::sum, "a")).wait(); });
      check_shared(world, text, name_of(*c, 1) + " " + name);
      check_shared(world, text, name_of(*c, 0) + " made call 2 all_reduce sum float32[10] \"a\"");
    });
  }
}

TEST_CASE("orders, algorithms and parts that differ between ranks are named") {
  both_ways(2, [](Communicator& world) {
    const bool other = world.rank() == 1;
    const Tensor x = zeros({10}), part = zeros({5}), three = zeros({other ? 3 : 5});
    const std::pair<std::function<Work(Communicator&)>, const char*> cases[] = {
        {[&](Communicator& c) {
           return c.all_reduce(x, Reduce::sum, "a", other ? Order::tree : Order::any);
         },
         "all_reduce sum float32[10] in tree order"},
        {[&](Communicator& c) {
           return c.all_gather(three, x, other ? Counts{7, 3} : Counts{5, 5}, "a");
         },
         "all_gather float32[10] in parts"},
    };
    for (const auto& [call, name] : cases) {
      const auto c = world.split(0);
      check_shared(world, error_of([&] { call(*c).wait(); }), name);
    }
    const auto c = world.split(0);
    const Counts out = other ? Counts{2, 3} : Counts{2, 3},
                 in = other ? Counts{4, 3} : Counts{2, 3};
    const std::string text =
        error_of([&] { c->all_to_all(part, out, zeros({other ? 7 : 5}), in, "a").wait(); });
    check_shared(world, text, "rank 1");
  });
}

TEST_CASE("places in shared memory that differ between ranks are named") {
  for (int other = 0; other < 3; ++other) {
    run_ranks(3, [&](Communicator& world) {
      const auto c = world.split(0);
      const Tensor x = c->shared_zeros({100}), y = c->shared_zeros({100});
      const Tensor choices[] = {zeros({10}), view_of(y, y.layout().sliced(0, 0, 10)),
                                view_of(x, x.layout().sliced(0, 20, 30))};
      const Tensor mine =
          c->rank() == 2 ? choices[other] : view_of(x, x.layout().sliced(0, 10, 20));
      const std::string text = error_of([&] { c->all_reduce(mine, Reduce::sum, "a").wait(); });
      check_shared(world, text, "float32[10] at 10 of shared memory 1 \"a\"");
      const char* places[] = {"float32[10] \"a\"", "at 0 of shared memory 2",
                              "at 20 of shared memory 1"};
      check_shared(world, text, places[other]);
    });
  }
}

TEST_CASE("a rank that never comes to shared memory") {
  both_ways(3, [](Communicator& world) {
    const auto c = world.split(0);
    const Tensor x = c->shared_zeros({1000});
    const std::string text = c->rank() == 1
                                 ? c->fail("no file")
                                 : error_of([&] { c->all_reduce(x, Reduce::sum, "a").wait(); });
    check_shared(world, text, "no file");
  });
}

TEST_CASE("a difference between two of four ranks reaches all, and queued calls as well") {
  both_ways(4, [](Communicator& world) {
    const auto c = world.split(0);
    const Tensor x = zeros({100});
    const Work first = c->rank() == 3 ? c->broadcast(x, 1, "weights") : c->all_reduce(x);
    const Work second = c->all_reduce(zeros({5}));
    const std::string text = error_of([&] { second.wait(); });
    CHECK(first.done());
    CHECK(second.done());
    CHECK(error_of([&] { first.wait(); }) == text);
    CHECK(error_of([&] { c->barrier(); }) == text);  // poisoned: throws at once
    CHECK(c->failure() == text);
    CHECK(c->flight_record().find(": failed") != std::string::npos);
    check_shared(world, text,
                 name_of(*c, 3) + " made call 1 broadcast root 1 float32[100] \"weights\"");
  });
}

TEST_CASE("calls that differ, and ranks that do not come, within hosts and across them") {
  for (int culprit = 0; culprit < 5; ++culprit) {
    run_ranks(
        5,
        [&](Communicator& world) {
          const bool other = world.rank() == culprit;
          const Tensor x = full({50'000}, 1);
          auto c = world.split(0);
          std::string text = error_of([&] {
            (other ? c->all_reduce(x, Reduce::max, "a") : c->all_reduce(x, Reduce::sum, "a"))
                .wait();
          });
          check_shared(world, text, "call 1 all_reduce max float32[50000] by hierarchical \"a\"");
          check_shared(world, text, "call 1 all_reduce sum float32[50000] by hierarchical \"a\"");
          c = world.split(0);
          text = other ? c->fail("no file") : error_of([&] { c->all_reduce(x).wait(); });
          check_shared(world, text, "no file");
        },
        {.all_reduce = Algorithm::hierarchical, .ranks_per_host = 2});
  }
}

TEST_CASE("a send that meets another receive") {
  both_ways(2, [](Communicator& world) {
    const auto c = world.split(0);
    const std::string text = error_of([&] {
      (c->rank() ? c->recv(zeros({3}), 0) : c->send(zeros({4}), 1)).wait();
      c->barrier().wait();
    });
    check_shared(world, text,
                 name_of(*c, 0) + " made send_recv float32[4], " + name_of(*c, 1) +
                     " made send_recv float32[3]");
  });
}

TEST_CASE("a call that does not finish in time says who waited for whom, and who is missing") {
  both_ways(3,
            [](Communicator& world) {
              CommOptions options;
              const auto start = Clock::now();
              const auto c = world.split(0);
              const std::string text = error_of([&] {
                if (c->rank() != 2) c->all_reduce(zeros({7}), Reduce::sum, "bucket 4").wait();
                while (c->failure().empty()) std::this_thread::sleep_for(1ms);
                c->barrier();
              });
              check_shared(
                  world, text,
                  "call 1 all_reduce sum float32[7] \"bucket 4\" did not finish within 0.2 s");
              check_shared(world, text, " waited for rank ");
              check_shared(world, text,
                           "; " + name_of(*c, 2) + " has come to no call; ranks 0-1 on " +
                               c->host(0) + " have come to call 1");
              CHECK(Clock::now() - start < 5s);
            },
            {.timeout = 200ms});
}

TEST_CASE("ranks that stand at different calls are told apart") {
  run_ranks(4,
            [](Communicator& world) {
              const auto c = world.split(0);
              const int rank = c->rank();
              const Tensor x = zeros({3});
              const std::string text = error_of([&] {
                if (rank != 2) c->reduce(x, 0, Reduce::sum, "norm").wait();
                // In a tree rank 1 only gives, and goes on; with ranks 0 and 3 in their last call.
                std::this_thread::sleep_for(100ms);
                if (rank == 1) c->barrier("later").wait();
                while (c->failure().empty()) std::this_thread::sleep_for(1ms);
                c->barrier();
              });
              check_shared(world, text, "call 1 reduce sum root 0 float32[3] \"norm\"");
              check_shared(world, text,
                           name_of(*c, 2) + " has come to no call; ranks 0 on " + c->host(0) +
                               ", 3 on " + c->host(0) + " have come to call 1; " + name_of(*c, 1) +
                               " has gone on to call 2 barrier \"later\"");
            },
            {.timeout = 300ms, .share_memory = false});
}

TEST_CASE("run_ranks throws what one rank threw, and the others do not wait for it") {
  std::atomic<int> told = 0;
  const auto start = Clock::now();
  CHECK_THROWS_WITH_AS(both_ways(4,
                                 [&](Communicator& c) {
                                   c.barrier().wait();
                                   if (c.rank() == 2) throw IoError("[read] no file");
                                   try {
                                     c.all_reduce(zeros({100'000})).wait();
                                   } catch (const SharedError& error) {
                                     CHECK(error.what() == name_of(c, 2) +
                                                               ": [read] no file (after "
                                                               "call 1 barrier)");
                                     ++told;
                                     throw;
                                   }
                                 }),
                       "[read] no file", IoError);
  CHECK(told == 3);
  CHECK(Clock::now() - start < 5s);
}

TEST_CASE("run_ranks with ranks that are already done, and with a collective error") {
  CHECK_THROWS_WITH_AS(both_ways(3,
                                 [&](Communicator& c) {
                                   if (c.rank() == 0) throw ValueError("no");
                                 }),
                       "no", ValueError);
  CHECK_THROWS_WITH_AS(
      both_ways(2, [&](Communicator& c) { c.together("x", [] { throw ValueError("all"); }); }),
      "all", SharedError);
  CHECK_THROWS_AS(both_ways(2,
                            [&](Communicator& c) {
                              if (c.rank() == 1) throw 7;  // not even an exception
                              CHECK_THROWS_WITH_AS(c.barrier().wait(),
                                                   (name_of(c, 1) + ": unknown exception").c_str(),
                                                   SharedError);
                            }),
                  int);
  CHECK_THROWS_AS(both_ways(0, [](Communicator&) {}), ValueError);
}

TEST_CASE("a result that is complete is not taken away by a failure right after it") {
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> complete = 0;
    CHECK_THROWS_WITH(both_ways(3,
                                [&](Communicator& c) {
                                  const Tensor x = full({50'000}, 1);
                                  c.all_reduce(x).wait();
                                  ++complete;
                                  throw ValueError("afterwards");
                                }),
                      "afterwards");
    CHECK(complete == 3);
  }
}

TEST_CASE("leave: one rank reports, with the ranks' own text if all failed alike") {
  both_ways(3, [](Communicator& world) {
    const auto report = [&](const std::string& mine) {
      const auto c = world.split(0);
      c->fail(mine);
      std::string text;
      CHECK(c->leave(mine, [&](const std::string& t) { text = t; }));
      return world.all_gather_strings(text);
    };
    CHECK(report("same") == std::vector<std::string>{"same", "", ""});
    const auto texts = report(world.rank() == 1 ? "one" : "others");
    CHECK(texts[0].rfind("rank ", 0) == 0);
    CHECK(texts[1] == "");
  });
  const auto alone = make_self();
  CHECK(alone->fail("broken") == "broken");
  CHECK(error_of([&] { alone->barrier(); }) == "broken");
  std::string text;
  CHECK(alone->leave("broken", [&](const std::string& t) { text = t; }));
  CHECK(text == "broken");
}

TEST_CASE("a communicator that goes because of an exception does not wait for its peers") {
  const auto start = Clock::now();
  std::atomic<int> told = 0;
  CHECK_THROWS_AS(both_ways(3,
                            [&](Communicator& world) {
                              const auto c = world.split(0);
                              // Rank 2 never sends. (Nor may rank 0, whose barrier would come
                              // here.)
                              const Work work = c->rank() == 1 ? c->recv(zeros({5}), 2) : Work();
                              if (c->rank() == 1) throw ValueError("gone");
                              while (c->rank() == 2 && c->failure().empty()) {
                                std::this_thread::sleep_for(1ms);
                              }
                              if (c->rank() == 2) return;
                              try {
                                c->barrier().wait();
                              } catch (const SharedError& error) {
                                ++told;
                                CHECK(std::string(error.what()) ==
                                      name_of(*c, 1) +
                                          ": [communicator] the rank left because of an exception");
                                throw;
                              }
                            }),
                  ValueError);
  CHECK(told == 1);
  CHECK(Clock::now() - start < 5s);
}

TEST_CASE("options out of range") {
  for (const CommOptions& bad : {CommOptions{.timeout = 0ms}, CommOptions{.timeout = -1ms},
                                 CommOptions{.grace = -1ms}, CommOptions{.ranks_per_host = -1}}) {
    CHECK_THROWS_AS(run_ranks(
                        2, [](Communicator&) {}, bad),
                    ValueError);
  }
}

TEST_CASE("CAPSTAN_TIMEOUT") {
  CHECK(CommOptions().timeout == 10min);
  setenv("CAPSTAN_TIMEOUT", "2.5", 1);
  CHECK(CommOptions().timeout > 2400ms);
  CHECK(CommOptions().timeout < 2600ms);
  for (const char* bad : {"", "abc", "0", "-1", "5s", "nan", "1e30"}) {
    setenv("CAPSTAN_TIMEOUT", bad, 1);
    CHECK_THROWS_AS(CommOptions(), ValueError);
  }
  unsetenv("CAPSTAN_TIMEOUT");
}

}  // namespace
