// Tests of the plateau schedule: PyTorch's rates, and the corners of its rules.
#include "optim/plateau.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "tests/golden/golden.h"

namespace capstan::optim {
namespace {

using doctest::Contains;

double after(const Plateau& plateau, const std::vector<double>& metrics) {
  return plateau(metrics);
}

TEST_CASE("the rate after each of forty metrics is PyTorch's") {
  const auto golden = testing::load_golden("schedules");
  const auto metrics = golden.at("metrics").to_vector<double>();
  const std::pair<const char*, Plateau> plateaus[] = {
      {"plateau.min", {.rate = 0.4, .factor = 0.5, .patience = 2}},
      {"plateau.max", {.rate = 0.4, .factor = 0.5, .patience = 2, .rising = true}},
      {"plateau.all",
       {.rate = 0.4,
        .factor = 0.5,
        .patience = 1,
        .threshold = 0.05,
        .cooldown = 3,
        .floor = 0.03}},
  };
  for (const auto& [name, plateau] : plateaus) {
    CAPTURE(name);
    const auto expected = golden.at(name).to_vector<double>();
    for (size_t i = 0; i < metrics.size(); ++i) {
      CHECK(plateau(std::span(metrics).first(i + 1)) ==
            doctest::Approx(expected[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("it waits as long as its patience, and begins anew") {
  const Plateau plateau{.rate = 1, .factor = 0.5, .patience = 1};
  CHECK(after(plateau, {}) == 1);
  CHECK(after(plateau, {3, 3}) == 1);
  CHECK(after(plateau, {3, 3, 3}) == 0.5);
  CHECK(after(plateau, {3, 3, 3, 3}) == 0.5);
  CHECK(after(plateau, {3, 3, 3, 3, 3}) == 0.25);
  CHECK(after(plateau, {3, 3, 2, 2}) == 1);
}

TEST_CASE("better is relative to the size of the best, whatever its sign") {
  const Plateau falling{.rate = 1, .factor = 0.5, .patience = 0, .threshold = 0.1};
  CHECK(after(falling, {-1, -1.05}) == 0.5);
  CHECK(after(falling, {-1, -1.2}) == 1);
  CHECK(after(falling, {0, -1e-9}) == 1);
  Plateau rising = falling;
  rising.rising = true;
  CHECK(after(rising, {-1, -0.95}) == 0.5);
  CHECK(after(rising, {-1, -0.8}) == 1);
}

TEST_CASE("NaN and infinity are metrics, too") {
  const Plateau plateau{.rate = 1, .factor = 0.5, .patience = 1};
  CHECK(after(plateau, {NAN, NAN}) == 0.5);
  CHECK(after(plateau, {NAN, 3, 2, 1}) == 1);
  CHECK(after(plateau, {3, NAN, NAN}) == 0.5);
  CHECK(after(plateau, {INFINITY, INFINITY}) == 1);
  CHECK(after(plateau, {INFINITY, 4, 3, 2, 1}) == 1);
  CHECK(after(plateau, {INFINITY, INFINITY, INFINITY}) == 0.5);
}

TEST_CASE("the floor holds, and never raises the rate") {
  CHECK(after({.rate = 1, .factor = 0, .patience = 0, .floor = 0.2}, {1, 1, 1}) == 0.2);
  CHECK(after({.rate = 0.1, .patience = 0, .floor = 0.2}, {1, 1, 1}) == 0.1);
}

TEST_CASE("constants must make sense") {
  const std::pair<Plateau, const char*> wrong[] = {
      {{.rate = -1}, "[plateau] rate must be"},
      {{.rate = 1, .factor = 1}, "[plateau] factor must be in [0, 1), got 1"},
      {{.rate = 1, .patience = -1}, "[plateau] patience and cooldown must be at least 0"},
      {{.rate = 1, .threshold = 1}, "[plateau] threshold must be in [0, 1), got 1"},
      {{.rate = 1, .cooldown = -2}, "got 10 and -2"},
      {{.rate = 1, .floor = std::nan("")}, "[plateau] floor must be"},
  };
  for (const auto& [plateau, text] : wrong) {
    CHECK_THROWS_WITH_AS(after(plateau, {}), Contains(text), ValueError);
  }
}

}  // namespace
}  // namespace capstan::optim
