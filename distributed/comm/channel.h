// Defines Channel, a Transport during one collective: what the algorithms are written on.
//
// It adds what every algorithm needs and none should repeat: the check that all ranks are in the
// same call, the deadline, the traffic counters, scratch memory, and cutting into pieces.
//
// The check: each rank shows its call to its right neighbour, and looks at its left neighbour's
// before it takes in data. If all neighbours agree, all ranks do; if not, at least one rank finds
// out. The call is shown first and looked at late, so a ring, which waits for its left neighbour
// anyway, loses no time. Ranks of one host show it on a board (board.h), others in a message. A
// send or receive shows its call to the other end instead, always in a message.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "distributed/comm/board.h"
#include "distributed/comm/call.h"
#include "distributed/comm/transport.h"

namespace capstan::distributed {

/// The ranks' calls differ: the error that explains all others that may come of it.
struct MismatchError : CommError {
  using CommError::CommError;
};

class Channel {
 public:
  Channel(Transport& transport, const CommOptions& options);

  int rank() const { return transport_.rank(); }
  int size() const { return transport_.size(); }
  int right() const { return (rank() + 1) % size(); }
  int left() const { return (rank() + size() - 1) % size(); }
  Transport& transport() { return transport_; }
  const Call& call() const { return call_; }

  /// The first thing that all ranks do together: finds out whether they can share memory.
  void connect();
  bool shares_memory() const { return board_ != nullptr; }

  /// Starts to send to another rank; the bytes must stay unchanged until finish().
  void send(int peer, const void* data, int64_t bytes);
  /// Waits for a message of `bytes` bytes from another rank.
  void receive(int peer, void* data, int64_t bytes);
  /// Waits until all bytes sent may be changed. Every algorithm ends with it.
  void finish();

  /// For ranks that share memory: returns once all of them are here.
  void meet();
  /// For the same: where rank r lays out bytes for the others; see Board::stage.
  std::byte* stage(int r, int64_t use) const { return board_->stage(r, use); }
  /// The next use of a stage; all ranks must count alike.
  int64_t next_stage() { return stages_++; }
  /// Counts payload that was moved through shared memory, not by send().
  void count_sent(int64_t bytes) { bytes_sent_.fetch_add(bytes, std::memory_order_relaxed); }

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
  void compare_calls(int peer, const Call& theirs) const;
  template <class F>
  void wait_for(int peer, const F& ready);
  [[noreturn]] void timed_out(int peer) const;

  Transport& transport_;
  const CommOptions options_;
  Call call_;
  Clock::time_point deadline_;
  Call theirs_;  // a member: a network may write it late, after a failure
  bool shown_ = false, looked_ = false;
  std::unique_ptr<Board> board_;  // null where ranks cannot share memory
  int64_t stages_ = 0;            // used so far
  std::vector<std::byte> scratch_;
  std::atomic<int64_t> bytes_sent_{0}, messages_{0};
};

}  // namespace capstan::distributed
