#include "nn/linear.h"

#include "autograd/arithmetic.h"
#include "autograd/matmul.h"
#include "core/raise.h"
#include "nn/init.h"

namespace capstan::nn {

Linear::Linear(int64_t in, int64_t out, LinearOptions options)
    : weight(fan_in_uniform({out, in}, in)) {
  if (options.bias) bias.emplace(fan_in_uniform({out}, in));
}

Tensor Linear::forward(const Tensor& x) {
  if (on_product.empty()) return linear(x, weight, bias ? &*bias : nullptr);
  const Tensor y = detail::replaced(on_product, linear(x, weight));
  return bias ? y + cast(*bias, y.dtype()) : y;  // y may be narrow, inside an Autocast
}

Bilinear::Bilinear(int64_t left, int64_t right, int64_t out, LinearOptions options)
    : weight(fan_in_uniform({out, left, right}, left)) {
  if (options.bias) bias.emplace(fan_in_uniform({out}, left));
}

Tensor Bilinear::forward(const Tensor& a, const Tensor& b) {
  return bilinear(a, b, weight, bias ? &*bias : nullptr);
}

}  // namespace capstan::nn
