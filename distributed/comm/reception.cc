// Implements Reception.
#include "distributed/comm/reception.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

namespace capstan::distributed {
namespace {

// How long a caller may take to say who it is, and how many may take their time at once.
constexpr std::chrono::seconds kIntroduction{2};
constexpr size_t kMostGuests = 256;

}  // namespace

std::optional<Reception::Caller> Reception::next(Clock::time_point deadline) {
  for (;;) {
    let_in();
    Clock::time_point look_again = deadline;
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      if (is_heard(*guest)) {
        Caller caller = std::move(guest->caller);
        guests_.erase(guest);
        return caller;
      }
      if (Clock::now() < guest->until) {
        look_again = std::min(look_again, guest->until);
        ++guest;
      } else {
        strangers_.insert(guest->caller.socket.peer());
        guest = guests_.erase(guest);
      }
    }
    if (Clock::now() >= deadline) return std::nullopt;
    std::vector<pollfd> files{{port_.file(), POLLIN, 0}};
    for (const Guest& guest : guests_) files.push_back({guest.caller.socket.file(), POLLIN, 0});
    ::poll(files.data(), files.size(), poll_milliseconds(look_again, /*most=*/60'000));
  }
}

// Accepts all who are at the door; the longest guests go if they are too many.
void Reception::let_in() {
  while (Socket socket = port_.accept(Clock::now())) {
    if (guests_.size() == kMostGuests) {
      strangers_.insert(guests_.front().caller.socket.peer());
      guests_.pop_front();
    }
    guests_.push_back({{std::move(socket), {}}, 0, Clock::now() + kIntroduction});
  }
}

// Takes in what a guest has said. True if that is a rank's hello; a stranger's time is over.
bool Reception::is_heard(Guest& guest) {
  auto& [socket, hello] = guest.caller;
  const ssize_t came = ::recv(socket.file(), reinterpret_cast<std::byte*>(&hello) + guest.bytes,
                              sizeof hello - guest.bytes, MSG_DONTWAIT);
  if (came < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (came > 0) guest.bytes += came;
  const bool complete = guest.bytes == sizeof hello;
  hello.host[sizeof hello.host - 1] = 0;
  if (complete && hello.is_ours()) return true;
  if (complete || came <= 0) guest.until = {};
  return false;
}

}  // namespace capstan::distributed
