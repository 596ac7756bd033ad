// Collectives on the tape: values, and gradients of the sum of all ranks' losses against finite
// differences of it.
#include "distributed/differentiable.h"

#include <doctest/doctest.h>

#include <functional>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "distributed/comm/thread.h"

namespace capstan::distributed {
namespace {

using Operation = std::function<Tensor(const Tensor&, Communicator&)>;

constexpr int64_t kRows = 12;  // a multiple of 1, 2, 3 and 4 ranks

Tensor numbers(int rank, uint64_t stream, const Shape& shape) {
  Generator generator = Generator(stream).fork(rank);
  return randn(shape, 0, 1, {.dtype = Dtype::float64}, generator);
}

/// L: the sum of all ranks' losses, each some other function of its y.
double total_loss(const Tensor& x, Communicator& c, const Operation& f, bool differentiate) {
  const Tensor y = f(x, c);
  const Tensor loss = sum(square(y) * numbers(c.rank(), 7, y.shape()));
  if (differentiate) backward(loss);
  const Tensor total = dense_copy(detach(loss));
  c.all_reduce(total).wait();
  return total.item<double>();
}

void check_gradient(Communicator& c, const Operation& f) {
  const Tensor x = numbers(c.rank(), 3, {kRows, 2});
  require_grad(x);
  total_loss(x, c, f, true);
  const std::vector<double> grad = x.grad().to_vector<double>();
  const double step = 1e-6;
  for (int rank = 0; rank < c.size(); ++rank) {
    for (int64_t i : {0, 5, 23}) {
      double losses[2];
      for (int side : {0, 1}) {
        const Tensor moved = dense_copy(x);
        if (c.rank() == rank) moved.mutable_data<double>()[i] += side == 0 ? step : -step;
        losses[side] = total_loss(moved, c, f, false);
      }
      if (c.rank() != rank) continue;
      CHECK(grad[i] == doctest::Approx((losses[0] - losses[1]) / (2 * step)).epsilon(1e-6));
    }
  }
}

TEST_CASE("the gradient of each collective is that of the sum of all ranks' losses") {
  namespace d = differentiable;
  const Operation operations[] = {
      [](const Tensor& x, Communicator& c) { return d::all_reduce(x, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::reduce(x, c.size() - 1, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::broadcast(x, 0, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::all_gather(x, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::reduce_scatter(x, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::all_to_all(x, c, "x"); },
  };
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [&](Communicator& c) {
      for (const Operation& f : operations) check_gradient(c, f);
    });
  }
}

TEST_CASE("values") {
  namespace d = differentiable;
  run_ranks(2, [](Communicator& c) {
    using Floats = std::vector<float>;
    const float r = static_cast<float>(c.rank());
    const Tensor x = from_vector<float>({1 + r, 10 + r}, {2});
    CHECK(d::all_reduce(x, c).to_vector<float>() == Floats{3, 21});
    CHECK(d::reduce(x, 1, c).to_vector<float>() == (c.rank() == 1 ? Floats{3, 21} : Floats{0, 0}));
    CHECK(d::broadcast(x, 1, c).to_vector<float>() == Floats{2, 11});
    CHECK(d::all_gather(x, c).to_vector<float>() == Floats{1, 10, 2, 11});
    CHECK(d::reduce_scatter(x, c).to_vector<float>() == Floats{c.rank() == 0 ? 3.f : 21.f});
    CHECK(d::all_to_all(x, c).to_vector<float>() ==
          (c.rank() == 0 ? Floats{1, 2} : Floats{10, 11}));
    CHECK(x.to_vector<float>() == Floats{1 + r, 10 + r});  // as it was
  });
}

TEST_CASE("shapes that cannot be cut or joined") {
  namespace d = differentiable;
  run_ranks(2, [](Communicator& c) {
    CHECK_THROWS_AS(d::reduce_scatter(zeros({3, 2}), c), ShapeError);
    CHECK_THROWS_AS(d::all_to_all(zeros({}), c), ShapeError);
    CHECK_THROWS_AS(d::all_gather(zeros({}), c), ShapeError);
  });
}

}  // namespace
}  // namespace capstan::distributed
