// Tests regions against the slow way: a list of the elements that each holds.
#include "distributed/checkpoint/region.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <map>

#include "core/error.h"

using namespace capstan;
using namespace capstan::distributed;
using doctest::Contains;

namespace {

/// The elements of a region in order, as their numbers in the tensor.
std::vector<int64_t> elements(const Region& region) {
  std::vector<int64_t> all;
  const Strides box = dense_strides(region.shape), global = dense_strides(region.global);
  for (int64_t place = region.begin; place < region.end; ++place) {
    int64_t rest = place, element = 0;
    for (int axis = 0; axis < region.shape.rank(); ++axis) {
      element += (region.start[axis] + rest / box[axis]) * global[axis];
      rest %= box[axis];
    }
    all.push_back(element);
  }
  return all;
}

Region any_region(const Shape& global) {
  Region region = Region::whole(global);
  for (int axis = 0; axis < global.rank(); ++axis) {
    region.start[axis] = *rc::gen::inRange<int64_t>(0, global[axis] + 1);
    region.shape[axis] = *rc::gen::inRange<int64_t>(0, global[axis] - region.start[axis] + 1);
    if (*rc::gen::inRange(0, 3) > 0) {  // whole axes are what runs grow over
      region.start[axis] = 0;
      region.shape[axis] = global[axis];
    }
  }
  const int64_t count = numel(region.shape);
  region.end = count;
  if (*rc::gen::inRange(0, 2)) {
    region.begin = *rc::gen::inRange<int64_t>(0, count + 1);
    region.end = *rc::gen::inRange<int64_t>(region.begin, count + 1);
  }
  return region;
}

Shape any_shape() {
  Shape shape;
  const int rank = *rc::gen::inRange(0, 5);
  for (int axis = 0; axis < rank; ++axis) shape.push_back(*rc::gen::inRange<int64_t>(0, 5));
  return shape;
}

}  // namespace

TEST_CASE("the overlap of any two regions is what both hold, in runs that cannot be longer") {
  CHECK(rc::check([] {
    const Shape global = any_shape();
    const Region a = any_region(global), b = any_region(global);
    check("a", a);
    const std::vector<int64_t> in_a = elements(a), in_b = elements(b);
    std::map<int64_t, int64_t> place_in_b;
    for (size_t i = 0; i < in_b.size(); ++i) place_in_b[in_b[i]] = static_cast<int64_t>(i);

    std::vector<Run> expected;
    for (size_t i = 0; i < in_a.size(); ++i) {
      const auto found = place_in_b.find(in_a[i]);
      if (found == place_in_b.end()) continue;
      const auto from = static_cast<int64_t>(i), to = found->second;
      if (!expected.empty() && expected.back().from + expected.back().count == from &&
          expected.back().to + expected.back().count == to) {
        ++expected.back().count;
      } else {
        expected.push_back({from, to, 1});
      }
    }
    RC_ASSERT(overlap(a, b) == expected);
  }));
}

TEST_CASE("regions of different tensors have no overlap to speak of") {
  CHECK_THROWS_WITH_AS(overlap(Region::whole({2, 3}), Region::whole({3, 2})),
                       Contains("regions of [2, 3] and [3, 2] are of different tensors"),
                       ShapeError);
}

TEST_CASE("a region says what it is") {
  const Region slice = Region::slice({4, 6}, 1, 2, 3);
  CHECK(slice == Region::box({4, 6}, {0, 2}, {4, 3}));
  CHECK(Region::slice({4, 6}, -1, 2, 3) == slice);
  CHECK(slice.count() == 12);
  CHECK(slice.is_box());
  CHECK(!slice.is_whole());
  const Region range = slice.range(3, 9);
  CHECK(!range.is_box());
  CHECK(range.range(1, 2) == slice.range(4, 5));
  CHECK(elements(range) == std::vector<int64_t>{8, 9, 10, 14, 15, 16});
  CHECK(Region::whole({}).is_whole());
  CHECK(Region::whole({}).count() == 1);
  CHECK(to_string(slice) == "[0:4, 2:5]");
  CHECK(to_string(range) == "[0:4, 2:5] 3:9");
  CHECK(to_string(Region::whole({})) == "[]");
}

