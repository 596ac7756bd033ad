#include "data/dataset.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace capstan;
using data::Batch;
using data::ImageDataset;
using data::TensorDataset;

namespace {

using Indices = std::vector<int64_t>;

Tensor bytes(const std::vector<uint8_t>& values, const Shape& shape) {
  return from_vector(values, shape);
}

}  // namespace

TEST_CASE("TensorDataset gathers rows of any dtype") {
  const TensorDataset set(from_vector<double>({0, 1, 10, 11, 20, 21}, {3, 2}),
                          from_vector<int32_t>({5, 6, 7}, {3}));
  CHECK(set.size() == 3);
  const Batch batch = set.batch(Indices{2, 0, 2});
  CHECK(batch.size() == 3);
  CHECK(batch.inputs.shape() == Shape{3, 2});
  CHECK(batch.inputs.to_vector<double>() == std::vector<double>{20, 21, 0, 1, 20, 21});
  CHECK(batch.labels.shape() == Shape{3});
  CHECK(batch.labels.to_vector<int32_t>() == std::vector<int32_t>{7, 5, 7});
}

TEST_CASE("TensorDataset takes views, rows without elements and batches without rows") {
  const Tensor base = from_vector<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const TensorDataset set(view_of(base, base.layout().transposed(0, 1)), zeros({3, 0}));
  CHECK(set.batch(Indices{1}).inputs.to_vector<float>() == std::vector<float>{1, 4});
  CHECK(set.batch(Indices{1, 2}).labels.shape() == Shape{2, 0});
  CHECK(set.batch(Indices{}).inputs.shape() == Shape{0, 2});
  CHECK(set.batch(Indices{}).size() == 0);
}

TEST_CASE("TensorDataset refuses what does not fit") {
  CHECK_THROWS_WITH_AS(TensorDataset(zeros({3}), zeros({4})),
                       doctest::Contains("3 samples and 4 labels"), ShapeError);
  CHECK_THROWS_AS(TensorDataset(zeros({}), zeros({1})), ShapeError);
  CHECK_THROWS_AS(TensorDataset(zeros({1}), empty({1}, {.device = Device::meta()})), DeviceError);
  const TensorDataset set(zeros({3}), zeros({3}));
  CHECK_THROWS_WITH_AS(set.batch(Indices{0, 3}),
                       doctest::Contains("index 3 is out of range for 3 samples"), ValueError);
  CHECK_THROWS_AS(set.batch(Indices{-1}), ValueError);
}

TEST_CASE("ImageDataset normalises pixels and widens labels") {
  std::vector<uint8_t> pixels;
  for (int i = 0; i < 256; ++i) pixels.push_back(static_cast<uint8_t>(i));
  const ImageDataset set(bytes(pixels, {2, 8, 16}), bytes({9, 0}, {2}), 10,
                         {.mean = 0.25, .deviation = 0.5});
  CHECK(set.size() == 2);
  CHECK(set.height() == 8);
  CHECK(set.width() == 16);
  CHECK(set.classes() == 10);
  const Batch batch = set.batch(Indices{1, 0});
  CHECK(batch.inputs.shape() == Shape{2, 1, 8, 16});
  CHECK(batch.labels.shape() == Shape{2});
  CHECK(batch.labels.to_vector<int64_t>() == std::vector<int64_t>{0, 9});
  const auto inputs = batch.inputs.to_vector<float>();
  for (int i = 0; i < 256; ++i) {
    const double pixel = (i + 128) % 256;  // the second image came first
    CHECK(inputs[i] == static_cast<float>((pixel / 255 - 0.25) / 0.5));
  }
}

TEST_CASE("ImageDataset of several channels has a normalization for each, or one for all") {
  const Tensor images = bytes({0, 255, 51, 102}, {1, 2, 1, 2}), labels = bytes({0}, {1});
  using Normalizations = std::vector<data::Normalization>;
  const ImageDataset set(images, labels, 1, Normalizations{{.mean = 1}, {.deviation = 0.5}});
  CHECK(set.channels() == 2);
  const Batch batch = set.batch(Indices{0});
  CHECK(batch.inputs.shape() == Shape{1, 2, 1, 2});
  CHECK(batch.inputs.to_vector<float>() == std::vector<float>{-1, 0, 0.4f, 0.8f});
  const ImageDataset same(images, labels, 1, {.mean = 1});
  CHECK(same.batch(Indices{0}).inputs.to_vector<float>()[3] == static_cast<float>(0.4 - 1));
  CHECK_THROWS_AS(ImageDataset(images, labels, 1, Normalizations(3)), ValueError);
  CHECK_THROWS_AS(ImageDataset(images, labels, 1, Normalizations{}), ValueError);
}

TEST_CASE("the digest of an ImageDataset changes with any pixel or label") {
  const auto digest = [](std::vector<uint8_t> pixels, std::vector<uint8_t> labels) {
    return ImageDataset(bytes(pixels, {2, 1, 2}), bytes(labels, {2}), 10).digest();
  };
  CHECK(digest({1, 2, 3, 4}, {0, 1}) == digest({1, 2, 3, 4}, {0, 1}));
  CHECK(digest({1, 2, 3, 4}, {0, 1}) != digest({1, 2, 3, 5}, {0, 1}));
  CHECK(digest({1, 2, 3, 4}, {0, 1}) != digest({1, 2, 3, 4}, {1, 1}));
}

TEST_CASE("ImageDataset without rows or samples") {
  const ImageDataset set(bytes({1, 2, 3, 4, 5, 6}, {1, 2, 3}), bytes({0}, {1}), 1);
  CHECK(set.batch(Indices{}).inputs.shape() == Shape{0, 1, 2, 3});
  CHECK(set.batch(Indices{}).labels.shape() == Shape{0});
  const ImageDataset none(bytes({}, {0, 2, 3}), bytes({}, {0}), 1);
  CHECK(none.size() == 0);
  CHECK(none.batch(Indices{}).size() == 0);
  CHECK_THROWS_AS(none.batch(Indices{0}), ValueError);
}

TEST_CASE("ImageDataset refuses what does not fit") {
  const Tensor images = bytes({1, 2, 3, 4}, {2, 1, 2}), labels = bytes({0, 3}, {2});
  CHECK_THROWS_WITH_AS(ImageDataset(images, labels, 3),
                       doctest::Contains("must be in [0, 3), label 1 is 3"), ValueError);
  CHECK_THROWS_WITH_AS(ImageDataset(images, bytes({0}, {1}), 3),
                       doctest::Contains("2 samples and 1 labels"), ShapeError);
  CHECK_THROWS_AS(ImageDataset(zeros({2, 1, 2}), labels, 4), DtypeError);
  CHECK_THROWS_AS(ImageDataset(images, zeros({2}), 4), DtypeError);
  CHECK_THROWS_AS(ImageDataset(bytes({1, 2}, {2, 1}), labels, 4), ShapeError);
  CHECK_THROWS_AS(ImageDataset(images, bytes({0, 1}, {2, 1}), 4), ShapeError);
  CHECK_THROWS_AS(ImageDataset(images, labels, 4, {.mean = 0, .deviation = 0}), ValueError);
  CHECK_THROWS_AS(ImageDataset(images, labels, 4).batch(Indices{2}), ValueError);
}
