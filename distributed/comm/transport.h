// Defines Transport, the wires between ranks: what a new way of communicating has to implement.
//
// It moves bytes between two ranks and knows nothing of tensors or collectives; the algorithms
// (ring.h and its kind) are written once, as straight blocking code, on top of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distributed/comm/communicator.h"
#include "distributed/comm/notice.h"
#include "distributed/comm/pause.h"
#include "distributed/comm/work.h"

namespace capstan::distributed {

/// The most bytes of one message; Channel cuts longer ones. Small enough that a receiver works on
/// one piece, still in its cache, while the next is on its way.
inline constexpr int64_t kPieceBytes = 128 << 10;

/// Thrown by a wait because a notice has come or interrupt() was called.
struct Interrupted {};

/// When a disturbed wait gives up: not at once, since the call may still be able to finish. A rank
/// that fails right after a collective must not take away the result from those that are a little
/// behind.
class Patience {
 public:
  /// To be asked while disturbed; false for 100 ms from the first time.
  bool over() {
    if (end_ == Clock::time_point{}) end_ = Clock::now() + std::chrono::milliseconds(100);
    return Clock::now() > end_;
  }
  Clock::time_point end() const { return end_; }

 private:
  Clock::time_point end_{};
};

/// Messages between two ranks arrive in the order in which they were posted. One thread at a time
/// makes the calls (the runner of Progress), except that any thread may call interrupt().
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& host(int rank) const = 0;
  virtual int local_rank() const = 0;
  /// "rank 2 on h3"
  std::string name(int rank) const;

  /// Starts to send at most kPieceBytes to a peer, another rank. The bytes must stay unchanged
  /// until flush() or abandon().
  virtual void post(int peer, const void* data, int64_t bytes) = 0;
  /// Waits for the next message from a peer, which has exactly `bytes` bytes. False when the
  /// deadline has passed. Throws Interrupted. A wait leaves its core to others.
  virtual bool receive(int peer, void* data, int64_t bytes, Clock::time_point deadline) = 0;
  /// Waits until the posted bytes may change. Returns a peer that has not taken its message when
  /// the deadline has passed, else -1. Throws Interrupted.
  virtual int flush(Clock::time_point deadline) = 0;
  /// After a failure: gives up all messages as far as possible. Progress never frees the memory of
  /// the call that failed, since a network may go on reading or writing it.
  virtual void abandon() = 0;

  /// Tells all other ranks, without waiting for them.
  virtual void notify(const Notice& notice) = 0;
  /// Tells one rank what another one said, where the two may not reach each other.
  virtual void forward(int /*peer*/, const Notice& /*notice*/) {}
  /// The notices that have come since the last call.
  virtual std::vector<Notice> notices() = 0;
  /// True if there are such notices, or interrupt() was called.
  virtual bool disturbed() = 0;
  /// True if the rank's process is known to have ended without a word, or its link to be cut: this
  /// is a disturbance, too.
  virtual bool is_lost(int /*rank*/) const { return false; }
  /// Makes the present or next wait throw Interrupted.
  virtual void interrupt() = 0;

  /// Waits, looking again and again, until ready(); false when the deadline has passed. Throws
  /// Interrupted.
  template <class F>
  bool wait_until(Clock::time_point deadline, const F& ready) {
    for (Pause pause; !ready(); pause()) {
      if (disturbed() && patience_.over()) throw Interrupted{};
      if (Clock::now() > deadline) return false;
    }
    return true;
  }

  /// Whether all_reduce() is there: the library's own, which combines `data` of all ranks in place,
  /// the same to the bit on all. False when the deadline has passed. Throws Interrupted.
  virtual bool has_all_reduce() const { return false; }
  virtual bool all_reduce(Reduce /*op*/, Dtype /*dtype*/, void* /*data*/, int64_t /*count*/,
                          Clock::time_point /*deadline*/) {
    return false;
  }

  /// What rank 0 calls a split, its call being number `sequence` here.
  virtual int64_t number_of_split(int64_t sequence) { return sequence; }
  /// The part of a split that this rank belongs to, or null for a negative color. colors and keys
  /// are those of all ranks.
  virtual std::unique_ptr<Transport> split(const std::vector<int>& colors,
                                           const std::vector<int>& keys, int64_t number) = 0;

 protected:
  /// The ranks of one color of a split, in the order of the part.
  static std::vector<int> members_of(int color, const std::vector<int>& colors,
                                     const std::vector<int>& keys);
  /// Throws CommError if a message from a peer has another size than this rank expected.
  void check_size(int peer, int64_t sent, int64_t expected) const;

  Patience patience_;
};

}  // namespace capstan::distributed
