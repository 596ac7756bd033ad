// Norms and overflow over ranks that hold a model together, against one rank with all of it.
#include "distributed/clip.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/thread.h"
#include "optim/clip.h"

namespace capstan::distributed {
namespace {

Tensor with_grad(const std::vector<double>& grad) {
  const Shape shape{static_cast<int64_t>(grad.size())};
  const Tensor p = require_grad(ones(shape, {.dtype = Dtype::float64}));
  accumulator(p).set_grad(from_vector(grad, shape));
  return p;
}

TEST_CASE("all ranks find and clip to the norm of one with everything") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [n](Communicator& ranks) {
      // Each rank has a parameter of its own, and all have a copy of "shared".
      NamedTensors whole{{"shared", with_grad({3, 4})}};
      for (int r = 0; r < n; ++r) {
        whole.emplace_back("own" + std::to_string(r), with_grad({1.0 + r, -2.0 * r}));
      }
      const Tensor own = with_grad({1.0 + ranks.rank(), -2.0 * ranks.rank()});
      const NamedTensors mine{{"shared", with_grad({3, 4})}, {"own", own}};
      NamedTensors counted{{"own", own}};
      if (ranks.rank() == n - 1) counted.push_back(mine[0]);
      const double expected = optim::clip_grad_norm(whole, 0.7);
      CHECK(grad_norm(counted, ranks) == doctest::Approx(expected).epsilon(1e-15));
      CHECK(clip_grad_norm(mine, counted, 0.7, ranks) == doctest::Approx(expected).epsilon(1e-15));
      const auto check_same = [](const Tensor& a, const Tensor& b) {
        const auto x = a.grad().to_vector<double>(), y = b.grad().to_vector<double>();
        for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) < 1e-15);
      };
      check_same(mine[0].second, whole[0].second);
      check_same(own, whole[1 + ranks.rank()].second);
      CHECK(clip_grad_norm(mine, counted, 100, ranks) < 0.71);  // below the limit: as they are
      check_same(own, whole[1 + ranks.rank()].second);
    });
  }
}

TEST_CASE("the norm has the same bits however the elements are spread") {
  for (const Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16, Dtype::float16}) {
    constexpr int64_t kCount = 70'001;
    Generator generator(11);
    const Tensor all = randn({kCount}, 0, 1, {.dtype = dtype}, generator);
    const auto part = [&](int64_t begin, int64_t end) {
      const Tensor p = require_grad(ones({end - begin}, {.dtype = dtype}));
      accumulator(p).set_grad(dense_copy(view_of(all, all.layout().sliced(0, begin, end))));
      return p;
    };
    double squares = 0;
    for (double value : all.to_vector<double>()) squares += value * value;
    const double norm = optim::grad_norm({{"all", part(0, kCount)}});
    CHECK(norm == doctest::Approx(std::sqrt(squares)).epsilon(1e-12));
    for (int n = 1; n <= 5; ++n) {
      run_ranks(n, [&](Communicator& ranks) {
        const Tensor mine = part(kCount * ranks.rank() / n, kCount * (ranks.rank() + 1) / n);
        CHECK(grad_norm({{"part", mine}}, ranks) == norm);
      });
    }
  }
}

TEST_CASE("a gradient that is not finite is named on every rank") {
  run_ranks(3, [](Communicator& ranks) {
    const double bad = std::numeric_limits<double>::quiet_NaN();
    const NamedTensors mine{{"w", with_grad({1, ranks.rank() == 1 ? bad : 2})}};
    CHECK_THROWS_WITH_AS(clip_grad_norm(mine, mine, 1, ranks),
                         doctest::Contains(": [clip_grad_norm] the gradient of 'w' is not finite"),
                         SharedError);
  });
  run_ranks(2, [](Communicator& ranks) {
    const NamedTensors mine{{"w", with_grad({1e308, 1e308})}};
    CHECK_THROWS_WITH_AS(clip_grad_norm(mine, mine, 1, ranks), doctest::Contains("beyond float64"),
                         ValueError);
    CHECK_THROWS_AS(clip_grad_norm(mine, mine, 0, ranks), ValueError);
  });
}

TEST_CASE("an overflow on one rank makes all skip, and none is changed") {
  run_ranks(3, [](Communicator& ranks) {
    optim::GradScaler scaler({.start = 8});
    const double infinite = std::numeric_limits<double>::infinity();
    const NamedTensors bad{{"w", with_grad({16, ranks.rank() == 2 ? infinite : 4})}};
    CHECK_FALSE(unscale(scaler, bad, ranks));
    CHECK(bad[0].second.grad().to_vector<double>()[0] == 16);
    const NamedTensors good{{"w", with_grad({16, 4})}};
    CHECK(unscale(scaler, good, ranks));
    CHECK(good[0].second.grad().to_vector<double>() == std::vector<double>{2, 0.5});
  });
}

}  // namespace
}  // namespace capstan::distributed
