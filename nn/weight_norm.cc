#include "nn/weight_norm.h"

#include "autograd/elementwise.h"
#include "autograd/reduce.h"

namespace capstan::nn::detail {

void Replacing::parameter(const std::string& name, Parameter& parameter) {
  if (&parameter != &weight_) return visitor_.parameter(name, parameter);
  visitor_.parameter(name + "_g", g_);
  visitor_.parameter(name + "_v", v_);
}

Tensor weight_lengths(const Tensor& weight, std::optional<int64_t> axis) {
  Shape shape;
  if (axis) {
    const int kept = normalize_axis("weight_norm", *axis, weight.rank());
    shape = Dims::filled(weight.rank(), 1);
    shape[kept] = weight.size(kept);
  }
  return no_grad([&] { return sqrt(sum_to(square(weight), shape)); });
}

}  // namespace capstan::nn::detail
