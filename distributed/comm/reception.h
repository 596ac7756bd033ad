// Defines Reception, a port where whoever calls is asked first who it is: a rank of Capstan, of
// which job, and for what it calls. All callers are listened to at once, so that one that says
// nothing keeps nobody waiting. Strangers are hung up on, and remembered.
#pragma once

#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "distributed/comm/socket.h"

namespace capstan::distributed {

/// The first thing that a caller says.
struct Hello {
  static constexpr char kMagic[8] = {'C', 'A', 'P', 'S', 'T', 'A', 'N', '1'};

  char magic[8] = {'C', 'A', 'P', 'S', 'T', 'A', 'N', '1'};
  int32_t rank = 0, size = 0;  // of the job
  int32_t port = 0;            // where it listens
  int32_t connection = 0;      // the parts of a Rendezvous::Name, and the job's secret; 0 to join
  int32_t caller = 0;
  uint64_t communicator = 0, secret = 0;
  char host[64] = {};

  bool is_ours() const { return std::memcmp(magic, kMagic, sizeof magic) == 0; }
};

class Reception {
 public:
  struct Caller {
    Socket socket;
    Hello hello;
  };

  /// Listens at a port of all interfaces, see Socket::listen.
  explicit Reception(int port) : port_(Socket::listen(port)) {}

  int port() const { return port_.port(); }
  /// The next caller that has said who it is; nothing if there is none until the deadline.
  std::optional<Caller> next(Clock::time_point deadline);
  /// Addresses of those who were no ranks of Capstan.
  const std::set<std::string>& strangers() const { return strangers_; }

 private:
  // Somebody who has not said everything yet.
  struct Guest {
    Caller caller;
    int64_t bytes;            // of the hello that are here
    Clock::time_point until;  // when the rest must be here
  };

  void let_in();
  bool is_heard(Guest& guest);

  Socket port_;
  std::deque<Guest> guests_;
  std::set<std::string> strangers_;
};

}  // namespace capstan::distributed
