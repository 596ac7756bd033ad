// Layout operations against a slow reference: a plain array that lists, for every index, the
// element it maps to.
#include "core/layout.h"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "core/error.h"
#include "core/random.h"

using namespace capstan;

namespace {

using Index = std::vector<int64_t>;

/// All indices of a shape in row-major order.
std::vector<Index> indices(const Shape& shape) {
  std::vector<Index> all{Index{}};
  for (int64_t size : shape) {
    std::vector<Index> longer;
    for (const Index& index : all) {
      for (int64_t i = 0; i < size; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    all = longer;
  }
  return all;
}

int64_t element(const Layout& layout, const Index& index) {
  int64_t at = layout.offset;
  for (size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * layout.strides[axis];
  return at;
}

std::vector<int64_t> elements(const Layout& layout) {
  std::vector<int64_t> all;
  for (const Index& index : indices(layout.shape)) all.push_back(element(layout, index));
  return all;
}

/// Checks that `view` has `shape`, and that its index i is `source`'s index from(i).
void check_view(const Layout& view, const Shape& shape, const Layout& source,
                const std::function<Index(Index)>& from) {
  CHECK(view.shape == shape);
  CHECK(view.strides.rank() == shape.rank());
  std::vector<int64_t> expected;
  for (const Index& index : indices(shape)) expected.push_back(element(source, from(index)));
  CHECK(elements(view) == expected);
}

Shape random_shape(Generator& generator, int max_rank = 4, int64_t max_size = 4) {
  Shape shape;
  const int rank = static_cast<int>(generator.below(max_rank + 1));
  for (int i = 0; i < rank; ++i) shape.push_back(generator.below(max_size + 1));
  return shape;
}

/// A layout that views have made: permuted, sliced, with axes that repeat.
Layout random_layout(Generator& generator) {
  Layout layout = Layout::dense(random_shape(generator));
  for (int step = 0; step < 2; ++step) {
    const int rank = layout.shape.rank();
    if (rank == 0) break;
    const int64_t axis = generator.below(rank);
    switch (generator.below(5)) {
      case 0:
        layout = layout.transposed(axis, generator.below(rank));
        break;
      case 1:
        layout = layout.sliced(axis, generator.below(2), 4, 1 + generator.below(2));
        break;
      case 2:
        if (layout.shape[axis] > 0) layout = layout.selected(axis, 0);
        break;
      case 3:
        if (layout.shape[axis] == 1) {
          Shape wider = layout.shape;
          wider[axis] = 3;
          layout = layout.expanded(wider);
        }
        break;
      default:
        if (rank < 5) layout = layout.unsqueezed(axis);
    }
  }
  return layout;
}

template <class F>
void for_random_layouts(const F& f) {
  Generator generator(1);
  for (int i = 0; i < 2000; ++i) {
    const Layout layout = random_layout(generator);
    CAPTURE(to_string(layout.shape));
    CAPTURE(to_string(layout.strides));
    f(layout, generator);
  }
}

}  // namespace

TEST_CASE("a dense layout counts up") {
  Generator generator(2);
  for (int i = 0; i < 100; ++i) {
    const Layout layout = Layout::dense(random_shape(generator));
    const std::vector<int64_t> all = elements(layout);
    for (size_t k = 0; k < all.size(); ++k) CHECK(all[k] == static_cast<int64_t>(k));
    CHECK(layout.is_contiguous());
  }
}

TEST_CASE("is_contiguous is true exactly if elements count up by one") {
  for_random_layouts([](const Layout& layout, Generator&) {
    const std::vector<int64_t> all = elements(layout);
    bool dense = true;
    for (size_t k = 0; k < all.size(); ++k) dense &= all[k] == all[0] + static_cast<int64_t>(k);
    CHECK(layout.is_contiguous() == dense);
  });
}

TEST_CASE("permuted and transposed") {
  for_random_layouts([](const Layout& layout, Generator& generator) {
    const int rank = layout.shape.rank();
    Dims order;
    Shape shape;
    for (int64_t axis : random_permutation(rank, generator)) {
      order.push_back(generator.below(2) ? axis : axis - rank);
      shape.push_back(layout.shape[axis]);
    }
    check_view(layout.permuted(order), shape, layout, [&](const Index& i) {
      Index from(rank);
      for (int k = 0; k < rank; ++k) from[(order[k] + rank) % rank] = i[k];
      return from;
    });
    if (rank == 0) return;
    const int64_t a = generator.below(rank), b = generator.below(rank);
    Shape swapped = layout.shape;
    std::swap(swapped[a], swapped[b]);
    check_view(layout.transposed(a, b - rank), swapped, layout, [&](Index i) {
      std::swap(i[a], i[b]);
      return i;
    });
  });
}

TEST_CASE("sliced takes what a loop from start to stop takes") {
  for_random_layouts([](const Layout& layout, Generator& generator) {
    const int rank = layout.shape.rank();
    if (rank == 0) return;
    const int64_t axis = generator.below(rank), size = layout.shape[axis];
    const int64_t start = static_cast<int64_t>(generator.below(13)) - 6;
    const int64_t stop = static_cast<int64_t>(generator.below(13)) - 6;
    const int64_t step = 1 + generator.below(3);
    std::vector<int64_t> taken;
    for (int64_t i = std::max<int64_t>(0, start < 0 ? start + size : start);
         i < size && i < (stop < 0 ? stop + size : stop); i += step) {
      taken.push_back(i);
    }
    Shape shape = layout.shape;
    shape[axis] = taken.size();
    check_view(layout.sliced(axis, start, stop, step), shape, layout, [&](Index i) {
      i[axis] = taken[i[axis]];
      return i;
    });
  });
}

TEST_CASE("flipped walks backwards, diagonal along two axes at once") {
  for_random_layouts([](const Layout& layout, Generator& generator) {
    const int rank = layout.shape.rank();
    if (rank == 0) return;
    const int64_t a = generator.below(rank), b = generator.below(rank);
    check_view(layout.flipped(a - rank), layout.shape, layout, [&](Index i) {
      i[a] = layout.shape[a] - 1 - i[a];
      return i;
    });
    if (a == b) {
      CHECK_THROWS_AS(layout.diagonal(a, b - rank), ShapeError);
      return;
    }
    Shape shape = layout.shape;
    shape.erase(static_cast<int>(std::max(a, b)));
    shape.erase(static_cast<int>(std::min(a, b)));
    shape.push_back(std::min(layout.shape[a], layout.shape[b]));
    check_view(layout.diagonal(a, b), shape, layout, [&](Index i) {
      const int64_t both = i.back();
      i.pop_back();
      i.insert(i.begin() + std::min(a, b), both);
      i.insert(i.begin() + std::max(a, b), both);
      return i;
    });
  });
}

TEST_CASE("selected, unsqueezed and squeezed") {
  for_random_layouts([](const Layout& layout, Generator& generator) {
    const int rank = layout.shape.rank();
    const int64_t at = generator.below(rank + 1);
    const Layout wider = layout.unsqueezed(at);
    Shape shape = layout.shape;
    shape.insert(at, 1);
    check_view(wider, shape, layout, [&](Index i) {
      i.erase(i.begin() + at);
      return i;
    });
    CHECK(elements(wider.squeezed(at)) == elements(layout));
    CHECK(wider.squeezed(at - rank - 1).shape == layout.shape);
    if (rank == 0) return;
    const int64_t axis = generator.below(rank), size = layout.shape[axis];
    if (size == 0) return;
    const int64_t index = generator.below(size);
    shape = layout.shape;
    shape.erase(axis);
    for (int64_t same : {index, index - size}) {
      check_view(layout.selected(axis, same), shape, layout, [&](Index i) {
        i.insert(i.begin() + axis, index);
        return i;
      });
    }
  });
}

TEST_CASE("expanded repeats axes of size 1") {
  for_random_layouts([](const Layout& layout, Generator& generator) {
    Shape shape = layout.shape;
    for (int64_t& size : shape) {
      if (size == 1) size = generator.below(4);
    }
    const int added = static_cast<int>(generator.below(3));
    for (int i = 0; i < added; ++i) shape.insert(0, generator.below(3));
    check_view(layout.expanded(shape), shape, layout, [&](Index i) {
      i.erase(i.begin(), i.begin() + added);
      for (size_t k = 0; k < i.size(); ++k) {
        if (layout.shape[k] == 1) i[k] = 0;
      }
      return i;
    });
  });
}

TEST_CASE("viewed keeps the elements, and is refused only where no strides exist") {
  int views = 0, refused = 0;
  for_random_layouts([&](const Layout& layout, Generator& generator) {
    // A random factorisation of the element count.
    int64_t rest = numel(layout.shape);
    Shape shape;
    while (rest > 1 && shape.rank() < 4) {
      int64_t factor = 1 + generator.below(rest);
      while (rest % factor != 0) --factor;
      shape.push_back(factor);
      rest /= factor;
    }
    shape.push_back(rest);
    CAPTURE(to_string(shape));
    const std::vector<int64_t> all = elements(layout);

    // If strides exist, they are the distances from the first element to its neighbours.
    Layout candidate{.shape = shape, .strides = dense_strides(shape), .offset = layout.offset};
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] > 1) {
        candidate.strides[axis] = all[dense_strides(shape)[axis]] - layout.offset;
      }
    }
    const bool possible = elements(candidate) == all;

    const std::optional<Layout> view = layout.viewed(shape);
    CHECK(view.has_value() == possible);
    if (view) {
      CHECK(view->shape == shape);
      CHECK(elements(*view) == all);
    }
    ++(view ? views : refused);
  });
  CHECK(views > 500);  // the random layouts reach both
  CHECK(refused > 50);
}

