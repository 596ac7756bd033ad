// Backward from several roots, and in two halves: the bits of one whole backward pass, nothing
// computed twice, nothing kept too long.
#include <doctest/doctest.h>

#include "autograd/convolution.h"
#include "autograd/custom.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/matmul.h"
#include "autograd/normalization.h"
#include "autograd/record.h"
#include "autograd/reduce.h"
#include "autograd/softmax.h"
#include "autograd/views.h"
#include "core/create.h"
#include "core/error.h"
#include "core/random.h"

using namespace capstan;

namespace {

using Tensors = std::vector<Tensor>;

Tensor leaf(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return require_grad(randn(shape, 0, 1, {}, generator));
}

std::vector<std::vector<float>> values(const Tensors& tensors) {
  std::vector<std::vector<float>> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.to_vector<float>());
  return all;
}

std::vector<std::vector<float>> grads_of(const Tensors& leaves) {
  Tensors grads;
  for (const Tensor& leaf : leaves) grads.push_back(leaf.grad());
  return values(grads);
}

/// Two products, a normalisation, a weight used twice and one that is only seen through another
/// operation.
struct Net {
  Tensor x = leaf({5, 7}, 1), w = leaf({7, 7}, 2), scale = leaf({7}, 3), v = leaf({7, 3}, 4);
  Tensor middle, out;
  Tensors weights{w, scale, v};

  Net() {
    middle = matmul(tanh(matmul(x, w)), w);
    const Tensor y = layer_norm(middle, {7}, &scale);
    out = matmul(relu(y) + y, square(v));
  }
};

/// Counts how often its formula runs, by the arguments that were wanted.
Tensor counted(const Tensor& a, const Tensor& b, int counts[2]) {
  return record("counted", no_grad([&] { return a * b; }), inputs(a, b),
                [a = Saved(a), b = Saved(b), counts](const Tensor& grad, Wanted wanted) {
                  for (int i = 0; i < 2; ++i) counts[i] += wanted[i];
                  return gradients(wanted[0] ? grad * b.get() : Tensor(),
                                   wanted[1] ? grad * a.get() : Tensor());
                });
}

}  // namespace

TEST_CASE("two halves have the bits of one whole") {
  Net whole, halves;
  const Tensor seed = leaf({5, 3}, 9);
  backward({whole.out}, {detach(seed)});

  SplitBackward split({halves.out}, {detach(seed)}, {halves.x});
  CHECK(values(split.gradients()) == values({whole.x.grad()}));
  for (const Tensor& weight : halves.weights) CHECK(!weight.has_grad());
  CHECK(!halves.x.has_grad());
  split.finish();
  CHECK(grads_of(halves.weights) == grads_of(whole.weights));
  CHECK(!halves.x.has_grad());
  CHECK_THROWS_AS(split.finish(), GradientError);
}

TEST_CASE("the first half may end at a result, at several, at nothing") {
  Net whole;
  const Tensor seed = detach(leaf({5, 3}, 9));
  const Tensors expected =
      grad(Tensors{whole.out}, {whole.middle}, {.seeds = {seed}, .retain_graph = true});
  backward({whole.out}, {seed});
  Net at_middle, at_both, at_none;
  SplitBackward one({at_middle.out}, {seed}, {at_middle.middle});
  CHECK(values(one.gradients()) == values(expected));
  one.finish();
  CHECK(grads_of(at_middle.weights) == grads_of(whole.weights));
  CHECK(grads_of({at_middle.x}) == grads_of({whole.x}));

  SplitBackward both({at_both.out}, {seed}, {at_both.middle, at_both.x});
  CHECK(values(both.gradients()) == values({expected[0], whole.x.grad()}));
  both.finish();
  CHECK(grads_of(at_both.weights) == grads_of(whole.weights));

  SplitBackward none({at_none.out}, {seed}, {});
  CHECK(none.gradients().empty());
  none.finish();
  CHECK(grads_of(at_none.weights) == grads_of(whole.weights));
}

TEST_CASE("each formula runs once for each of its arguments") {
  int outer[2] = {}, inner[2] = {}, apart[2] = {};
  const Tensor x = leaf({3}, 1), a = leaf({3}, 2), b = leaf({3}, 3), c = leaf({3}, 4);
  const Tensor weight = counted(a, b, apart);  // does not depend on x
  const Tensor y = counted(counted(x, c, inner), weight, outer);
  SplitBackward split({y}, {ones({3})}, {x});
  CHECK(std::vector(outer, outer + 2) == std::vector{1, 0});
  CHECK(std::vector(inner, inner + 2) == std::vector{1, 0});
  CHECK(std::vector(apart, apart + 2) == std::vector{0, 0});
  split.finish();
  CHECK(std::vector(outer, outer + 2) == std::vector{1, 1});
  CHECK(std::vector(inner, inner + 2) == std::vector{1, 1});
  CHECK(std::vector(apart, apart + 2) == std::vector{1, 1});
}

