// The matmul kernel next to the plain Eigen call, float32, for square products and those of an MLP
// 784-512-512-10 at batch 128 (forward, weight gradient, input gradient).
//
//   benchmarks/matmul [threads]
#include <fmt/format.h>

#include <Eigen/Core>
#include <cstdlib>

#include "benchmarks/timing.h"
#include "core/backend.h"
#include "core/random.h"
#include "core/threads.h"

using namespace capstan;

namespace {

enum class Order { rows, columns };

Tensor matrix(int64_t rows, int64_t columns, Order order) {
  if (order == Order::rows) return randn({rows, columns});
  const Tensor turned = randn({columns, rows});
  return view_of(turned, turned.layout().transposed(0, 1));
}

template <class F>
void with_map(const Tensor& t, Order order, const F& f) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Columns = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  if (order == Order::rows) {
    f(Eigen::Map<const Rows>(t.data<float>(), t.size(0), t.size(1)));
  } else {
    f(Eigen::Map<const Columns>(t.data<float>(), t.size(0), t.size(1)));
  }
}

void measure(int64_t m, int64_t k, int64_t n, Order order_a, Order order_b) {
  const Tensor a = matrix(m, k, order_a), b = matrix(k, n, order_b), out = empty({m, n});
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Rows plain(m, n);
  double eigen = 0, ours = 0;
  with_map(a, order_a, [&](const auto& x) {
    with_map(b, order_b, [&](const auto& y) {
      const auto [first, second] = benchmarks::median_seconds_of_two(
          [&] { plain.noalias() = x * y; }, [&] { backend(a).matmul(a, b, out); });
      eigen = first, ours = second;
    });
  });
  const double gflop = 2e-9 * m * k * n;
  fmt::print(
      "{:>5} x {:>5} x {:>5} {}{} {:>9.3f} ms {:>7.1f} GFLOP/s   Eigen {:>7.1f}   ratio {:.3f}\n",
      m, k, n, order_a == Order::rows ? 'N' : 'T', order_b == Order::rows ? 'N' : 'T', ours * 1e3,
      gflop / ours, gflop / eigen, eigen / ours);
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::atoi(argv[1]) : 1);
  for (const int64_t size : {128, 512, 1024}) measure(size, size, size, Order::rows, Order::rows);
  measure(128, 784, 512, Order::rows, Order::columns);
  measure(512, 128, 784, Order::columns, Order::rows);
  measure(128, 512, 512, Order::rows, Order::columns);
  measure(512, 128, 512, Order::columns, Order::rows);
  measure(128, 512, 512, Order::rows, Order::rows);
  measure(128, 512, 10, Order::rows, Order::columns);
  measure(10, 128, 512, Order::columns, Order::rows);
  measure(128, 10, 512, Order::rows, Order::rows);
}
