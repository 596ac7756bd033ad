// Tests of DetectAnomaly: which operation it names, where, and when it keeps quiet.
#include "autograd/anomaly.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;

Tensor leaf(const std::vector<double>& values) {
  return require_grad(from_vector(values, {static_cast<int64_t>(values.size())}));
}

std::string message_of(const std::function<void()>& attempt) {
  try {
    attempt();
  } catch (const GradientError& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("the operation whose gradient made a NaN is named, with the labels around its call") {
  const Tensor x = leaf({0, 1});
  const auto root_of_square = [&] {
    Label model("model");
    Label layer("layer 3");
    return sum(exp(sqrt(square(x))));  // the slope of sqrt at 0 is infinite, that of square 0
  };
  CHECK_NOTHROW(backward(root_of_square()));
  CHECK(std::isnan(x.grad().to_vector<double>()[0]));

  DetectAnomaly watch;
  const Tensor y = root_of_square();
  const std::string message = message_of([&] { backward(y); });
  CHECK(message.find("[square] its gradient of input 0, float64 [2], holds NaN") == 0);
  CHECK(message.find("'model' (anomaly_test.cc:") != std::string::npos);
  CHECK(message.find(") > 'layer 3' (anomaly_test.cc:") != std::string::npos);
  CHECK(message.find("addr2line -Cfpe ") != std::string::npos);
  CHECK(message.find(" 0x") != std::string::npos);
}

TEST_CASE("the operation whose result holds the first NaN is named at its call") {
  const Tensor x = leaf({-1, 1}), bad = leaf({std::nan(""), 1});
  {
    DetectAnomaly watch;
    Label here("here");
    const std::string message = message_of([&] { log(x) * 2; });
    CHECK(message.find("[log] its result, float64 [2], holds NaN, though") == 0);
    CHECK(message.find("'here'") != std::string::npos);
    CHECK_NOTHROW(exp(bad));  // it was there before
    CHECK_THROWS_AS(no_grad([&] { return sqrt(x); }), GradientError);
  }
  CHECK_NOTHROW(log(x));
}

TEST_CASE("infinities count only if asked for") {
  const Tensor x = leaf({0, 1});
  DetectAnomaly watch;
  CHECK_NOTHROW(log(x));
  const Tensor y = sum(sqrt(x));
  {
    DetectAnomaly strict(true);
    CHECK_THROWS_WITH_AS(log(x), Contains("[log] its result, float64 [2], holds NaN or infinities"),
                         GradientError);
    CHECK_THROWS_WITH_AS(backward(y, {.retain_graph = true}), Contains("[sqrt] its gradient of"),
                         GradientError);
  }
  CHECK_NOTHROW(backward(y));
}

TEST_CASE("operations recorded before are named without a place") {
  const Tensor x = leaf({0}), y = sqrt(square(x));
  DetectAnomaly watch;
  CHECK_THROWS_WITH_AS(backward(y), Contains("record it inside the DetectAnomaly"), GradientError);
  const Tensor z = sqrt(square(x));
  CHECK_THROWS_WITH_AS(backward(z), Contains("it was called in: no Label"), GradientError);
}

TEST_CASE("a NaN that the seed brings is nobody's fault, and integers have none") {
  const Tensor x = leaf({2});
  DetectAnomaly watch(true);
  const Tensor nan = from_vector<double>({std::nan("")}, {1});
  CHECK_NOTHROW(backward(x * x, {.seed = nan}));
  CHECK_NOTHROW(cast(x, Dtype::int64) + 1);
  CHECK_NOTHROW(exp(empty({2}, {.device = Device::meta()})));
}

}  // namespace
}  // namespace capstan
