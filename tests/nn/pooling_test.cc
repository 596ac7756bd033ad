// Tests of the pooling layers: where their windows lie. What they compute is tested with the
// operations.
#include "nn/pooling.h"

#include <doctest/doctest.h>

#include "core/error.h"

namespace capstan::nn {
namespace {

TEST_CASE("a pool's windows lie side by side unless a stride is given") {
  const Tensor image = ones({1, 1, 9, 7}), line = ones({1, 1, 7});
  CHECK(MaxPool2d(3)(image).shape() == Shape{1, 1, 3, 2});
  CHECK(MaxPool2d(3, 1)(image).shape() == Shape{1, 1, 7, 5});
  CHECK(MaxPool2d(3, 2, 1)(image).shape() == Shape{1, 1, 5, 4});
  CHECK(AvgPool2d(3)(image).shape() == Shape{1, 1, 3, 2});
  CHECK(AvgPool2d(3, 2, 1)(image).shape() == Shape{1, 1, 5, 4});
  CHECK(MaxPool1d(3)(line).shape() == Shape{1, 1, 2});
  CHECK(MaxPool1d(3, 2, 1)(line).shape() == Shape{1, 1, 4});
  CHECK(AvgPool1d(3)(line).shape() == Shape{1, 1, 2});
  CHECK(AvgPool1d(3, 2, 1)(line).shape() == Shape{1, 1, 4});
  CHECK_THROWS_AS(MaxPool2d(3)(ones({1, 1, 2, 2})), ShapeError);
  CHECK_THROWS_AS(MaxPool1d(3)(ones({1, 1, 2})), ShapeError);
}

TEST_CASE("adaptive pools give the size that is asked for") {
  const Tensor image = ones({1, 1, 9, 7}), line = ones({1, 1, 7});
  CHECK(AdaptiveAvgPool2d(2, 3)(image).shape() == Shape{1, 1, 2, 3});
  CHECK(AdaptiveMaxPool2d(2, 3)(image).shape() == Shape{1, 1, 2, 3});
  CHECK(AdaptiveAvgPool1d(3)(line).shape() == Shape{1, 1, 3});
  CHECK(AdaptiveMaxPool1d(9)(line).shape() == Shape{1, 1, 9});
}

TEST_CASE("maxima and means come from the pool of that name") {
  const Tensor line = from_vector<float>({1, 3, 2, 6}, {1, 1, 4});
  using Numbers = std::vector<float>;
  CHECK(MaxPool1d(2)(line).to_vector<float>() == Numbers{3, 6});
  CHECK(AvgPool1d(2)(line).to_vector<float>() == Numbers{2, 4});
  CHECK(AdaptiveMaxPool1d(2)(line).to_vector<float>() == Numbers{3, 6});
  CHECK(AdaptiveAvgPool1d(2)(line).to_vector<float>() == Numbers{2, 4});
  const Tensor image = from_vector<float>({1, 3, 2, 6}, {1, 1, 2, 2});
  CHECK(AdaptiveMaxPool2d(1, 2)(image).to_vector<float>() == Numbers{2, 6});
  CHECK(AdaptiveAvgPool2d(1, 2)(image).to_vector<float>() == Numbers{1.5, 4.5});
}

}  // namespace
}  // namespace capstan::nn
