// Implements FlightRecord.
#include "distributed/comm/flight_record.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/raise.h"

namespace capstan::distributed {
namespace {

using Json = nlohmann::ordered_json;

const char* to_string(FlightRecord::State state) {
  static constexpr const char* kNames[] = {"queued", "running", "done", "failed"};
  return kNames[static_cast<int>(state)];
}

// Seconds since 1970 at a time of the steady clock; null for a time that has not come.
Json unix_seconds(Clock::time_point time) {
  if (time == Clock::time_point{}) return nullptr;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now - (Clock::now() - time)).count();
}

}  // namespace

int64_t FlightRecord::add(const Call& call) {
  std::lock_guard lock(mutex_);
  if (added_ < kLength) entries_.emplace_back();
  entries_[added_ % kLength] = {call, State::queued, Clock::now(), {}, {}};
  return added_++;
}

void FlightRecord::set(int64_t number, State state) {
  std::lock_guard lock(mutex_);
  if (number < added_ - kLength) return;
  Entry& entry = entries_[number % kLength];
  entry.state = state;
  (state == State::running ? entry.started : entry.finished) = Clock::now();
}

template <class F>
void FlightRecord::for_each(const F& f) const {
  std::lock_guard lock(mutex_);
  for (int64_t i = std::max<int64_t>(0, added_ - kLength); i < added_; ++i)
    f(entries_[i % kLength]);
}

std::string FlightRecord::text() const {
  std::string text;
  for_each([&](const Entry& entry) {
    text += distributed::to_string(entry.call) + ": " + to_string(entry.state) + "\n";
  });
  return text;
}

std::string FlightRecord::json(const RecordOwner& owner, const std::string& failure) const {
  Json calls = Json::array();
  for_each([&](const Entry& entry) {
    const Call& call = entry.call;
    calls.push_back({{"sequence", call.sequence},
                     {"kind", distributed::to_string(call.kind)},
                     {"op", call.has_op ? Json(distributed::to_string(call.op)) : Json()},
                     {"dtype", capstan::to_string(call.dtype)},
                     {"count", call.count},
                     {"root", call.root >= 0 ? Json(call.root) : Json()},
                     {"tag", call.tag},
                     {"state", to_string(entry.state)},
                     {"queued", unix_seconds(entry.queued)},
                     {"started", unix_seconds(entry.started)},
                     {"finished", unix_seconds(entry.finished)}});
  });
  const Json file = {{"communicator", owner.communicator},
                     {"rank", owner.rank},
                     {"hosts", owner.hosts},
                     {"saved", unix_seconds(Clock::now())},
                     {"failure", failure.empty() ? Json() : Json(failure)},
                     {"calls", calls}};
  // A tag or a message may hold any bytes.
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string FlightRecord::path(const std::string& folder, const RecordOwner& owner) {
  return fmt::format("{}/{}-rank-{}.json", folder, owner.communicator, owner.rank);
}

void FlightRecord::save(const std::string& path, const std::string& json) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder, error);
  if (error) raise<IoError>("[flight_record] cannot make {}: {}", folder.string(), error.message());
  write_atomically(path, [&](std::ostream& out) { out << json; });
}

}  // namespace capstan::distributed
