// Property tests of views, broadcasting, indexing and writing through views: for many random shapes
// and arguments, elements and gradients are those of the plainest reference.
//
// The reference is Naive: a shape, and for each element in row-major order which element of the
// original it is. An operation on places is then a function from an index of the result to an index
// of its input, written out in the test.
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <map>
#include <numeric>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/in_place.h"
#include "autograd/indexing.h"
#include "autograd/rearrange.h"
#include "autograd/reduce.h"
#include "autograd/sort.h"
#include "autograd/views.h"

namespace capstan {
namespace {

using Index = std::vector<int64_t>;
using Numbers = std::vector<double>;

int64_t pick(int64_t low, int64_t high) { return *rc::gen::inRange<int64_t>(low, high + 1); }

Shape pick_shape(int least_rank, int most_rank, int64_t largest) {
  Shape shape;
  for (int64_t rank = pick(least_rank, most_rank); rank > 0; --rank) {
    shape.push_back(pick(pick(0, 9) == 0 ? 0 : 1, largest));  // seldom no elements
  }
  return shape;
}

/// The position of an index in row-major order.
int64_t position(const Shape& shape, const Index& index) {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) at = at * shape[axis] + index[axis];
  return at;
}

/// Calls f(index) for every index of a shape, in row-major order.
template <class F>
void for_each_index(const Shape& shape, const F& f) {
  const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies());
  for (int64_t i = 0; i < count; ++i) {
    Index index(shape.rank());
    int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      index[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    f(index);
  }
}

struct Naive {
  Shape shape;
  Index origins;

