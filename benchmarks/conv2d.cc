// How fast the convolution kernels are, next to a plain Eigen product of the same size on
// ready-made columns: the price of im2col, of thin layers and of NCHW. The layers of Caffe's LeNet
// at batch 64 and a layer of ResNet-18 for CIFAR.
//
//   benchmarks/conv2d [threads]
#include <fmt/format.h>

#include <Eigen/Core>
#include <cstdlib>

#include "benchmarks/timing.h"
#include "core/backend.h"
#include "core/random.h"
#include "core/threads.h"

using namespace capstan;

namespace {

struct Layer {
  const char* name;
  int64_t images, channels, size, outputs, kernel, padding;
};

/// Milliseconds of one Eigen product with the layer's operations.
double plain_product(int64_t m, int64_t k, int64_t n) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Matrix a = Matrix::Random(m, k), b = Matrix::Random(k, n);
  Matrix c(m, n);
  return 1e3 * benchmarks::median_seconds([&] { c.noalias() = a * b; });
}

void measure(const Layer& l) {
  const Window2d w{{l.kernel, l.kernel}, {1, 1}, {l.padding, l.padding}};
  const int64_t out_size = w.output_size(0, l.size), patch = l.channels * l.kernel * l.kernel;
  const Tensor x = randn({l.images, l.channels, l.size, l.size});
  const Tensor weight = randn({l.outputs, l.channels, l.kernel, l.kernel});
  const Tensor bias = randn({l.outputs}), grad = randn({l.images, l.outputs, out_size, out_size});
  const Tensor out = empty_like(grad), x_grad = empty_like(x), weight_grad = empty_like(weight);
  Backend& b = backend(x);

  const double gflop = 2e-9 * l.images * l.outputs * patch * out_size * out_size;
  const auto report = [&](const char* what, double ms) {
    fmt::print("{:<26} {:<16} {:>8.3f} ms {:>7.1f} GFLOP/s\n", l.name, what, ms, gflop / ms * 1e3);
  };
  const auto time = [](const auto& f) { return 1e3 * benchmarks::median_seconds(f); };
  report("plain product", plain_product(l.outputs, patch, l.images * out_size * out_size));
  report("forward", time([&] { b.conv2d(x, weight, &bias, w, out); }));
  report("weight gradient", time([&] { b.conv2d_weight_grad(grad, x, w, weight_grad); }));
  report("input gradient", time([&] { b.conv2d_input_grad(grad, weight, w, x_grad); }));
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(argc > 1 ? std::atoi(argv[1]) : 1);
  for (const Layer& layer : {Layer{"lenet 64x1x28x28 -> 20", 64, 1, 28, 20, 5, 0},
                             Layer{"lenet 64x20x12x12 -> 50", 64, 20, 12, 50, 5, 0},
                             Layer{"resnet 32x64x32x32 -> 64", 32, 64, 32, 64, 3, 1}}) {
    measure(layer);
  }
}
