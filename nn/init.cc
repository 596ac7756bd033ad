#include "nn/init.h"

#include <cmath>

#include "core/raise.h"

namespace capstan::nn {

Tensor fan_in_uniform(const Shape& shape, int64_t fan_in, Generator& generator) {
  if (fan_in < 1) raise<ValueError>("[init] a layer needs at least one input, got {}", fan_in);
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  return rand(shape, -bound, bound, {}, generator);
}

}  // namespace capstan::nn
