// The checks of what a communicator of processes does beside collectives: splits, agreement, and
// failures that end in one text on all ranks. collectives_mpi_test.cc runs them under mpirun,
// tcp_test.cc over TCP.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "tests/distributed/comm/collectives.h"

namespace capstan::distributed::testing {

inline void check_split(Communicator& c) {
  const auto part = c.split(c.rank() % 2, -c.rank());
  CHECK(part->size() == (c.size() + 1 - c.rank() % 2) / 2);
  CHECK(part->rank() == part->size() - 1 - c.rank() / 2);
  const auto first = c.split(c.rank() == 0 ? 0 : -1);
  CHECK((first != nullptr) == (c.rank() == 0));
  const Tensor x = full({100'000}, 1), y = full({100'000}, 1);
  const Work a = part->all_reduce(x), b = c.all_reduce(y);
  b.wait();
  a.wait();
  check_equal(x, [&](int64_t) { return part->size(); });
  check_equal(y, [&](int64_t) { return c.size(); });
}

inline void check_agreement(Communicator& c) {
  const bool last = c.rank() == c.size() - 1;
  c.agree("options", "same");
  const std::string text = error_of([&] { c.agree("options", last ? "b" : "a"); });
  if (c.size() > 1) check_shared(c, text, "[agree] options must be the same on all ranks");
  const std::string other = error_of([&] {
    c.together("reading", [&] {
      if (last) throw IoError("[read] no file");
    });
  });
  check_shared(c, other, "[read] no file");
}

inline void check_calls_that_differ(Communicator& world) {
  if (world.size() == 1) return;
  for (int64_t count : {10, 1'000'000}) {
    const auto c = world.split(0);
    const bool last = c->rank() == c->size() - 1;
    const Tensor x = full({count}, 1);
    const std::string text = error_of([&] {
      (last ? c->broadcast(x, 0, "weights") : c->all_reduce(x, Reduce::sum, "bucket")).wait();
    });
    CHECK(error_of([&] { c->barrier(); }) == text);
    check_shared(world, text, "\"weights\"");
    check_shared(world, text, "\"bucket\"");
  }
  check_collectives(world, Dtype::float32, 1000);
}

// The timeout of `c` is 1 s.
inline void check_timeout(Communicator& world, Communicator& c) {
  if (world.size() == 1) return;
  const bool last = c.rank() == c.size() - 1;
  const std::string text = error_of([&] {
    if (!last) c.all_reduce(zeros({7}), Reduce::sum, "bucket 4").wait();
    while (c.failure().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    c.barrier();
  });
  check_shared(world, text,
               "call 1 all_reduce sum float32[7] \"bucket 4\" did not finish within 1 s");
}

inline void check_failing_rank(Communicator& world) {
  const auto c = world.split(0);
  const bool last = c->rank() == c->size() - 1;
  const std::string text =
      last ? c->fail("no file") : error_of([&] { c->all_reduce(zeros({300'000})).wait(); });
  check_shared(world, text, "no file");
  std::string reported;
  CHECK(c->leave(last ? "no file" : text, [&](const std::string& t) { reported = t; }));
  if (c->size() > 1) {
    CHECK(reported == (c->rank() == 0 ? name_of(*c, c->size() - 1) + ": no file" : ""));
  }
}

}  // namespace capstan::distributed::testing
