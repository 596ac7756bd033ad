// Defines Channel, a Transport during one collective: what the algorithms are written on.
//
// It adds what every algorithm needs and none should repeat: the check that all ranks are in the
// same call, the deadline, the traffic counters, scratch memory, and cutting into pieces.
//
// The check: each rank shows its call to its right neighbour, and looks at its left neighbour's
// before it takes in data. If all neighbours agree, all ranks do; if not, at least one rank finds
// out. The header goes out first and is looked at late, so a ring, which waits for its left
// neighbour anyway, loses no time. A send or receive shows its call to the other end instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "distributed/comm/call.h"
#include "distributed/comm/transport.h"

namespace capstan::distributed {

/// The ranks' calls differ: the error that explains all others that may come of it.
struct MismatchError : CommError {
  using CommError::CommError;
};

class Channel {
 public:
  Channel(Transport& transport, std::chrono::milliseconds timeout);

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  int right() const { return (rank() + 1) % size(); }
  int left() const { return (rank() + size() - 1) % size(); }
  Transport& transport() { return transport_; }
  const Call& call() const { return call_; }

  /// Starts to send to another rank; the bytes must stay unchanged until finish().
  void send(int peer, const void* data, int64_t bytes);
  /// Waits for a message of `bytes` bytes from another rank.
  void receive(int peer, void* data, int64_t bytes);
  /// Waits until all bytes sent may be changed. Every algorithm ends with it.
  void finish();

  /// Memory that stays until the end of the collective; a second request may move the first.
  std::byte* scratch(int64_t bytes);

  /// Begins a collective; the deadline counts from here.
  void begin(const Call& call);
  /// Gives the scratch memory away; see Progress::on_failure.
  std::vector<std::byte> take_scratch() { return std::move(scratch_); }

  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t messages() const { return messages_; }

 private:
  void show_call(int peer);  // unless it has been shown
  void look_at_call(int peer);
  [[noreturn]] void timed_out(int peer) const;

  Transport& transport_;
  const std::chrono::milliseconds timeout_;
  Call call_;
  Clock::time_point deadline_;
  Call theirs_;  // a member: a network may write it late, after a failure
  bool shown_ = false, looked_ = false;
  std::vector<std::byte> scratch_;
  std::atomic<int64_t> bytes_sent_{0}, messages_{0};
};

}  // namespace capstan::distributed
