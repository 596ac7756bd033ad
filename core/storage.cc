#include "core/storage.h"

#include "core/raise.h"

namespace capstan {

Storage::Storage(int64_t bytes, Device device) : bytes_(bytes), device_(device) { refill(); }

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> free)
    : data_(data), bytes_(bytes), device_(device), adopted_(true), free_(std::move(free)) {}

Storage::~Storage() {
  if (!adopted_) {
    release();
  } else if (free_) {
    free_();
  }
}

void Storage::release() {
  if (adopted_) raise<ValueError>("[storage] adopted memory cannot be released and refilled");
  if (data_) allocator(device_).deallocate(data_, bytes_);
  data_ = nullptr;
}

void Storage::refill() {
  if (!data_ && device_.kind != Device::Kind::meta) data_ = allocator(device_).allocate(bytes_);
}

}  // namespace capstan
