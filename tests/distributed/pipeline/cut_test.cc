// Cuts against all cuts there are.
#include "distributed/pipeline/cut.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <limits>

#include "core/backend.h"
#include "core/error.h"

using namespace capstan;
using namespace capstan::distributed::pipeline;

namespace {

/// All cuts of `layers` layers into `parts` parts, in ascending order.
std::vector<Cut> all_cuts(int64_t layers, int64_t parts) {
  if (parts == 0) return layers == 0 ? std::vector<Cut>{{}} : std::vector<Cut>{};
  std::vector<Cut> cuts;
  for (int64_t first = 1; first <= layers; ++first) {
    for (Cut& rest : all_cuts(layers - first, parts - 1)) {
      rest.insert(rest.begin(), first);
      cuts.push_back(rest);
    }
  }
  return cuts;
}

}  // namespace

TEST_CASE("balanced cuts are the best of all there are") {
  CHECK(rc::check([] {
    const int64_t layers = *rc::gen::inRange(1, 11),
                  parts = *rc::gen::inRange<int64_t>(1, layers + 1);
    std::vector<double> costs;
    for (int64_t i = 0; i < layers; ++i) costs.push_back(*rc::gen::inRange(0, 20));
    const auto value = [&](const Cut& cut) {
      const std::vector<double> sums = part_costs(cut, costs);
      double squares = 0;
      for (double sum : sums) squares += sum * sum;
      return std::pair(*std::ranges::max_element(sums), squares);
    };
    const Cut cut = cut_balanced(costs, parts);
    RC_ASSERT(std::ssize(cut) == parts);
    for (const Cut& other : all_cuts(layers, parts)) RC_ASSERT(value(cut) <= value(other));
  }));
}

TEST_CASE("balanced cuts, by hand") {
  CHECK(cut_balanced(std::vector<double>{1, 1, 1, 1, 1}, 2) == Cut{2, 3});
  CHECK(cut_balanced(std::vector<double>{1, 1, 1, 1}, 3) == Cut{1, 1, 2});
  CHECK(cut_balanced(std::vector<double>{9, 1, 1, 1}, 2) == Cut{1, 3});
  // The most expensive part is 10 anyway; the others share evenly.
  CHECK(cut_balanced(std::vector<double>{10, 1, 1, 1, 1, 1, 1}, 3) == Cut{1, 3, 3});
  CHECK(cut_balanced(std::vector<double>{0, 0}, 2) == Cut{1, 1});
}

TEST_CASE("even cuts") {
  CHECK(cut_evenly(12, 4) == Cut{3, 3, 3, 3});
  CHECK_THROWS_WITH_AS(cut_evenly(12, 5),
                       "[cut_evenly] 12 layers cannot be cut into 5 parts of the same number; "
                       "cut_by_list and cut_balanced take any",
                       ValueError);
  for (int64_t parts : {0, -1}) CHECK_THROWS_AS(cut_evenly(12, parts), ValueError);
  CHECK_THROWS_AS(cut_evenly(0, 1), ValueError);
}

TEST_CASE("cuts by list must take each layer") {
  CHECK(cut_by_list(6, Cut{1, 2, 3}) == Cut{1, 2, 3});
  CHECK_THROWS_WITH_AS(cut_by_list(6, Cut{1, 2, 4}),
                       "[cut_by_list] parts of 1 or more layers must add up to 6, got 1, 2, 4",
                       ValueError);
  for (const Cut& wrong : {Cut{}, Cut{5}, Cut{6, 0}, Cut{7, -1}, Cut{1L << 62, 1L << 62, 6}}) {
    CHECK_THROWS_AS(cut_by_list(6, wrong), ValueError);
  }
  CHECK_THROWS_AS(cut_by_list(0, Cut{}), ValueError);
  CHECK_THROWS_AS(cut_by_list(-1, Cut{}), ValueError);
}

TEST_CASE("what cannot be balanced is refused") {
  const std::vector<double> costs{1, 2, 3};
  CHECK_THROWS_WITH_AS(cut_balanced(costs, 4),
                       "[cut_balanced] needs 1 or more layers a part, got 3 layers for 4 parts",
                       ValueError);
  CHECK_THROWS_AS(cut_balanced(costs, 0), ValueError);
  CHECK_THROWS_AS(cut_balanced({}, 1), ValueError);
  CHECK_THROWS_WITH_AS(cut_balanced(std::vector<double>{1, -2}, 1),
                       "[cut_balanced] costs must be finite and 0 or more, got -2 for layer 1",
                       ValueError);
  for (double wrong : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    CHECK_THROWS_AS(cut_balanced(std::vector<double>{1, wrong}, 1), ValueError);
  }
}

TEST_CASE("layers are counted on meta, and a table shows what came of it") {
  const auto product = [](int64_t n) {
    return [n] {
      const TensorOptions options{.device = Device::meta()};
      const Tensor a = empty({2, n}, options), b = empty({n, 5}, options),
                   out = empty({2, 5}, options);
      backend(out).matmul(a, b, out);
    };
  };
  const std::vector<std::function<void()>> layers{product(10), product(20), product(30), [] {}};
  const std::vector<double> flops = count_flops(layers);
  CHECK(flops == std::vector<double>{200, 400, 600, 0});
  const Cut cut = cut_balanced(flops, 2);
  CHECK(cut == Cut{2, 2});
  CHECK(describe_cut(cut, flops) ==
        "part  layers                cost  of mean\n"
        "   0  0 to 1                 600     1.00\n"
        "   1  2 to 3                 600     1.00\n");
  CHECK_THROWS_AS(describe_cut(Cut{1, 2}, flops), ValueError);
}
