// The element-wise, reducing and random kernels in nanoseconds an element, next to plain Eigen
// where it has the same: what a tensor library adds to the arithmetic.
//
//   benchmarks/elementwise [threads]
#include <fmt/format.h>

#include <Eigen/Core>
#include <cstdlib>

#include "benchmarks/timing.h"
#include "core/backend.h"
#include "core/random.h"
#include "core/threads.h"
#include "core/updates.h"

using namespace capstan;

namespace {

using Array = Eigen::ArrayXf;
using Matrix = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class F, class G>
void compare(const char* name, int64_t elements, const F& eigen, const G& ours) {
  const auto [theirs, own] = benchmarks::median_seconds_of_two(eigen, ours, 0.2);
  fmt::print("{:<30} {:>9} elements {:>8.3f} ns each   Eigen {:>8.3f}   ratio {:.2f}\n", name,
             elements, own * 1e9 / elements, theirs * 1e9 / elements, theirs / own);
}

template <class F>
void report(const char* name, int64_t elements, const F& ours) {
  fmt::print("{:<30} {:>9} elements {:>8.3f} ns each\n", name, elements,
             benchmarks::median_seconds(ours, 0.1) * 1e9 / elements);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::atoi(argv[1]) : 1);
  Backend& cpu = backend(Device::cpu());
  for (const int64_t n : {int64_t{1}, int64_t{100'000}}) {
    const Tensor a = randn({n}), b = randn({n}), out = empty({n});
    const Array x = Array::Random(n), y = Array::Random(n);
    Array z(n);
    const auto unary = [&](Unary op) { return [&, op] { cpu.unary(op, a, out); }; };
    const auto binary = [&](Binary op) { return [&, op] { cpu.binary(op, a, b, out); }; };
    compare(
        "add", n, [&] { z = x + y; }, binary(Binary::add));
    compare(
        "multiply", n, [&] { z = x * y; }, binary(Binary::multiply));
    compare(
        "relu", n, [&] { z = x.max(0.f); }, unary(Unary::relu));
    compare(
        "sqrt", n, [&] { z = x.sqrt(); }, unary(Unary::sqrt));
    compare(
        "exp", n, [&] { z = x.exp(); }, unary(Unary::exp));
    compare(
        "log", n, [&] { z = x.log(); }, unary(Unary::log));
    compare(
        "tanh", n, [&] { z = x.tanh(); }, unary(Unary::tanh));
    compare(
        "sigmoid", n, [&] { z = x.logistic(); }, unary(Unary::sigmoid));
    const Tensor total = empty({1});
    volatile float sum = 0;
    compare(
        "sum", n, [&] { sum = x.sum(); }, [&] { cpu.reduce(Reduction::sum, a, total); });
    compare(
        "max", n, [&] { sum = x.maxCoeff(); }, [&] { cpu.reduce(Reduction::max, a, total); });
  }

  constexpr int64_t kRows = 128, kColumns = 512, kSize = kRows * kColumns;
  const Tensor table = randn({kRows, kColumns}), row = randn({1, kColumns}),
               out = empty_like(table);
  const Tensor column_sums = empty({1, kColumns}), row_sums = empty({kRows, 1});
  const Matrix x = Matrix::Random(kRows, kColumns);
  const Eigen::Array<float, 1, Eigen::Dynamic> bias = x.row(0);
  Matrix z(kRows, kColumns);
  Eigen::Array<float, 1, Eigen::Dynamic> over_rows(kColumns);
  Array over_columns(kRows);
  const Tensor repeated = view_of(row, row.layout().expanded(table.shape()));
  compare(
      "add a row", kSize, [&] { z = x.rowwise() + bias; },
      [&] { cpu.binary(Binary::add, table, repeated, out); });
  compare(
      "sum over rows", kSize, [&] { over_rows = x.colwise().sum(); },
      [&] { cpu.reduce(Reduction::sum, table, column_sums); });
  compare(
      "sum over columns", kSize, [&] { over_columns = x.rowwise().sum(); },
      [&] { cpu.reduce(Reduction::sum, table, row_sums); });
  const Tensor turned = view_of(out, Layout{{kColumns, kRows}, {kRows, 1}, 0});
  compare(
      "transposing copy", kSize, [&] { z.resize(kColumns, kRows), z = x.transpose(); },
      [&] { cpu.copy(view_of(table, table.layout().transposed(0, 1)), turned); });

  const Tensor planes = randn({64, 20, 24, 24}), channel_sums = empty({1, 20, 1, 1});
  report("sum for 20 channels", planes.numel(),
         [&] { cpu.reduce(Reduction::sum, planes, channel_sums); });
  const Tensor pooled = empty({64, 20, 12, 12});
  const Tensor chosen = empty(pooled.shape(), {.dtype = Dtype::int32});
  const Window2d pairs{{2, 2}, {2, 2}, {0, 0}};
  report("max_pool2d 2x2", planes.numel(), [&] { cpu.max_pool2d(planes, pairs, pooled, chosen); });
  report("its gradient", planes.numel(), [&] { cpu.max_pool2d_grad(pooled, chosen, planes); });
  report("sum of squares", kSize, [&] { cpu.sum_of_squares(table); });
  report("log_softmax", kSize, [&] { cpu.log_softmax(table, out); });
  report("uniform", kSize, [&] { cpu.uniform(1, 0, 0, 1, out); });
  report("normal", kSize, [&] { cpu.normal(1, 0, 0, 1, out); });
  report("dropout", kSize, [&] { cpu.dropout(1, 0, out.layout(), 0.5, table, out); });
  const Tensor kept[] = {zeros(out.shape()), zeros(out.shape())};
  const Update plain{SgdRule{.rate = 1e-3}, out, table};
  const Update momentum{SgdRule{.rate = 1e-3, .momentum = 0.9}, out, table, kept};
  const Update adam{
      AdamRule{
          .rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .bias1 = 0.1, .bias2 = 1e-3},
      out, table, kept};
  report("sgd", kSize, [&] { apply_update(plain); });
  report("sgd with momentum", kSize, [&] { apply_update(momentum); });
  report("adam", kSize, [&] { apply_update(adam); });
}
