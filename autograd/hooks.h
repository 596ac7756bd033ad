// Defines HookList, a list of callbacks, and HookHandle, which removes one again.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace capstan {

/// Owns the registration of one hook: the hook is removed when the handle goes.
class [[nodiscard]] HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  HookHandle(HookHandle&& other) noexcept : remove_(std::exchange(other.remove_, nullptr)) {}
  HookHandle& operator=(HookHandle&& other) noexcept {
    HookHandle taken(std::move(other));
    std::swap(remove_, taken.remove_);  // `taken` removes the hook that was held before
    return *this;
  }
  ~HookHandle() { remove(); }

  /// Removes the hook now; harmless if the list is gone or it was removed before.
  void remove() {
    if (auto remove = std::exchange(remove_, nullptr)) remove();
  }

 private:
  std::function<void()> remove_;
};

/// Callbacks of one signature, run in the order in which they were added. A hook may remove itself
/// or add others while it runs. Not for use by two threads at once.
template <class Signature>
class HookList {
  using Hook = std::shared_ptr<std::function<Signature>>;

 public:
  HookHandle add(std::function<Signature> hook) {
    if (!hooks_) hooks_ = std::make_shared<std::vector<Hook>>();
    auto entry = std::make_shared<std::function<Signature>>(std::move(hook));
    hooks_->push_back(entry);
    return HookHandle([list = std::weak_ptr(hooks_), entry] {
      if (auto hooks = list.lock()) std::erase(*hooks, entry);
    });
  }

  bool empty() const { return !hooks_ || hooks_->empty(); }

  /// Calls visit(hook) for each hook that was in the list at the start.
  template <class Visit>
  void for_each(const Visit& visit) const {
    if (empty()) return;
    for (const Hook& hook : std::vector<Hook>(*hooks_)) visit(*hook);
  }

 private:
  std::shared_ptr<std::vector<Hook>> hooks_;  // shared so that a handle can outlive the list
};

}  // namespace capstan
