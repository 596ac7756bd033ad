#include "autograd/autocast.h"

#include <utility>

#include "autograd/arithmetic.h"

namespace capstan {

namespace detail {
constinit thread_local std::optional<Dtype> autocasting;
}  // namespace detail

Autocast::Autocast(Dtype dtype) : Autocast(std::optional(dtype)) {}

Autocast::Autocast(std::optional<Dtype> dtype) {
  if (dtype && !is_half(*dtype)) wrong_dtype("autocast", "bfloat16 or float16", *dtype);
  before_ = std::exchange(detail::autocasting, dtype);
}

Autocast::~Autocast() { detail::autocasting = before_; }

std::optional<Dtype> autocast_dtype() { return detail::autocasting; }

Tensor Autocasting::narrow(const Tensor& x) const {
  return is_floating(x.dtype()) && x.dtype() != Dtype::float64 ? cast(x, *dtype_) : x;
}

Tensor Autocasting::wide(const Tensor& x) const { return cast(x, compute_dtype(x.dtype())); }

}  // namespace capstan
