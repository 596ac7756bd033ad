// The kernels of the device "meta".
#include <doctest/doctest.h>

#include "core/backend.h"
#include "core/error.h"

using namespace capstan;

TEST_CASE("kernels on meta take shapes and compute nothing") {
  const TensorOptions meta{.device = Device::meta()};
  Backend& b = backend(Device::meta());
  const Tensor big = empty({1 << 20, 1 << 20}, meta);
  b.fill(big, 1);
  b.unary(Unary::exp, big, big);
  b.binary(Binary::add, big, big, big);
  b.matmul(big, big, big);
  b.reduce(Reduction::sum, big, empty({1, 1}, meta));
  CHECK(big.numel() == int64_t{1} << 40);
}

TEST_CASE("a value cannot be computed on meta") {
  const Tensor t = empty({3}, {.device = Device::meta()});
  CHECK_THROWS_AS(backend(t).sum_of_squares(t), DeviceError);
}
