// Collectives on the tape: values, and gradients of the sum of all ranks' losses against finite
// differences of it.
#include <doctest/doctest.h>

#include "distributed/comm/thread.h"
#include "tests/distributed/differentiable_checks.h"

namespace capstan::distributed::testing {
namespace {

TEST_CASE("the gradient of each collective is that of the sum of all ranks' losses") {
  for (int n = 1; n <= 5; ++n) run_ranks(n, check_gradients);
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
    CHECK(d::gather(x, 1, c).to_vector<float>() ==
          (c.rank() == 1 ? Floats{1, 10, 2, 11} : Floats{}));
    CHECK(d::scatter(x, 1, c).to_vector<float>() == Floats{c.rank() == 0 ? 2.f : 11.f});
    CHECK(d::all_gather(x, {2, 2}, c).to_vector<float>() == Floats{1, 10, 2, 11});
    CHECK(d::reduce_scatter(x, {0, 2}, c).to_vector<float>() ==
          (c.rank() == 0 ? Floats{} : Floats{3, 21}));
    CHECK(d::all_to_all(x, {2, 0}, c.rank() == 0 ? Counts{2, 2} : Counts{0, 0}, c)
              .to_vector<float>() == (c.rank() == 0 ? Floats{1, 10, 2, 11} : Floats{}));
    if (c.rank() == 0) CHECK(d::send(x, 1, c).item<float>() == 0);
    if (c.rank() == 1) {
      CHECK(d::recv({1, 2}, Dtype::float32, 0, c).to_vector<float>() == Floats{1, 10});
    }
    CHECK(x.to_vector<float>() == Floats{1 + r, 10 + r});  // as it was
  });
}

TEST_CASE("gradients of gradients do not go from rank to rank by send and recv") {
  namespace d = differentiable;
  run_ranks(2, [](Communicator& c) {
    const Tensor x = full({2}, 3, {.dtype = Dtype::float64});
    require_grad(x);
    if (c.rank() == 0) {
      CHECK_THROWS_AS(backward(d::send(x, 1, c), {.create_graph = true}), GradientError);
    } else {
      backward(sum(d::recv({2}, x.dtype(), 0, c)), {.create_graph = true});
    }
  });
}

TEST_CASE("shapes that cannot be cut or joined") {
  namespace d = differentiable;
  run_ranks(2, [](Communicator& c) {
    CHECK_THROWS_AS(d::reduce_scatter(zeros({3, 2}), c), ShapeError);
    CHECK_THROWS_AS(d::all_to_all(zeros({}), c), ShapeError);
    CHECK_THROWS_AS(d::all_gather(zeros({}), c), ShapeError);
    CHECK_THROWS_AS(d::gather(zeros({}), 0, c), ShapeError);
    CHECK_THROWS_AS(d::scatter(zeros({3}), 0, c), ShapeError);
    CHECK_THROWS_AS(d::scatter(zeros({}), 0, c), ShapeError);
    CHECK_THROWS_AS(d::all_gather(zeros({2}), {1, 2, 3}, c), ShapeError);
    CHECK_THROWS_AS(d::reduce_scatter(zeros({2}), {2}, c), ShapeError);
    CHECK_THROWS_AS(d::reduce_scatter(zeros({2}), {1, 2}, c), ShapeError);
    CHECK_THROWS_AS(d::all_to_all(zeros({2}), {2, 1}, {1, 1}, c), ShapeError);
    CHECK_THROWS_AS(d::send(zeros({2}), c.rank(), c), ValueError);
    CHECK_THROWS_AS(d::recv({2}, Dtype::float32, 7, c), ValueError);
    CHECK_THROWS_AS(d::recv({2}, Dtype::int64, 1 - c.rank(), c), DtypeError);
  });
}

}  // namespace
}  // namespace capstan::distributed::testing