TEST_CASE("layout errors name the rule and the values") {
  const Layout layout = Layout::dense({2, 3});
  CHECK_THROWS_WITH_AS(layout.permuted({0}),
                       "[permute] order [0] must name each of the 2 axes once", ShapeError);
  CHECK_THROWS_AS(layout.permuted({0, 0}), ShapeError);
  CHECK_THROWS_AS(layout.permuted({0, 1, 1}), ShapeError);
  CHECK_THROWS_AS(layout.permuted({0, 2}), ShapeError);
  CHECK_THROWS_AS(layout.transposed(0, 2), ShapeError);
  CHECK_THROWS_WITH_AS(layout.sliced(0, 0, 2, 0),
                       "[slice] step must be at least 1, got 0: flip() walks backwards",
                       ValueError);
  CHECK_THROWS_AS(layout.sliced(2, 0, 1), ShapeError);
  CHECK_THROWS_WITH_AS(layout.selected(1, 3),
                       "[select] index 3 is out of range for axis 1 of [2, 3]", ShapeError);
  CHECK_THROWS_AS(layout.selected(1, -4), ShapeError);
  CHECK_THROWS_WITH_AS(layout.expanded({2, 4}),
                       "[expand] [2, 3] does not expand to [2, 4]: only axes of size 1 repeat",
                       ShapeError);
  CHECK_THROWS_AS(layout.expanded({3}), ShapeError);
  CHECK_THROWS_WITH_AS(layout.squeezed(0), "[squeeze] axis 0 of [2, 3] must have size 1",
                       ShapeError);
  CHECK_THROWS_AS(layout.unsqueezed(3), ShapeError);
}

TEST_CASE("resolve_shape fills in one -1") {
  CHECK(resolve_shape("reshape", {2, -1}, 6) == Shape{2, 3});
  CHECK(resolve_shape("reshape", {-1}, 0) == Shape{0});
  CHECK(resolve_shape("reshape", {3, 2}, 6) == Shape{3, 2});
  CHECK(resolve_shape("reshape", {}, 1) == Shape{});
  CHECK_THROWS_WITH_AS(resolve_shape("reshape", {4, -1}, 6),
                       "[reshape] shape [4, -1] cannot hold 6 elements", ShapeError);
  CHECK_THROWS_AS(resolve_shape("reshape", {0, -1}, 0), ShapeError);  // anything would fit
  CHECK_THROWS_AS(resolve_shape("reshape", {5}, 6), ShapeError);
  CHECK_THROWS_AS(resolve_shape("reshape", {-1, -1}, 6), ShapeError);
  CHECK_THROWS_AS(resolve_shape("reshape", {-2, -3}, 6), ShapeError);
  const int64_t half = int64_t{1} << 32;  // whose square is 0 in 64 bits
  CHECK_THROWS_AS(resolve_shape("reshape", {half, half}, 0), ShapeError);
}
