// Parts of tensors: where their elements lie in the whole.
#include "core/part.h"

#include <doctest/doctest.h>

#include <numeric>

#include "core/error.h"
#include "core/tensor.h"

using namespace capstan;
using doctest::Contains;

namespace {

/// The numbers that a part of the dense tensor 0, 1, 2, ... has.
std::vector<int64_t> numbers(const Shape& shape, const AxisParts& parts) {
  const Part part = part_of(shape, parts);
  std::vector<int64_t> all(part.whole);
  std::iota(all.begin(), all.end(), 0);
  return view_of(from_vector(all, {part.whole}), part.layout).to_vector<int64_t>();
}

using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("a part has the numbers of its blocks") {
  CHECK(numbers({2, 3}, {}) == Numbers{0, 1, 2, 3, 4, 5});
  CHECK(numbers({2, 3}, {{0, 1, 2}}) == Numbers{6, 7, 8, 9, 10, 11});
  CHECK(numbers({2, 3}, {{-1, 1, 3}}) == Numbers{3, 4, 5, 12, 13, 14});
  CHECK(numbers({1, 4}, {{1, 0, 4, 2, 3}}) == Numbers{0, 1, 6, 7});  // first and last of four
  CHECK(numbers({1, 4}, {{1, 1, 4, 2, 1}}) == Numbers{2, 3, 4, 5});
  CHECK(numbers({2, 2}, {{1, 1, 2}, {0, 0, 4, 2, 3}}) == Numbers{2, 3, 14, 15});
  CHECK(numbers({}, {}) == Numbers{0});
  CHECK(part_of({2, 0, 3}, {{1, 1, 2}}).whole == 0);
  CHECK(part_of({2, 3}, {{-1, 1, 3}}).whole == 18);
}

TEST_CASE("parts that there cannot be are refused") {
  CHECK_THROWS_AS(part_of({2}, {{1, 0, 2}}), ShapeError);
  CHECK_THROWS_WITH_AS(part_of({2, 3}, {{1, 0, 4, 2, 3}}),
                       Contains("axis 1 must be 2 equal blocks, got [2, 3]"), ShapeError);
  CHECK_THROWS_WITH_AS(part_of({2, 3}, {{1, 0, 2}, {-1, 0, 2}}),
                       Contains("two parts are of axis 1"), ValueError);
  for (const AxisPart& part : AxisParts{
           {0, 2, 2}, {0, -1, 2}, {0, 1, 4, 2, 3}, {0, 0, 2, 0}, {0, 0, 2, 1, 0}, {0, 0, 0}}) {
    CHECK_THROWS_WITH_AS(part_of({2}, {part}), Contains("blocks, got"), ValueError);
  }
}
