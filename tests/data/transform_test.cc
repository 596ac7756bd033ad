#include "data/transform.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "data/loader.h"

using namespace capstan;
using namespace capstan::data;

namespace {

using Values = std::vector<float>;

std::vector<Generator> generators(int64_t count, int64_t epoch = 0) {
  std::vector<Generator> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(sample_generator(1, epoch, i));
  return all;
}

/// What `transform` makes of images of these values.
Batch applied(const Transform& transform, const Values& values, const Shape& shape) {
  Batch batch{from_vector(values, shape), zeros({shape[0]}, {.dtype = Dtype::int64})};
  auto rows = generators(shape[0]);
  transform(batch, rows);
  return batch;
}

Values values_of(const Transform& transform, const Values& values, const Shape& shape) {
  return applied(transform, values, shape).inputs.to_vector<float>();
}

/// Images that hold their own number everywhere, normalised by nothing.
TensorDataset plain_images(int64_t count, int64_t size = 4) {
  Values values;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < count; ++i) {
    values.insert(values.end(), static_cast<size_t>(size * size), static_cast<float>(i));
    labels.push_back(i % 3);
  }
  return TensorDataset(from_vector(values, {count, 1, size, size}), from_vector(labels, {count}));
}

}  // namespace

TEST_CASE("normalize, by one and by channel") {
  const Values x{1, 2, 3, 4};
  CHECK(values_of(normalize({{.mean = 1, .deviation = 2}}), x, {1, 2, 1, 2}) ==
        Values{0, 0.5f, 1, 1.5f});
  const auto by_channel = normalize({{.mean = 1}, {.deviation = 0.5}});
  CHECK(values_of(by_channel, x, {1, 2, 1, 2}) == Values{0, 1, 6, 8});
  CHECK_THROWS_AS(values_of(by_channel, x, {1, 4, 1, 1}), ShapeError);
  CHECK_THROWS_AS(values_of(normalize({}), x, {1, 4, 1, 1}), ShapeError);
  CHECK_THROWS_AS(normalize({{.deviation = 0}}), ValueError);
}

TEST_CASE("center_crop and resize_to") {
  const Values x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  CHECK(values_of(center_crop(1, 2), x, {1, 1, 3, 4}) == Values{5, 6});
  CHECK(values_of(center_crop(2, 3), x, {1, 1, 3, 4}) == Values{0, 1, 2, 4, 5, 6});
  CHECK_THROWS_AS(values_of(center_crop(4, 1), x, {1, 1, 3, 4}), ShapeError);
  CHECK_THROWS_AS(center_crop(0, 1), ValueError);
  CHECK(applied(resize_to(6, 2), x, {1, 1, 3, 4}).inputs.shape() == Shape{1, 1, 6, 2});
}

TEST_CASE("random_crop takes every place, and zeros around") {
  const Values image{1, 2, 3, 4};
  std::set<Values> seen;
  for (int64_t epoch = 0; epoch < 300; ++epoch) {
    Batch batch{from_vector(image, {1, 1, 2, 2}), zeros({1})};
    auto rows = generators(1, epoch);
    random_crop(2, 2, 1)(batch, rows);
    seen.insert(batch.inputs.to_vector<float>());
  }
  CHECK(seen == std::set<Values>{{0, 0, 0, 1},
                                 {0, 0, 1, 2},
                                 {0, 0, 2, 0},
                                 {0, 1, 0, 3},
                                 {1, 2, 3, 4},
                                 {2, 0, 4, 0},
                                 {0, 3, 0, 0},
                                 {3, 4, 0, 0},
                                 {4, 0, 0, 0}});
  CHECK(values_of(random_crop(4, 4, 1), image, {1, 1, 2, 2}) ==
        Values{0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0});
  CHECK_THROWS_AS(values_of(random_crop(5, 2, 1), image, {1, 1, 2, 2}), ShapeError);
  CHECK_THROWS_AS(random_crop(2, 2, -1), ValueError);
}

TEST_CASE("random_flip: never, always, and as often as it should") {
  const Values x{1, 2, 3, 4, 5, 6};
  CHECK(values_of(random_flip(0), x, {1, 1, 2, 3}) == x);
  CHECK(values_of(random_flip(1), x, {1, 2, 1, 3}) == Values{3, 2, 1, 6, 5, 4});
  Values pairs;
  for (int i = 0; i < 4000; ++i) pairs.insert(pairs.end(), {0, 1});
  const Values flipped = values_of(random_flip(0.25), pairs, {4000, 1, 1, 2});
  double count = 0;
  for (size_t i = 0; i < flipped.size(); i += 2) count += flipped[i];
  CHECK(std::abs(count - 1000) < 5 * std::sqrt(4000 * 0.25 * 0.75));
  CHECK_THROWS_AS(random_flip(1.5), ValueError);
  CHECK_THROWS_AS(random_flip(NAN), ValueError);
}

