// Defines Scratch, a kernel's temporary memory, taken from the caching allocator.
#pragma once

#include "core/allocator.h"

namespace capstan::cpu {

/// `count` uninitialised elements, given back at the end of the scope.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * sizeof(T)), data_(allocator(Device::cpu()).allocate(bytes_)) {}
  ~Scratch() { allocator(Device::cpu()).deallocate(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() const { return static_cast<T*>(data_); }

 private:
  int64_t bytes_;
  void* data_;
};

}  // namespace capstan::cpu
