// core/cuda/device.h in a build with or without CUDA, on a machine with or without a GPU: the count
// and the sentence must agree, and nothing may throw.
#include "core/cuda/device.h"

#include <doctest/doctest.h>

using namespace capstan;

TEST_CASE("the description says why there are no devices, or names each") {
  const int count = cuda_device_count();
  const std::string text = cuda_description();
  INFO(text);
  CHECK(count >= 0);
  CHECK((text.find("no devices: ") != std::string::npos ||
         text.find("build with --config=cuda") != std::string::npos) == (count == 0));
  for (int i = 0; i < count; ++i) {
    CHECK(text.find("cuda:" + std::to_string(i) + " ") != std::string::npos);
  }
}