TEST_CASE("boxes outside the tensor and ranges outside the box are refused") {
  const auto refuse = [](const Region& region, const char* text) {
    CHECK_THROWS_WITH_AS(check("x", region), Contains(text), ShapeError);
  };
  CHECK_NOTHROW(check("x", Region::box({4, 6}, {4, 0}, {0, 6})));
  refuse(Region::box({4, 6}, {2, 0}, {3, 6}), "a box of x must lie in [4, 6], got start [2, 0]");
  refuse(Region::box({4, 6}, {-1, 0}, {3, 6}), "a box of x must lie in [4, 6]");
  refuse(Region::box({4, 6}, {0}, {4}), "a box of x must lie in [4, 6], got start [0]");
  refuse({{4, 6}, {0, 0}, {4, -6}, 0, 0}, "a box of x must lie in [4, 6]");
  refuse({{4}, {INT64_MAX}, {4}, 0, 4}, "a box of x must lie in [4]");
  refuse(Region::whole({4, 6}).range(20, 25),
         "a range of x must lie in its box of 24 elements, got 20 to 25");
  refuse(Region::whole({4, 6}).range(3, 2), "got 3 to 2");
  refuse(Region::whole({4, 6}).range(-1, 2), "got -1 to 2");
}

TEST_CASE("any cut of a tensor into boxes and their ranges covers it, in any order") {
  CHECK(rc::check([] {
    const Shape global = any_shape();
    std::vector<Region> regions{Region::whole(global)};
    for (int cut = *rc::gen::inRange(0, 6); cut > 0; --cut) {
      const Region whole = regions.back();
      regions.pop_back();
      const int axis = *rc::gen::inRange(0, std::max(1, global.rank()));
      if (global.rank() > 0 && whole.is_box() && *rc::gen::inRange(0, 2)) {
        const int64_t at = *rc::gen::inRange<int64_t>(0, whole.shape[axis] + 1);
        Region left = whole, right = whole;
        left.shape[axis] = at;
        right.start[axis] += at;
        right.shape[axis] -= at;
        regions.push_back(Region::box(global, left.start, left.shape));
        regions.push_back(Region::box(global, right.start, right.shape));
      } else {
        const int64_t at = *rc::gen::inRange<int64_t>(0, whole.count() + 1);
        regions.push_back(whole.range(0, at));
        regions.push_back(whole.range(at, whole.count()));
      }
      std::swap(regions.back(), regions[*rc::gen::inRange<size_t>(0, regions.size())]);
    }
    RC_ASSERT(cover_fault(global, regions) == "");
    const Region copy = regions[*rc::gen::inRange<size_t>(0, regions.size())];
    std::vector<Region> more = regions;
    more.push_back(copy);
    RC_ASSERT(cover_fault(global, more) == "");
    if (copy.count() > 0) {
      std::erase(regions, copy);
      RC_ASSERT(cover_fault(global, regions).ends_with("are missing"));
    }
    const Region whole = Region::whole(global);
    if (copy.count() > 0 && copy.count() < whole.count()) {
      regions.push_back(whole);
      regions.push_back(copy);
      RC_ASSERT(cover_fault(global, regions).starts_with("elements are held twice, by "));
    }
  }));
}

TEST_CASE("what is missing or held twice is named") {
  const Region whole = Region::whole({4, 6});
  CHECK(cover_fault({4, 6}, {whole.range(0, 10), whole.range(12, 24)}) ==
        "elements 10 to 11 of 24 are missing");
  CHECK(cover_fault({4, 6}, {}) == "elements 0 to 23 of 24 are missing");
  CHECK(cover_fault({4, 6}, {Region::slice({4, 6}, 1, 0, 5)}) ==
        "elements 5 to 5 of 24 are missing");
  CHECK(cover_fault({4, 6}, {whole.range(0, 13), whole.range(12, 24)}) ==
        "elements are held twice, by [0:4, 0:6] 0:13 and [0:4, 0:6] 12:24");
  CHECK(cover_fault({4, 6}, {Region::slice({4, 6}, 0, 0, 3), Region::slice({4, 6}, 0, 2, 2)}) ==
        "elements are held twice, by [0:3, 0:6] and [2:4, 0:6]");
  // Boxes may overlap where their ranges do not.
  const Region upper = Region::slice({4, 6}, 0, 0, 3);
  CHECK(cover_fault({4, 6}, {upper.range(0, 12), whole.range(12, 24)}) == "");
  CHECK(cover_fault({3, 0}, {}) == "");
  CHECK(cover_fault({}, {}) == "elements 0 to 0 of 1 are missing");
}
