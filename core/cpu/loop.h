// Defines the one loop over elements of strided tensors that every element-wise kernel uses.
//
// Read Nest first: the axes of several operands, merged where the elements of all of them follow
// each other evenly, so that most loops end up with one axis. for_each_row() then hands the
// innermost axis to a kernel as one row, in pieces of fixed size on several threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "core/layout.h"
#include "core/threads.h"

namespace capstan::cpu {

/// Elements that one thread takes at a time: large enough to pay for waking it.
inline constexpr int64_t kGrain = 32768;

/// A number for each of N operands: an offset or a stride, in elements.
template <int N>
using PerOperand = std::array<int64_t, N>;

/// Nested loops over N operands, outermost first.
template <int N>
struct Nest {
  int rank = 0;
  int64_t sizes[kMaxRank];
  PerOperand<N> strides[kMaxRank];

  void push(int64_t size, const PerOperand<N>& stride) {
    sizes[rank] = size;
    strides[rank++] = stride;
  }

  int64_t count() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= sizes[axis];
    return product;
  }

  /// Joins neighbouring axes that every operand steps through evenly, and drops axes of size 1.
  void merge() {
    int kept = 0;
    for (int axis = 0; axis < rank; ++axis) {
      if (sizes[axis] == 1) continue;
      bool even = kept > 0;
      for (int i = 0; even && i < N; ++i) {
        even = strides[kept - 1][i] == strides[axis][i] * sizes[axis];
      }
      if (even) {
        sizes[kept - 1] *= sizes[axis];
        strides[kept - 1] = strides[axis];
      } else {
        sizes[kept] = sizes[axis];
        strides[kept++] = strides[axis];
      }
    }
    rank = kept;
  }

  /// Calls f(index, offsets) for the steps begin, ..., end - 1 of the nest.
  template <class F>
  void walk(int64_t begin, int64_t end, const F& f) const {
    int64_t position[kMaxRank] = {};
    PerOperand<N> at{};
    for (int64_t axis = rank - 1, rest = begin; axis >= 0 && rest > 0; --axis) {
      position[axis] = rest % sizes[axis];
      rest /= sizes[axis];
      for (int i = 0; i < N; ++i) at[i] += position[axis] * strides[axis][i];
    }
    for (int64_t index = begin; index < end; ++index) {
      f(index, at);
      for (int axis = rank - 1; axis >= 0; --axis) {
        const bool done = ++position[axis] == sizes[axis];
        const int64_t step = done ? 1 - sizes[axis] : 1;
        for (int i = 0; i < N; ++i) at[i] += step * strides[axis][i];
        if (!done) break;
        position[axis] = 0;
      }
    }
  }
};

/// The nest of operands of one shape; operand 0 is the output, whose smallest stride goes
/// innermost.
template <int N>
Nest<N> make_nest(const std::array<const Layout*, N>& operands) {
  const Shape& shape = operands[0]->shape;
  int order[kMaxRank];
  for (int axis = 0; axis < shape.rank(); ++axis) order[axis] = axis;
  std::stable_sort(order, order + shape.rank(), [&](int a, int b) {
    return std::abs(operands[0]->strides[a]) > std::abs(operands[0]->strides[b]);
  });
  Nest<N> nest;
  for (int i = 0; i < shape.rank(); ++i) {
    PerOperand<N> stride;
    for (int k = 0; k < N; ++k) stride[k] = operands[k]->strides[order[i]];
    nest.push(shape[order[i]], stride);
  }
  nest.merge();
  return nest;
}

