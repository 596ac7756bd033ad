// Defines Ref<T>, an intrusive reference: the count lives in the object, so that a tensor handle is
// one pointer and making one is one allocation.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace capstan {

/// Base of objects held by Ref. Copying an object does not copy its count.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) {}
  RefCounted& operator=(const RefCounted&) { return *this; }
  virtual ~RefCounted() = default;

  /// How many Refs hold this object.
  int64_t references() const { return count_.load(std::memory_order_acquire); }

 protected:
  /// Runs when the last Ref goes. A class whose objects form long chains overrides it, so that a
  /// chain is not destroyed by recursion.
  virtual void destroy() { delete this; }

 private:
  template <class T>
  friend class Ref;
  mutable std::atomic<int64_t> count_{0};
};

/// A shared, possibly empty, reference to a RefCounted object. Safe to copy across threads; one Ref
/// itself must not be changed by two threads at once.
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* object) : object_(object) { retain(); }
  Ref(const Ref& other) : object_(other.object_) { retain(); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  Ref(const Ref<U>& other) : object_(other.get()) {
    retain();
  }
  ~Ref() { release(); }

  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  void retain() {
    if (object_) static_cast<RefCounted*>(object_)->count_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() {
    if (object_ &&
        static_cast<RefCounted*>(object_)->count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      static_cast<RefCounted*>(object_)->destroy();
    }
  }
  T* object_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_ref(Args&&... args) {
  return Ref<T>(new T(std::forward<Args>(args)...));
}

}  // namespace capstan
