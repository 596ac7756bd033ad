// Defines Socket, a TCP connection or a port that listens for some. Nothing here waits for longer
// than its deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "distributed/comm/work.h"

namespace capstan::distributed {

class Socket {
 public:
  Socket() = default;  // none
  explicit Socket(int file) : file_(file) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// Listens at a port of all interfaces; 0: one that is free. Throws CommError if it is taken.
  static Socket listen(int port);
  /// Connects, trying again until somebody listens there. None if nobody did until the deadline.
  /// Throws CommError if the name is not known.
  static Socket connect(const std::string& host, int port, Clock::time_point deadline);

  /// The next connection to a port that listens; none if nobody came until the deadline.
  Socket accept(Clock::time_point deadline) const;

  /// Sends or receives all bytes; false if the other end closed or the deadline has passed.
  bool send(const void* data, int64_t bytes, Clock::time_point deadline) const;
  bool receive(void* data, int64_t bytes, Clock::time_point deadline) const;

  /// True once the other end has closed and nothing is left to receive.
  bool is_closed() const;

  explicit operator bool() const { return file_ >= 0; }
  /// For poll(), recv() and their kind; it does not block.
  int file() const { return file_; }
  int port() const;          // on this side
  std::string peer() const;  // numeric address of the other side

 private:
  int file_ = -1;
};

/// Waits until events (POLLIN, POLLOUT) of a file are there; false when the deadline has passed.
bool wait_for_events(int file, short events, Clock::time_point deadline);
/// What is left until the deadline, as poll() takes it, but at most `most`.
int poll_milliseconds(Clock::time_point deadline, int most);

}  // namespace capstan::distributed
