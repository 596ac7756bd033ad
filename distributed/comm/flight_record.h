// Defines FlightRecord: the last calls of a communicator, to be read after a failure, and the JSON
// file in which a rank leaves them behind.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "distributed/comm/call.h"
#include "distributed/comm/work.h"

namespace capstan::distributed {

/// Whose calls they are.
struct RecordOwner {
  std::string communicator;  // its name
  int rank;
  std::vector<std::string> hosts;  // of all ranks
};

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
  /// The same for programs: an object with the owner, the failure (null: there is none), and an
  /// object a call. Times are seconds since 1970.
  std::string json(const RecordOwner& owner, const std::string& failure) const;

  /// The file of an owner in `folder`: FOLDER/COMMUNICATOR-rank-R.json.
  static std::string path(const std::string& folder, const RecordOwner& owner);
  /// Writes such a text, and makes the folder if need be. Throws IoError.
  static void save(const std::string& path, const std::string& json);

 private:
  struct Entry {
    Call call;
    State state;
    Clock::time_point queued, started, finished;  // zero: not yet
  };
  template <class F>
  void for_each(const F& f) const;  // the oldest first

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // call number i is entry i mod kLength
  int64_t added_ = 0;
};

}  // namespace capstan::distributed
