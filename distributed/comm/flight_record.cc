// Implements FlightRecord.
#include "distributed/comm/flight_record.h"

#include <algorithm>

namespace capstan::distributed {

int64_t FlightRecord::add(const Call& call) {
  std::lock_guard lock(mutex_);
  if (added_ < kLength) entries_.emplace_back();
  entries_[added_ % kLength] = {call, State::queued};
  return added_++;
}

void FlightRecord::set(int64_t number, State state) {
  std::lock_guard lock(mutex_);
  if (number >= added_ - kLength) entries_[number % kLength].state = state;
}

std::string FlightRecord::text() const {
  static constexpr const char* kStates[] = {"queued", "running", "done", "failed"};
  std::lock_guard lock(mutex_);
  std::string text;
  for (int64_t i = std::max<int64_t>(0, added_ - kLength); i < added_; ++i) {
    const Entry& entry = entries_[i % kLength];
    text += to_string(entry.call) + ": " + kStates[static_cast<int>(entry.state)] + "\n";
  }
  return text;
}

}  // namespace capstan::distributed
