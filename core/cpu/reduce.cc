// Reductions whose result depends neither on the number of threads nor on addresses.
//
// The elements that fold into one output are cut into blocks fixed by the shape. A block is summed
// in lanes of float64 (int64 for integers), and the blocks are then combined pairwise, so that a
// float32 sum of ten million elements is as good as its last rounding.
//
// Two ways through memory: by_rows where the axis with the smallest stride is reduced, by_columns
// where it is kept and whole rows are added to each other.
#include <limits>
#include <memory>
#include <numeric>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/fold.h"
#include "core/cpu/loop.h"

namespace capstan {
namespace {

using cpu::fold_row;
using cpu::join_pairwise;
using cpu::Nest;

constexpr int64_t kBlock = 8192;   // elements that are folded without a break
constexpr int64_t kColumns = 512;  // accumulators at a time: they stay in the first cache

/// The axes of `in`, apart as kept (with the output's stride) and reduced.
struct Axes {
  Nest<2> kept;     // strides in `in`, in `out`
  Nest<1> reduced;  // strides in `in`
  bool by_rows = true;

  Axes(const Layout& in, const Layout& out) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int axis = 0; axis < in.shape.rank(); ++axis) {
      const int64_t size = in.shape[axis], stride = in.strides[axis];
      if (size == 1) continue;
      const bool is_kept = out.shape[axis] == size;
      if (is_kept) {
        kept.push(size, {stride, out.strides[axis]});
      } else {
        reduced.push(size, {stride});
      }
      if (std::abs(stride) < least) {
        least = std::abs(stride);
        by_rows = !is_kept;
      }
    }
    kept.merge();
    reduced.merge();
  }
};

/// Every output folds its own rows. Blocks of one output are pieces of a row, or several rows.
template <class Op, class T, class R>
void reduce_rows(const Axes& axes, const T* x, R* y) {
  using A = typename Op::Accumulator;
  Nest<1> outer = axes.reduced;
  int64_t length = 1, step = 1;  // of the innermost reduced axis
  if (outer.rank > 0) {
    --outer.rank;
    length = outer.sizes[outer.rank];
    step = outer.strides[outer.rank][0];
  }
  const int64_t piece = std::min(length, kBlock);
  const int64_t pieces = (length + piece - 1) / piece;
  if (pieces > 1) outer.push(pieces, {piece * step});
  const int64_t rows = outer.count();
  const int64_t rows_a_block = std::max<int64_t>(1, kBlock / piece);
  const int64_t blocks = (rows + rows_a_block - 1) / rows_a_block;
  const int64_t outputs = axes.kept.count();

  const auto fold_block = [&](const T* base, int64_t block) {
    A total = Op::start;
    const int64_t begin = block * rows_a_block, end = std::min(rows, begin + rows_a_block);
    outer.walk(begin, end, [&](int64_t row, const auto& at) {
      const int64_t count = std::min(piece, length - row % pieces * piece);
      total = Op::join(total, fold_row<Op>(base + at[0], count, step));
    });
    return total;
  };

  if (blocks == 1) {
    const int64_t outputs_a_task = std::max<int64_t>(1, cpu::kGrain / (rows * piece));
    parallel_for(outputs, outputs_a_task, [&](int64_t begin, int64_t end) {
      axes.kept.walk(begin, end, [&](int64_t, const auto& at) {
        y[at[1]] = static_cast<R>(fold_block(x + at[0], 0));
      });
    });
    return;
  }
  const auto partial = std::make_unique_for_overwrite<A[]>(outputs * blocks);
  parallel_for(outputs * blocks, cpu::kGrain / kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      axes.kept.walk(i / blocks, i / blocks + 1, [&](int64_t, const auto& at) {
        partial[i] = fold_block(x + at[0], i % blocks);
      });
    }
  });
  axes.kept.walk(0, outputs, [&](int64_t output, const auto& at) {
    y[at[1]] = static_cast<R>(join_pairwise<Op>(&partial[output * blocks], blocks, 1));
  });
}

/// Rows of kept elements are folded into a row of accumulators. Tasks are pieces of the kept rows;
/// where those are few, blocks of reduced rows as well.
template <class Op, class T, class R>
void reduce_columns(const Axes& axes, const T* x, R* y) {
  using A = typename Op::Accumulator;
  Nest<2> outer = axes.kept;
  --outer.rank;
  const int64_t width = outer.sizes[outer.rank];
  const auto [step, out_step] = outer.strides[outer.rank];
  const int64_t piece = std::min(width, kColumns);
  const int64_t pieces = (width + piece - 1) / piece;
  if (pieces > 1) outer.push(pieces, {piece * step, piece * out_step});
  const int64_t groups = outer.count();  // of outputs
  const int64_t rows = axes.reduced.count();
  // About 64 tasks in all, so that partial results stay small.
  const int64_t rows_a_block =
      std::max(cpu::kGrain / piece, rows / std::max<int64_t>(1, 64 / groups));
  const int64_t blocks = (rows + rows_a_block - 1) / rows_a_block;

  const auto partial =
      std::make_unique_for_overwrite<A[]>(blocks > 1 ? groups * blocks * piece : 0);
  const auto write = [&](const A* sums, int64_t group, int64_t at) {
    const int64_t count = std::min(piece, width - group % pieces * piece);
    for (int64_t j = 0; j < count; ++j) {
      y[at + j * out_step] = static_cast<R>(join_pairwise<Op>(sums + j, blocks, piece));
    }
  };
  const auto fold_block = [&](A* sums, int64_t group, int64_t block, int64_t at) {
    const int64_t count = std::min(piece, width - group % pieces * piece);
    std::fill_n(sums, piece, Op::start);
    axes.reduced.walk(block * rows_a_block, std::min(rows, (block + 1) * rows_a_block),
                      [&](int64_t, const auto& row) {
                        cpu::map_row(count, sums, 1, x + at + row[0], step, sums, 1, Op::take);
                      });
  };

  const int64_t work = piece * std::min(rows, rows_a_block);
  parallel_for(groups * blocks, std::max<int64_t>(1, cpu::kGrain / work),
               [&](int64_t begin, int64_t end) {
                 A local[kColumns];
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t group = i / blocks;
                   A* const sums = blocks > 1 ? &partial[i * piece] : local;
                   outer.walk(group, group + 1, [&](int64_t, const auto& at) {
                     fold_block(sums, group, i % blocks, at[0]);
                     if (blocks == 1) write(sums, group, at[1]);
                   });
                 }
               });
  if (blocks == 1) return;
  outer.walk(0, groups, [&](int64_t group, const auto& at) {
    write(&partial[group * blocks * piece], group, at[1]);
  });
}

