// What Capstan costs over the arithmetic itself: one-element operations, and a training step of an
// MLP beside its matrix products written by hand with Eigen. One thread.
//
// Claims: an add of two one-element tensors at most 150 ns, with recording at most 250 ns; the step
// at most 10 % over the products.
#include <fmt/format.h>

#include <Eigen/Core>

#include "autograd/elementwise.h"
#include "autograd/engine.h"
#include "autograd/softmax.h"
#include "benchmarks/timing.h"
#include "core/random.h"
#include "models/mlp.h"
#include "optim/sgd.h"

using namespace capstan;
using namespace capstan::benchmarks;

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The products of one step of 784-512-512-10 at `batch` rows: forward, weight gradients, and input
/// gradients of all layers but the first.
class HandWritten {
 public:
  explicit HandWritten(int64_t batch) {
    const int sizes[] = {784, 512, 512, 10};
    x_.push_back(Matrix::Random(batch, sizes[0]));
    for (int l = 0; l < 3; ++l) {
      weight_.push_back(Matrix::Random(sizes[l + 1], sizes[l]));
      weight_grad_.push_back(Matrix(sizes[l + 1], sizes[l]));
      x_.push_back(Matrix(batch, sizes[l + 1]));
    }
    for (const Matrix& x : x_) grad_.push_back(Matrix::Random(x.rows(), x.cols()));
  }

  void step() {
    for (int l = 0; l < 3; ++l) x_[l + 1].noalias() = x_[l] * weight_[l].transpose();
    for (int l = 2; l >= 0; --l) {
      weight_grad_[l].noalias() = grad_[l + 1].transpose() * x_[l];
      if (l > 0) grad_[l].noalias() = grad_[l + 1] * weight_[l];
    }
  }

 private:
  std::vector<Matrix> x_, weight_, weight_grad_, grad_;
};

}  // namespace

int main() {
  set_thread_count(1);
  const Tensor a = ones({1}), b = ones({1}), w = require_grad(ones({1}));
  fmt::print("add of one-element tensors      {:8.1f} ns\n",
             1e9 * median_seconds([&] { add(a, b); }));
  fmt::print("the same, recorded on the tape  {:8.1f} ns\n",
             1e9 * median_seconds([&] { add(w, b); }));
  fmt::print("1,000 adds, forward, backward   {:8.1f} us\n", 1e6 * median_seconds([&] {
                                                               Tensor c = w;
                                                               for (int i = 0; i < 1000; ++i)
                                                                 c = add(c, b);
                                                               backward(c);
                                                               zero_grad(w);
                                                             }));

  for (const int64_t batch : {128, 32}) {
    models::Mlp model;
    optim::Sgd sgd(model.parameters());
    const Tensor images = randn({batch, 1, 28, 28});
    const Tensor labels = zeros({batch}, {.dtype = Dtype::int64});
    HandWritten products(batch);
    const auto [ours, eigen] = median_seconds_of_two(
        [&] {
          backward(cross_entropy(model(images), labels));
          sgd.step(1e-4);
          sgd.zero_grad();
        },
        [&] { products.step(); }, 6);
    fmt::print(
        "MLP 784-512-512-10, batch {:3}: step {:.3f} ms, its products with Eigen {:.3f} ms, "
        "+{:.1f} %\n",
        batch, 1e3 * ours, 1e3 * eigen, 100 * (ours / eigen - 1));
  }
}