TEST_CASE("random_erasing erases one rectangle of the right area in all channels") {
  const int64_t side = 20;
  const Values ones(static_cast<size_t>(50 * 2 * side * side), 1);
  const Values out = values_of(random_erasing({.p = 1, .value = -7}), ones, {50, 2, side, side});
  for (int64_t i = 0; i < 50; ++i) {
    int64_t top = side, bottom = -1, left = side, right = -1, count = 0;
    for (int64_t y = 0; y < side; ++y) {
      for (int64_t x = 0; x < side; ++x) {
        const size_t at = static_cast<size_t>((i * 2 * side + y) * side + x);
        CHECK(out[at] == out[at + static_cast<size_t>(side * side)]);
        if (out[at] == 1) continue;
        top = std::min(top, y), bottom = std::max(bottom, y);
        left = std::min(left, x), right = std::max(right, x);
        ++count;
      }
    }
    CHECK(count == (bottom - top + 1) * (right - left + 1));
    CHECK(count >= 4);    // 0.02 of 400 is 8, and rounding may halve that
    CHECK(count <= 150);  // 0.33 of 400 is 132
  }
  CHECK(values_of(random_erasing({.p = 0}), {1, 2}, {1, 1, 1, 2}) == Values{1, 2});
  CHECK_THROWS_AS(random_erasing({.p = -1}), ValueError);
  CHECK_THROWS_AS(random_erasing({.least_area = 0.5, .most_area = 0.4}), ValueError);
  CHECK_THROWS_AS(random_erasing({.least_ratio = 0}), ValueError);
}

TEST_CASE("color_jitter") {
  const Values x{0.2f, 0.4f, 0.6f, 0.8f, 0.5f, 0.5f};
  const auto unchanged = values_of(color_jitter({}), x, {1, 3, 1, 2});
  for (size_t i = 0; i < x.size(); ++i) CHECK(unchanged[i] == doctest::Approx(x[i]));
  const auto bright = values_of(color_jitter({.brightness = 0.5}), x, {1, 3, 1, 2});
  CHECK(bright[1] / bright[0] == doctest::Approx(2));
  CHECK(bright[0] != doctest::Approx(x[0]));
  const auto contrast = values_of(color_jitter({.contrast = 0.5}), {0.4f, 0.6f}, {1, 1, 1, 2});
  CHECK(contrast[0] + contrast[1] == doctest::Approx(1));
  CHECK(contrast[0] != doctest::Approx(0.4));
  const auto grey = [](const Values& v) { return 0.299 * v[0] + 0.587 * v[1] + 0.114 * v[2]; };
  const Values color{0.5f, 0.4f, 0.3f};
  const auto saturated = values_of(color_jitter({.saturation = 0.5}), color, {1, 3, 1, 1});
  CHECK(grey(saturated) == doctest::Approx(grey(color)));
  CHECK(saturated[0] != doctest::Approx(color[0]));
  CHECK_THROWS_AS(values_of(color_jitter({.saturation = 1}), x, {1, 2, 1, 3}), ShapeError);
  CHECK_THROWS_AS(color_jitter({.contrast = 2}), ValueError);
}

TEST_CASE("mixup mixes inputs and labels in the same shares") {
  const TensorDataset set = plain_images(50, 1);
  std::vector<int64_t> indices(50);
  for (int64_t i = 0; i < 50; ++i) indices[static_cast<size_t>(i)] = i;
  for (const double alpha : {0.2, 1.0, 5.0}) {
    double mean = 0;
    const int64_t epochs = 200;
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      Batch batch = set.batch(indices);
      auto rows = generators(50, epoch);
      mixup(set, 3, alpha)(batch, rows);
      CHECK(batch.labels.shape() == Shape{50, 3});
      const auto labels = batch.labels.to_vector<double>();
      for (int64_t i = 0; i < 50; ++i) {
        const double sum = labels[i * 3] + labels[i * 3 + 1] + labels[i * 3 + 2];
        REQUIRE(sum == doctest::Approx(1));
      }
      // Sample 0 has the value 0, so a mixture of it with j is (1 - l) j: the share is that of the
      // labels, unless both are of one class.
      const double x = batch.inputs.to_vector<double>()[0], share = labels[0];
      if (share < 1) {
        const double partner = x / (1 - share);
        REQUIRE(partner == doctest::Approx(std::round(partner)).epsilon(1e-3));
      }
      for (int64_t i = 0; i < 50; ++i) mean += labels[i * 3 + i % 3];
    }
    // The own label's share is 1/2 on average, and 1 with the third of partners of its class.
    CHECK(mean / (50 * epochs) == doctest::Approx(0.5 + 0.5 / 3).epsilon(0.03));
  }
  CHECK_THROWS_AS(mixup(set, 0, 1), ValueError);
  CHECK_THROWS_AS(mixup(set, 3, 0), ValueError);
  Batch batch = set.batch(std::vector<int64_t>{2});
  auto rows = generators(1);
  CHECK_THROWS_AS(mixup(set, 2, 1)(batch, rows), ValueError);
  CHECK_THROWS_WITH_AS(mixup(set, 3, 1, resize_to(2, 2))(batch, rows), doctest::Contains("before"),
                       ShapeError);
}

