// The checks of the gradients of collectives, written for any communicator: differentiable_test.cc
// runs them on ranks that are threads, differentiable_mpi_test.cc under mpirun.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <numeric>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/reduce.h"
#include "core/random.h"
#include "distributed/differentiable.h"

namespace capstan::distributed::testing {

using Operation = std::function<Tensor(const Tensor&, Communicator&)>;

inline constexpr int64_t kRows = 60;  // a multiple of 1 to 5 ranks

inline Tensor numbers(int rank, uint64_t stream, const Shape& shape) {
  Generator generator = Generator(stream).fork(rank);
  return randn(shape, 0, 1, {.dtype = Dtype::float64}, generator);
}

/// This rank's loss: quadratic in x, and some other function of y on each rank.
inline Tensor loss_of(const Tensor& x, Communicator& c, const Operation& f) {
  const Tensor y = f(x, c);
  return sum(square(y) * numbers(c.rank(), 7, y.shape()));
}

/// The same of the gradients of those losses.
inline Tensor loss_of_gradient(const Tensor& x, Communicator& c, const Operation& f) {
  const Tensor slope = grad(loss_of(x, c, f), x, {.create_graph = true});
  return sum(square(slope) * numbers(c.rank(), 8, slope.shape()));
}

/// L: the sum of all ranks' losses.
inline double total(const Tensor& loss, Communicator& c) {
  const Tensor sum = dense_copy(detach(loss));
  c.all_reduce(sum).wait();
  return sum.item<double>();
}

/// Compares the gradient of L with finite differences of it.
inline void check_gradient(Communicator& c, const std::function<Tensor(const Tensor&)>& loss) {
  const Tensor x = numbers(c.rank(), 3, {kRows, 2});
  require_grad(x);
  backward(loss(x));
  const std::vector<double> grad = x.grad().to_vector<double>();
  const double step = 1e-3;  // the loss is quadratic, so its central difference is exact
  for (int rank = 0; rank < c.size(); ++rank) {
    for (int64_t i : {0, 29, 119}) {
      double losses[2];
      for (int side : {0, 1}) {
        const Tensor moved = dense_copy(x);
        if (c.rank() == rank) moved.mutable_data<double>()[i] += side == 0 ? step : -step;
        require_grad(moved);
        losses[side] = total(loss(moved), c);
      }
      if (c.rank() != rank) continue;
      CHECK(grad[i] == doctest::Approx((losses[0] - losses[1]) / (2 * step)).epsilon(1e-6));
    }
  }
}

// Rows of each rank's part, unequal, one of them none; kRows together.
inline Counts uneven(int ranks) {
  Counts rows(ranks);
  for (int r = 0; r + 1 < ranks; ++r) rows[r] = r == 1 ? 0 : 7 * r + 3;
  rows.back() = kRows - std::accumulate(rows.begin(), rows.end(), int64_t{0});
  return rows;
}

// What each rank gets from its left neighbour, who sends first if its number is even.
inline Tensor around(const Tensor& x, Communicator& c) {
  namespace d = differentiable;
  const int n = c.size(), right = (c.rank() + 1) % n, left = (c.rank() + n - 1) % n;
  if (n == 1) return x;
  const auto received = [&] { return d::recv(x.shape(), x.dtype(), left, c, "around"); };
  if (c.rank() % 2 == 0) {
    const Tensor receipt = d::send(x, right, c, "around");
    return received() + receipt;
  }
  const Tensor y = received();
  return y + d::send(x, right, c, "around");
}

inline void check_gradients(Communicator& c) {
  namespace d = differentiable;
  const Operation operations[] = {
      [](const Tensor& x, Communicator& c) { return d::all_reduce(x, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::reduce(x, c.size() - 1, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::broadcast(x, 0, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::all_gather(x, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::reduce_scatter(x, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::gather(x, c.size() - 1, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::scatter(x, c.size() / 2, c, "x"); },
      [](const Tensor& x, Communicator& c) { return d::all_to_all(x, c, "x"); },
      [](const Tensor& x, Communicator& c) {
        const Tensor mine = d::reduce_scatter(x, uneven(c.size()), c, "x");
        return d::all_gather(mine, uneven(c.size()), c, "x");
      },
      [](const Tensor& x, Communicator& c) {  // rank r gets the r-th part of all ranks
        const Counts out = uneven(c.size());
        return d::all_to_all(x, out, Counts(c.size(), out[c.rank()]), c, "x");
      },
  };
  for (const Operation& f : operations) {
    check_gradient(c, [&](const Tensor& x) { return loss_of(x, c, f); });
    check_gradient(c, [&](const Tensor& x) { return loss_of_gradient(x, c, f); });
  }
  check_gradient(c, [&](const Tensor& x) { return loss_of(x, c, around); });
}

}  // namespace capstan::distributed::testing
