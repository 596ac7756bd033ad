// The doors of regions: values and gradients, at any number of ranks, and a known answer.
#include "distributed/tensor_parallel/door.h"

#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/matmul.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/error.h"
#include "core/random.h"
#include "distributed/comm/thread.h"

namespace capstan::distributed {
namespace {

using Doubles = std::vector<double>;

/// Numbers of one rank that all ranks know.
Tensor numbers(int rank, const Shape& shape) {
  Generator generator = Generator(5).fork(rank);
  return randn(shape, 0, 1, {.dtype = Dtype::float64}, generator);
}

void check_close(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const Doubles x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) < 1e-12);
}

/// What comes out of `door` for this rank's x, and what goes back where `grad` comes.
std::pair<Tensor, Tensor> pass(const Tensor& x, const Tensor& grad,
                               const std::function<Tensor(const Tensor&)>& door) {
  const Tensor leaf = require_grad(dense_copy(x));
  const Tensor y = door(leaf);
  REQUIRE(y.shape() == grad.shape());
  backward(y, {.seed = grad});
  return {detach(y), leaf.grad()};
}

TEST_CASE("a product of columns and one of rows add up, with a known answer") {
  const auto counted = [](const Shape& shape) {
    return reshape(cast(arange(numel(shape)), Dtype::float64), shape);
  };
  const Tensor x = from_vector<double>({1, 2}, {1, 2});
  const Tensor a = counted({2, 4}), b = counted({4, 2});
  run_ranks(2, [&](Communicator& ranks) {
    const Tensor columns = door::part(a, 1, ranks), rows = door::part(b, 0, ranks);
    const Tensor partial = matmul(relu(matmul(door::enter(x, ranks), columns)), rows);
    CHECK(partial.to_vector<double>() == (ranks.rank() == 0 ? Doubles{22, 41} : Doubles{158, 189}));
    CHECK(door::leave(partial, ranks).to_vector<double>() == Doubles{180, 230});
  });
}

TEST_CASE("each door and its gradient") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [n](Communicator& ranks) {
      const int me = ranks.rank();
      const Shape part{2, 3, 5}, whole{2, 3 * n, 5};
      std::vector<Tensor> parts, wholes;
      Tensor part_sum = zeros(part, {Dtype::float64}), whole_sum = zeros(whole, {Dtype::float64});
      for (int r = 0; r < n; ++r) {
        parts.push_back(numbers(r, part));
        wholes.push_back(numbers(10 + r, whole));
        part_sum = part_sum + parts[r];
        whole_sum = whole_sum + wholes[r];
      }
      const auto mine = [&](const Tensor& x) { return slice(x, 1, 3 * me, 3 * me + 3); };
      const Tensor shared = numbers(20, part), all = numbers(21, whole);
      {
        const auto [y, grad] =
            pass(shared, parts[me], [&](const Tensor& x) { return door::enter(x, ranks); });
        check_close(y, shared);
        check_close(grad, part_sum);
      }
      {
        const auto [y, grad] =
            pass(parts[me], shared, [&](const Tensor& x) { return door::leave(x, ranks); });
        check_close(y, part_sum);
        check_close(grad, shared);
      }
      {
        const auto [y, grad] =
            pass(parts[me], wholes[me], [&](const Tensor& x) { return door::gather(x, 1, ranks); });
        check_close(y, cat(parts, 1));
        check_close(grad, mine(whole_sum));
      }
      {
        const auto [y, grad] = pass(wholes[me], parts[me],
                                    [&](const Tensor& x) { return door::scatter(x, -2, ranks); });
        check_close(y, mine(whole_sum));
        check_close(grad, cat(parts, 1));
      }
      {
        const auto [y, grad] =
            pass(all, parts[me], [&](const Tensor& x) { return door::part(x, 1, ranks); });
        check_close(y, mine(all));
        check_close(grad, cat(parts, 1));
      }
      {
        const auto [y, grad] =
            pass(parts[me], all, [&](const Tensor& x) { return door::join(x, 1, 3 * n, ranks); });
        check_close(y, cat(parts, 1));
        check_close(grad, mine(all));
      }
    });
  }
}

TEST_CASE("parts need not be equal to be joined, and tensors not dense") {
  for (int n = 1; n <= 4; ++n) {
    run_ranks(n, [](Communicator& ranks) {
      const Tensor x = transpose(numbers(0, {7, 2, 3}), 0, 2);  // [3, 2, 7]
      const Tensor part = door::part(x, 2, ranks);
      const Slice slice = slice_of(7, ranks.rank(), ranks.size());
      CHECK(part.shape() == Shape{3, 2, slice.count});
      check_close(door::join(part, -1, 7, ranks), x);
    });
  }
}

TEST_CASE("slices cover an axis in order, as equal as can be") {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (int64_t size : {0, 1, 5, 6, 12, 50257}) {
      int64_t next = 0;
      for (int r = 0; r < ranks; ++r) {
        const Slice slice = slice_of(size, r, ranks);
        CHECK(slice.first == next);
        CHECK((slice.count == size / ranks || slice.count == (size + ranks - 1) / ranks));
        next += slice.count;
      }
      CHECK(next == size);
    }
  }
}

TEST_CASE("gradients of gradients pass the doors too") {
  run_ranks(2, [](Communicator& ranks) {
    // With s = w0 + w1, the slope of s^2 is 2 s, and what both ranks' add up to 4 s.
    const Tensor w = require_grad(full({}, 3, {.dtype = Dtype::float64}));
    const Tensor slope = grad(square(door::leave(w, ranks)), w, {.create_graph = true});
    CHECK(slope.item<double>() == 12);
    CHECK(grad(door::leave(slope, ranks), w).item<double>() == 4);
  });
}

TEST_CASE("on meta there are shapes, and nothing is sent") {
  run_ranks(2, [](Communicator& ranks) {
    const Tensor x = empty({2, 6}, {.device = Device::meta()});
    CHECK(door::enter(x, ranks).shape() == Shape{2, 6});
    CHECK(door::leave(x, ranks).shape() == Shape{2, 6});
    CHECK(door::gather(x, 1, ranks).shape() == Shape{2, 12});
    CHECK(door::scatter(x, 1, ranks).shape() == Shape{2, 3});
    CHECK(door::part(x, 1, ranks).shape() == Shape{2, 3});
    CHECK(door::join(x, 1, 12, ranks).shape() == Shape{2, 12});
    CHECK(ranks.traffic().collectives == 0);
  });
}

TEST_CASE("shapes that do not fit are refused") {
  run_ranks(2, [](Communicator& ranks) {
    CHECK_THROWS_WITH_AS(door::scatter(zeros({2, 3}), 1, ranks),
                         "[scatter] axis 1 must be a multiple of the 2 ranks, got [2, 3]",
                         ShapeError);
    CHECK_THROWS_AS(door::gather(zeros({2, 3}), 2, ranks), ShapeError);
    CHECK_THROWS_AS(door::part(zeros({}), 0, ranks), ShapeError);
    CHECK_THROWS_WITH_AS(door::join(zeros({2, 3}), 0, 7, ranks),
                         doctest::Contains("of 7 indices, got [2, 3]"), ShapeError);
  });
}

}  // namespace
}  // namespace capstan::distributed
