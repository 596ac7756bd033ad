#include "core/updates.h"

#include <algorithm>

#include "core/backend.h"

namespace capstan {

void apply_updates(std::span<const Update> updates) {
  while (!updates.empty()) {
    const Device device = updates.front().parameter.device();
    const auto other = std::find_if(updates.begin(), updates.end(), [&](const Update& update) {
      return !(update.parameter.device() == device);
    });
    const size_t count = other - updates.begin();
    backend(updates.front().parameter).update(updates.first(count));
    updates = updates.subspan(count);
  }
}

}  // namespace capstan
