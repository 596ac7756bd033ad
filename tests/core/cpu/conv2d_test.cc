// Convolution and its gradients against the definition, one multiplication after another, in
// float64.
#include "tests/core/cpu/reference.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

struct Case {
  Shape x, weight;
  Window2d window;

  Shape out() const {
    return {x[0], weight[0], window.output_size(0, x[2]), window.output_size(1, x[3])};
  }
};

Window2d window(int64_t ky, int64_t kx, int64_t sy, int64_t sx, int64_t py, int64_t px) {
  return {{ky, kx}, {sy, sx}, {py, px}};
}

const std::vector<Case> kCases = {
    {{2, 1, 9, 8}, {3, 1, 3, 3}, window(3, 3, 1, 1, 0, 0)},
    {{5, 3, 12, 11}, {4, 3, 5, 5}, window(5, 5, 1, 1, 0, 0)},
    {{3, 2, 7, 9}, {5, 2, 3, 3}, window(3, 3, 1, 1, 1, 1)},
    {{3, 2, 7, 9}, {5, 2, 3, 3}, window(3, 3, 2, 2, 1, 1)},
    {{2, 3, 8, 10}, {7, 3, 2, 4}, window(2, 4, 3, 2, 1, 2)},
    {{4, 6, 5, 5}, {2, 6, 1, 1}, window(1, 1, 1, 1, 0, 0)},
    {{2, 2, 3, 3}, {2, 2, 5, 5}, window(5, 5, 1, 1, 4, 4)},
    {{1, 1, 1, 1}, {1, 1, 3, 3}, window(3, 3, 2, 2, 3, 3)},
    {{70, 1, 28, 28}, {20, 1, 5, 5}, window(5, 5, 1, 1, 0, 0)},
    {{19, 20, 12, 12}, {50, 20, 5, 5}, window(5, 5, 1, 1, 0, 0)},
    {{3, 5, 33, 40}, {9, 5, 3, 3}, window(3, 3, 1, 1, 1, 1)},
};

/// Calls f(output place, input place, weight place) for every multiplication of a convolution.
template <class F>
void for_each_product(const Case& c, const F& f) {
  const auto [n, channels, height, width] = std::array{c.x[0], c.x[1], c.x[2], c.x[3]};
  const Shape out = c.out();
  const auto& [kernel, stride, padding, dilation] = c.window;
  for (int64_t image = 0; image < n; ++image)
    for (int64_t o = 0; o < out[1]; ++o)
      for (int64_t y = 0; y < out[2]; ++y)
        for (int64_t x = 0; x < out[3]; ++x)
          for (int64_t ch = 0; ch < channels; ++ch)
            for (int64_t i = 0; i < kernel[0]; ++i)
              for (int64_t j = 0; j < kernel[1]; ++j) {
                const int64_t iy = y * stride[0] + i * dilation[0] - padding[0];
                const int64_t ix = x * stride[1] + j * dilation[1] - padding[1];
                if (iy < 0 || ix < 0 || iy >= height || ix >= width) continue;
                f(((image * out[1] + o) * out[2] + y) * out[3] + x,
                  ((image * channels + ch) * height + iy) * width + ix,
                  ((o * channels + ch) * kernel[0] + i) * kernel[1] + j);
              }
}

}  // namespace

TEST_CASE("convolution and its gradients match the definition, on any number of threads") {
  for (const Case& c : kCases) {
    for (const Dtype dtype : kFloating) {
      CAPTURE(to_string(c.x));
      CAPTURE(to_string(dtype));
      const TensorOptions options{.dtype = dtype};
      const Tensor x = some_values(c.x, dtype, 1), weight = some_values(c.weight, dtype, 2);
      const Tensor bias = some_values({c.weight[0]}, dtype, 3),
                   grad = some_values(c.out(), dtype, 4);
      const auto xs = x.to_vector<double>(), ws = weight.to_vector<double>();
      const auto bs = bias.to_vector<double>(), gs = grad.to_vector<double>();
      std::vector<double> out(numel(c.out())), dx(xs.size()), dw(ws.size());
      for_each_product(c, [&](int64_t at, int64_t in, int64_t w) {
        out[at] += xs[in] * ws[w];
        dx[in] += gs[at] * ws[w];
        dw[w] += gs[at] * xs[in];
      });

      const auto forward = [&](const Tensor* shift) {
        const Tensor result = full(c.out(), NAN, options);
        cpu().conv2d(x, weight, shift, c.window, result);
        return result;
      };
      const auto input_grad = [&] {
        const Tensor result = full(c.x, NAN, options);
        cpu().conv2d_input_grad(grad, weight, c.window, result);
        return result;
      };
      const auto weight_grad = [&] {
        const Tensor result = full(c.weight, NAN, options);
        cpu().conv2d_weight_grad(grad, x, c.window, result);
        return result;
      };
      // Rounding grows with the square root of the terms in a sum.
      const auto allowed = [&](double terms) {
        return (5 + 3 * std::sqrt(terms)) * tolerance(dtype);
      };
      const double patch = ws.size() / c.weight[0], places = out.size() / c.weight[0];
      CHECK(error_of(forward(nullptr), out) < allowed(patch));
      CHECK(error_of(input_grad(), dx) < allowed(patch * c.weight[0]));
      CHECK(error_of(weight_grad(), dw) < allowed(places));
      const int64_t pixels = c.out()[2] * c.out()[3];
      for (size_t i = 0; i < out.size(); ++i) out[i] += bs[i / pixels % c.weight[0]];
      CHECK(error_of(forward(&bias), out) < allowed(patch));

      check_threads([&] { return forward(&bias); });
      check_threads(input_grad);
      check_threads(weight_grad);
    }
  }
}

TEST_CASE("convolution of no images") {
  const Window2d w = window(3, 3, 1, 1, 0, 0);
  const Tensor x = empty({0, 2, 5, 5}), weight = some_values({4, 2, 3, 3}),
               out = empty({0, 4, 3, 3});
  cpu().conv2d(x, weight, nullptr, w, out);
  cpu().conv2d_input_grad(out, weight, w, x);
  const Tensor weight_grad = full({4, 2, 3, 3}, NAN);
  cpu().conv2d_weight_grad(out, x, w, weight_grad);
  CHECK(weight_grad.to_vector<double>() == std::vector<double>(72, 0));
}
