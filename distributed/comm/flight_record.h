// Defines FlightRecord: the last calls of a communicator, to be read after a failure.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "distributed/comm/call.h"

namespace capstan::distributed {

/// Keeps the last kLength calls. Safe to use from several threads.
class FlightRecord {
 public:
  static constexpr int64_t kLength = 64;
  enum class State : uint8_t { queued, running, done, failed };

  /// Enters a queued call and returns its number in the record.
  int64_t add(const Call& call);
  void set(int64_t number, State state);

  /// One call a line, the oldest first: "call 12 all_reduce sum float32[10] "bucket 3": running".
  std::string text() const;

 private:
  struct Entry {
    Call call;
    State state;
  };
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // call number i is entry i mod kLength
  int64_t added_ = 0;
};

}  // namespace capstan::distributed