template <class Op, class T, class R>
void run(const Tensor& in, const Tensor& out) {
  R* const y = out.mutable_data<R>();
  if (out.numel() == 0) return;
  if (in.numel() == 0) {
    std::fill_n(y, out.numel(), static_cast<R>(Op::start));
    return;
  }
  const Axes axes(in.layout(), out.layout());
  if (axes.by_rows || axes.kept.rank == 0) {
    reduce_rows<Op>(axes, in.data<T>(), y);
  } else {
    reduce_columns<Op>(axes, in.data<T>(), y);
  }
}

}  // namespace

void CpuBackend::reduce(Reduction op, const Tensor& in, const Tensor& out) {
  visit_dtype(in.dtype(), [&]<class T>() {
    using C = compute_type<T>;
    using Wide = std::conditional_t<std::is_floating_point_v<C>, T, int64_t>;
    switch (op) {
      case Reduction::sum:
        return run<cpu::Sum<C>, T, Wide>(in, out);
      case Reduction::product:
        return run<cpu::Product<C>, T, Wide>(in, out);
      case Reduction::max:
        return run<cpu::Max<C>, T, T>(in, out);
      case Reduction::min:
        return run<cpu::Min<C>, T, T>(in, out);
    }
  });
}

void CpuBackend::extreme_position(Reduction op, const Tensor& in, int axis, const Tensor& out) {
  int64_t* const y = out.mutable_data<int64_t>();
  if (out.numel() == 0) return;
  const int64_t length = in.shape()[axis], step = in.strides()[axis];
  visit_dtype(in.dtype(), [&]<class T>() {
    const T* const x = in.data<T>();
    const auto search = [&](const auto& is_behind) {
      cpu::for_each_band<2>({&in.layout(), &out.layout()}, axis,
                            [&](auto lines, const auto& at, const auto& next) {
                              T best[cpu::kBand];
                              for (int64_t l = 0; l < lines; ++l) {
                                best[l] = x[at[0] + l * next[0]];
                                y[at[1] + l * next[1]] = 0;
                              }
                              for (int64_t j = 1; j < length; ++j) {
                                for (int64_t l = 0; l < lines; ++l) {
                                  const T value = x[at[0] + l * next[0] + j * step], held = best[l];
                                  if (cpu::is_nan(held) || is_behind(value, held)) continue;
                                  best[l] = value;  // better, or NaN
                                  y[at[1] + l * next[1]] = j;
                                }
                              }
                            });
    };
    if (op == Reduction::max) {
      search([](T a, T b) { return a <= b; });
    } else {
      search([](T a, T b) { return a >= b; });
    }
  });
}

void CpuBackend::cumulative_sum(const Tensor& in, int axis, const Tensor& out) {
  const int64_t length = in.shape()[axis];
  const int64_t step = in.strides()[axis], out_step = out.strides()[axis];
  visit_dtype(in.dtype(), [&]<class T>() {
    using Sum = cpu::Sum<compute_type<T>>;
    using Wide = std::conditional_t<std::is_floating_point_v<compute_type<T>>, T, int64_t>;
    const T* const x = in.data<T>();
    Wide* const y = out.mutable_data<Wide>();
    cpu::for_each_band<2>({&in.layout(), &out.layout()}, axis,
                          [&](auto lines, const auto& at, const auto& next) {
                            typename Sum::Accumulator sums[cpu::kBand];
                            std::fill_n(sums, lines, Sum::start);
                            for (int64_t j = 0; j < length; ++j) {
                              for (int64_t l = 0; l < lines; ++l) {
                                sums[l] = Sum::take(sums[l], x[at[0] + l * next[0] + j * step]);
                                y[at[1] + l * next[1] + j * out_step] = static_cast<Wide>(sums[l]);
                              }
                            }
                          });
  });
}

double CpuBackend::sum_of_squares(const Tensor& in) {
  const Tensor out = empty(Dims::filled(in.rank(), 1), {Dtype::float64, in.device()});
  visit_dtype(in.dtype(), [&]<class T>() {
    using C = compute_type<T>;
    if constexpr (std::is_floating_point_v<C>) run<cpu::SumOfSquares<C>, T, double>(in, out);
  });
  return *out.data<double>();
}

}  // namespace capstan
