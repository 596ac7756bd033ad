// Implements Board.
#include "distributed/comm/board.h"

namespace capstan::distributed {

void Board::show(const Call& call) {
  Section& mine = section(rank_);
  mine.calls[call.sequence % kCalls] = call;
  mine.shown.store(call.sequence, std::memory_order_release);
}

bool Board::has_room(int64_t sequence, int reader) const {
  return section(reader).read.load(std::memory_order_acquire) > sequence - kCalls;
}

bool Board::shows(int rank, int64_t sequence) const {
  return section(rank).shown.load(std::memory_order_acquire) >= sequence;
}

Call Board::read(int rank, int64_t sequence) {
  const Call call = section(rank).calls[sequence % kCalls];
  section(rank_).read.store(sequence, std::memory_order_release);
  return call;
}

void Board::arrive() {
  std::atomic<int64_t>& count = section(rank_).arrived;
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool Board::has_arrived(int rank) const {
  return section(rank).arrived.load(std::memory_order_acquire) >=
         section(rank_).arrived.load(std::memory_order_relaxed);
}

}  // namespace capstan::distributed
