// Tests who writes what: every element once, copies by one of their holders, evenly.
#include "distributed/checkpoint/plan.h"

#include <doctest/doctest.h>

#include <numeric>

#include "core/error.h"
#include "tests/distributed/checkpoint/layouts.h"

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::testing;
using doctest::Contains;

namespace {

std::vector<std::vector<Outline>> held_by(LayoutKind kind, int ranks) {
  std::vector<std::vector<Outline>> held;
  for (int rank = 0; rank < ranks; ++rank) {
    held.push_back(outlines({{"model", pieces_of(known_tensors(1), kind, rank, ranks, false)}}));
  }
  return held;
}

std::vector<int64_t> bytes_written(const SavePlan& plan,
                                   const std::vector<std::vector<Outline>>& held) {
  std::vector<int64_t> bytes;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    bytes.push_back(0);
    for (const size_t i : plan.writes[rank]) {
      bytes.back() += held[rank][i].region.count() * item_size(held[rank][i].dtype);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("every element is written once, and the manifest says where") {
  int64_t all = 0;
  for (const auto& [_, tensor] : known_tensors(1)) all += tensor.bytes();
  for (const LayoutKind kind : kLayouts) {
    for (const int ranks : {1, 2, 3, 4, 6, 8}) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(ranks);
      const auto held = held_by(kind, ranks);
      const SavePlan plan = plan_save(held);
      const auto bytes = bytes_written(plan, held);
      CHECK(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) == all);
      CHECK(plan.manifest.ranks == ranks);
      const Manifest::Tensors& tensors = plan.manifest.groups.at("model");
      CHECK(tensors.size() == known_tensors(1).size());
      for (const auto& [name, tensor] : tensors) {
        std::vector<Region> regions;
        for (const auto& piece : tensor.pieces) regions.push_back(piece.region);
        CHECK(cover_fault(tensor.shape, regions) == "");
      }
      CHECK(tensors.at("nothing").pieces.empty());
    }
  }
}

TEST_CASE("copies are spread over their holders by bytes") {
  const auto big = whole("big", zeros({100})), middle = whole("middle", zeros({60})),
             small = whole("small", zeros({45})), own = whole("own", zeros({30}));
  const auto both = outlines({{"model", {big, middle, small}}});
  auto first = both;
  first.push_back(outlines({{"model", {own}}})[0]);
  const SavePlan plan = plan_save({first, both});
  // Rank 0 has 30 of its own; then 100 to rank 1, 60 to rank 0, 45 to rank 0.
  CHECK(plan.writes[0] == std::vector<size_t>{1, 2, 3});
  CHECK(plan.writes[1] == std::vector<size_t>{0});
  CHECK(plan.manifest.groups.at("model").at("big").pieces[0].file ==
        "model-00001-of-00002.safetensors");
  CHECK(plan.manifest.groups.at("model").at("own").pieces[0].file ==
        "model-00000-of-00002.safetensors");
}

TEST_CASE("outlines travel as text") {
  const auto mine = outlines({{"model", {whole("ü", zeros({2, 3}))}},
                              {"optimizer",
                               {{"ü.m", Region::slice({4, 6}, 1, 2, 3).range(3, 9),
                                 zeros({6}, {.dtype = Dtype::bfloat16})}}}});
  const auto back = parse_outlines(to_json(mine));
  CHECK(back.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(back[i].group == mine[i].group);
    CHECK(back[i].name == mine[i].name);
    CHECK(back[i].dtype == mine[i].dtype);
    CHECK(back[i].region == mine[i].region);
  }
  CHECK_THROWS_WITH_AS(to_json(outlines({{"model", {whole("\xff", zeros({}))}}})),
                       Contains("names must be UTF-8"), ValueError);
}

TEST_CASE("pieces that do not make up tensors are refused") {
  const auto refuse = [](const std::vector<Groups>& groups, const char* text) {
    std::vector<std::vector<Outline>> held;
    for (const Groups& g : groups) held.push_back(outlines(g));
    CHECK_THROWS_WITH_AS(plan_save(held), Contains(text), ValueError);
  };
  const Region region = Region::whole({4, 6});
  const Piece first{"x", region.range(0, 10), zeros({10})};
  const Piece rest{"x", region.range(9, 24), zeros({15})};
  const Piece late{"x", region.range(11, 24), zeros({13})};
  refuse({{{"model", {first}}}, {{"model", {rest}}}},
         "of x, elements are held twice, by [0:4, 0:6] 0:10 and [0:4, 0:6] 9:24");
  refuse({{{"model", {first}}}, {{"model", {late}}}}, "of x, elements 10 to 10 of 24 are missing");
  refuse({{{"model", {whole("x", zeros({2}))}}}, {{"model", {whole("x", zeros({3}))}}}},
         "x is float32 [2] on rank 0 and float32 [3] on rank 1");
  refuse({{},
          {{"model", {whole("x", zeros({2}))}}},
          {{"model", {whole("x", zeros({2}, {.dtype = Dtype::int64}))}}}},
         "x is float32 [2] on rank 1 and int64 [2] on rank 2");

  CHECK_THROWS_WITH_AS(outlines({{"a/b", {}}}), Contains("groups are named with"), ValueError);
  CHECK_THROWS_WITH_AS(outlines({{"model", {first, first}}}),
                       Contains("there are two pieces [0:4, 0:6] 0:10 of x"), ValueError);
  CHECK_THROWS_AS(outlines({{"model", {{"x", region, zeros({1})}}}}), ShapeError);
}
