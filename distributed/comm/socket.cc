// Implements Socket.
#include "distributed/comm/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;
// How long one address is tried before the next: a name may have some that lead nowhere.
constexpr std::chrono::seconds kAttempt{3};

// The address behind either end's question, getsockname or getpeername.
template <class Ask>
sockaddr_storage address_of(int file, Ask ask) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  ask(file, reinterpret_cast<sockaddr*>(&address), &length);
  return address;
}

// Small messages leave at once.
void send_at_once(int file) {
  const int on = 1;
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Binds to all interfaces, of both versions of IP where there are two.
int bind_to(int port) {
  const int on = 1, off = 0;
  int file = ::socket(AF_INET6, SOCK_STREAM | kFlags, 0);
  if (file >= 0) {
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(file, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 address = {};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<uint16_t>(port));
    if (::bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return file;
    const int error = errno;
    ::close(file);
    errno = error;
    if (error == EADDRINUSE || error == EACCES) return -1;
  }
  file = ::socket(AF_INET, SOCK_STREAM | kFlags, 0);
  if (file < 0) return -1;
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return file;
  const int error = errno;
  ::close(file);
  errno = error;
  return -1;
}

// Where nobody listens, a socket of this machine may be given just that port to call from, and
// then it reaches itself.
bool is_its_own_peer(int file) {
  const sockaddr_storage mine = address_of(file, getsockname);
  const sockaddr_storage other = address_of(file, getpeername);
  return std::memcmp(&mine, &other, sizeof mine) == 0;
}

// One attempt at one address.
Socket try_to_connect(const addrinfo& address, Clock::time_point deadline) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | kFlags, 0));
  if (!socket) return {};
  if (::connect(socket.file(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS || !wait_for_events(socket.file(), POLLOUT, deadline)) return {};
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return {};
  }
  if (is_its_own_peer(socket.file())) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};  // or the port stays taken for a minute
    setsockopt(socket.file(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return {};
  }
  send_at_once(socket.file());
  return socket;
}

}  // namespace

int poll_milliseconds(Clock::time_point deadline, int most) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, most));
}

bool wait_for_events(int file, short events, Clock::time_point deadline) {
  constexpr int kMinute = 60'000;
  for (;;) {
    pollfd entry{file, events, 0};
    if (::poll(&entry, 1, poll_milliseconds(deadline, kMinute)) > 0) return true;
    if (Clock::now() >= deadline) return false;
  }
}

Socket::~Socket() {
  if (file_ >= 0) ::close(file_);
}
Socket::Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Socket Socket::listen(int port) {
  Socket socket(bind_to(port));
  if (!socket || ::listen(socket.file(), SOMAXCONN) != 0) {
    raise<CommError>("[tcp] cannot listen at port {}: {}; choose another MASTER_PORT", port,
                     std::strerror(errno));
  }
  return socket;
}

Socket Socket::connect(const std::string& host, int port, Clock::time_point deadline) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) raise<CommError>("[tcp] no host '{}': {}", host, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  while (Clock::now() < deadline) {
    for (const addrinfo* address = found; address; address = address->ai_next) {
      const auto limit = std::min(deadline, Clock::now() + kAttempt);
      if (Socket socket = try_to_connect(*address, limit)) return socket;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return {};
}

Socket Socket::accept(Clock::time_point deadline) const {
  do {
    Socket socket(::accept4(file_, nullptr, nullptr, kFlags));
    if (socket) {
      send_at_once(socket.file());
      return socket;
    }
  } while (wait_for_events(file_, POLLIN, deadline));
  return {};
}

bool Socket::send(const void* data, int64_t bytes, Clock::time_point deadline) const {
  const auto* from = static_cast<const std::byte*>(data);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t sent = ::send(file_, from + done, bytes - done, MSG_NOSIGNAL);
    if (sent > 0) done += sent;
    if (sent > 0 || errno == EINTR) continue;
    if (errno != EAGAIN || !wait_for_events(file_, POLLOUT, deadline)) return false;
  }
  return true;
}

bool Socket::receive(void* data, int64_t bytes, Clock::time_point deadline) const {
  auto* to = static_cast<std::byte*>(data);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t came = ::recv(file_, to + done, bytes - done, 0);
    if (came > 0) done += came;
    if (came == 0) return false;
    if (came > 0 || errno == EINTR) continue;
    if (errno != EAGAIN || !wait_for_events(file_, POLLIN, deadline)) return false;
  }
  return true;
}

bool Socket::is_closed() const {
  char next;
  const ssize_t came = ::recv(file_, &next, 1, MSG_PEEK | MSG_DONTWAIT);
  return came == 0 || (came < 0 && errno != EAGAIN && errno != EINTR);
}

int Socket::port() const {
  const sockaddr_storage address = address_of(file_, getsockname);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

std::string Socket::peer() const {
  const sockaddr_storage address = address_of(file_, getpeername);
  char text[NI_MAXHOST] = {};
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), sizeof address, text, sizeof text,
              nullptr, 0, NI_NUMERICHOST);
  const std::string name = text, mapped = "::ffff:";  // an IPv4 address at an IPv6 socket
  return name.starts_with(mapped) ? name.substr(mapped.size()) : name;
}

}  // namespace capstan::distributed
