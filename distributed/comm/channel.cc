// Implements Channel.
#include "distributed/comm/channel.h"

#include <algorithm>

#include "core/raise.h"

namespace capstan::distributed {

Channel::Channel(Transport& transport, const CommOptions& options)
    : transport_(transport), options_(options) {}

void Channel::connect() {
  begin(Call(Kind::connect, {}));
  if (!options_.share_memory) return finish();
  for (int r = 0; r < size(); ++r) {
    if (transport_.host(r) != transport_.host(0)) return finish();
  }
  auto memory = share_memory(*this, Board::bytes());
  if (memory) board_ = std::make_unique<Board>(std::move(memory), rank());
}

void Channel::begin(const Call& call) {
  call_ = call;
  deadline_ = Clock::now() + options_.timeout;
  shown_ = looked_ = false;
  if (size() > 1 && call.kind != Kind::send_recv) show_call(right());
}

void Channel::show_call(int peer) {
  if (shown_) return;
  shown_ = true;
  if (board_ && call_.kind != Kind::send_recv) {
    wait_for(peer, [&] { return board_->has_room(call_.sequence, peer); });
    board_->show(call_);
  } else {
    transport_.post(peer, &call_, sizeof call_);
  }
}

void Channel::look_at_call(int peer) {
  if (looked_) return;
  looked_ = true;
  if (board_ && call_.kind != Kind::send_recv) {
    wait_for(peer, [&] { return board_->shows(peer, call_.sequence); });
    compare_calls(peer, board_->read(peer, call_.sequence));
  } else {
    if (!transport_.receive(peer, &theirs_, sizeof theirs_, deadline_)) timed_out(peer);
    compare_calls(peer, theirs_);
  }
}

void Channel::compare_calls(int peer, const Call& theirs) const {
  if (same_call(call_, theirs)) return;
  // Both ends may find the difference: name the lower rank first, so that they use the same words.
  const bool first = rank() < peer;
  raise<MismatchError>(
      "[{}] the ranks' calls differ: rank {} made {}, rank {} made {}; every rank must make the "
      "same calls in the same order",
      to_string(first ? call_.kind : theirs.kind), std::min(rank(), peer),
      to_string(first ? call_ : theirs), std::max(rank(), peer), to_string(first ? theirs : call_));
}

void Channel::meet() {
  look_at_call(left());  // before anything is done with the others' memory
  board_->arrive();
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) wait_for(r, [&] { return board_->has_arrived(r); });
  }
}

// For what another rank does in shared memory.
template <class F>
void Channel::wait_for(int peer, const F& ready) {
  if (!transport_.wait_until(deadline_, ready)) timed_out(peer);
}

void Channel::send(int peer, const void* data, int64_t bytes) {
  if (call_.kind == Kind::send_recv) show_call(peer);
  const bool counts = call_.kind != Kind::connect && call_.kind != Kind::share;  // else no payload
  const auto* from = static_cast<const std::byte*>(data);
  int64_t done = 0;
  do {
    const int64_t piece = std::min(bytes - done, kPieceBytes);
    transport_.post(peer, from + done, piece);
    done += piece;
    if (counts) messages_.fetch_add(1, std::memory_order_relaxed);
  } while (done < bytes);
  if (counts) count_sent(bytes);
}

void Channel::receive(int peer, void* data, int64_t bytes) {
  look_at_call(call_.kind == Kind::send_recv ? peer : left());
  auto* to = static_cast<std::byte*>(data);
  int64_t done = 0;
  do {
    const int64_t piece = std::min(bytes - done, kPieceBytes);
    if (!transport_.receive(peer, to + done, piece, deadline_)) timed_out(peer);
    done += piece;
  } while (done < bytes);
}

void Channel::finish() {
  if (size() > 1 && call_.kind != Kind::send_recv) look_at_call(left());
  const int late = transport_.flush(deadline_);
  if (late >= 0) timed_out(late);
}

std::byte* Channel::scratch(int64_t bytes) {
  if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

void Channel::timed_out(int peer) const {
  raise<CommError>("[{}] {} did not finish within {} s: rank {} waited for rank {}",
                   to_string(call_.kind), to_string(call_), options_.timeout.count() / 1000.0,
                   rank(), peer);
}

}  // namespace capstan::distributed
