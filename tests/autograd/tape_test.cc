// Tests of the tape itself: which tensors are on it, what it keeps, and that it lets go.
#include <doctest/doctest.h>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/matmul.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/error.h"

namespace capstan {
namespace {

using doctest::Contains;
using Values = std::vector<double>;

Tensor vector(const std::vector<double>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}
Tensor leaf(const std::vector<double>& values) { return require_grad(vector(values)); }
Values values(const Tensor& tensor) { return tensor.to_vector<double>(); }

int64_t bytes_held() { return memory_stats(Device::cpu()).current; }

TEST_CASE("results are on the tape if an input is and recording is on") {
  const Tensor x = leaf({1, 2}), constant = vector({3, 4});
  CHECK((x + constant).requires_grad());
  CHECK_FALSE((constant + constant).requires_grad());
  CHECK_FALSE(equal(x, x).requires_grad());
  CHECK_FALSE(cast(x, Dtype::int64).requires_grad());
  CHECK_FALSE(no_grad([&] { return x + x; }).requires_grad());
  CHECK_FALSE(detach(x * x).requires_grad());
}

TEST_CASE("no_grad nests, ends with its scope and survives exceptions") {
  CHECK(grad_enabled());
  {
    NoGrad outer;
    no_grad([] { CHECK_FALSE(grad_enabled()); });
    CHECK_FALSE(grad_enabled());
  }
  CHECK(grad_enabled());
  CHECK_THROWS_AS(no_grad([] { return Tensor().numel(); }), ValueError);
  CHECK(grad_enabled());
}

TEST_CASE("detach shares the elements, and no gradient passes through it") {
  const Tensor x = leaf({2});
  backward(x * detach(x));
  CHECK(values(x.grad()) == Values{2});
  const Tensor cut = detach(x);
  cut.mutable_data<double>()[0] = 7;
  CHECK(x.item<double>() == 7);
}

TEST_CASE("require_grad takes floating leaves only") {
  CHECK_THROWS_WITH_AS(require_grad(zeros({2}, {.dtype = Dtype::int64})),
                       Contains("[require_grad] takes floating point only, got int64"), DtypeError);
  CHECK_THROWS_AS(require_grad(zeros({2}, {.dtype = Dtype::boolean})), DtypeError);
  const Tensor x = leaf({1});
  CHECK_THROWS_WITH_AS(require_grad(x + x), Contains("the result of 'add'; detach() it"),
                       GradientError);
  CHECK_THROWS_AS(require_grad(x + x, false), GradientError);
  CHECK_NOTHROW(require_grad(detach(x + x)));

  accumulator(x).set_grad(vector({5}));
  require_grad(x);  // again: nothing changes
  CHECK(values(x.grad()) == Values{5});
  require_grad(x, false);
  CHECK_FALSE(x.requires_grad());
}

TEST_CASE("gradients are asked for where there are none") {
  const Tensor off = vector({1}), x = leaf({1}), y = x * 2;
  CHECK_THROWS_WITH_AS(off.grad(), Contains("does not require a gradient"), GradientError);
  CHECK_THROWS_WITH_AS(x.grad(), Contains("no gradient has reached"), GradientError);
  backward(y);
  CHECK_FALSE(y.has_grad());
  CHECK_THROWS_WITH_AS(y.grad(), Contains("only leaves keep"), GradientError);
  CHECK_THROWS_WITH_AS(zero_grad(off), Contains("off the tape: require_grad() it"), GradientError);
  CHECK_THROWS_WITH_AS(accumulator(y), Contains("the result of an operation"), GradientError);
}

TEST_CASE("gradients accumulate until they are forgotten") {
  const Tensor x = leaf({2, 3});
  for (int pass = 1; pass <= 3; ++pass) {
    backward(sum(x * x));
    CHECK(values(x.grad()) == Values{4.0 * pass, 6.0 * pass});
  }
  accumulator(x).unreduced = true;
  zero_grad(x);
  CHECK_FALSE(x.has_grad());
  CHECK_FALSE(accumulator(x).unreduced);
  backward(sum(x));
  CHECK(values(x.grad()) == Values{1, 1});
}

TEST_CASE("a seed that the caller keeps is not the gradient's memory") {
  const Tensor x = leaf({2, 3}), seed = vector({10, 20});
  backward(x, {.seed = seed});
  seed.mutable_data<double>()[0] = -1;
  CHECK(values(x.grad()) == Values{10, 20});
}

TEST_CASE("a placed gradient lives in its place") {
  const Tensor x = leaf({2, 3, 4}), bucket = full({5}, 9, {.dtype = Dtype::float64});
  backward(sum(x));
  accumulator(x).place_grad(slice(bucket, 0, 1, 4));
  CHECK(values(bucket) == Values{9, 1, 1, 1, 9});  // the gradient moved in
  backward(sum(x * x));
  CHECK(values(bucket) == Values{9, 5, 7, 9, 9});  // and is added to there
  CHECK(&x.grad().storage() == &bucket.storage());

  zero_grad(x);
  CHECK_FALSE(x.has_grad());
  backward(sum(x * 3));
  CHECK(values(bucket) == Values{9, 3, 3, 3, 9});  // the first one afterwards replaces the old

  accumulator(x).unplace_grad();
  fill_elements(bucket, 0);
  CHECK(values(x.grad()) == Values{3, 3, 3});
  accumulator(x).unplace_grad();  // harmless
  CHECK(values(x.grad()) == Values{3, 3, 3});

  const Tensor y = leaf({1});
  accumulator(y).place_grad(zeros({1}, {.dtype = Dtype::float64}));
  CHECK_FALSE(y.has_grad());
  accumulator(y).unplace_grad();
  CHECK_FALSE(y.has_grad());
}

TEST_CASE("a place must be like the leaf") {
  const Tensor x = leaf({1, 2, 3});
  const auto place = [&](const Tensor& where) { accumulator(x).place_grad(where); };
  CHECK_THROWS_WITH_AS(place(zeros({3})), Contains("cannot take a gradient of float32 [3]"),
                       GradientError);
  CHECK_THROWS_AS(place(zeros({2}, {.dtype = Dtype::float64})), GradientError);
  CHECK_THROWS_AS(place(zeros({3}, {Dtype::float64, Device::meta()})), GradientError);
  const Tensor gaps = slice(zeros({6}, {.dtype = Dtype::float64}), 0, 0, 6, 2);
  CHECK_THROWS_WITH_AS(place(gaps), Contains("must be contiguous"), GradientError);
  CHECK_THROWS_AS(accumulator(x).set_grad(zeros({3})), GradientError);
}

TEST_CASE("a saved value that was changed in place is an error, not a wrong gradient") {
  const Tensor x = leaf({1, 2, 3, 4});
  const auto write = [](const Tensor& tensor) { tensor.mutable_data<double>()[0] = 5; };
  SUBCASE("an input") {
    const Tensor y = sum(x * x);
    write(x);
    CHECK_THROWS_WITH_AS(backward(y), Contains("[multiply] a value of [4] saved for backward"),
                         GradientError);
  }
  SUBCASE("an input, through a view of it") {
    const Tensor y = sum(square(x));
    write(detach(select(x, 0, 2)));
    CHECK_THROWS_WITH_AS(backward(y), Contains("[square]"), GradientError);
  }
  SUBCASE("a view, through its base") {
    const Tensor y = sum(square(slice(x, 0, 0, 2)));
    fill_elements(x, 1);
    CHECK_THROWS_AS(backward(y), GradientError);
  }
  SUBCASE("a result") {
    const Tensor y = exp(x);
    write(y);
    CHECK_THROWS_WITH_AS(backward(sum(y)), Contains("[exp]"), GradientError);
  }
  SUBCASE("by copying into it") {
    const Tensor y = sum(square(x));
    copy_elements(vector({0, 0, 0, 0}), x);
    CHECK_THROWS_AS(backward(y), GradientError);
  }
  SUBCASE("but not by what was not saved") {
    const Tensor y = sum(x + x);
    write(x);
    CHECK_NOTHROW(backward(y));
    CHECK(values(x.grad()) == Values{2, 2, 2, 2});
  }
}

TEST_CASE("a tape that is dropped frees all that it saved, also results") {
  const Tensor x = require_grad(full({64, 64}, 0.5, {.dtype = Dtype::float64}));
  const std::vector<Tensor (*)(const Tensor&)> operations = {
      exp,
      log,
      sqrt,
      square,
      reciprocal,
      capstan::tanh,
      relu,
      sigmoid,
      absolute,
      negate,
      [](const Tensor& x) { return log_softmax(x); },
      [](const Tensor& x) { return max(x); },
      [](const Tensor& x) { return matmul(x, x); },
      [](const Tensor& x) { return cross_entropy(x, zeros({64}, {.dtype = Dtype::int64})); }};
  for (const auto& operation : operations) {
    for (bool with_backward : {false, true}) {
      const int64_t before = bytes_held();
      {
        const Tensor y = sum(operation(x));
        if (with_backward) backward(y);
      }
      zero_grad(x);
      CHECK(bytes_held() == before);
    }
  }
}

TEST_CASE("backward frees what was saved while the result is still there") {
  const Tensor x = require_grad(full({64, 64}, 0.5, {.dtype = Dtype::float64}));
  const int64_t before = bytes_held();
  const Tensor y = sum(exp(exp(x)));
  const int64_t with_tape = bytes_held();
  backward(y);
  CHECK(bytes_held() < with_tape);  // two saved results against one gradient
  zero_grad(x);
  CHECK(bytes_held() - before <= Allocator::kAlignment);  // y alone
}

TEST_CASE("an operation of one's own is a result, its inputs and a formula") {
  int computed = 0;
  const auto scaled = [&](const Tensor& a, const Tensor& b) {  // a + 2b
    return record("scaled", no_grad([&] { return a + b * 2; }), inputs(a, b),
                  [&](const Tensor& grad, Wanted wanted) {
                    computed += wanted[0] + wanted[1];
                    return gradients(wanted[0] ? Tensor(grad) : Tensor(),
                                     wanted[1] ? grad * 2 : Tensor());
                  });
  };
  const Tensor a = leaf({1}), b = leaf({1}), constant = vector({1});
  backward(scaled(a, b));
  CHECK(values(a.grad()) == Values{1});
  CHECK(values(b.grad()) == Values{2});
  backward(scaled(constant, b));
  CHECK(computed == 3);

  const Tensor wrong = record("wrong", vector({1}), inputs(a), [](const Tensor&) {
    return gradients(vector({1, 2}));
  });
  CHECK_THROWS_WITH_AS(backward(wrong), Contains("cannot take a gradient of float64 [2]"),
                       GradientError);
}

Tensor of_a_static_model;  // goes after all that belongs to the thread

TEST_CASE("a leaf may live as long as the program") {
  of_a_static_model = leaf({1, 2});
  backward(sum(of_a_static_model * of_a_static_model));
}

}  // namespace
}  // namespace capstan
