// Defines Channel, a Transport during one collective: what the algorithms are written on.
//
// It adds what every algorithm needs and none should repeat: the check that all ranks are in the
// same call, the deadline, the traffic counters, scratch memory, and cutting into pieces.
//
// The check: each rank shows its call to its right neighbour, and looks at its left neighbour's
// before it takes in data. If all neighbours agree, all ranks do; if not, at least one rank finds
// out. The call is shown first and looked at late, so a ring, which waits for its left neighbour
// anyway, loses no time. If all ranks share memory, they show it on a board (board.h), else in a
// message. A send or receive shows its call to the other end instead, always in a message.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
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

/// A call did not finish in time, since this rank waited for `peer`.
struct LateError : CommError {
  LateError(const std::string& text, int peer) : CommError(text), peer(peer) {}
  int peer;
};

class Channel {
 public:
  Channel(Transport& transport, const CommOptions& options);

  /// All ranks of the communicator, or those of an Among while it lives.
  int rank() const { return among_ ? place_ : transport_.rank(); }
  int size() const { return among_ ? static_cast<int>(among_->size()) : transport_.size(); }
  int right() const { return (rank() + 1) % size(); }
  int left() const { return (rank() + size() - 1) % size(); }
  Transport& transport() { return transport_; }
  const Call& call() const { return call_; }

  /// While it lives, ranks are counted among `ranks`, this one being one of them: so an algorithm
  /// runs on a part of the ranks.
  class Among {
   public:
    Among(Channel& channel, const std::vector<int>& ranks);
    ~Among() { channel_.among_ = nullptr; }
    Among(const Among&) = delete;
    Among& operator=(const Among&) = delete;

   private:
    Channel& channel_;
  };

  /// The first thing that all ranks do together: finds out which of them can share memory.
  void connect();
  /// The ranks of each host, in order. Ranks that cannot share memory have a host each.
  const std::vector<std::vector<int>>& ranks_by_host() const { return ranks_by_host_; }
  /// Those of this rank's host, and which of them it is.
  const std::vector<int>& here() const { return ranks_by_host_[host_]; }
  int place() const;
  int hosts() const { return static_cast<int>(ranks_by_host_.size()); }
  bool shares_memory() const { return board_ && hosts() == 1; }

  /// Starts to send to another rank; the bytes must stay unchanged until finish().
  void send(int peer, const void* data, int64_t bytes);
  /// Waits for a message of `bytes` bytes from another rank.
  void receive(int peer, void* data, int64_t bytes);
  /// Waits until all bytes sent may be changed. Every algorithm ends with it.
  void finish();

  /// Combines `data` in place by the transport's own all-reduce; it has one.
  void all_reduce_by_transport(Reduce op, Dtype dtype, void* data, int64_t count);

  /// Waits until all bytes sent may be changed; finish() does, unless more calls follow.
  void flush();

  /// For ranks that share memory: returns once all of this host are here.
  void meet();
  /// For the same: where rank r lays out bytes for the others; see Board::stage.
  std::byte* stage(int r, int64_t use) const { return board_->stage(r, use); }
  /// The next use of a stage; all ranks must count alike.
  int64_t next_stage() { return stages_++; }
  /// Counts payload that was moved through shared memory, not by send().
  void count_sent(int64_t bytes) { bytes_sent_.fetch_add(bytes, std::memory_order_relaxed); }

  /// Memory that stays until the end of the collective; a second request may move the first.
  std::byte* scratch(int64_t bytes);

  /// Begins a call; the deadline counts from here. If `more` follow that belong to it, a send need
  /// not wait until its bytes have left.
  void begin(const Call& call, bool more = false);
  /// Gives the scratch memory away; see Progress::on_failure.
  std::vector<std::byte> take_scratch() { return std::move(scratch_); }

  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t messages() const { return messages_; }

 private:
  void find_hosts();
  int left_of_all() const {
    return (transport_.rank() + transport_.size() - 1) % transport_.size();
  }
  int real(int peer) const { return among_ ? (*among_)[peer] : peer; }
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
  bool more_ = false;
  std::deque<Call> posted_;  // calls on their way in messages
  Call theirs_;              // a member: a network may write it late, after a failure
  bool shown_ = false, looked_ = false;
  const std::vector<int>* among_ = nullptr;  // null: all ranks
  int place_ = 0;                            // in it
  std::vector<std::vector<int>> ranks_by_host_;
  int host_ = 0;                  // of this rank, in them
  std::unique_ptr<Board> board_;  // null where ranks cannot share memory
  int64_t stages_ = 0;            // used so far
  std::vector<std::byte> scratch_;
  std::atomic<int64_t> bytes_sent_{0}, messages_{0};
};

}  // namespace capstan::distributed
