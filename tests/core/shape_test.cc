// Dims, numel, dense_strides, broadcast and normalize_axis.
#include "core/shape.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/error.h"

using namespace capstan;

TEST_CASE("Dims is a short list") {
  Dims dims{2, 3};
  CHECK(dims.rank() == 2);
  CHECK(dims.back() == 3);
  dims.push_back(4);
  dims.insert(0, 1);
  CHECK(dims == Dims{1, 2, 3, 4});
  dims.erase(1);
  CHECK(dims == Dims{1, 3, 4});
  CHECK(dims != Dims{1, 3});
  CHECK(Dims::filled(3, 7) == Dims{7, 7, 7});
  CHECK(Dims().empty());

  Dims copy = dims;
  copy[0] = 9;
  CHECK(dims[0] == 1);
  CHECK(to_string(copy) == "[9, 3, 4]");
  CHECK(to_string(Dims()) == "[]");
}

TEST_CASE("a tensor has at most kMaxRank axes") {
  CHECK_THROWS_WITH_AS(Dims({1, 1, 1, 1, 1, 1, 1, 1, 1}),
                       "[shape] a tensor has at most 8 axes, got 9", ShapeError);
  const std::vector<int64_t> many(20, 1);
  CHECK_THROWS_AS(Dims{std::span<const int64_t>(many)}, ShapeError);
  Dims full = Dims::filled(kMaxRank, 1);
  CHECK_THROWS_AS(full.push_back(1), ShapeError);
  CHECK_THROWS_AS(full.insert(0, 1), ShapeError);
  CHECK_THROWS_AS(Dims::filled(kMaxRank + 1, 1), ShapeError);
}

TEST_CASE("numel multiplies, and notices what 63 bits cannot hold") {
  CHECK(numel({}) == 1);
  CHECK(numel({3, 4, 5}) == 60);
  CHECK(numel({3, 0, 5}) == 0);
  const int64_t big = int64_t{1} << 40;
  CHECK(numel({big, 0, 5}) == 0);
  CHECK_THROWS_AS(numel({0, big, big}), ShapeError);
  CHECK_THROWS_WITH_AS(
      numel({big, big}),
      "[shape] [1099511627776, 1099511627776] has more elements than 63 bits can count",
      ShapeError);
}

TEST_CASE("dense strides are products of the sizes behind") {
  CHECK(dense_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(dense_strides({}) == Strides{});
  CHECK(dense_strides({2, 0, 4}) == Strides{4, 4, 1});
}

TEST_CASE("broadcast aligns at the right") {
  CHECK(broadcast("add", {2, 3}, {3}) == Shape{2, 3});
  CHECK(broadcast("add", {3}, {2, 1}) == Shape{2, 3});
  CHECK(broadcast("add", {}, {2, 1}) == Shape{2, 1});
  CHECK(broadcast("add", {0, 3}, {1, 1}) == Shape{0, 3});
  CHECK(broadcast("add", {4, 1, 2}, {1, 5, 1}) == Shape{4, 5, 2});
  CHECK_THROWS_WITH_AS(broadcast("add", {2, 3}, {2}),
                       "[add] shapes [2, 3] and [2] do not broadcast: aligned at the right, sizes "
                       "must be equal or 1",
                       ShapeError);
  CHECK_THROWS_AS(broadcast("add", {0}, {2}), ShapeError);
}

TEST_CASE("negative axes count from the back") {
  CHECK(normalize_axis("sum", 1, 3) == 1);
  CHECK(normalize_axis("sum", -1, 3) == 2);
  CHECK(normalize_axis("sum", -3, 3) == 0);
  CHECK_THROWS_WITH_AS(normalize_axis("sum", 3, 3),
                       "[sum] axis 3 is out of range for a tensor with 3 axes", ShapeError);
  CHECK_THROWS_AS(normalize_axis("sum", -4, 3), ShapeError);
  CHECK_THROWS_AS(normalize_axis("sum", 0, 0), ShapeError);
}
