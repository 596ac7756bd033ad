// Storage: ownership, release and refill, versions.
#include "core/storage.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace capstan;

TEST_CASE("storage holds its bytes as long as somebody refers to it") {
  const Device device = Device::cpu(20);
  {
    const Ref<Storage> storage = make_ref<Storage>(1000, device);
    CHECK(storage->data() != nullptr);
    CHECK(storage->bytes() == 1000);
    CHECK(storage->device() == device);
    CHECK(memory_stats(device).current == 1024);
    const Ref<Storage> other = storage;
    CHECK(storage->references() == 2);
  }
  CHECK(memory_stats(device).current == 0);
}

TEST_CASE("release and refill keep the size and the identity") {
  const Device device = Device::cpu(21);
  Storage storage(1000, device);
  storage.release();
  CHECK(storage.data() == nullptr);
  CHECK(storage.bytes() == 1000);
  CHECK(memory_stats(device).current == 0);
  storage.release();  // again: nothing happens
  storage.refill();
  void* const data = storage.data();
  CHECK(data != nullptr);
  storage.refill();
  CHECK(storage.data() == data);
  CHECK(memory_stats(device).current == 1024);
}

TEST_CASE("adopted memory is freed once, by its owner's function") {
  int freed = 0;
  char bytes[100];
  {
    Storage storage(bytes, sizeof bytes, Device::cpu(22), [&] { ++freed; });
    CHECK(storage.data() == bytes);
    CHECK_THROWS_WITH_AS(storage.release(),
                         "[storage] adopted memory cannot be released and refilled", ValueError);
    CHECK(storage.data() == bytes);
    CHECK(freed == 0);
  }
  CHECK(freed == 1);
  CHECK(memory_stats(Device::cpu(22)).allocations == 0);
  { Storage borrowed(bytes, sizeof bytes, Device::cpu(22), nullptr); }
}

TEST_CASE("meta storage has a size and no bytes") {
  Storage storage(int64_t{1} << 50, Device::meta());
  CHECK(storage.data() == nullptr);
  CHECK(storage.bytes() == int64_t{1} << 50);
  storage.release();
  storage.refill();
  CHECK(storage.data() == nullptr);
}

TEST_CASE("versions count writes") {
  Storage storage(8, Device::cpu());
  CHECK(storage.version() == 0);
  storage.bump_version();
  storage.bump_version();
  CHECK(storage.version() == 2);
}
