// Implements Channel.
#include "distributed/comm/channel.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "core/raise.h"

namespace capstan::distributed {

Channel::Channel(Transport& transport, const CommOptions& options)
    : transport_(transport), options_(options) {}

Channel::Among::Among(Channel& channel, const std::vector<int>& ranks) : channel_(channel) {
  const auto place = std::find(ranks.begin(), ranks.end(), channel.transport_.rank());
  channel.place_ = static_cast<int>(place - ranks.begin());
  channel.among_ = &ranks;
}

void Channel::find_hosts() {
  std::map<std::string, int> last;  // host of each name
  for (int r = 0; r < size(); ++r) {
    const std::string& name = transport_.host(r);
    const auto known = last.find(name);
    const bool joins = options_.share_memory && known != last.end() &&
                       (options_.ranks_per_host == 0 ||
                        std::ssize(ranks_by_host_[known->second]) < options_.ranks_per_host);
    if (!joins) {
      last[name] = hosts();
      ranks_by_host_.emplace_back();
    }
    ranks_by_host_[last[name]].push_back(r);
    if (r == rank()) host_ = last[name];
  }
}

void Channel::connect() {
  // What must be the same on all ranks is compared as a part of the call.
  std::string options;
  if (options_.ranks_per_host > 0) options = fmt::format("{} a host", options_.ranks_per_host);
  if (!options_.share_memory) options = "without shared memory";
  begin(Call(Kind::connect, options));
  find_hosts();
  if (hosts() == size()) return finish();
  auto memory = share_memory(*this, Board::bytes());
  if (memory) {
    board_ = std::make_unique<Board>(std::move(memory), rank());
  } else {  // they cannot, so each rank is by itself
    ranks_by_host_.clear();
    for (int r = 0; r < size(); ++r) ranks_by_host_.push_back({r});
    host_ = rank();
  }
}

int Channel::place() const {
  return static_cast<int>(std::find(here().begin(), here().end(), transport_.rank()) -
                          here().begin());
}

void Channel::begin(const Call& call, bool more) {
  call_ = call;
  more_ = more;
  deadline_ = Clock::now() + options_.timeout;
  shown_ = looked_ = false;
  if (size() > 1 && call.kind != Kind::send_recv) show_call(right());
}

void Channel::show_call(int peer) {
  if (shown_) return;
  shown_ = true;
  if (shares_memory() && call_.kind != Kind::send_recv) {
    wait_for(peer, [&] { return board_->has_room(call_.sequence, peer); });
    board_->show(call_);
  } else {
    posted_.push_back(call_);
    transport_.post(peer, &posted_.back(), sizeof call_);
  }
}

void Channel::look_at_call(int peer) {
  if (looked_) return;
  looked_ = true;
  if (shares_memory() && call_.kind != Kind::send_recv) {
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
  const int mine = transport_.rank();
  const bool first = mine < peer;
  raise<MismatchError>(
      "[{}] the ranks' calls differ: {} made {}, {} made {}; every rank must make the same calls "
      "in "
      "the same order",
      to_string(first ? call_.kind : theirs.kind), transport_.name(std::min(mine, peer)),
      to_string(first ? call_ : theirs), transport_.name(std::max(mine, peer)),
      to_string(first ? theirs : call_));
}

void Channel::meet() {
  look_at_call(left_of_all());  // before anything is done with the others' memory
  board_->arrive();
  for (int r : here()) {
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
  peer = real(peer);
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
  look_at_call(call_.kind == Kind::send_recv ? peer : left_of_all());
  peer = real(peer);
  auto* to = static_cast<std::byte*>(data);
  int64_t done = 0;
  do {
    const int64_t piece = std::min(bytes - done, kPieceBytes);
    if (!transport_.receive(peer, to + done, piece, deadline_)) timed_out(peer);
    done += piece;
  } while (done < bytes);
}

void Channel::all_reduce_by_transport(Reduce op, Dtype dtype, void* data, int64_t count) {
  if (size() == 1) return;
  finish();  // the calls must be the same before data is mixed
  if (!transport_.all_reduce(op, dtype, data, count, deadline_)) timed_out(left());
  count_sent(2 * (size() - 1) * count * item_size(dtype) / size());  // as a ring would
}

void Channel::finish() {
  if (transport_.size() > 1 && call_.kind != Kind::send_recv) look_at_call(left_of_all());
  if (!more_ || call_.kind != Kind::send_recv) flush();
}

void Channel::flush() {
  const int late = transport_.flush(deadline_);
  if (late >= 0) timed_out(late);
  posted_.clear();
}

std::byte* Channel::scratch(int64_t bytes) {
  if (static_cast<int64_t>(scratch_.size()) < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

void Channel::timed_out(int peer) const {
  throw LateError(
      fmt::format("[{}] {} did not finish within {} s: {} waited for {}", to_string(call_.kind),
                  to_string(call_), options_.timeout.count() / 1000.0,
                  transport_.name(transport_.rank()), transport_.name(peer)),
      peer);
}

}  // namespace capstan::distributed
