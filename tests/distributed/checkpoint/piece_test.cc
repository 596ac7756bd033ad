// Tests pieces in memory: which are refused, and copying from one layout to another.
#include "distributed/checkpoint/piece.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace capstan;
using namespace capstan::distributed;
using doctest::Contains;

TEST_CASE("pieces of two layouts meet where their regions do, whatever the dtype") {
  const Shape shape{4, 6};
  for (const Dtype dtype : kDtypes) {
    const Tensor counted = reshaped(arange(24), shape), all = empty(shape, {.dtype = dtype});
    copy_elements(counted, all);
    const Region columns = Region::slice(shape, 1, 2, 3);
    const Piece part{"x", columns.range(3, 9), zeros({6}, {.dtype = dtype})};
    CHECK(copy_overlap(whole("x", all), part) == 6);
    CHECK(part.values.to_vector<int64_t>() == [&] {
      std::vector<int64_t> expected{8, 9, 10, 14, 15, 16};
      if (dtype == Dtype::boolean) expected.assign(6, 1);
      return expected;
    }());
    const Tensor back = zeros(shape, {.dtype = dtype});
    CHECK(copy_overlap(part, whole("x", back)) == 6);
    CHECK(back.to_vector<double>()[8] == all.to_vector<double>()[8]);
    CHECK(back.to_vector<double>()[7] == 0);
  }
}

TEST_CASE("values may be views, and a copy into them counts as a change") {
  const Tensor base = zeros({3, 2}), column = view_of(base, base.layout().selected(1, 1));
  const Piece to{"x", Region::whole({3}), column};
  const int64_t before = base.version();
  CHECK(copy_overlap(whole("x", from_vector<float>({1, 2, 3}, {3})), to) == 3);
  CHECK(base.to_vector<float>() == std::vector<float>{0, 1, 0, 2, 0, 3});
  CHECK(base.version() > before);
  const Piece last{"x", Region::whole({3}).range(2, 3), zeros({1})};
  CHECK(copy_overlap(to, last) == 1);
  CHECK(last.values.item<float>() == 3);
  CHECK(copy_overlap({"x", Region::whole({3}).range(0, 1), zeros({1})}, last) == 0);
}

TEST_CASE("whole tensors keep their names") {
  const Pieces pieces = whole(NamedTensors{{"a", zeros({2, 3})}, {"b", zeros({})}});
  CHECK(pieces.size() == 2);
  CHECK(pieces[0].name == "a");
  CHECK(pieces[0].region == Region::whole({2, 3}));
  CHECK(pieces[1].region.count() == 1);
  for (const Piece& piece : pieces) CHECK_NOTHROW(check(piece));
}

TEST_CASE("what is each rank's own is a slice of a tensor with an axis for the ranks") {
  const Piece own = of_rank("error", ones({2, 3}), 1, 4);
  CHECK(own.region == Region::slice({4, 2, 3}, 0, 1, 1));
  CHECK_NOTHROW(check(own));
  CHECK(of_rank("scalar", ones({}), 0, 2).region == Region::slice({2}, 0, 0, 1));
}

TEST_CASE("pieces that make no sense are refused") {
  const Region region = Region::whole({2, 3});
  CHECK_THROWS_WITH_AS(check(Piece{"", region, zeros({2, 3})}), Contains("no name"), ValueError);
  CHECK_THROWS_WITH_AS(check(Piece{"x", region, Tensor()}), Contains("x has no values"),
                       ValueError);
  CHECK_THROWS_WITH_AS(check(Piece{"x", region.range(0, 7), zeros({7})}),
                       Contains("a range of x must lie"), ShapeError);
  CHECK_THROWS_WITH_AS(check(Piece{"x", region, zeros({5})}),
                       Contains("the piece [0:2, 0:3] of x needs 6 values, got [5]"), ShapeError);
  CHECK_THROWS_WITH_AS(check(Piece{"x", region, zeros({2, 3}, {.device = Device::meta()})}),
                       Contains("the piece of x must be on the cpu, it is on meta"), DeviceError);
  CHECK_THROWS_WITH_AS(
      copy_overlap(whole("x", zeros({2})), whole("x", zeros({2}, {.dtype = Dtype::float64}))),
      Contains("x is float32 in one piece and float64 in another"), DtypeError);
  CHECK_THROWS_AS(copy_overlap(whole("x", zeros({2})), whole("x", zeros({3}))), ShapeError);
}
