// Pooling against a search of each window.
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

struct Pooled {
  Tensor out, chosen;
};

Shape pooled_shape(const Shape& x, const Window2d& w) {
  return {x[0], x[1], w.output_size(0, x[2]), w.output_size(1, x[3])};
}

Pooled pool(const Tensor& x, const Window2d& w) {
  const Shape shape = pooled_shape(x.shape(), w);
  const Pooled result{empty(shape, {.dtype = x.dtype()}), empty(shape, {.dtype = Dtype::int32})};
  cpu().max_pool2d(x, w, result.out, result.chosen);
  return result;
}

}  // namespace

TEST_CASE("pooling takes the first largest element of each window, and its gradient goes there") {
  const std::vector<Window2d> windows = {{{2, 2}, {2, 2}, {0, 0}}, {{3, 3}, {2, 2}, {1, 1}},
                                         {{3, 2}, {1, 3}, {0, 1}}, {{2, 2}, {1, 1}, {0, 0}},
                                         {{2, 2}, {2, 2}, {1, 1}}, {{5, 4}, {4, 4}, {2, 2}}};
  for (const Shape& shape : {Shape{2, 3, 8, 12}, Shape{3, 1, 7, 45}, Shape{1, 2, 5, 4},
                             Shape{0, 2, 6, 6}, Shape{40, 3, 24, 24}}) {
    for (const Window2d& w : windows) {
      for (const Dtype dtype : kFloating) {
        // Few different values, so that there are equal ones to choose from.
        const Tensor x = empty(shape, {.dtype = dtype});
        copy_elements(some_values(shape, Dtype::int64), x);
        const auto values = x.to_vector<double>();
        const auto [out, chosen] = pool(x, w);
        const Tensor grad = some_values(out.shape(), dtype, 2),
                     x_grad = full(shape, NAN, {.dtype = dtype});
        cpu().max_pool2d_grad(grad, chosen, x_grad);

        const auto grads = grad.to_vector<double>();
        std::vector<double> best, places, expected_grad(values.size());
        for_each_index(out.shape(), [&](const Dims& at) {
          const int64_t plane = (at[0] * shape[1] + at[1]) * shape[2] * shape[3];
          double most = -INFINITY;
          int64_t place = -1;
          for (int64_t i = 0; i < w.kernel[0]; ++i) {
            for (int64_t j = 0; j < w.kernel[1]; ++j) {
              const int64_t y = at[2] * w.stride[0] + i - w.padding[0];
              const int64_t z = at[3] * w.stride[1] + j - w.padding[1];
              if (y < 0 || z < 0 || y >= shape[2] || z >= shape[3]) continue;
              if (values[plane + y * shape[3] + z] > most) {
                place = y * shape[3] + z;
                most = values[plane + place];
              }
            }
          }
          expected_grad[plane + place] += grads[best.size()];
          best.push_back(most);
          places.push_back(place);
        });
        CHECK(out.to_vector<double>() == best);
        CHECK(chosen.to_vector<double>() == places);
        CHECK(error_of(x_grad, expected_grad) < 5 * tolerance(dtype));
        check_threads([&] { return pool(x, w).out; });
        check_threads([&] {
          cpu().max_pool2d_grad(grad, chosen, x_grad);
          return dense_copy(x_grad);
        });
      }
    }
  }
}

TEST_CASE("NaN wins its window, -inf can win") {
  for (const int64_t stride : {1, 2}) {
    const Window2d w{{2, 2}, {stride, stride}, {0, 0}};
    for (int place = 0; place < 4; ++place) {
      std::vector<float> values(4, 1);
      values[place] = NAN;
      const auto [out, chosen] = pool(from_vector(values, {1, 1, 2, 2}), w);
      CHECK(std::isnan(out.item<double>()));
      CHECK(chosen.item<int64_t>() == place);
    }
    const auto [out, chosen] = pool(full({1, 1, 2, 2}, -INFINITY), w);
    CHECK(out.item<double>() == -INFINITY);
    CHECK(chosen.item<int64_t>() == 0);
  }
}
