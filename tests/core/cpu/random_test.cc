// Random kernels against core/random.h, number by number.
#include "core/random.h"

#include "core/part.h"
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr uint64_t kSeed = 0x123456789abcdef;
const uint64_t kOffsets[] = {0, 1, 2, 3, 61, (uint64_t{1} << 34) - 5};

Tensor draw_uniform(uint64_t offset, int64_t count, Dtype dtype) {
  const Tensor out = empty({count}, {.dtype = dtype});
  cpu().uniform(kSeed, offset, -1, 3, out);
  return out;
}

Tensor draw_normal(uint64_t offset, int64_t count, Dtype dtype) {
  const Tensor out = empty({count}, {.dtype = dtype});
  cpu().normal(kSeed, offset, 0.5, 2, out);
  return out;
}

}  // namespace

TEST_CASE("number i is made from the words at offset + i * n, wherever it stands") {
  for (const uint64_t offset : kOffsets) {
    const auto word = [&](uint64_t i) { return random_word(kSeed, offset + i); };
    const auto floats = draw_uniform(offset, 203, Dtype::float32).to_vector<double>();
    const auto doubles = draw_uniform(offset, 203, Dtype::float64).to_vector<double>();
    const auto normals = draw_normal(offset, 203, Dtype::float64).to_vector<double>();
    const auto normal_floats = draw_normal(offset, 203, Dtype::float32).to_vector<double>();
    for (uint64_t i = 0; i < 203; ++i) {
      CHECK(floats[i] == static_cast<float>(unit_uniform(word(i)) * 4.0 - 1));
      CHECK(doubles[i] == unit_uniform(word(2 * i), word(2 * i + 1)) * 4 - 1);
      CHECK(normals[i] ==
            doctest::Approx(0.5 + 2 * unit_normal(word(2 * i), word(2 * i + 1))).epsilon(1e-12));
      CHECK(normal_floats[i] == doctest::Approx(normals[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("integer i is the high half of word times range, on any number of threads") {
  for (const uint64_t offset : kOffsets) {
    for (const auto& [low, range] : {std::pair<int64_t, uint64_t>{-3, 7},
                                     {INT64_MIN, UINT64_MAX},
                                     {5, uint64_t{1} << 40},
                                     {0, 1}}) {
      const Tensor out = empty({203}, {.dtype = Dtype::int64});
      cpu().integers(kSeed, offset, low, range, out);
      for (uint64_t i = 0; i < 203; ++i) {
        const uint64_t at = offset + 2 * i;
        const uint64_t word = uint64_t{random_word(kSeed, at + 1)} << 32 | random_word(kSeed, at);
        const auto number =
            static_cast<uint64_t>(static_cast<unsigned __int128>(word) * range >> 64);
        CHECK(out.data<int64_t>()[i] == static_cast<int64_t>(static_cast<uint64_t>(low) + number));
      }
    }
  }
  for (const Dtype dtype : {Dtype::int64, Dtype::int32, Dtype::uint8}) {
    check_threads([&] {
      const Tensor out = empty({100'000}, {.dtype = dtype});
      cpu().integers(kSeed, 1, 3, 200, out);
      return out;
    });
  }
}

TEST_CASE("uniform and normal numbers have their moments, on any number of threads") {
  constexpr int64_t n = 200'000;
  for (const Dtype dtype : kFloating) {
    const auto moments = [](const Tensor& t) {
      double mean = 0, square = 0;
      for (const double x : t.to_vector<double>()) mean += x, square += x * x;
      mean /= n;
      return std::pair{mean, square / n - mean * mean};
    };
    const auto [mean, variance] = moments(draw_uniform(3, n, dtype));
    CHECK(mean == doctest::Approx(1).epsilon(0.01));
    CHECK(variance == doctest::Approx(16. / 12).epsilon(0.01));
    const auto [normal_mean, normal_variance] = moments(draw_normal(3, n, dtype));
    CHECK(normal_mean == doctest::Approx(0.5).epsilon(0.04));
    CHECK(normal_variance == doctest::Approx(4).epsilon(0.02));
    check_threads([&] { return draw_uniform(5, n, dtype); });
    check_threads([&] { return draw_normal(5, n, dtype); });
  }
  for (const double x : draw_uniform(0, n, Dtype::float32).to_vector<double>()) {
    REQUIRE(x >= -1);
    REQUIRE(x < 3);
  }
}

TEST_CASE("dropout keeps an element where its number is at least p, and scales it") {
  for (const Dtype dtype : kFloating) {
    for (const double p : {0.0, 0.3, 0.999}) {
      for (const uint64_t offset : kOffsets) {
        const Tensor in = some_values({301}, dtype), out = empty_like(in);
        cpu().dropout(kSeed, offset, in.layout(), p, in, out);
        auto expected = in.to_vector<double>();
        for (size_t i = 0; i < expected.size(); ++i) {
          const bool kept = unit_uniform(random_word(kSeed, offset + i)) >= static_cast<float>(p);
          expected[i] = kept ? expected[i] / (1 - p) : 0;
        }
        CHECK(error_of(out, expected) < tolerance(dtype));
      }
    }
    const Tensor in = full({100'000}, NAN, {.dtype = dtype}), out = empty_like(in);
    cpu().dropout(kSeed, 7, in.layout(), 1, in, out);
    CHECK(out.to_vector<double>() == std::vector<double>(100'000, 0));
    check_threads([&] {
      cpu().dropout(kSeed, 7, out.layout(), 0.5, some_values({100'000}, dtype), out);
      return dense_copy(out);
    });
  }
}

TEST_CASE("dropout of a part drops what it would of these elements of the whole") {
  struct Row {
    Shape shape;
    AxisParts parts;
  };
  for (const Row& row : std::vector<Row>{{{3, 4, 5}, {{2, 1, 3}}},        // rows of 5
                                         {{300, 1}, {{1, 2, 7}}},         // no neighbours
                                         {{4, 6, 5}, {{1, 1, 4, 2, 1}}},  // two blocks side by side
                                         {{4, 6, 5}, {{1, 0, 4, 2, 3}}},  // and apart
                                         {{2, 6, 50}, {{0, 1, 2}, {1, 1, 6, 2, 3}, {2, 2, 3}}},
                                         {{90, 1000}, {{1, 1, 2}}},  // several threads
                                         {{0, 3}, {{1, 1, 2}}}}) {
    const Part part = part_of(row.shape, row.parts);
    for (const Dtype dtype : kFloating) {
      const Tensor in = full({part.whole}, 1, {.dtype = dtype}), whole = empty_like(in);
      cpu().dropout(kSeed, 9, in.layout(), 0.4, in, whole);
      const Tensor mine = full(row.shape, 1, {.dtype = dtype});
      const auto expected = view_of(whole, part.layout).to_vector<double>();
      check_threads([&] {
        const Tensor out = empty_like(mine);
        cpu().dropout(kSeed, 9, part.layout, 0.4, mine, out);
        CHECK(out.to_vector<double>() == expected);
        return out;
      });
    }
  }
}

TEST_CASE("empty random tensors") {
  CHECK(draw_uniform(1, 0, Dtype::float32).numel() == 0);
  CHECK(draw_normal(1, 0, Dtype::float64).numel() == 0);
}