  /// The result of `shape` whose element at `index` is this one's at source(index).
  template <class F>
  Naive seen_as(const Shape& other, const F& source) const {
    Naive result{other, {}};
    for_each_index(other, [&](const Index& index) {
      result.origins.push_back(origins[position(shape, source(index))]);
    });
    return result;
  }
};

/// A tensor and what it should be.
struct Pair {
  Tensor tensor;
  Naive naive;
};

/// One random view of a tensor. Without `repeats` no element comes twice.
Pair viewed(const Pair& x, bool repeats) {
  const Shape& shape = x.naive.shape;
  const int rank = shape.rank();
  const auto an_axis = [&] { return pick(0, rank - 1); };
  const auto as_named = [&](int64_t axis) { return pick(0, 1) ? axis : axis - rank; };
  switch (pick(0, rank == 0 ? 1 : 8)) {
    case 0: {
      if (rank > 4) return x;
      const int64_t axis = pick(0, rank);
      Shape longer = shape;
      longer.insert(static_cast<int>(axis), 1);
      return {unsqueeze(x.tensor, axis), x.naive.seen_as(longer, [&](Index index) {
                index.erase(index.begin() + axis);
                return index;
              })};
    }
    case 1: {  // expand: a new axis, and those of size 1
      if (!repeats || rank > 4) return x;
      Shape larger{pick(0, 3)};
      for (const int64_t size : shape) larger.push_back(size == 1 ? pick(1, 3) : size);
      return {expand(x.tensor, larger), x.naive.seen_as(larger, [&](Index index) {
                index.erase(index.begin());
                for (int a = 0; a < rank; ++a) index[a] = shape[a] == 1 ? 0 : index[a];
                return index;
              })};
    }
    case 2: {
      Dims order;
      for (int a = 0; a < rank; ++a) order.insert(static_cast<int>(pick(0, a)), a);
      Shape turned;
      for (const int64_t axis : order) turned.push_back(shape[static_cast<int>(axis)]);
      return {permute(x.tensor, order), x.naive.seen_as(turned, [&](const Index& index) {
                Index source(rank);
                for (int a = 0; a < rank; ++a) source[order[a]] = index[a];
                return source;
              })};
    }
    case 3: {
      const int64_t axis = an_axis(), size = shape[static_cast<int>(axis)];
      const int64_t start = pick(0, size), stop = pick(start, size), step = pick(1, 3);
      Shape shorter = shape;
      shorter[static_cast<int>(axis)] = (stop - start + step - 1) / step;
      const auto bound = [&](int64_t i) { return i < size && pick(0, 1) ? i - size : i; };
      return {slice(x.tensor, as_named(axis), bound(start), bound(stop), step),
              x.naive.seen_as(shorter, [&](Index index) {
                index[axis] = start + index[axis] * step;
                return index;
              })};
    }
    case 4: {
      const int64_t axis = an_axis(), size = shape[static_cast<int>(axis)];
      if (size == 0) return x;
      const int64_t chosen = pick(0, size - 1);
      Shape rest = shape;
      rest.erase(static_cast<int>(axis));
      return {select(x.tensor, as_named(axis), pick(0, 1) ? chosen : chosen - size),
              x.naive.seen_as(rest, [&](Index index) {
                index.insert(index.begin() + axis, chosen);
                return index;
              })};
    }
    case 5: {
      const int64_t axis = an_axis();
      return {flip(x.tensor, {as_named(axis)}), x.naive.seen_as(shape, [&](Index index) {
                index[axis] = shape[static_cast<int>(axis)] - 1 - index[axis];
                return index;
              })};
    }
    case 6: {
      const int64_t from = an_axis(), to = an_axis();
      Shape moved = shape;
      moved.erase(static_cast<int>(from));
      moved.insert(static_cast<int>(to), shape[static_cast<int>(from)]);
      return {move_axis(x.tensor, as_named(from), as_named(to)),
              x.naive.seen_as(moved, [&](Index index) {
                const int64_t place = index[to];
                index.erase(index.begin() + to);
                index.insert(index.begin() + from, place);
                return index;
              })};
    }
    case 7: {
      const int64_t axis = an_axis();
      if (shape[static_cast<int>(axis)] != 1) return x;
      Shape rest = shape;
      rest.erase(static_cast<int>(axis));
      return {squeeze(x.tensor, as_named(axis)), x.naive.seen_as(rest, [&](Index index) {
                index.insert(index.begin() + axis, 0);
                return index;
              })};
    }
    default: {
      const int64_t a = an_axis(), b = an_axis();
      if (a == b) return x;
      Shape rest;
      for (int axis = 0; axis < rank; ++axis) {
        if (axis != a && axis != b) rest.push_back(shape[axis]);
      }
      rest.push_back(std::min(shape[static_cast<int>(a)], shape[static_cast<int>(b)]));
      return {diagonal(x.tensor, as_named(a), as_named(b)), x.naive.seen_as(rest, [&](Index index) {
                const int64_t place = index.back();
                index.pop_back();
                for (const int64_t axis : {std::min(a, b), std::max(a, b)}) {
                  index.insert(index.begin() + axis, place);
                }
                return index;
              })};
    }
  }
}

/// The numbers 0, 1, ... as a float64 leaf.
Tensor counting(const Shape& shape) {
  return require_grad(cast(reshape(arange(numel(shape)), shape), Dtype::float64));
}

/// `base`, and a chain of random views of it.
Pair views_of(const Tensor& base, bool repeats) {
  Naive naive{base.shape(), Index(base.numel())};
  std::iota(naive.origins.begin(), naive.origins.end(), 0);
  Pair pair{base, naive};
  for (int64_t steps = pick(0, 5); steps > 0; --steps) pair = viewed(pair, repeats);
  return pair;
}

/// Different numbers, 1, 3, 5, ...
Tensor weights_for(const Shape& shape) {
  return cast(reshape(arange(numel(shape)), shape), Dtype::float64) * 2 + 1;
}

Numbers numbers(const Index& index) { return Numbers(index.begin(), index.end()); }

TEST_CASE("a chain of views shows the elements where indices say, and brings gradients back") {
  CHECK(rc::check([] {
    const Tensor base = counting(pick_shape(0, 4, 4));
    const auto [view, naive] = views_of(base, true);
    RC_ASSERT(view.shape() == naive.shape);
    RC_ASSERT(view.to_vector<double>() == numbers(naive.origins));
    const Tensor weights = weights_for(view.shape());
    backward(sum(view * weights));
    Numbers expected(base.numel());
    const Numbers w = weights.to_vector<double>();
    for (size_t i = 0; i < w.size(); ++i) expected[naive.origins[i]] += w[i];
    RC_ASSERT(base.grad().to_vector<double>() == expected);
  }));
}

TEST_CASE("reshape keeps the order of the elements, whatever the strides") {
  CHECK(rc::check([] {
    const Tensor base = counting(pick_shape(1, 3, 4));
    const auto [view, naive] = views_of(base, true);
    // Sizes drawn from the prime factors of the number of elements.
    Shape shape = {1};
    int64_t rest = view.numel();
    for (int64_t p = 2; p <= rest && shape.rank() < 6;) {
      if (rest % p != 0) {
        ++p;
      } else {
        if (pick(0, 1)) shape.push_back(1);
        shape[shape.rank() - 1] *= p;
        rest /= p;
      }
    }
    shape.push_back(rest);
    const Tensor out = reshape(view, shape);
    RC_ASSERT(out.shape() == shape);
    RC_ASSERT(out.to_vector<double>() == numbers(naive.origins));
  }));
}

TEST_CASE("operands broadcast as indices do, and their gradients are summed back") {
  CHECK(rc::check([] {
    const Shape shape = pick_shape(0, 4, 3);
    const auto operand = [&] {
      Shape own;
      for (int axis = static_cast<int>(pick(0, shape.rank())); axis < shape.rank(); ++axis) {
        own.push_back(pick(0, 2) == 0 ? 1 : shape[axis]);
      }
      return counting(own);
    };
    const Tensor a = operand(), b = operand();
    const Shape out = broadcast("test", a.shape(), b.shape());
    const auto source = [&](const Tensor& x, const Index& index) {
      Index own(index.end() - x.rank(), index.end());
      for (int axis = 0; axis < x.rank(); ++axis) own[axis] = x.shape()[axis] == 1 ? 0 : own[axis];
      return position(x.shape(), own);
    };
    Numbers sums, grad_a(a.numel()), grad_b(b.numel());
    double weight = -1;
    for_each_index(out, [&](const Index& index) {
      weight += 2;
      const int64_t i = source(a, index), j = source(b, index);
      sums.push_back(static_cast<double>(3 * i + i * j));
      grad_a[i] += weight * static_cast<double>(3 + j);
      grad_b[j] += weight * static_cast<double>(i);
    });
    const Tensor y = a * 3 + a * b;
    RC_ASSERT(y.shape() == out);
    RC_ASSERT(y.to_vector<double>() == sums);
    backward(sum(y * weights_for(out)));
    RC_ASSERT(a.grad().to_vector<double>() == grad_a);
    RC_ASSERT(b.grad().to_vector<double>() == grad_b);
  }));
}

/// A tensor of `shape` in which elements lie in another order, with others between them.
Tensor scattered_in_memory(const Shape& shape) {
  Shape turned;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) turned.push_back(shape[axis]);
  turned.push_back(2);
  const Tensor room = zeros(turned, {.dtype = Dtype::float64});
  Dims order;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) order.push_back(axis);
  const Tensor x = permute(select(room, -1, 1), order);
  assign(x, detach(counting(shape)));
  return require_grad(detach(x));
}

