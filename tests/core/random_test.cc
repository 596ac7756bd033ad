// Philox against published answers; streams, generators, and the distributions of random tensors.
#include "core/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/threads.h"

using namespace capstan;

using Words = std::array<uint32_t, 4>;

// Random123's file kat_vectors, philox4x32-10.
TEST_CASE("philox gives the known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  // Digits of pi.
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the stream of a seed is philox's words in order") {
  const uint64_t seed = 0x0123456789abcdef;
  CHECK(random_word(0, 0) == 0x6627e8d5);
  CHECK(random_word(0, 3) == 0x9b00dbd8);
  const uint64_t late = (uint64_t{5} << 32) + 7;  // the block's number has two halves
  CHECK(random_word(seed, 4 * late + 2) == philox({7, 5, 0, 0}, {0x89abcdef, 0x01234567})[2]);
}

TEST_CASE("a generator is two integers") {
  Generator generator(5, 3);
  CHECK(generator.next() == (uint64_t{random_word(5, 4)} << 32 | random_word(5, 3)));
  CHECK(generator.offset() == 5);
  CHECK(generator.advance(10) == 5);
  Generator same(generator.seed(), generator.offset());
  CHECK(same == generator);
  CHECK(same.next() == generator.next());
}

TEST_CASE("forks are apart from each other and from their origin") {
  std::set<uint64_t> words;
  int drawn = 0;
  for (uint64_t seed : {0, 1, 2}) {
    Generator origin(seed);
    for (uint64_t stream = 0; stream < 50; ++stream) {
      Generator fork = origin.fork(stream);
      CHECK(fork.offset() == 0);
      CHECK(fork == Generator(seed, 99).fork(stream));  // wherever the origin stands
      for (int i = 0; i < 20; ++i, ++drawn) words.insert(fork.next());
    }
    for (int i = 0; i < 20; ++i, ++drawn) words.insert(origin.next());
  }
  CHECK(words.size() == static_cast<size_t>(drawn));
  CHECK(Generator(1).fork(2).seed() != Generator(2).fork(1).seed());
  CHECK(Generator(0).fork(1).seed() != Generator(0).fork(uint64_t{1} << 32).seed());
}

