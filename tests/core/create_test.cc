// Tests of the ways to make tensors in core/create.h.
#include "core/create.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/error.h"

namespace capstan {
namespace {

using Numbers = std::vector<double>;

TEST_CASE("like another tensor") {
  for (const Dtype dtype : kDtypes) {
    const Tensor like = empty({2, 3}, {.dtype = dtype});
    for (const auto& [made, value] :
         {std::pair{zeros_like(like), 0.0}, {ones_like(like), 1.0}, {full_like(like, 1), 1.0}}) {
      CHECK(made.dtype() == dtype);
      CHECK(made.shape() == like.shape());
      CHECK(made.to_vector<double>() == Numbers(6, value));
    }
  }
  CHECK(zeros_like(empty({2}, {.device = Device::meta()})).device() == Device::meta());
}

TEST_CASE("arange stops before its end, going up or down") {
  CHECK(arange(0, 5, 2).to_vector<double>() == Numbers{0, 2, 4});
  CHECK(arange(0, 4, 2).to_vector<double>() == Numbers{0, 2});
  CHECK(arange(1, 0, -0.25).to_vector<double>() == Numbers{1, 0.75, 0.5, 0.25});
  CHECK(arange(3, 3, 1).shape() == Shape{0});
  CHECK(arange(1, 4).dtype() == Dtype::int64);
  CHECK(arange(1, 4.0).dtype() == Dtype::float32);
  CHECK(arange(1, 4, 0.5).dtype() == Dtype::float32);
  CHECK(arange(4, {}).to_vector<double>() == Numbers{0, 1, 2, 3});  // options, not an end of 0
  CHECK(arange(3, 0, 1).shape() == Shape{0});
  CHECK(arange(-2, 2, 1, {.dtype = Dtype::int64}).to_vector<int64_t>() ==
        std::vector<int64_t>{-2, -1, 0, 1});
  CHECK(arange(0, 1, 0.1, {.dtype = Dtype::float64}).to_vector<double>()[7] == 7 * 0.1);
  CHECK(arange(0, 5, 2, {.device = Device::meta()}).shape() == Shape{3});

  CHECK_THROWS_WITH_AS(arange(0, 1, 0),
                       "[arange] needs finite ends and a step that is not 0, got 0, 1, 0",
                       ValueError);
  CHECK_THROWS_AS(arange(0, INFINITY), ValueError);
  CHECK_THROWS_AS(arange(0, NAN), ValueError);
  CHECK_THROWS_AS(arange(0, 1, 1e-300), ValueError);
  CHECK_THROWS_WITH_AS(arange(0, 1, 0.5, {.dtype = Dtype::int32}),
                       "[arange] int32 cannot hold 0.5, number 1 of the row", ValueError);
  CHECK_THROWS_AS(arange(250, 260, 1, {.dtype = Dtype::uint8}), ValueError);
  CHECK_THROWS_AS(arange(-1, 3, 1, {.dtype = Dtype::uint8}), ValueError);
}

TEST_CASE("linspace holds both ends") {
  CHECK(linspace(0, 1, 5).to_vector<double>() == Numbers{0, 0.25, 0.5, 0.75, 1});
  CHECK(linspace(0.1, 0.7, 4, {.dtype = Dtype::float64}).to_vector<double>().back() == 0.7);
  CHECK(linspace(3, -3, 3).to_vector<double>() == Numbers{3, 0, -3});
  CHECK(linspace(2, 9, 1).to_vector<double>() == Numbers{2});
  CHECK(linspace(2, 9, 0).shape() == Shape{0});
  CHECK(linspace(0, 6, 3, {.dtype = Dtype::int32}).to_vector<double>() == Numbers{0, 3, 6});
  CHECK_THROWS_WITH_AS(linspace(0, 1, -1),
                       "[linspace] needs finite ends and a count from 0, got 0, 1, -1", ValueError);
  CHECK_THROWS_AS(linspace(0, NAN, 3), ValueError);
  CHECK_THROWS_AS(linspace(0, 1, 3, {.dtype = Dtype::int64}), ValueError);
}

TEST_CASE("eye has ones on its main diagonal") {
  for (const Dtype dtype : kDtypes) {
    CHECK(eye(2, {.dtype = dtype}).to_vector<double>() == Numbers{1, 0, 0, 1});
    CHECK(eye(2, 3, {.dtype = dtype}).to_vector<double>() == Numbers{1, 0, 0, 0, 1, 0});
    CHECK(eye(3, 1, {.dtype = dtype}).to_vector<double>() == Numbers{1, 0, 0});
  }
  CHECK(eye(0).shape() == Shape{0, 0});
  CHECK(eye(4, {.device = Device::meta()}).shape() == Shape{4, 4});
  CHECK_THROWS_AS(eye(-1), ShapeError);
}

TEST_CASE("from_pointer copies") {
  float values[] = {1, 2, 3, 4, 5, 6};
  const Tensor x = from_pointer(values, {2, 3});
  values[0] = 9;
  CHECK(x.dtype() == Dtype::float32);
  CHECK(x.to_vector<double>() == Numbers{1, 2, 3, 4, 5, 6});
  CHECK(from_pointer<int64_t>(nullptr, {0, 3}).shape() == Shape{0, 3});
  CHECK_THROWS_WITH_AS(from_pointer<bool>(nullptr, {2}),
                       "[from_pointer] the pointer is null, but [2] has elements", ValueError);
}

}  // namespace
}  // namespace capstan