TEST_CASE("what the transforms refuse") {
  Batch batch{zeros({2, 3}), zeros({2})};
  auto rows = generators(2);
  CHECK_THROWS_AS(random_flip()(batch, rows), ShapeError);
  batch.inputs = zeros({2, 1, 2, 2}, {.dtype = Dtype::uint8});
  CHECK_THROWS_AS(random_flip()(batch, rows), DtypeError);
  batch.inputs = zeros({3, 1, 2, 2});
  CHECK_THROWS_AS(random_flip()(batch, rows), ValueError);
  const auto all =
      compose({random_crop(2, 2, 1), random_flip(), random_erasing(), center_crop(1, 1),
               color_jitter({.brightness = 1}), normalize({{}}), resize_to(3, 3)});
  CHECK(applied(all, {}, {0, 3, 2, 2}).inputs.shape() == Shape{0, 3, 3, 3});
}

TEST_CASE("a sample's random numbers do not depend on ranks, batches or threads") {
  const TensorDataset set = plain_images(23);
  const auto augment = compose({random_crop(4, 4, 2), random_flip(), random_erasing()});
  const Transform all = compose({augment, mixup(set, 3, 0.5, augment)});
  /// What each sample becomes, by the loader's options.
  const auto epoch_of = [&](LoaderOptions options, int64_t epoch) {
    std::map<int64_t, Values> samples;
    options.transform = all;
    options.order =
        subset_order({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18});
    for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
      const DataLoader loader(set, options);
      int64_t step = 0;
      for (Batch& batch : loader.epoch(epoch)) {
        const auto x = batch.inputs.to_vector<float>();
        for (int64_t i = 0; i < batch.size(); ++i) {
          const int64_t index = step * options.batch + options.rank + i * options.ranks;
          samples[index] = Values(x.begin() + i * 16, x.begin() + (i + 1) * 16);
        }
        ++step;
      }
    }
    return samples;
  };
  const auto expected = epoch_of({.batch = 1, .prefetch_threads = 0}, 2);
  CHECK(expected.size() == 19);
  CHECK(epoch_of({.batch = 7, .ranks = 3, .prefetch_threads = 4}, 2) == expected);
  CHECK(epoch_of({.batch = 19, .ranks = 2}, 2) == expected);
  CHECK(epoch_of({.batch = 1}, 3) != expected);
  CHECK(epoch_of({.batch = 1, .seed = 9}, 2) != expected);
}

TEST_CASE("samples, epochs, seeds and repeats have streams of their own") {
  std::set<uint64_t> seen;
  for (uint64_t seed : {0, 1}) {
    for (int64_t epoch = 0; epoch < 10; ++epoch) {
      for (int64_t index = 0; index < 100; ++index) {
        for (int64_t repeat : {0, 1})
          seen.insert(sample_generator(seed, epoch, index, repeat).next());
      }
    }
  }
  CHECK(seen.size() == 4000);
  // An order that has one sample often changes it in another way each time.
  const TensorDataset set = plain_images(2, 8);
  const DataLoader loader(set, {.batch = 64,
                                .order = subset_order(std::vector<int64_t>(64, 1)),
                                .transform = random_erasing({.p = 1})});
  std::set<Values> images;
  for (Batch& batch : loader.epoch(0)) {
    const auto x = batch.inputs.to_vector<float>();
    for (size_t i = 0; i < x.size(); i += 64)
      images.insert(Values(x.begin() + i, x.begin() + i + 64));
  }
  CHECK(images.size() > 50);
}
