// Mesh: known groups, every rank found again, and communicators by axis.
#include "distributed/mesh/mesh.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "core/create.h"
#include "distributed/comm/thread.h"

using namespace capstan;
using namespace capstan::distributed;

using Groups = std::vector<std::vector<int>>;

namespace {
Mesh cube() { return Mesh({{"pipeline", 2}, {"data", 2}, {"tensor", 2}}); }
}  // namespace

TEST_CASE("the groups of a 2 x 2 x 2 mesh") {
  const Mesh mesh = cube();
  CHECK(mesh.ranks() == 8);
  CHECK(mesh.groups({"tensor"}) == Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  CHECK(mesh.groups({"data"}) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(mesh.groups({"pipeline"}) == Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(mesh.groups({"tensor", "data"}) == Groups{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(mesh.groups({"pipeline", "tensor"}) == Groups{{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(mesh.groups({}) == Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}});
  // Pipeline 0, data 1.
  CHECK(mesh.rank({0, 1, 0}) == 2);
  CHECK(mesh.group(2, {"tensor"}) == std::vector<int>{2, 3});
  CHECK(mesh.group(2, {"data"}) == std::vector<int>{0, 2});
  CHECK(mesh.group(2, {"pipeline"}) == std::vector<int>{2, 6});
}

TEST_CASE("a table") {
  CHECK(to_string(Mesh({{"pipeline", 1}, {"data", 2}, {"tensor", 2}})) ==
        "rank  pipeline  data  tensor\n"
        "   0         0     0       0\n"
        "   1         0     0       1\n"
        "   2         0     1       0\n"
        "   3         0     1       1\n");
}

TEST_CASE("in any mesh each rank is found again, and the groups of an axis share out the ranks") {
  CHECK(rc::check([] {
    std::vector<Mesh::Axis> axes;
    const int count = *rc::gen::inRange(1, 5);
    for (int i = 0; i < count; ++i) {
      axes.push_back({std::string(1, 'a' + i), *rc::gen::inRange(1, 5)});
    }
    const Mesh mesh(axes);
    const int axis = *rc::gen::inRange(0, count);
    const std::string name = axes[axis].name;
    std::vector<int> all;
    for (const auto& group : mesh.groups({name})) {
      RC_ASSERT(static_cast<int>(group.size()) == mesh.size(name));
      for (int i = 0; i < static_cast<int>(group.size()); ++i) {
        std::vector<int> at = mesh.coordinates(group[0]);
        at[axis] = i;
        RC_ASSERT(mesh.rank(at) == group[i]);
        RC_ASSERT(mesh.coordinate(group[i], name) == i);
        RC_ASSERT(mesh.group(group[i], {name}) == group);
        all.push_back(group[i]);
      }
    }
    std::ranges::sort(all);
    RC_ASSERT(static_cast<int>(all.size()) == mesh.ranks());
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      RC_ASSERT(all[rank] == rank);
      RC_ASSERT(mesh.rank(mesh.coordinates(rank)) == rank);
    }
  }));
}

TEST_CASE("each axis gives its group a communicator") {
  const Mesh mesh({{"pipeline", 2}, {"data", 1}, {"tensor", 3}});
  run_ranks(6, [&](Communicator& world) {
    for (const std::vector<std::string>& axes :
         {std::vector<std::string>{"pipeline"}, {"data"}, {"tensor"}, {"tensor", "pipeline"}}) {
      const std::vector<int> group = mesh.group(world.rank(), axes);
      const auto own = mesh.split(world, axes);
      REQUIRE(own->size() == static_cast<int>(group.size()));
      CHECK(group[own->rank()] == world.rank());
      const Tensor sum = full({1}, world.rank(), {.dtype = Dtype::int64});
      own->all_reduce(sum).wait();
      int64_t expected = 0;
      for (int member : group) expected += member;
      CHECK(sum.item<int64_t>() == expected);
    }
  });
}

TEST_CASE("what makes no mesh is refused") {
  CHECK_THROWS_WITH_AS(Mesh({}), "[mesh] needs at least one axis", ValueError);
  CHECK_THROWS_WITH_AS(Mesh({{"data", 2}, {"data", 3}}),
                       "[mesh] each axis needs a name of its own, got data 2, data 3", ValueError);
  CHECK_THROWS_WITH_AS(Mesh({{"", 2}}), "[mesh] each axis needs a name of its own, got  2",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      Mesh({{"data", 2}, {"tensor", 0}}),
      "[mesh] sizes must be 1 or more and multiply to at most 1000000, got data 2, tensor 0",
      ValueError);
  CHECK_THROWS_AS(Mesh({{"a", 1 << 30}, {"b", 1 << 30}}), ValueError);
  CHECK_THROWS_WITH_AS(cube().size("model"),
                       "[mesh] has the axes pipeline 2, data 2, tensor 2, got 'model'", ValueError);
  CHECK_THROWS_AS(cube().group(0, {"model"}), ValueError);
  CHECK_THROWS_WITH_AS(cube().coordinates(8), "[mesh] has ranks 0 to 7, got 8", ValueError);
  CHECK_THROWS_AS(cube().coordinates(-1), ValueError);
  CHECK_THROWS_WITH_AS(cube().rank({0, 2, 0}),
                       "[mesh] coordinates lie inside pipeline 2, data 2, tensor 2, got 0, 2, 0",
                       ValueError);
  CHECK_THROWS_AS(cube().rank({0, 1}), ValueError);
  run_ranks(2, [](Communicator& world) {
    CHECK_THROWS_WITH_AS(
        cube().split(world, {"data"}),
        "[mesh] pipeline 2, data 2, tensor 2 makes 8 ranks, got a communicator of 2", ValueError);
  });
}
