// The communicator over TCP, on ranks that are threads of this process and know each other by
// sockets only: every collective, its failures, and every way in which ranks may fail to meet.
#include "distributed/comm/tcp.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "distributed/comm/reception.h"
#include "distributed/comm/socket.h"
#include "tests/distributed/comm/collectives.h"
#include "tests/distributed/comm/failures.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::testing;
using namespace std::chrono_literals;

int free_port() { return Socket::listen(0).port(); }

// Runs fn(rank) on as many threads.
void on_threads(int ranks, const std::function<void(int)>& fn) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&fn, r] { CHECK_NOTHROW(fn(r)); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Runs fn on ranks over TCP. They end together.
void tcp_ranks(int ranks, const std::function<void(Communicator&)>& fn, CommOptions options = {}) {
  const int port = free_port();
  on_threads(ranks, [&](int rank) {
    const auto c = make_tcp({rank, ranks, "localhost", port}, options);
    fn(*c);
    if (c->failure().empty()) c->barrier("end").wait();
  });
}

void tcp_both_ways(int ranks, const std::function<void(Communicator&)>& fn,
                   CommOptions options = {}) {
  for (bool share : {true, false}) {
    if (!share && ranks > 1 && options.all_reduce == Algorithm::shared_memory) continue;
    options.share_memory = share;
    tcp_ranks(ranks, fn, options);
  }
}

TEST_CASE("every collective, dtype and operation, on 1 to 5 ranks") {
  for (int n = 1; n <= 5; ++n) {
    tcp_both_ways(n, [&](Communicator& c) {
      CHECK(c.size() == n);
      CHECK(c.local_rank() == c.rank());  // one machine
      CHECK(c.host(n - 1) == c.host(0));
      for (Dtype dtype : kDtypes) {
        for (int64_t count : {0, 17}) check_collectives(c, dtype, count);
      }
      check_same_bits(c, 12'347);
    });
  }
}

TEST_CASE("tensors of many pieces, and in shared memory") {
  tcp_both_ways(3, [](Communicator& c) { check_collectives(c, Dtype::float32, 100'003); });
  tcp_ranks(3, [](Communicator& c) { check_shared_memory(c, Dtype::float32, 1000); });
}

TEST_CASE("all-reduces by each algorithm") {
  for (Algorithm algorithm : own_algorithms()) {
    tcp_both_ways(4,
                  [](Communicator& c) {
                    for (int64_t count : {0, 1, 17, 100'003})
                      check_all_reduce(c, Dtype::float32, count);
                  },
                  {.all_reduce = algorithm});
  }
}

TEST_CASE("megabytes both ways at once do not block each other") {
  tcp_ranks(2,
            [](Communicator& c) {
              const Tensor out = full({4'000'000}, c.rank()), in = zeros({4'000'000});
              c.send_recv(out, 1 - c.rank(), in, 1 - c.rank()).wait();
              check_equal(in, [&](int64_t) { return 1 - c.rank(); });
            },
            {.share_memory = false});
}

TEST_CASE("bytes of a ring") {
  tcp_ranks(4,
            [](Communicator& c) {
              c.all_reduce(zeros({25'000})).wait();
              CHECK(c.traffic().bytes_sent == 150'000);
            },
            {.all_reduce = Algorithm::ring});
}

TEST_CASE("splits, agreement, calls that differ, failing ranks") {
  for (int n = 1; n <= 5; ++n) {
    tcp_both_ways(n, [](Communicator& c) {
      check_split(c);
      check_agreement(c);
      check_calls_that_differ(c);
      check_failing_rank(c);
    });
  }
}

TEST_CASE("sends in a group") {
  for (int n : {2, 4}) tcp_both_ways(n, check_sends_in_group);
}

TEST_CASE("many splits at once") {
  tcp_ranks(4, [](Communicator& c) {
    std::vector<std::unique_ptr<Communicator>> parts;
    for (int i = 0; i < 10; ++i) parts.push_back(c.split(i % 2 ? c.rank() % 2 : 0));
    std::vector<Work> works;
    const Tensor x = full({10}, 1);
    for (const auto& part : parts) part->all_reduce(x, Reduce::max).wait();
    // Splits of splits, made by several threads of one process at the same time.
    std::thread other([&] { parts.push_back(parts[0]->split(0)); });
    const auto part = parts[1]->split(c.rank());
    other.join();
    CHECK(part->size() == 1);
    CHECK(parts.back()->size() == 4);
  });
}

TEST_CASE("a timeout") {
  const int port = free_port(), port_of_other = free_port();
  on_threads(3, [&](int rank) {
    const auto world = make_tcp({rank, 3, "localhost", port});
    const auto c = make_tcp({rank, 3, "localhost", port_of_other}, {.timeout = 1s});
    check_timeout(*world, *c);
    world->barrier().wait();
  });
}

TEST_CASE("a rank that leaves while others wait for it") {
  tcp_both_ways(3, [](Communicator& world) {
    auto c = world.split(0);
    const auto start = Clock::now();
    if (c->rank() == 1) c.reset();
    std::string text;
    if (c) text = error_of([&] { c->send_recv(zeros({3}), 1, zeros({3}), 1).wait(); });
    if (c) CHECK(text.find("] " + name_of(*c, 1) + " has left (in send_recv") != std::string::npos);
    CHECK(Clock::now() - start < 10s);
  });
}

TEST_CASE("messages of the wrong size are refused") {
  tcp_ranks(2, [](Communicator& world) {
    const auto c = world.split(0);
    const Counts out{2, 3}, in = c->rank() ? Counts{4, 3} : Counts{2, 2};
    const std::string text = error_of([&] {
      c->all_to_all(zeros({5}), out, zeros({c->rank() ? 7 : 4}), in, "a").wait();
      c->barrier().wait();
    });
    check_shared(
        world, text,
        name_of(*c, 0) + " sent 12 bytes where " + name_of(*c, 1) + " expected 16 (in call 1");
  });
}

// What each rank that tries to meet is told; empty: nothing.
std::map<int, std::string> errors_of(const std::vector<TcpJob>& jobs) {
  std::mutex mutex;
  std::map<int, std::string> errors;
  on_threads(static_cast<int>(jobs.size()), [&](int i) {
    std::string text;
    try {
      make_tcp(jobs[i])->barrier().wait();
    } catch (const CommError& error) {
      text = error.what();
    }
    std::lock_guard lock(mutex);
    errors[i] = text;
  });
  return errors;
}

TEST_CASE("ranks that do not all come") {
  const int port = free_port();
  const auto start = Clock::now();
  const auto errors =
      errors_of({{0, 4, "localhost", port, 500ms}, {2, 4, "localhost", port, 500ms}});
  const std::string text = "[tcp] not all of 4 ranks came to localhost:" + std::to_string(port) +
                           " within 0.5 s: no rank 1, 3";
  CHECK(errors.at(0) == text);
  CHECK(errors.at(1) == text);
  CHECK(Clock::now() - start < 10s);
}

TEST_CASE("nobody where rank 0 should be") {
  const int port = free_port();
  CHECK(
      errors_of({{1, 2, "localhost", port, 300ms}}).at(0) ==
      "[tcp] there is nobody at localhost:" + std::to_string(port) +
          " after 0.3 s: rank 0 does not run there, cannot be reached, or was started as the only "
          "one (WORLD_SIZE=1)");
  CHECK(errors_of({{1, 2, "no.such.host.invalid", port, 300ms}})
            .at(0)
            .starts_with("[tcp] no host 'no.such.host.invalid': "));
}

TEST_CASE("another number of ranks, and two of one rank") {
  const int port = free_port();
  auto errors = errors_of({{0, 2, "localhost", port}, {1, 3, "localhost", port}});
  CHECK(errors.at(0).starts_with("[tcp] the number of ranks differs: rank 0 on "));
  CHECK(errors.at(0).find(" has 2, rank 1 on ") != std::string::npos);
  CHECK(errors.at(0).ends_with(" has 3; give all the same WORLD_SIZE"));
  CHECK(errors.at(1) == errors.at(0));
  // The ranks that come later hear of it, too.
  errors = errors_of({{0, 4, "localhost", port},
                      {2, 4, "localhost", port},
                      {2, 4, "localhost", port},
                      {3, 4, "localhost", port}});
  CHECK(errors.at(0).starts_with("[tcp] two processes are rank 2: on "));
  for (int i : {1, 2, 3}) CHECK(errors.at(i) == errors.at(0));
}

TEST_CASE("a port that is taken") {
  const Socket other = Socket::listen(0);
  const std::string text = errors_of({{0, 2, "localhost", other.port(), 300ms}}).at(0);
  CHECK(text.starts_with("[tcp] cannot listen at port " + std::to_string(other.port()) + ": "));
  CHECK(text.ends_with("choose another MASTER_PORT"));
}

TEST_CASE("somebody else where rank 0 should be") {
  const Socket other = Socket::listen(0);
  for (const std::string answer : {"", "HTTP/1.1 400 Bad Request\r\n\r\n"}) {
    std::thread server([&] {
      const Socket caller = other.accept(Clock::now() + 10s);
      caller.send(answer.data(), static_cast<int64_t>(answer.size()), Clock::now() + 1s);
    });
    CHECK(errors_of({{1, 2, "localhost", other.port(), 2000ms}}).at(0) ==
          "[tcp] what is at localhost:" + std::to_string(other.port()) +
              " is not rank 0 of a job, or it ended");
    server.join();
  }
}

TEST_CASE("nobody answers where rank 0 should be") {
  const Socket stopped = Socket::listen(0);
  const std::string address = "localhost:" + std::to_string(stopped.port());
  CHECK(
      errors_of({{1, 2, "localhost", stopped.port(), 300ms}}).at(0) ==
      "[tcp] nobody at " + address +
          " has answered within 0.3 s: rank 0 is stopped, or its job has started already, or that "
          "is somebody else");
}

TEST_CASE("a rank that waits for rank 0 does not meet itself") {
  // The kernel gives the caller a port of its choice, in time the one that it calls; in a network
  // with four ports that is at once.
  std::thread([] {
    if (unshare(CLONE_NEWNET) != 0) {
      MESSAGE("not tested: no network of one's own may be made here");
      return;
    }
    std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40003";
    ifreq loopback = {};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    const Socket any(socket(AF_INET, SOCK_DGRAM, 0));
    CHECK(ioctl(any.file(), SIOCSIFFLAGS, &loopback) == 0);
    for (int port : {40000, 40001, 40002, 40003}) {
      CHECK(!Socket::connect("127.0.0.1", port, Clock::now() + 300ms));
      CHECK_NOTHROW(Socket::listen(port));
    }
  }).join();
}

TEST_CASE("options of communicators that differ between ranks are named") {
  for (const CommOptions& other :
       {CommOptions{.share_memory = false}, CommOptions{.ranks_per_host = 2}}) {
    const int port = free_port();
    on_threads(3, [&](int rank) {
      const auto c = make_tcp({rank, 3, "localhost", port}, rank == 1 ? other : CommOptions{});
      const std::string text = error_of([&] { c->barrier().wait(); });
      CHECK(text.starts_with("[connect] the ranks' calls differ: rank "));
      CHECK(text.find(name_of(*c, 1) + (other.share_memory
                                            ? " made connect \"2 a host\""
                                            : " made connect \"without shared memory\"")) !=
            std::string::npos);
    });
  }
}

TEST_CASE("strangers at rank 0's port are named if the ranks do not come, and harm nothing else") {
  const int port = free_port();
  const auto visit = [&] {
    const Socket stranger = Socket::connect("127.0.0.1", port, Clock::now() + 5s);
    const std::string request(200, 'x');
    stranger.send(request.data(), static_cast<int64_t>(request.size()), Clock::now() + 1s);
  };
  std::thread visitor(visit);
  const std::string text = errors_of({{0, 2, "localhost", port, 1000ms}}).at(0);
  visitor.join();
  CHECK(text.find(": no rank 1; from 127.0.0.1 came somebody who is no rank of Capstan") !=
        std::string::npos);

  std::thread early(visit);
  on_threads(3, [&](int rank) {
    const auto c = make_tcp({rank, 3, "localhost", port});
    if (rank == 1) visit();
    check_split(*c);
    c->barrier().wait();
  });
  early.join();
}

TEST_CASE("strangers that say nothing keep nobody waiting") {
  const int port = free_port();
  std::vector<Socket> strangers(20);
  std::thread visitors([&] {
    for (Socket& stranger : strangers) {
      stranger = Socket::connect("127.0.0.1", port, Clock::now() + 5s);
      stranger.send("GET /", 5, Clock::now() + 1s);
    }
  });
  const auto start = Clock::now();
  std::thread late([&] {
    visitors.join();
    CHECK(errors_of({{1, 2, "localhost", port}}).at(0) == "");
  });
  CHECK(errors_of({{0, 2, "localhost", port}}).at(0) == "");
  late.join();
  CHECK(Clock::now() - start < 2s);  // the patience with one of them
}

// A rank that comes to the job at `port` and says no more.
Socket silent_rank(int rank, int size, int port) {
  Socket socket = Socket::connect("localhost", port, Clock::now() + 5s);
  Hello hello;
  hello.rank = rank;
  hello.size = size;
  hello.port = port;
  std::strcpy(hello.host, "h7");
  socket.send(&hello, sizeof hello, Clock::now() + 1s);
  return socket;
}

TEST_CASE("a rank that is started again takes its own place") {
  const int port = free_port();
  std::thread twice([&] {
    silent_rank(1, 3, port);  // ends before all have come
    for (const auto& [_, error] :
         errors_of({{1, 3, "localhost", port}, {2, 3, "localhost", port}})) {
      CHECK(error == "");
    }
  });
  CHECK(errors_of({{0, 3, "localhost", port}}).at(0) == "");
  twice.join();
}

TEST_CASE("a rank that is stopped while the ranks connect is named by all alike") {
  for (int stopped : {1, 3}) {
    const int port = free_port();
    Socket socket;
    std::thread other([&] { socket = silent_rank(stopped, 4, port); });
    std::vector<TcpJob> jobs;
    for (int rank = 0; rank < 4; ++rank) {
      if (rank != stopped) jobs.push_back({rank, 4, "localhost", port, 1000ms});
    }
    const auto start = Clock::now();
    for (const auto& [_, error] : errors_of(jobs)) {
      CHECK(error == "[tcp] rank " + std::to_string(stopped) +
                         " on h7 came, but did not answer while the ranks connected");
    }
    CHECK(Clock::now() - start < 6s);
    other.join();
  }
}

TEST_CASE("a rank that comes when the job has started is told so, if rank 0 looks") {
  const int port = free_port();
  std::string told;
  std::atomic<bool> answered{false};
  std::thread late;
  on_threads(2, [&](int rank) {
    const auto c = make_tcp({rank, 2, "localhost", port});
    if (rank == 0) {
      late = std::thread([&] {
        told = errors_of({{1, 2, "localhost", port}}).at(0);
        answered = true;
      });
    }
    do {
      c->split(0);  // where rank 0 looks who calls
    } while (c->broadcast_string(answered ? "" : "go on", 0) == "go on");
  });
  late.join();
  CHECK(told ==
        "[tcp] this job has started already, with another rank 1: to start one rank again, start "
        "all");
}

// Cuts both connections between ranks 1 and 2 of three: those that rank 0's port has no part in.
void cut_link_beside(int port_of_rank_0) {
  for (int file = 3; file < 1024; ++file) {
    sockaddr_storage address = {};
    socklen_t length = sizeof address;
    if (getpeername(file, reinterpret_cast<sockaddr*>(&address), &length) != 0) continue;
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6) continue;
    const auto port_at = [&](auto ask) {
      length = sizeof address;
      ask(file, reinterpret_cast<sockaddr*>(&address), &length);
      return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
    };
    if (port_at(getsockname) == port_of_rank_0 || port_at(getpeername) == port_of_rank_0) continue;
    shutdown(file, SHUT_RDWR);
  }
}

TEST_CASE("a link that is cut between two of three ranks is named by all alike") {
  const int port = free_port();
  std::mutex mutex;
  std::set<std::string> texts;
  on_threads(3, [&](int rank) {
    const auto c = make_tcp({rank, 3, "localhost", port}, {.share_memory = false});
    c->barrier().wait();
    const std::string text = error_of([&] {
      for (int step = 0;; ++step) {
        if (step == 50 && rank == 0) cut_link_beside(port);
        c->all_reduce(zeros({1000}), Reduce::sum, "bucket").wait();
      }
    });
    CHECK(text.find(" cannot go on: the link between " + name_of(*c, 1) + " and " + name_of(*c, 2) +
                    " is cut") != std::string::npos);
    std::lock_guard lock(mutex);
    texts.insert(text);
  });
  CHECK(texts.size() == 1);
}

TEST_CASE("arguments that are none") {
  for (const TcpJob& job :
       {TcpJob{2, 2, "localhost", 5}, TcpJob{-1, 2, "localhost", 5}, TcpJob{0, 0, "localhost", 5},
        TcpJob{0, 2, "localhost", 0}, TcpJob{0, 2, "localhost", 65536}}) {
    CHECK_THROWS_AS(make_tcp(job), ValueError);
  }
}

}  // namespace
