// Tests of recorded changes in place, against the same programs written without them.
#include "autograd/in_place.h"

#include <doctest/doctest.h>

#include "autograd/checkpoint.h"
#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/gradcheck.h"
#include "autograd/indexing.h"
#include "autograd/matmul.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/views.h"
#include "core/allocator.h"
#include "core/error.h"
#include "core/random.h"

namespace capstan {
namespace {

using doctest::Contains;
using Inputs = std::vector<Tensor>;
using Numbers = std::vector<double>;
using View = std::function<Tensor(const Tensor&)>;
using Program = std::function<Tensor(const Inputs&)>;

const TensorOptions kDouble{.dtype = Dtype::float64};

Tensor random(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return rand(shape, 0.5, 1.5, kDouble, generator);
}

/// `x` with the elements that `view` shows replaced by those of `value`: no change in place but of
/// a table of indices.
Tensor replaced(const Tensor& x, const View& view, const Tensor& value) {
  const Tensor index = zeros(x.shape(), {.dtype = Dtype::int64});  // 1 + the element of value, or 0
  no_grad([&] { assign(view(index), reshape(arange(value.numel()) + 1.0, value.shape())); });
  const Tensor row = cat({zeros({1}, kDouble), reshape(value, {value.numel()})});
  const Tensor chosen = reshape(take_rows(row, reshape(index, {index.numel()})), x.shape());
  return where(equal(index, zeros({}, {.dtype = Dtype::int64})), x, chosen);
}

/// Both programs must give the same values and gradients; those of the first are also checked
/// against finite differences, and their gradients.
void check_same(const Program& in_place, const Program& reference, const Inputs& inputs) {
  for (const Tensor& input : inputs) require_grad(input);
  const auto run = [&](const Program& program) {
    const Tensor out = program(inputs);
    const Tensor seed = random(out.shape(), 9);
    Inputs results = grad({out}, inputs, {.seeds = {seed}, .unreached = Unreached::zeros});
    results.push_back(out);
    return results;
  };
  const Inputs got = run(in_place), expected = run(reference);
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    REQUIRE(got[i].shape() == expected[i].shape());
    const Numbers a = got[i].to_vector<double>(), b = expected[i].to_vector<double>();
    for (size_t j = 0; j < a.size(); ++j) CHECK(a[j] == doctest::Approx(b[j]).epsilon(1e-12));
  }
  CHECK_NOTHROW(gradcheck(in_place, inputs));
  CHECK_NOTHROW(gradgradcheck(in_place, inputs));
}

struct NamedView {
  const char* name;
  View view;
};

/// Views of [3, 2, 3].
const std::vector<NamedView> kViews = {
    {"itself", [](const Tensor& x) { return x; }},
    {"slice", [](const Tensor& x) { return slice(x, 0, 1, 3); }},
    {"steps", [](const Tensor& x) { return slice(x, 2, 0, 4, 2); }},
    {"select", [](const Tensor& x) { return select(x, 1, -1); }},
    {"transpose", [](const Tensor& x) { return transpose(x, 0, 1); }},
    {"permute",
     [](const Tensor& x) {
       return permute(x, {2, 0, 1});
     }},
    {"flip",
     [](const Tensor& x) {
       return flip(x, {0, 2});
     }},
    {"diagonal", [](const Tensor& x) { return diagonal(x, 0, 2); }},
    {"reshape",
     [](const Tensor& x) {
       return reshape(x, {2, 9});
     }},
    {"unsqueeze", [](const Tensor& x) { return unsqueeze(x, 1); }},
    {"split", [](const Tensor& x) { return split(x, 2, 2)[1]; }},
    {"part of a part", [](const Tensor& x) { return select(flip(slice(x, 0, 1, 4), {0}), 1, 1); }},
    {"one element", [](const Tensor& x) { return select(select(select(x, 0, 2), 0, 1), 0, 1); }},
    {"nothing", [](const Tensor& x) { return slice(x, 1, 2, 2); }},
};

TEST_CASE("assign through every view is what a program without changes in place gives") {
  for (const auto& [name, view] : kViews) {
    CAPTURE(name);
    const Tensor x = random({3, 2, 3}, 1), y = random(view(x).shape(), 2);
    check_same(
        [view](const Inputs& in) {
          const Tensor h = square(in[0]);
          assign(view(h), in[1] * 2);
          return exp(h) * in[0];
        },
        [view](const Inputs& in) { return exp(replaced(square(in[0]), view, in[1] * 2)) * in[0]; },
        {x, y});
  }
}

TEST_CASE("arithmetic in place through every view") {
  using Change = void (*)(const Tensor&, const Tensor&);
  using Pure = Tensor (*)(const Tensor&, const Tensor&);
  const std::vector<std::pair<Change, Pure>> operations = {{add_in_place, add},
                                                           {subtract_in_place, subtract},
                                                           {multiply_in_place, multiply},
                                                           {divide_in_place, divide}};
  for (const auto& [name, view] : kViews) {
    CAPTURE(name);
    const Tensor x = random({3, 2, 3}, 1), y = random(view(x).shape(), 2);
    for (const auto& [change, pure] : operations) {
      check_same(
          [&](const Inputs& in) {
            const Tensor h = in[0] * 3;
            change(view(h), in[1]);
            return square(h);
          },
          [&](const Inputs& in) {
            const Tensor h = in[0] * 3;
            return square(replaced(h, view, pure(view(h), in[1])));
          },
          {x, y});
    }
  }
}

TEST_CASE("values are broadcast and converted, and their gradients come back") {
  check_same(
      [](const Inputs& in) {
        const Tensor h = in[0] * 1;
        assign(slice(h, 0, 1, 3), in[1]);
        slice(h, 1, 0, 2) *= in[1];
        h += unsqueeze(select(h, 1, 0), 1);
        return h * h;
      },
      [](const Inputs& in) {
        const auto rows = [](const Tensor& x) { return slice(x, 0, 1, 3); };
        const auto columns = [](const Tensor& x) { return slice(x, 1, 0, 2); };
        Tensor h = replaced(in[0], rows, expand(in[1], {2, 3}));
        h = replaced(h, columns, columns(h) * in[1]);
        h = h + unsqueeze(select(h, 1, 0), 1);
        return h * h;
      },
      {random({4, 3}, 1), random({1, 1}, 2)});
  const Tensor y = require_grad(from_vector<float>({1, 2}, {2}));
  const Tensor x = zeros({3, 2}, kDouble);
  assign(x, y);
  backward(sum(x * x));
  CHECK(y.grad().dtype() == Dtype::float32);
  CHECK(y.grad().to_vector<double>() == Numbers{6, 12});
}

TEST_CASE("a mask chooses what is assigned") {
  const Tensor mask = from_vector<bool>({true, false, true, false, false, true}, {2, 3});
  check_same(
      [&](const Inputs& in) {
        const Tensor h = square(in[0]);
        assign_where(transpose(h, 0, 1), mask, in[1]);
        assign_where(h, slice(transpose(mask, 0, 1), 0, 0, 1), 0.5);
        return square(h);
      },
      [&](const Inputs& in) {
        const Tensor h = transpose(where(mask, in[1], transpose(square(in[0]), 0, 1)), 0, 1);
        const Tensor half = scalar(0.5, kDouble);
        return square(where(slice(transpose(mask, 0, 1), 0, 0, 1), half, h));
      },
      {random({3, 2}, 1), random({3}, 2)});
  CHECK_THROWS_WITH_AS(assign_where(zeros({2}), zeros({2}), 1), Contains("[assign_where]"),
                       DtypeError);
  CHECK_THROWS_WITH_AS(assign_where(zeros({3}), mask, 1), Contains("does not broadcast"),
                       ShapeError);
  CHECK_THROWS_AS(assign_where(zeros({2, 3}), mask, zeros({2, 3, 1})), ShapeError);
  CHECK_THROWS_AS(assign_where(zeros({2, 3}, {.device = Device::meta()}), mask, zeros({2, 3})),
                  DeviceError);
  CHECK_THROWS_AS(assign_where(zeros({2, 3}), mask, zeros({}, {.device = Device::meta()})),
                  DeviceError);
}

TEST_CASE("a tensor off the tape comes onto it by what is assigned, with all its views") {
  const Tensor y = require_grad(random({2}, 1));
  const Tensor x = zeros({3, 2}, kDouble);
  const Tensor before = select(x, 0, 1), turned = transpose(x, 0, 1), other = slice(x, 0, 0, 1);
  assign(before, y * 3);
  for (const Tensor& t : {x, before, turned, other, select(turned, 1, 1)}) CHECK(t.requires_grad());
  CHECK(grad(sum(before), y, {.retain_graph = true}).to_vector<double>() == Numbers{3, 3});
  CHECK(grad(sum(x), y, {.retain_graph = true}).to_vector<double>() == Numbers{3, 3});
  CHECK(grad(sum(select(turned, 0, 0)), y, {.retain_graph = true}).to_vector<double>() ==
        Numbers{3, 0});
  CHECK(grad(sum(other), y, {.retain_graph = true}).to_vector<double>() == Numbers{0, 0});
  // A repeated view follows too.
  const Tensor wide = expand(unsqueeze(before, 0), {4, 2});
  assign(x, 7);
  CHECK_FALSE(x.requires_grad());
  CHECK_FALSE(wide.requires_grad());
  assign(select(x, 1, 0), select(y, 0, 0));
  CHECK(grad(sum(wide), y).to_vector<double>() == Numbers{4, 0});
}

TEST_CASE("two views of one base changed in turn, and views of changed views") {
  check_same(
      [](const Inputs& in) {
        const Tensor h = in[0] * 2;
        const Tensor top = slice(h, 0, 0, 2), left = slice(h, 1, 0, 2);
        top *= in[1];
        left += in[1];
        top *= top;  // by itself
        const Tensor corner = select(left, 0, 0);
        assign(corner, select(h, 0, 2));  // from itself
        left -= 0.5;
        return h * 3 + sum(top) * sum(corner) + sum(left);
      },
      [](const Inputs& in) {
        const View top = [](const Tensor& x) { return slice(x, 0, 0, 2); };
        const View left = [](const Tensor& x) { return slice(x, 1, 0, 2); };
        const View corner = [left](const Tensor& x) { return select(left(x), 0, 0); };
        Tensor h = in[0] * 2;
        h = replaced(h, top, top(h) * in[1]);
        h = replaced(h, left, left(h) + in[1]);
        h = replaced(h, top, top(h) * top(h));
        h = replaced(h, corner, select(h, 0, 2));
        h = replaced(h, left, left(h) - 0.5);
        return h * 3 + sum(top(h)) * sum(corner(h)) + sum(left(h));
      },
      {random({3, 2}, 1), random({}, 2)});
}

TEST_CASE("what used the old elements keeps its gradient, or refuses") {
  const Tensor x = require_grad(random({3}, 1)), y = require_grad(random({}, 2));
  {
    const Tensor h = x * 2;
    const Tensor early = h + 1;  // saves nothing
    h *= y;
    const double factor = y.item<double>();
    CHECK(grad(sum(early), x, {.retain_graph = true}).to_vector<double>() == Numbers{2, 2, 2});
    CHECK(grad(sum(h), x).to_vector<double>() == Numbers{2 * factor, 2 * factor, 2 * factor});
  }
  const int64_t held = memory_stats(Device::cpu()).current;
  for (const bool through_view : {false, true}) {
    const Tensor h = x * 2;
    const Tensor early = exp(square(h)), late = exp(h);
    through_view ? assign(select(h, 0, 1), y) : assign(h, y);
    CHECK_THROWS_WITH_AS(backward(sum(early), {.retain_graph = true}),
                         Contains("[square] a value of [3]"), GradientError);
    CHECK_NOTHROW(backward(sum(late) + sum(exp(h))));
    const Tensor result = exp(x);  // which saves its own result
    const Tensor loss = sum(result * 2.0);
    through_view ? assign(select(result, 0, 1), 1) : assign(result, 1);
    CHECK_THROWS_AS(backward(loss), GradientError);
    const Tensor own = x * 2;  // a change that depends on what it overwrites
    through_view ? assign(select(own, 0, 1), sum(square(own))) : assign(own, square(own));
    CHECK_THROWS_WITH_AS(backward(sum(own)), Contains("[square]"), GradientError);
    zero_grad(x);
    zero_grad(y);
  }
  CHECK(memory_stats(Device::cpu()).current == held);
}

TEST_CASE("leaves and their views are refused outside no_grad()") {
  const Tensor w = require_grad(ones({2, 2}, kDouble));
  const Tensor row = select(w, 0, 0);
  const std::string text = "is a leaf that requires a gradient, or a view of one";
  CHECK_THROWS_WITH_AS(assign(w, 2), Contains(text.c_str()), GradientError);
  CHECK_THROWS_WITH_AS(assign(row, 2), Contains(("[assign] the target [2] " + text).c_str()),
                       GradientError);
  CHECK_THROWS_WITH_AS(w += 1, Contains("[add_in_place]"), GradientError);
  CHECK_THROWS_WITH_AS(row /= row, Contains("[divide_in_place]"), GradientError);
  CHECK(w.to_vector<double>() == Numbers{1, 1, 1, 1});
  no_grad([&] {
    w *= 3;
    row -= 1;
  });
  CHECK(w.to_vector<double>() == Numbers{2, 2, 3, 3});
  CHECK(grad(sum(row * row), w).to_vector<double>() == Numbers{4, 4, 0, 0});
  // A view taken before its base became a leaf.
  const Tensor x = zeros({2}, kDouble), view = slice(x, 0, 0, 1);
  require_grad(x);
  CHECK_THROWS_AS(assign(view, 2), GradientError);
  // And a view that became one itself: the tape cannot follow its elements through x.
  const Tensor z = zeros({2}, kDouble), leaf = require_grad(slice(z, 0, 0, 1));
  assign(z, sum(w));
  CHECK_THROWS_WITH_AS(sum(leaf), Contains("through another tensor"), GradientError);
}

TEST_CASE("memory that is shared behind the tape's back is refused") {
  const Tensor w = require_grad(ones({3}, kDouble));
  const Tensor h = w * 2;
  const Tensor cut = detach(h);
  const Tensor hidden = no_grad([&] { return slice(h, 0, 0, 1); });
  for (const Tensor& t : {cut, slice(cut, 0, 0, 2), hidden, view_of(h, h.layout())}) {
    CHECK_THROWS_WITH_AS(assign(t, sum(w)), Contains("detach() or inside no_grad()"),
                         GradientError);
    CHECK_NOTHROW(assign(t, 2));  // as before: whatever saved the elements notices
  }
  // h is followed, and cut stays what it was to the tape: a constant over the same memory.
  assign(h, w);
  CHECK_FALSE(cut.requires_grad());
  CHECK(grad(sum(h), w).to_vector<double>() == Numbers{1, 1, 1});
  const Tensor alone = detach(w * 2);  // nobody else holds this
  assign(alone, w * 5);
  CHECK(grad(sum(alone), w).to_vector<double>() == Numbers{5, 5, 5});
}

TEST_CASE("parts of tensors that are not contiguous are refused, wholes are not") {
  const Tensor w = require_grad(random({2, 3}, 1));
  const Tensor strided = detach(transpose(dense_copy(w), 0, 1));  // [3, 2], alone
  assign(strided, transpose(w, 0, 1));
  CHECK(grad(sum(strided), w).to_vector<double>() == Numbers(6, 1));
  CHECK_THROWS_WITH_AS(sum(select(strided, 0, 0) += 1), Contains("not contiguous()"),
                       GradientError);
  const Tensor part = select(strided, 0, 0);
  assign(strided, 1);
  CHECK_FALSE(part.requires_grad());  // a constant now, as all of it
  assign(strided, transpose(w, 0, 1));
  CHECK_THROWS_WITH_AS(sum(part), Contains("its view [2] cannot follow"), GradientError);
}

TEST_CASE("what does not fit is refused before anything changes") {
  const Tensor w = require_grad(ones({2}, kDouble));
  const Tensor h = w * 2;
  CHECK_THROWS_WITH_AS(
      assign(expand(h, {3, 2}), 1),
      "[assign] the target repeats its elements along axis 0 of [3, 2]: clone() it "
      "first",
      ShapeError);
  CHECK_THROWS_WITH_AS(expand(h, {3, 2}) += w, Contains("repeats its elements"), ShapeError);
  CHECK_THROWS_WITH_AS(h += ones({3, 2}, kDouble),
                       "[add_in_place] [3, 2] does not broadcast to the target's [2]", ShapeError);
  CHECK_THROWS_WITH_AS(zeros({2}) += ones({3, 2}), Contains("does not broadcast"), ShapeError);
  CHECK_THROWS_AS(h *= ones({3}, kDouble), ShapeError);
  CHECK_THROWS_AS(assign(h, ones({2}, {.device = Device::meta()})), DeviceError);
  CHECK_THROWS_AS(h += ones({2}, {.device = Device::meta()}), DeviceError);
  const Tensor whole = zeros({2}, {.dtype = Dtype::int64});
  CHECK_THROWS_WITH_AS(whole += 0.5,
                       "[add_in_place] int64 and float32 give float32, which does not go into the "
                       "target: cast() one",
                       DtypeError);
  CHECK_THROWS_AS(whole /= whole, DtypeError);
  whole += 2;
  assign(whole, w * 3);  // converted: it leaves the tape, as cast() does
  CHECK_FALSE(whole.requires_grad());
  CHECK(whole.to_vector<double>() == Numbers{3, 3});
  CHECK(grad(sum(h * h), w).to_vector<double>() == Numbers{8, 8});
}

TEST_CASE("without a gradient, arithmetic in place only writes") {
  const Tensor x = from_vector<double>({1, 2, 3, 4}, {4});
  const Tensor same = x;
  x += 1;
  slice(x, 0, 0, 2) *= from_vector<double>({10}, {1});
  slice(x, 0, 1, 4) -= slice(x, 0, 0, 3);  // over itself
  CHECK(same.to_vector<double>() == Numbers{20, 10, -26, 1});
  x /= from_vector<double>({2, 5, 2, 1}, {4});
  CHECK(x.to_vector<double>() == Numbers{10, 2, -13, 1});
  const int64_t version = x.version();
  x += x;
  CHECK(x.to_vector<double>() == Numbers{20, 4, -26, 2});
  CHECK(x.version() > version);
  const Tensor none = zeros({0, 2}, kDouble);
  none += 1;
  const Tensor w = require_grad(ones({}, kDouble));
  none *= w;  // empty, and recorded
  CHECK(grad(sum(none), w).item<double>() == 0);
}

TEST_CASE("under checkpoint() a change in place gives the same gradients, or refuses") {
  const Tensor x = require_grad(random({3}, 1)), w = require_grad(random({3}, 2));
  const auto block = [&](const Tensor& in) {
    const Tensor h = in * w;
    slice(h, 0, 0, 2) *= select(w, 0, 2);
    return exp(h) * w;
  };
  const Inputs expected = grad({sum(block(x))}, {x, w});
  const Inputs got = grad({sum(checkpoint(block, x))}, {x, w});
  for (int i : {0, 1}) CHECK(got[i].to_vector<double>() == expected[i].to_vector<double>());

  const auto overwrites = [&](const Tensor& in) {
    const Tensor h = in * 2;
    const Tensor y = square(h);  // saves h
    assign(select(h, 0, 0), sum(w));
    return y + h;
  };
  CHECK_THROWS_AS(grad(sum(overwrites(x)), x), GradientError);
  CHECK_THROWS_WITH_AS(grad(sum(checkpoint(overwrites, x)), x), Contains("[checkpoint]"),
                       GradientError);
  const auto changes_input = [&](const Tensor& in) {
    in *= w;
    return exp(in);
  };
  CHECK_THROWS_AS(grad(sum(checkpoint(changes_input, x * 2)), x), GradientError);
}

TEST_CASE("a loop that fills a buffer, as a recurrence does") {
  const Tensor w = random({2, 2}, 1), start = random({1, 2}, 2);
  check_same(
      [](const Inputs& in) {
        const Tensor states = zeros({4, 2}, kDouble);
        Tensor h = in[1];
        for (int t = 0; t < 4; ++t) {
          h = tanh(matmul(h, in[0]));
          assign(slice(states, 0, t, t + 1), h);
        }
        return states * states;
      },
      [](const Inputs& in) {
        Inputs all;
        Tensor h = in[1];
        for (int t = 0; t < 4; ++t) all.push_back(h = tanh(matmul(h, in[0])));
        return square(cat(all));
      },
      {w, start});
}

TEST_CASE("NaN and infinities in the gradient of what was overwritten stay there") {
  const Tensor w = require_grad(ones({2}, kDouble)), y = require_grad(ones({}, kDouble));
  const Tensor h = w * 2;
  assign(select(h, 0, 0), y * 0);
  backward(sum(log(h)));
  CHECK(w.grad().to_vector<double>() == Numbers{0, 1});
}

TEST_CASE("on meta a change in place is recorded, and a saved value that it overwrites noticed") {
  const TensorOptions meta{Dtype::float32, Device::meta()};
  const Tensor w = require_grad(empty({3}, meta));
  const Tensor h = w * 2;
  const Tensor early = square(h);
  assign(select(h, 0, 1), 3);
  h *= w;
  CHECK(grad(sum(h), w).shape() == Shape{3});
  CHECK_THROWS_AS(backward(sum(early)), GradientError);
}

TEST_CASE("between floating-point dtypes a change in place rounds to the target's") {
  const Tensor leaf = require_grad(full({2}, 1, {.dtype = Dtype::bfloat16}));
  const Tensor value = require_grad(from_vector<float>({0x1p-9f, 0.5f}, {2}));
  const Tensor h = leaf * 1;
  h += value;
  CHECK(h.dtype() == Dtype::bfloat16);
  CHECK(h.to_vector<double>() == std::vector<double>{1, 1.5});
  h *= ones({2}, kDouble) * 3;
  backward(sum(h));
  CHECK(leaf.grad().dtype() == Dtype::bfloat16);
  CHECK(leaf.grad().to_vector<double>() == std::vector<double>{3, 3});
  CHECK(value.grad().dtype() == Dtype::float32);
  CHECK(value.grad().to_vector<double>() == std::vector<double>{3, 3});
  const Tensor plain = zeros({2});
  plain -= ones({2}, kDouble);
  CHECK(plain.to_vector<double>() == std::vector<double>{-1, -1});
}

}  // namespace
}  // namespace capstan