TEST_CASE("below is in range, reaches every value, and has no bias") {
  Generator generator(1);
  std::vector<int> counts(6);
  for (int i = 0; i < 60'000; ++i) ++counts.at(generator.below(6));
  // Five degrees of freedom: chi-square is below 20.5 in 999 of 1000 streams.
  double chi_square = 0;
  for (int count : counts) chi_square += std::pow(count - 10'000, 2) / 10'000;
  CHECK(chi_square < 20.5);

  CHECK(generator.below(1) == 0);
  // Two thirds of 2^64: without the refusals, even results would come twice as often as odd ones.
  const uint64_t bound = std::numeric_limits<uint64_t>::max() / 3 * 2 + 1;
  int even = 0;
  for (int i = 0; i < 20'000; ++i) even += generator.below(bound) % 2 == 0;
  CHECK(std::abs(even - 10'000) < 300);
  CHECK_THROWS_WITH_AS(generator.below(0), "[below] bound must be at least 1, got 0", ValueError);
}

TEST_CASE("uniform tensors are made from the words that the header says") {
  Generator generator(7, 3);  // not at the beginning of a block
  const std::vector<float> single = rand({41}, -1, 3, {}, generator).to_vector<float>();
  CHECK(generator.offset() == 3 + 41);
  for (uint64_t i = 0; i < 41; ++i) {
    CHECK(single[i] == -1 + 4 * ((random_word(7, 3 + i) >> 8) * 0x1p-24f));
  }
  const Tensor wide = rand({41}, 0, 1, {.dtype = Dtype::float64}, generator);
  CHECK(generator.offset() == 44 + 2 * 41);
  for (uint64_t i = 0; i < 41; ++i) {
    const uint64_t word =
        uint64_t{random_word(7, 44 + 2 * i + 1)} << 32 | random_word(7, 44 + 2 * i);
    CHECK(wide.to_vector<double>()[i] == (word >> 11) * 0x1p-53);
  }
}

TEST_CASE("normal tensors are Box and Muller's cosines") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64}) {
    Generator generator(9, 6);
    const std::vector<double> drawn =
        randn({3, 7}, 2, 0.5, {.dtype = dtype}, generator).to_vector<double>();
    CHECK(generator.offset() == 6 + 2 * 21);
    for (uint64_t i = 0; i < 21; ++i) {
      const double u = (random_word(9, 6 + 2 * i) + 1.0) / 4294967296.0;
      const double v = random_word(9, 6 + 2 * i + 1) / 4294967296.0;
      const double expected = 2 + 0.5 * std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
      CHECK(drawn[i] == doctest::Approx(expected).epsilon(dtype == Dtype::float32 ? 1e-6 : 1e-14));
    }
  }
}

TEST_CASE("16-bit random numbers are the float32 ones, rounded, and stay below the end") {
  for (const Dtype dtype : {Dtype::float16, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    Generator wide(3, 2), narrow(3, 2);
    const auto check = [&](const Tensor& expected, const Tensor& got) {
      const Tensor rounded = empty(expected.shape(), {.dtype = dtype});
      copy_elements(expected, rounded);
      CHECK(got.dtype() == dtype);
      CHECK(got.to_vector<float>() == rounded.to_vector<float>());
      CHECK(narrow == wide);
    };
    check(randn({5, 7}, 2, 0.5, {}, wide), randn({5, 7}, 2, 0.5, {.dtype = dtype}, narrow));
    check(rand({4}, -3, 8, {}, wide), rand({4}, -3, 8, {.dtype = dtype}, narrow));
    for (const auto& [low, high] : {std::pair{0.0, 1.0}, {-1.0, 0.0}, {-2.0, -1.0}, {0.0, 0.3}}) {
      float most = static_cast<float>(low);
      for (const float x :
           rand({100'000}, low, high, {.dtype = dtype}, narrow).to_vector<float>()) {
        most = std::max(most, x);
      }
      CHECK(most < high);
      CHECK(most > high - 0.01 * (high - low));
    }
    const Tensor p = full({10'000}, 0.25, {.dtype = dtype});
    double hits = 0;
    for (const float hit : bernoulli(p, narrow).to_vector<float>()) hits += hit;
    CHECK(std::abs(hits - 2500) < 200);
  }
}

TEST_CASE("moments of the distributions") {
  Generator generator(4);
  const int64_t count = 200'000;
  const auto check = [&](const Tensor& tensor, double mean, double variance) {
    const std::vector<double> x = tensor.to_vector<double>();
    const double m = std::accumulate(x.begin(), x.end(), 0.0) / count;
    double v = 0;
    for (double value : x) v += (value - m) * (value - m) / count;
    CHECK(std::abs(m - mean) < 4 * std::sqrt(variance / count));
    CHECK(v == doctest::Approx(variance).epsilon(0.02));
  };
  check(rand({count}, 2, 5, {}, generator), 3.5, 9.0 / 12);
  check(randn({count}, -1, 2, {}, generator), -1, 4);
  check(randn({count}, 0, 1, {.dtype = Dtype::float64}, generator), 0, 1);
}

TEST_CASE("the extremes of the words stay in range") {
  CHECK(unit_uniform(0u) == 0);
  CHECK(unit_uniform(0xffffffffu) == 1 - 0x1p-24f);
  CHECK(unit_uniform(0xffffffffu, 0xffffffffu) == 1 - 0x1p-53);
  CHECK(scale_uniform(0.0f, 1, 2) == 1);
  // 2 - 2^-24 would round to 2.
  CHECK(scale_uniform(1 - 0x1p-24f, 1, 2) == std::nextafter(2.0f, 1.0f));
  CHECK(unit_normal(0, 0) == doctest::Approx(6.66043).epsilon(1e-5));
  CHECK(unit_normal(0xffffffff, 123) == 0);
}

TEST_CASE("numbers do not depend on the number of threads") {
  const int before = thread_count();
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 5}) {
    set_thread_count(threads);
    Generator generator(11, 1);
    results.push_back(rand({100'003}, 0, 1, {}, generator).to_vector<float>());
    results.push_back(randn({100'003}, 0, 1, {}, generator).to_vector<float>());
  }
  set_thread_count(before);
  CHECK(results[2] == results[0]);
  CHECK(results[4] == results[0]);
  CHECK(results[3] == results[1]);
  CHECK(results[5] == results[1]);
}

TEST_CASE("without a generator, the thread's own is used") {
  manual_seed(3);
  const auto first = rand({5}).to_vector<float>();
  const auto second = rand({5}).to_vector<float>();
  CHECK(first != second);
  manual_seed(3);
  CHECK(rand({5}).to_vector<float>() == first);
  // Another thread starts from the beginning of seed 0, whatever was drawn here.
  std::vector<float> elsewhere;
  std::thread([&] { elsewhere = rand({5}).to_vector<float>(); }).join();
  manual_seed(0);
  CHECK(rand({5}).to_vector<float>() == elsewhere);
}

TEST_CASE("meta tensors draw nothing, but the generator moves on as elsewhere") {
  Generator generator;
  CHECK(randn({3, 4}, 0, 1, {.device = Device::meta()}, generator).shape() == Shape{3, 4});
  CHECK(generator.offset() == 24);
}

TEST_CASE("permutations hold every number once and differ by seed") {
  for (int64_t count : {0, 1, 2, 1000}) {
    Generator generator(2);
    std::vector<int64_t> order = random_permutation(count, generator);
    if (count == 1000) CHECK_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; ++i) CHECK(order[i] == i);
  }
  // All six orders of three, about equally often.
  Generator generator(8);
  std::vector<int> counts(27);
  for (int i = 0; i < 6000; ++i) {
    const auto order = random_permutation(3, generator);
    ++counts[order[0] * 9 + order[1] * 3 + order[2]];
  }
  int orders = 0;
  for (int count : counts) {
    if (count == 0) continue;
    ++orders;
    CHECK(std::abs(count - 1000) < 130);
  }
  CHECK(orders == 6);
}

TEST_CASE("randint reaches every number of its range, and none beyond") {
  for (const Dtype dtype : {Dtype::int64, Dtype::int32, Dtype::uint8}) {
    Generator generator(3);
    std::vector<int> seen(10);
    for (const int64_t x :
         randint({10'000}, 2, 12, {.dtype = dtype}, generator).to_vector<int64_t>()) {
      REQUIRE(x >= 2);
      REQUIRE(x < 12);
      ++seen[x - 2];
    }
    for (const int count : seen) CHECK(std::abs(count - 1000) < 150);
    CHECK(generator.offset() == 20'000);
  }
  CHECK(randint({3}, INT64_MIN, INT64_MAX).numel() == 3);
  CHECK(randint({3}, 0, 256, {.dtype = Dtype::uint8}).dtype() == Dtype::uint8);
  CHECK_THROWS_AS(randint({3}, 0, 257, {.dtype = Dtype::uint8}), ValueError);
  CHECK_THROWS_AS(randint({3}, -1, 5, {.dtype = Dtype::uint8}), ValueError);
  CHECK_THROWS_WITH_AS(randint({3}, 5, 5),
                       "[randint] low must be below high and int64 hold both, got 5 and 5",
                       ValueError);
  CHECK_THROWS_AS(randint({3}, 0, 5, {.dtype = Dtype::float32}), DtypeError);
  CHECK_THROWS_AS(randint({3}, 0, 1, {.dtype = Dtype::boolean}), DtypeError);
}

TEST_CASE("randperm is random_permutation as a tensor; bernoulli follows its probabilities") {
  Generator one(4), two(4);
  CHECK(randperm(50, one).to_vector<int64_t>() == random_permutation(50, two));
  CHECK(randperm(0).shape() == Shape{0});
  CHECK_THROWS_AS(randperm(-1), ValueError);

  for (const Dtype dtype : {Dtype::float32, Dtype::float64}) {
    const Tensor p = full({3, 10'000}, 0.3, {.dtype = dtype});
    fill_elements(view_of(p, p.layout().selected(0, 0)), 0);
    fill_elements(view_of(p, p.layout().selected(0, 2)), 1);
    const Tensor hits = bernoulli(p, one);
    CHECK(hits.dtype() == dtype);
    std::vector<double> sums(3);
    const auto values = hits.to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK((values[i] == 0 || values[i] == 1));
      sums[i / 10'000] += values[i];
    }
    CHECK(sums[0] == 0);
    CHECK(std::abs(sums[1] - 3000) < 200);
    CHECK(sums[2] == 10'000);
  }
  CHECK(bernoulli(empty({2}, {.device = Device::meta()})).shape() == Shape{2});
  CHECK_THROWS_WITH_AS(bernoulli(scalar(1.5)), "[bernoulli] probabilities lie in [0, 1], got 1.5",
                       ValueError);
  CHECK_THROWS_AS(bernoulli(scalar(NAN)), ValueError);
  CHECK_THROWS_AS(bernoulli(ones({2}, {.dtype = Dtype::int64})), DtypeError);
}

TEST_CASE("wrong arguments of random tensors") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  CHECK_THROWS_WITH_AS(rand({2}, 1, 1),
                       "[rand] low must be below high and both finite, got 1 and 1", ValueError);
  CHECK_THROWS_AS(rand({2}, 0, infinity), ValueError);
  CHECK_THROWS_AS(rand({2}, nan, 1), ValueError);
  CHECK_THROWS_WITH_AS(rand({2}, 0, 1, {.dtype = Dtype::int64}),
                       "[rand] takes floating point, got int64", DtypeError);
  CHECK_THROWS_AS(randn({2}, 0, -1), ValueError);
  CHECK_THROWS_AS(randn({2}, nan, 1), ValueError);
  CHECK_THROWS_WITH_AS(randn({2}, 0, 1, {.dtype = Dtype::boolean}),
                       "[randn] takes floating point, got bool", DtypeError);
  CHECK_THROWS_AS(rand({-2}), ShapeError);
  Generator generator;
  CHECK_THROWS_AS(random_permutation(-1, generator), ValueError);
}