TEST_CASE("hooks: on gradients once, around backward in the second half with its leaves") {
  Net net;
  int middle = 0;
  const HookHandle hook = on_gradient(net.middle, [&](const Tensor&) {
    ++middle;
    return Tensor();
  });
  std::vector<size_t> starts;
  int ends = 0;
  const HookHandle start =
      on_backward_start([&](const BackwardPass& pass) { starts.push_back(pass.leaves.size()); });
  const HookHandle end = on_backward_end([&] { ++ends; });
  SplitBackward split({net.out}, {ones({5, 3})}, {net.x});
  CHECK(starts.empty());
  split.finish();
  CHECK(starts == std::vector<size_t>{3});
  CHECK(ends == 1);
  CHECK(middle == 1);
}

TEST_CASE("a leaf is a root: its seed comes first") {
  const Tensor w = leaf({3}, 1), x = leaf({3}, 2), extra = detach(leaf({3}, 3));
  const Tensor y = w * x;
  backward({y, w}, {ones({3}), extra});
  CHECK(values({w.grad()}) == values({extra + detach(x)}));
  CHECK(values({x.grad()}) == values({detach(w)}));
  zero_grad(w);
  const Tensor z = w * x;
  SplitBackward split({z}, {ones({3})}, {x});
  split.finish({w}, {extra});
  CHECK(values({w.grad()}) == values({extra + detach(x)}));
  backward({w}, {extra});  // nothing else
  CHECK(values({w.grad()}) == values({extra + detach(x) + extra}));
}

TEST_CASE("an input that is not reached gets zeros; undefined gradients pass") {
  const Tensor x = leaf({3}, 1), y = leaf({2}, 2), w = leaf({3}, 3);
  SplitBackward split({floor(x) * w}, {ones({3})}, {x, y});
  CHECK(values(split.gradients()) == values({zeros({3}), zeros({2})}));
  split.finish();
  CHECK(w.has_grad());
}

TEST_CASE("the first half frees what the second does not need") {
  const Tensor x = leaf({1000, 100}, 1), w = leaf({100, 100}, 2);
  const auto current = [] { return memory_stats({}).current; };
  Tensor y = matmul(x, w);
  const int64_t before = current();
  for (int i = 0; i < 4; ++i) y = tanh(y);  // each keeps its result
  const int64_t kept = current() - before;
  CHECK(kept >= 3 * y.bytes());  // the product is gone
  {
    SplitBackward split({without_elements(y)}, {ones_like(y)}, {x});
    y = Tensor();
    // The gradients of x and of the product, in place of the product.
    CHECK(current() - before <= x.bytes() + x.bytes() / 8);
  }
}

TEST_CASE("a handle without elements: shape and place, but no bytes") {
  const Tensor w = leaf({1000, 1000}, 1);
  Tensor y = w + 1;
  const int64_t with = memory_stats({}).current;
  const Tensor place = without_elements(y);
  y = Tensor();
  CHECK(memory_stats({}).current < with - 3'000'000);
  CHECK(place.shape() == w.shape());
  CHECK(place.requires_grad());
  backward({place}, {ones({1000, 1000})});
  CHECK(w.grad().to_vector<float>() == std::vector<float>(1'000'000, 1));
  CHECK(!without_elements(ones({0, 3})).requires_grad());
  CHECK(without_elements(ones({})).shape() == Shape{});
}

TEST_CASE("what is refused") {
  Net net;
  const Tensor seed = ones({5, 3}), constant = ones({2});
  CHECK_THROWS_AS(backward(Tensors{}, Tensors{}), ValueError);
  CHECK_THROWS_AS(backward({net.out}, Tensors{}), ValueError);
  CHECK_THROWS_AS(backward({constant}, {constant}), GradientError);
  CHECK_THROWS_AS(backward({net.out}, {constant}), GradientError);
  CHECK_THROWS_AS(SplitBackward({net.out}, {seed, seed}, {net.x}), ValueError);
  CHECK_THROWS_AS(SplitBackward({net.out}, {seed}, {constant}), GradientError);
  SplitBackward split({net.out}, {seed}, {net.x});
  CHECK_THROWS_AS(split.finish({net.middle}, {ones({5, 7})}), GradientError);
}