TEST_CASE("gather, scatter and their gradients follow the definition") {
  CHECK(rc::check([] {
    const Shape shape = pick_shape(1, 3, 4);
    const int axis = static_cast<int>(pick(0, shape.rank() - 1));
    RC_PRE(shape[axis] > 0);
    Shape chosen = shape;
    for (int64_t& size : chosen) size = pick(0, size);
    chosen[axis] = pick(0, 5);
    Index indices;
    for_each_index(chosen, [&](const Index&) { indices.push_back(pick(0, shape[axis] - 1)); });
    const Tensor index = from_vector(indices, chosen);
    const Tensor x = scattered_in_memory(shape), source = scattered_in_memory(chosen);

    Numbers gathered, grad(x.numel()), written = x.to_vector<double>(), added = written;
    Index last(x.numel(), -1);  // which element of source is written last
    int64_t i = 0;
    for_each_index(chosen, [&](Index at) {
      at[axis] = indices[i];
      const int64_t place = position(shape, at);
      gathered.push_back(static_cast<double>(place));
      grad[place] += static_cast<double>(2 * i + 1);
      written[place] = static_cast<double>(i);
      added[place] += static_cast<double>(i);
      last[place] = i++;
    });
    const Tensor y = gather(x, axis, index);
    RC_ASSERT(y.to_vector<double>() == gathered);
    backward(sum(y * weights_for(chosen)));
    RC_ASSERT(x.grad().to_vector<double>() == grad);
    RC_ASSERT(scatter_add(x, axis, index, source).to_vector<double>() == added);

    zero_grad(x);
    const Tensor z = scatter(x, axis, index, source);
    RC_ASSERT(z.to_vector<double>() == written);
    backward(sum(z * weights_for(shape)));
    Numbers kept(x.numel()), reached(source.numel());
    for (int64_t place = 0; place < x.numel(); ++place) {
      (last[place] < 0 ? kept[place] : reached[last[place]]) = static_cast<double>(2 * place + 1);
    }
    RC_ASSERT(x.grad().to_vector<double>() == kept);
    RC_ASSERT(source.grad().to_vector<double>() == reached);
  }));
}

