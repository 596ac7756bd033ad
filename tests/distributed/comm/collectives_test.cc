// Every collective on ranks that are threads: values, bytes sent, order, arguments.
#include "tests/distributed/comm/collectives.h"

#include <cmath>
#include <fstream>
#include <limits>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::testing;

TEST_CASE("every collective, dtype and operation, on 1 to 5 ranks") {
  for (int n = 1; n <= 5; ++n) {
    both_ways(n, [](Communicator& c) {
      for (Dtype dtype : kDtypes) {
        for (int64_t count : {0, 1, 3, 17, 1000}) check_collectives(c, dtype, count);
      }
    });
  }
}

TEST_CASE("tensors of many pieces") {
  for (int n : {2, 3}) {
    both_ways(n, [](Communicator& c) { check_collectives(c, Dtype::float32, 100'003); });
  }
}

TEST_CASE("all-reduces in shared memory") {
  for (int n = 1; n <= 5; ++n) {
    run_ranks(n, [](Communicator& c) {
      for (Dtype dtype : kDtypes) {
        for (int64_t count : {0, 1, 3, 17, 1000}) check_shared_memory(c, dtype, count);
      }
      check_shared_memory(c, Dtype::float32, 100'003);
    });
  }
}

TEST_CASE("all-reduces by each algorithm") {
  const auto check = [](Communicator& c) {
    for (Dtype dtype : kDtypes) {
      // 3^6 does not fit, and 3^7 not into float16.
      if ((dtype == Dtype::uint8 || is_half(dtype)) && c.size() > 5) continue;
      for (int64_t count : {0, 1, 3, 17, 1000}) check_all_reduce(c, dtype, count);
    }
    check_all_reduce(c, Dtype::float32, 100'003);
    check_same_bits(c, 12'347);
  };
  for (Algorithm algorithm : own_algorithms()) {
    CAPTURE(to_string(algorithm));
    for (int n = 1; n <= 7; ++n) both_ways(n, check, {.all_reduce = algorithm});
  }
}

TEST_CASE("all-reduces within hosts and across them") {
  for (Algorithm algorithm : {Algorithm::hierarchical, Algorithm::automatic}) {
    for (int ranks_per_host : {2, 3, 4}) {
      for (int n : {3, 4, 5, 6, 8}) {
        CAPTURE(ranks_per_host);
        run_ranks(n,
                  [](Communicator& c) {
                    for (Dtype dtype : {Dtype::float32, Dtype::int64, Dtype::boolean}) {
                      for (int64_t count : {0, 1, 3, 17, 1000}) check_all_reduce(c, dtype, count);
                    }
                    check_all_reduce(c, Dtype::float32, 100'003);
                    check_same_bits(c, 12'347);
                    const Tensor tree = full({90'000}, 1);
                    c.all_reduce(
                         tree, Reduce::sum, "",
                         c.options().all_reduce == Algorithm::automatic ? Order::tree : Order::any)
                        .wait();
                    check_equal(tree, [&](int64_t) { return c.size(); });
                  },
                  {.all_reduce = algorithm, .ranks_per_host = ranks_per_host});
      }
    }
  }
}

TEST_CASE("an algorithm may be changed between calls, and goes with a split") {
  run_ranks(3, [](Communicator& c) {
    for (Algorithm algorithm : own_algorithms()) {
      c.set_all_reduce(algorithm);
      check_all_reduce(c, Dtype::float32, 1000);
      check_all_reduce(*c.split(c.rank() % 2), Dtype::float32, 1000);
    }
    const std::string record = c.flight_record();
    CHECK(record.find("by hierarchical") != std::string::npos);
  });
}

TEST_CASE("algorithms by name") {
  for (Algorithm algorithm : kAlgorithms) CHECK(algorithm_of(to_string(algorithm)) == algorithm);
  CHECK_THROWS_WITH_AS(algorithm_of("fast"),
                       "[all_reduce] an algorithm is one of automatic, ring, halving_doubling, "
                       "tree, shared_memory, hierarchical, mpi; got 'fast'",
                       ValueError);
}

TEST_CASE("the table has an algorithm for every size, number of ranks and number of hosts") {
  for (int hosts : {1, 2, 3, 64}) {
    for (int ranks : {2, 3, 4, 7, 64, 1000}) {
      for (int64_t bytes = 0; bytes < int64_t{1} << 40; bytes = 3 * bytes + 1) {
        const Algorithm algorithm = tuned_algorithm(hosts, ranks, bytes);
        CHECK(algorithm != Algorithm::automatic);
        CHECK(algorithm != Algorithm::mpi);
        if (hosts > 1) CHECK(algorithm != Algorithm::shared_memory);
      }
    }
  }
}

TEST_CASE("algorithms that these ranks cannot run") {
  run_ranks(2,
            [](Communicator& world) {
              const auto c = world.split(0);
              c->set_all_reduce(Algorithm::mpi);
              CHECK_THROWS_AS(c->all_reduce(zeros({3})), ValueError);
              c->set_all_reduce(Algorithm::shared_memory);
              check_shared(
                  world, error_of([&] { c->all_reduce(zeros({3})).wait(); }),
                  "[all_reduce] shared_memory is for ranks of one host; these have 2: take "
                  "hierarchical");
            },
            {.share_memory = false});
}

TEST_CASE("a tree sends all bytes 2(n-1) times, over all ranks") {
  const auto check = [](Communicator& c) {
    c.all_reduce(zeros({1000})).wait();
    int64_t sum = 0;
    for (const std::string& sent : c.all_gather_strings(std::to_string(c.traffic().bytes_sent))) {
      sum += std::stoll(sent);
    }
    CHECK(sum == 2 * (c.size() - 1) * 4000);
  };
  for (int n : {1, 2, 5, 8}) both_ways(n, check, {.all_reduce = Algorithm::tree});
}

TEST_CASE("every other algorithm moves 2(n-1)/n of the bytes") {
  const auto check = [](Communicator& c) {
    const int64_t bytes = 1'024'000, least = 2 * (c.size() - 1) * bytes / c.size();
    c.all_reduce(zeros({bytes / 4})).wait();
    CHECK(c.traffic().bytes_sent == least);
    c.all_reduce(c.shared_zeros({bytes / 4})).wait();
    CHECK(c.traffic().bytes_sent == 2 * least);
  };
  for (Algorithm algorithm : own_algorithms()) {
    if (algorithm == Algorithm::tree) continue;
    for (int n : {1, 2, 4, 8}) both_ways(n, check, {.all_reduce = algorithm});
  }
  for (int n : {4, 8}) {
    run_ranks(n, check, {.all_reduce = Algorithm::hierarchical, .ranks_per_host = 2});
  }
}

TEST_CASE("sums in the order of a tree, in shared memory and by halving and doubling") {
  // 2^24 + 1 is not a float32: where a 1 meets 2^24 alone it is lost, where two of them do it is
  // not.
  const float big = 16'777'216;
  const std::pair<std::vector<float>, float> cases[] = {
      {{big, 1}, big},
      {{big, 0, 1, 1}, big + 2},              // (big + 0) + (1 + 1)
      {{big, 1, 1, 0}, big},                  // (big + 1) + (1 + 0)
      {{0, 1, 1, 0, big, 1, 1, 0}, big + 2},  // ((0 + 1) + (1 + 0)) + ((big + 1) + (1 + 0))
      {{1, 1, big}, big + 2},                 // (1 + 1) + big
      {{big, 1, 1}, big}};                    // (big + 1) + 1
  for (const auto& entry : cases) {
    const auto check = [&](Communicator& c) {
      const Tensor few = zeros({9}), many = zeros({90'000}), shared = c.shared_zeros({9'000});
      for (const Tensor& x : {few, many, shared}) {
        fill_elements(x, entry.first[c.rank()]);
        c.all_reduce(x, Reduce::sum, "tree", Order::tree).wait();
        check_equal(x, [&](int64_t) { return entry.second; });
      }
      for (int64_t count : {0, 9, 90'000}) {  // of a part; then in place
        const Tensor all = full({count * c.size()}, entry.first[c.rank()]), part = empty({count});
        const Tensor place =
            view_of(all, all.layout().sliced(0, c.rank() * count, (c.rank() + 1) * count));
        for (const Tensor& mine : {part, place}) {
          c.reduce_scatter(all, mine, Reduce::sum, "tree", Order::tree).wait();
          check_equal(mine, [&](int64_t) { return entry.second; });
        }
      }
    };
    for (Algorithm algorithm :
         {Algorithm::automatic, Algorithm::halving_doubling, Algorithm::shared_memory}) {
      both_ways(static_cast<int>(entry.first.size()), check, {.all_reduce = algorithm});
    }
  }
}

TEST_CASE("algorithms that are asked in vain for the order of a tree") {
  run_ranks(2, [](Communicator& c) {
    for (Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::hierarchical}) {
      c.set_all_reduce(algorithm);
      CHECK_THROWS_AS(c.all_reduce(zeros({3}), Reduce::sum, "", Order::tree), ValueError);
    }
  });
}

TEST_CASE("shared memory stays while a tensor uses it, and goes with the last") {
  const auto mapped = [] {
    std::ifstream maps("/proc/self/maps");
    int count = 0;
    for (std::string line; std::getline(maps, line);) count += line.ends_with("capstan (deleted)");
    return count;
  };
  const int before = mapped();
  run_ranks(2, [&](Communicator& c) {
    c.barrier().wait();
    const int boards = mapped();
    c.barrier().wait();
    Tensor view;
    {
      const Tensor x = c.shared_zeros({100});
      view = view_of(x, x.layout().sliced(0, 50, 60));
    }
    fill_elements(view, 1);
    c.all_reduce(view).wait();
    check_equal(view, [](int64_t) { return 2; });
    c.barrier().wait();
    CHECK(mapped() == boards + 2);
    c.barrier().wait();
    view = {};
    c.barrier().wait();
    CHECK(mapped() == boards);
  });
  CHECK(mapped() == before);
}

TEST_CASE("the communicator of a program that runs alone") {
  const auto c = make_self();
  CHECK(c->rank() == 0);
  CHECK(c->size() == 1);
  CHECK(c->local_rank() == 0);
  CHECK(!c->host(0).empty());
  for (Dtype dtype : kDtypes) check_collectives(*c, dtype, 5);
  const Tensor x = input_of(0, Dtype::float32, 5);
  CHECK(c->all_reduce(x).done());
  CHECK(c->traffic().bytes_sent == 0);
}

TEST_CASE("an all-reduce ends with the same bits on all ranks") {
  for (int n : {2, 3, 4}) both_ways(n, [](Communicator& c) { check_same_bits(c, 12'347); });
}

TEST_CASE("integers wrap around, NaN stays in min and max") {
  both_ways(2, [](Communicator& c) {
    const Tensor x = full({3}, 200, {.dtype = Dtype::uint8});
    c.all_reduce(x).wait();
    check_equal(x, [](int64_t) { return 144; });
    const Tensor big = from_vector<int32_t>({std::numeric_limits<int32_t>::max()}, {1});
    c.all_reduce(big).wait();
    CHECK(big.item<int32_t>() == -2);
    for (Reduce op : {Reduce::min, Reduce::max}) {
      for (int where : {0, 1}) {
        const Tensor y = full({4}, c.rank() == where ? std::nan("") : 1.0);
        c.all_reduce(y, op).wait();
        for (float v : y.to_vector<float>()) CHECK(std::isnan(v));
      }
    }
  });
}

TEST_CASE("a ring sends 2(n-1)/n of the bytes, its halves one half each") {
  for (int n : {1, 2, 4, 8}) {
    const auto check = [&](Communicator& c) {
      // 100 MB scaled by 1000: 100,000 bytes give 100,000, 150,000 and 175,000 for 2, 4 and 8
      // ranks.
      const int64_t bytes = 100'000;
      const auto sent = [&](const std::function<Work()>& call) {
        const int64_t before = c.traffic().bytes_sent;
        call().wait();
        return c.traffic().bytes_sent - before;
      };
      const Tensor all = zeros({bytes / 4}), part = zeros({bytes / 4 / n});
      CHECK(sent([&] { return c.all_reduce(all); }) == 2 * (n - 1) * bytes / n);
      for (Order order : {Order::any, Order::tree}) {
        CHECK(sent([&] { return c.reduce_scatter(all, part, Reduce::sum, "", order); }) ==
              (n - 1) * bytes / n);
      }
      CHECK(sent([&] { return c.all_gather(part, all); }) == (n - 1) * bytes / n);
      CHECK(sent([&] { return c.barrier(); }) == 0);
      CHECK(c.traffic().collectives == 5);
    };
    run_ranks(n, check, {.all_reduce = Algorithm::ring});
  }
}

TEST_CASE("a ring over parts of unequal size sends all but two of them") {
  // 10 elements on 4 ranks are parts of 3, 3, 2, 2. Rank r ends the first half with part r and
  // begins it with part r-1; it sends all but part r there, and all but part r+1 in the second
  // half.
  const auto check = [](Communicator& c) {
    const int64_t parts[] = {3, 3, 2, 2};
    c.all_reduce(zeros({10})).wait();
    const int64_t elements = (10 - parts[c.rank()]) + (10 - parts[(c.rank() + 1) % 4]);
    CHECK(c.traffic().bytes_sent == 4 * elements);
  };
  run_ranks(4, check, {.all_reduce = Algorithm::ring});
}

TEST_CASE("calls run in the order in which they were made, while the caller goes on") {
  both_ways(3, [](Communicator& c) {
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 100; ++i) {
      tensors.push_back(full({1000}, i));
      works.push_back(c.all_reduce(tensors.back(), Reduce::sum, "bucket " + std::to_string(i)));
    }
    works.back().wait();
    for (int i = 0; i < 100; ++i) {
      CHECK(works[i].done());
      check_equal(tensors[i], [&](int64_t) { return 3 * i; });
      CHECK(works[i].started() <= works[i].finished());
      if (i > 0) CHECK(works[i - 1].finished() <= works[i].started());
    }
    const std::string record = c.flight_record();
    CHECK(std::count(record.begin(), record.end(), '\n') == 64);
    CHECK(record.rfind("call 37 all_reduce sum float32[1000] \"bucket 36\": done\n", 0) == 0);
    CHECK(Work().done());
    Work().wait();
  });
}

TEST_CASE("a communicator may go before its work is done, and tensors before theirs") {
  Tensor kept = full({50'000}, 1);
  run_ranks(2, [&](Communicator& c) {
    c.all_reduce(full({100'000}, 1));
    if (c.rank() == 0) c.all_reduce(kept);
    if (c.rank() == 1) c.all_reduce(full({50'000}, 2));
  });
  check_equal(kept, [](int64_t) { return 3; });
}

TEST_CASE("arguments that do not fit are refused at once") {
  run_ranks(2, [](Communicator& c) {
    const Tensor x = zeros({4, 6}), y = zeros({12});
    const Tensor columns = view_of(x, x.layout().transposed(0, 1));
    const Tensor ints = zeros({12}, {.dtype = Dtype::int64});
    CHECK_THROWS_AS(c.all_reduce(columns), ShapeError);
    CHECK_THROWS_AS(c.all_reduce(Tensor()), Error);
    CHECK_THROWS_AS(c.all_reduce(empty({3}, {.device = Device::meta()})), DeviceError);
    CHECK_THROWS_AS(c.shared_zeros({3}, {.device = Device::meta()}), DeviceError);
    CHECK_THROWS_AS(c.shared_zeros({-3}), ShapeError);
    CHECK_THROWS_AS(c.broadcast(x, 2), ValueError);
    CHECK_THROWS_AS(c.broadcast(x, -1), ValueError);
    CHECK_THROWS_AS(c.reduce(x, 2), ValueError);
    CHECK_THROWS_AS(c.all_gather(x, y), ShapeError);
    CHECK_THROWS_AS(c.all_gather(ints, x), DtypeError);
    CHECK_THROWS_AS(c.reduce_scatter(y, x), ShapeError);
    const Tensor elsewhere = view_of(y, y.layout().sliced(0, 3, 9));
    CHECK_THROWS_AS(c.reduce_scatter(y, elsewhere, Reduce::sum, "", Order::tree), ValueError);
    CHECK_THROWS_AS(c.gather(y, y, c.rank()), ShapeError);
    CHECK_THROWS_AS(c.scatter(y, y, c.rank()), ShapeError);
    CHECK_THROWS_AS(c.all_to_all(y, x), ShapeError);
    CHECK_THROWS_AS(c.all_to_all(y, y), ValueError);
    CHECK_THROWS_AS(c.all_to_all(y, ints), DtypeError);
    const Tensor three = zeros({3}), nine = zeros({9});
    CHECK_THROWS_AS(c.all_gather(three, y, {3, 3, 6}), ShapeError);
    CHECK_THROWS_AS(c.all_gather(three, y, {3, 3}), ShapeError);
    CHECK_THROWS_AS(c.all_gather(three, y, {6, 6}), ShapeError);
    CHECK_THROWS_AS(c.all_gather(three, y, {-3, 15}), ValueError);
    CHECK_THROWS_AS(c.all_gather(ints, y, {6, 6}), DtypeError);
    CHECK_THROWS_AS(c.reduce_scatter(y, nine, {6, 6}), ShapeError);
    CHECK_THROWS_AS(c.reduce_scatter(ints, nine, {3, 9}), DtypeError);
    CHECK_THROWS_AS(c.all_to_all(y, {6, 6}, nine, {4, 5}), ShapeError);
    CHECK_THROWS_AS(c.all_to_all(y, {6, 6}, nine, {6, 6}), ShapeError);
    CHECK_THROWS_AS(c.all_reduce(ints, Reduce::mean), DtypeError);
    CHECK_THROWS_AS(c.reduce(ints, 0, Reduce::mean), DtypeError);
    CHECK_THROWS_AS(c.all_reduce(y, Reduce::bit_and), DtypeError);
    CHECK_THROWS_AS(c.reduce_scatter(y, three, {3, 9}, Reduce::bit_or), DtypeError);
    CHECK_THROWS_AS(c.send(x, c.rank()), ValueError);
    CHECK_THROWS_AS(c.recv(x, 7), ValueError);
    CHECK_THROWS_AS(c.send_recv(x, 1 - c.rank(), y, 1 - c.rank()), ShapeError);
    CHECK_THROWS_AS(c.send_recv(y, 1 - c.rank(), ints, 1 - c.rank()), DtypeError);
    CHECK_THROWS_AS(c.broadcast_string("a", 2), ValueError);
    CHECK_THROWS_AS(c.host(2), ValueError);
    CHECK(c.traffic().collectives == 0);
    c.all_reduce(x).wait();  // none of this has harmed it
  });
}

TEST_CASE("split makes communicators of the ranks with the same color, ordered by key") {
  both_ways(5, [](Communicator& c) {
    const auto part = c.split(c.rank() % 2, -c.rank());
    REQUIRE(part);
    CHECK(part->size() == (c.rank() % 2 ? 2 : 3));
    CHECK(part->rank() == part->size() - 1 - c.rank() / 2);
    const auto again = part->split(part->rank() == 0 ? 3 : -1);
    CHECK((again != nullptr) == (part->rank() == 0));
    if (again) CHECK(again->size() == 1);
    // The three communicators do not disturb each other.
    const Tensor x = full({1000}, c.rank()), y = full({1000}, 1);
    const Work first = part->all_reduce(x), second = c.all_reduce(y);
    second.wait();
    first.wait();
    check_equal(x, [&](int64_t) { return c.rank() % 2 ? 4 : 6; });
    check_equal(y, [](int64_t) { return 5; });
    const auto all = c.split(0);
    CHECK(all->rank() == c.rank());
    check_collectives(*all, Dtype::float32, 7);
  });
}

}  // namespace