/// Calls row(count, offsets, steps) so that the rows cover all elements of the operands: element j
/// of a row lies at offsets[i] + j * steps[i] in operand i.
template <int N, class Row>
void for_each_row(const std::array<const Layout*, N>& operands, const Row& row) {
  const int64_t total = numel(operands[0]->shape);
  const bool dense = std::all_of(operands.begin(), operands.end(),
                                 [](const Layout* layout) { return layout->is_contiguous(); });
  PerOperand<N> steps;
  if (dense) {
    steps.fill(1);
    parallel_for(total, kGrain, [&](int64_t begin, int64_t end) {
      PerOperand<N> at;
      at.fill(begin);
      row(end - begin, at, steps);
    });
    return;
  }
  if (total == 0) return;
  Nest<N> nest = make_nest<N>(operands);
  if (nest.rank == 0) nest.push(1, {});
  // The innermost axis becomes the row; one longer than the grain is cut into pieces.
  --nest.rank;
  const int64_t length = nest.sizes[nest.rank];
  steps = nest.strides[nest.rank];
  const int64_t piece = std::min(length, kGrain);
  const int64_t pieces = (length + piece - 1) / piece;
  if (pieces > 1) {
    PerOperand<N> stride = steps;
    for (int64_t& s : stride) s *= piece;
    nest.push(pieces, stride);
  }
  parallel_for(nest.count(), std::max<int64_t>(1, kGrain / piece), [&](int64_t begin, int64_t end) {
    nest.walk(begin, end, [&](int64_t index, const PerOperand<N>& at) {
      row(std::min(piece, length - index % pieces * piece), at, steps);
    });
  });
}

/// Calls band(lines, offsets, steps) so that the bands cover the lines along `axis` of operands
/// whose shapes differ along that axis alone: line l of a band begins at offsets[i] + l * steps[i]
/// in operand i. A band is a single line where that lies densely in operand 0, and else up to kBand
/// lines side by side, for the kernel to take step by step together, in the order of memory. The
/// number 1 is a constant, so that the compiler keeps what belongs to the line in registers.
inline constexpr int64_t kBand = 256;

template <int N, class Band>
void for_each_band(const std::array<const Layout*, N>& operands, int axis, const Band& band) {
  const Layout& first = *operands[0];
  Nest<N> bands;
  for (int i = 0; i < first.shape.rank(); ++i) {
    if (i == axis) continue;
    PerOperand<N> stride;
    for (int k = 0; k < N; ++k) stride[k] = operands[k]->strides[i];
    bands.push(first.shape[i], stride);
  }
  bands.merge();
  PerOperand<N> steps{};
  int64_t width = 1, pieces = 1;  // of the innermost axis beside `axis`
  const int last = bands.rank - 1;
  if (last >= 0 && std::abs(bands.strides[last][0]) < std::abs(first.strides[axis])) {
    width = bands.sizes[last];
    steps = bands.strides[last];
    pieces = (width + kBand - 1) / kBand;
    bands.sizes[last] = pieces;
    for (int64_t& stride : bands.strides[last]) stride *= kBand;
  }
  const int64_t work = std::max<int64_t>(1, first.shape[axis] * std::min(width, kBand));
  parallel_for(bands.count(), std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    bands.walk(begin, end, [&](int64_t index, const PerOperand<N>& at) {
      if (width == 1) {
        band(std::integral_constant<int64_t, 1>{}, at, steps);
      } else {
        band(std::min(kBand, width - index % pieces * kBand), at, steps);
      }
    });
  });
}

/// out[j] = f(a[j]). Pieces of a row may be worked on in place: `out` and `a` are equal or apart.
template <class F, class A, class R>
void map_row(int64_t count, const A* a, int64_t a_step, R* out, int64_t out_step, const F& f) {
  if (out_step == 1 && a_step == 1) {
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) out[j] = f(a[j]);
  } else {
    for (int64_t j = 0; j < count; ++j) out[j * out_step] = f(a[j * a_step]);
  }
}

/// out[j] = f(a[j], b[j]), under the same rule.
template <class F, class A, class B, class R>
void map_row(int64_t count, const A* a, int64_t a_step, const B* b, int64_t b_step, R* out,
             int64_t out_step, const F& f) {
  if (out_step == 1 && a_step == 1 && b_step == 1) {
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) out[j] = f(a[j], b[j]);
  } else if (out_step == 1 && a_step == 1 && b_step == 0) {
    const B same = *b;
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) out[j] = f(a[j], same);
  } else if (out_step == 1 && a_step == 0 && b_step == 1) {
    const A same = *a;
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) out[j] = f(same, b[j]);
  } else {
    for (int64_t j = 0; j < count; ++j) out[j * out_step] = f(a[j * a_step], b[j * b_step]);
  }
}

}  // namespace capstan::cpu
