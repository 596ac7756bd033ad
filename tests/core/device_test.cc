// Devices: their text form, and what happens to those that do not exist.
#include "core/device.h"

#include <doctest/doctest.h>

#include "core/backend.h"
#include "core/error.h"

using namespace capstan;

TEST_CASE("devices are read and written as text") {
  CHECK(Device::parse("cpu") == Device::cpu());
  CHECK(Device::parse("cpu:1") == Device::cpu(1));
  CHECK(Device::parse("cuda:12") == Device::cuda(12));
  CHECK(Device::parse("meta") == Device::meta());
  for (const char* text : {"cpu:0", "cpu:3", "cuda:1", "meta"}) {
    CHECK(to_string(Device::parse(text)) == text);
  }
}

TEST_CASE("anything else is refused with what was read") {
  for (const char* text : {"", "gpu", "cpu:", "cpu:-1", "cpu:1x", "cpu: 1", "CPU", "meta:0",
                           "cuda:1:2", "cpu:99999999999999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(Device::parse(text), DeviceError);
  }
  CHECK_THROWS_WITH(Device::parse("gpu:0"),
                    "[device] expected cpu, cpu:N, cuda:N or meta, got 'gpu:0'");
}

TEST_CASE("devices that cannot be used say why") {
  CHECK_THROWS_AS(allocator(Device::cpu(64)), DeviceError);
  CHECK_THROWS_AS(allocator(Device::cpu(-1)), DeviceError);
  CHECK_THROWS_WITH_AS(empty({2}, {.device = Device::cpu(64)}),
                       "[device] cpu:64 does not exist: there are cpu:0 to cpu:63", DeviceError);
  // CUDA has no kernels yet; a build without it says how to build with it.
  CHECK_THROWS_AS(backend(Device::cuda()), DeviceError);
  CHECK_THROWS_AS(empty({2}, {.device = Device::cuda(1)}), DeviceError);
}

TEST_CASE("all host devices share one backend") {
  CHECK(&backend(Device::cpu(0)) == &backend(Device::cpu(3)));
  CHECK(&backend(Device::cpu()) != &backend(Device::meta()));
}