TEST_CASE("index_select, index_add and masks follow the definition") {
  CHECK(rc::check([] {
    const Shape shape = pick_shape(1, 3, 4);
    const int axis = static_cast<int>(pick(0, shape.rank() - 1));
    RC_PRE(shape[axis] > 0);
    Index indices(pick(0, 5));
    for (int64_t& each : indices) each = pick(0, shape[axis] - 1);
    const Tensor index = from_vector(indices, {std::ssize(indices)});
    Shape chosen = shape;
    chosen[axis] = std::ssize(indices);
    const Tensor x = scattered_in_memory(shape), source = scattered_in_memory(chosen);
    Numbers selected, added = x.to_vector<double>();
    double next = 0;
    for_each_index(chosen, [&](Index at) {
      at[axis] = indices[at[axis]];
      const int64_t place = position(shape, at);
      selected.push_back(static_cast<double>(place));
      added[place] += next++;
    });
    RC_ASSERT(index_select(x, axis, index).to_vector<double>() == selected);
    RC_ASSERT(index_add(x, axis, index, source).to_vector<double>() == added);

    // A mask that is broadcast along some axes.
    Shape narrow = shape;
    for (int64_t& size : narrow) size = pick(0, 2) == 0 ? std::min<int64_t>(size, 1) : size;
    std::vector<bool> flags;
    for_each_index(narrow, [&](const Index&) { flags.push_back(pick(0, 1)); });
    const Tensor mask = from_vector(flags, narrow);
    Numbers taken, filled;
    Index places;
    for_each_index(shape, [&](const Index& at) {
      Index own = at;
      for (int a = 0; a < shape.rank(); ++a) own[a] = narrow[a] == 1 ? 0 : own[a];
      const bool flag = flags[position(narrow, own)];
      const double value = static_cast<double>(position(shape, at));
      if (flag) taken.push_back(value);
      if (flag) places.insert(places.end(), at.begin(), at.end());
      filled.push_back(flag ? -7 : value);
    });
    RC_ASSERT(masked_select(x, mask).to_vector<double>() == taken);
    RC_ASSERT(masked_fill(x, mask, -7).to_vector<double>() == filled);
    RC_ASSERT(nonzero(expand(mask, shape)).to_vector<int64_t>() == places);
  }));
}

TEST_CASE("unique finds the different elements, or the different slices along an axis") {
  CHECK(rc::check([] {
    const Shape shape = pick_shape(1, 3, 4);
    const bool along = pick(0, 1);
    const int axis = along ? static_cast<int>(pick(0, shape.rank() - 1)) : 0;
    Index elements;
    for_each_index(shape, [&](const Index&) { elements.push_back(pick(0, 2)); });
    const Tensor x = from_vector(elements, shape);
    // What is compared, by its place along the axis.
    std::vector<Index> slices(along ? shape[axis] : std::ssize(elements));
    int64_t next = 0;
    for_each_index(shape, [&](const Index& index) {
      slices[along ? index[axis] : next].push_back(elements[next]);
      ++next;
    });
    std::map<Index, int64_t> counts;
    for (const Index& each : slices) ++counts[each];

    const auto [values, inverse, occurrences] =
        along ? unique(x, pick(0, 1) ? axis : axis - shape.rank()) : unique(x);
    RC_ASSERT(inverse.shape() == (along ? Shape{shape[axis]} : shape));
    const Index numbers = inverse.to_vector<int64_t>(), often = occurrences.to_vector<int64_t>();
    RC_ASSERT(often.size() == counts.size());
    std::vector<Index> found(counts.size());
    const Index all = values.to_vector<int64_t>();
    next = 0;
    for_each_index(values.shape(), [&](const Index& index) {
      found[index[along ? axis : 0]].push_back(all[next++]);
    });
    size_t number = 0;
    for (const auto& [slice, count] : counts) {  // in ascending order
      RC_ASSERT(found[number] == slice);
      RC_ASSERT(often[number++] == count);
    }
    for (size_t i = 0; i < slices.size(); ++i) RC_ASSERT(found[numbers[i]] == slices[i]);
  }));
}

TEST_CASE(
    "writing through a chain of views changes what it shows, and gradients go where it went") {
  CHECK(rc::check([] {
    const Tensor base = counting(pick_shape(0, 4, 4));
    const Tensor x = base * 1;
    const auto [view, naive] = views_of(x, false);
    const Tensor value = counting(view.shape());
    assign(view, value * -1);
    Numbers expected = base.to_vector<double>(), grad = weights_for(x.shape()).to_vector<double>();
    Numbers reached;
    for (size_t i = 0; i < naive.origins.size(); ++i) {
      expected[naive.origins[i]] = -static_cast<double>(i);
      reached.push_back(-std::exchange(grad[naive.origins[i]], 0));
    }
    RC_ASSERT(x.to_vector<double>() == expected);
    backward(sum(x * weights_for(x.shape())));
    // None at all is that of a tensor from which nothing is left.
    const auto slope = [](const Tensor& leaf) {
      return leaf.has_grad() ? leaf.grad().to_vector<double>() : Numbers(leaf.numel());
    };
    RC_ASSERT(slope(base) == grad);
    RC_ASSERT(slope(value) == reached);
  }));
}

}  // namespace
}  // namespace capstan
