// Implements Channel.
#include "distributed/comm/channel.h"

#include <algorithm>

#include "core/raise.h"

namespace capstan::distributed {

Channel::Channel(Transport& transport, std::chrono::milliseconds timeout)
    : transport_(transport), timeout_(timeout) {}

void Channel::begin(const Call& call) {
  call_ = call;
  deadline_ = Clock::now() + timeout_;
  greeted_.assign(size(), false);
  heard_.assign(size(), false);
}

void Channel::send(int peer, const void* data, int64_t bytes) {
  if (!greeted_[peer]) {
    greeted_[peer] = true;
    transport_.post(peer, &call_, sizeof call_);
  }
  const auto* from = static_cast<const std::byte*>(data);
  int64_t done = 0;
  do {
    const int64_t piece = std::min(bytes - done, kPieceBytes);
    transport_.post(peer, from + done, piece);
    done += piece;
    messages_.fetch_add(1, std::memory_order_relaxed);
  } while (done < bytes);
  bytes_sent_.fetch_add(bytes, std::memory_order_relaxed);
}

void Channel::receive(int peer, void* data, int64_t bytes) {
  if (!heard_[peer]) {
    // The sender posted header and data together, so looking at the header first costs no time.
    heard_[peer] = true;
    if (!transport_.receive(peer, &theirs_, sizeof theirs_, deadline_)) timed_out(peer);
    check(theirs_, peer);
  }
  auto* to = static_cast<std::byte*>(data);
  int64_t done = 0;
  do {
    const int64_t piece = std::min(bytes - done, kPieceBytes);
    if (!transport_.receive(peer, to + done, piece, deadline_)) timed_out(peer);
    done += piece;
  } while (done < bytes);
}

void Channel::finish() {
  const int late = transport_.flush(deadline_);
  if (late >= 0) timed_out(late);
}

std::byte* Channel::scratch(int64_t bytes) {
  if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

void Channel::check(const Call& theirs, int peer) const {
  if (same_call(call_, theirs)) return;
  // Both ends may find the difference: name the lower rank first, so that they use the same words.
  const bool first = rank() < peer;
  raise<CommError>(
      "[{}] the ranks' calls differ: rank {} made {}, rank {} made {}; every rank must make the "
      "same calls in the same order",
      to_string(first ? call_.kind : theirs.kind), std::min(rank(), peer),
      to_string(first ? call_ : theirs), std::max(rank(), peer), to_string(first ? theirs : call_));
}

void Channel::timed_out(int peer) const {
  raise<CommError>("[{}] {} did not finish within {} s: rank {} waited for rank {}",
                   to_string(call_.kind), to_string(call_), timeout_.count() / 1000.0, rank(),
                   peer);
}

}  // namespace capstan::distributed
