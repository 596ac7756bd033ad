// Implements Rendezvous.
#include "distributed/comm/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include "core/raise.h"
#include "distributed/comm/self.h"

namespace capstan::distributed {
namespace {

using namespace std::chrono_literals;

// How much longer than itself rank 0 is waited for, and how long it goes on telling an error.
constexpr auto kVerdict = 2s;

// Answers are texts: 'T' and the table, or 'E' and the error.
bool send_text(const Socket& socket, const std::string& text, Clock::time_point deadline) {
  const auto length = static_cast<int64_t>(text.size());
  return socket.send(&length, sizeof length, deadline) &&
         socket.send(text.data(), length, deadline);
}
std::string receive_text(const Socket& socket, Clock::time_point deadline) {
  constexpr int64_t kMost = 64 << 20;
  int64_t length = 0;
  std::string text;
  if (!socket.receive(&length, sizeof length, deadline) || length < 0 || length > kMost) return {};
  text.resize(length);
  return socket.receive(text.data(), length, deadline) ? text : "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string silence(const std::string& ranks) {
  return fmt::format("[tcp] {} came, but did not answer while the ranks connected", ranks);
}

double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Rendezvous::Rendezvous(const TcpJob& job)
    : job_(job), table_(job.size), meeting_(job.size), reception_(job.rank == 0 ? job.port : 0) {
  const auto deadline = Clock::now() + job.patience;
  job.rank == 0 ? gather(deadline) : join(deadline);
}

// Rank 0: waits for the others.
void Rendezvous::gather(Clock::time_point deadline) {
  std::random_device random;
  secret_ = uint64_t{random()} << 32 | random() | 1;
  table_[0] = {host_name(), "", reception_.port()};
  while (!absent().empty()) {
    std::optional<Reception::Caller> caller = reception_.next(deadline);
    if (!caller) {
      refuse(fmt::format("[tcp] not all of {} ranks came to {}:{} within {} s: no rank {}{}",
                         job_.size, job_.address, job_.port, in_seconds(job_.patience),
                         fmt::join(absent(), ", "), strangers_text()));
    }
    auto& [socket, hello] = *caller;
    if (hello.secret != 0) continue;  // for a job that was here before
    if (const std::string error = objection(*caller); !error.empty()) {
      send_text(socket, "E" + error, Clock::now() + kVerdict);
      refuse(error);
    }
    // Who reached rank 0 by the loopback interface is on its machine.
    const std::string address = socket.peer();
    table_[hello.rank] = {hello.host, is_loopback(address) ? "" : address, hello.port};
    meeting_[hello.rank] = std::move(socket);
  }
  const std::string table = "T" + table_text();
  for (int r = 1; r < job_.size; ++r) {
    if (send_text(meeting_[r], table, Clock::now() + kVerdict)) continue;
    refuse(fmt::format("[tcp] {} left before all ranks had come", name(r)));
  }
}

// What does not fit about a caller that wants to join; empty: nothing.
std::string Rendezvous::objection(const Reception::Caller& caller) const {
  const Hello& hello = caller.hello;
  if (hello.size != job_.size) {
    return fmt::format(
        "[tcp] the number of ranks differs: {} has {}, rank {} on {} has {}; give all the same "
        "WORLD_SIZE",
        name(0), job_.size, hello.rank, hello.host, hello.size);
  }
  if (hello.rank < 0 || hello.rank >= job_.size) {
    return fmt::format("[tcp] there is no rank {} (on {}) of {}", hello.rank, hello.host,
                       job_.size);
  }
  // One that was started again takes the place of one that has ended.
  if (hello.rank == 0 || (meeting_[hello.rank] && !meeting_[hello.rank].is_closed())) {
    return fmt::format(
        "[tcp] two processes are rank {}: on {} and on {}, and both are running; each needs a RANK "
        "of its own, and one that is started again must have ended first",
        hello.rank, table_[hello.rank].host, hello.host);
  }
  return {};
}

// The ranks that have not come, or have ended since.
std::vector<int> Rendezvous::absent() const {
  std::vector<int> ranks;
  for (int r = 1; r < job_.size; ++r) {
    if (!meeting_[r] || meeting_[r].is_closed()) ranks.push_back(r);
  }
  return ranks;
}

// Tells all ranks that have come, and those that still come soon.
void Rendezvous::refuse(const std::string& error) {
  const auto deadline = Clock::now() + kVerdict;
  auto missing = job_.size - 1;
  for (const Socket& rank : meeting_) {
    if (!rank) continue;
    send_text(rank, "E" + error, deadline);
    --missing;
  }
  while (missing-- > 0) {
    const auto late = reception_.next(deadline);
    if (!late) break;
    send_text(late->socket, "E" + error, deadline);
  }
  throw SharedError(error);
}

// Another rank: calls rank 0 and waits for its answer. Its errors name no rank but 0, so that they
// are the same on all.
void Rendezvous::join(Clock::time_point deadline) {
  Socket& first = meeting_[0] = Socket::connect(job_.address, job_.port, deadline);
  const std::string place = fmt::format("{}:{}", job_.address, job_.port);
  const double patience = in_seconds(job_.patience);
  if (!first) {
    raise<SharedError>(
        "[tcp] there is nobody at {} after {} s: rank 0 does not run there, cannot be reached, or "
        "was started as the only one (WORLD_SIZE=1)",
        place, patience);
  }
  Hello hello;
  hello.rank = job_.rank;
  hello.size = job_.size;
  hello.port = reception_.port();
  host_name().copy(hello.host, sizeof hello.host - 1);
  first.send(&hello, sizeof hello, deadline);
  const std::string answer = receive_text(first, deadline + kVerdict);
  if (answer.starts_with("E")) throw SharedError(answer.substr(1));
  if (answer.empty() && Clock::now() >= deadline) {
    raise<SharedError>(
        "[tcp] nobody at {} has answered within {} s: rank 0 is stopped, or its job has started "
        "already, or that is somebody else",
        place, patience);
  }
  std::istringstream lines(answer);
  if (lines.get() == 'T') lines >> secret_;
  for (Entry& entry : table_) {
    lines >> entry.host >> entry.address >> entry.port;
    if (entry.address == "-") entry.address.clear();
  }
  if (!lines) raise<SharedError>("[tcp] what is at {} is not rank 0 of a job, or it ended", place);
}

void Rendezvous::conclude(const std::string& error, Clock::time_point deadline) {
  const std::vector<Socket> meeting = std::exchange(meeting_, {});
  std::string answer;
  if (job_.rank == 0) {
    answer = verdict(meeting, error, deadline + kVerdict / 2);
    for (int r = 1; r < job_.size; ++r) {
      send_text(meeting[r], "E" + answer, Clock::now() + kVerdict);
    }
  } else {
    send_text(meeting[0], "E" + error, deadline);
    answer = receive_text(meeting[0], deadline + kVerdict);
    answer = answer.empty() ? silence(name(0)) : answer.substr(1);
  }
  if (!answer.empty()) throw SharedError(answer);
}

// Rank 0: what all ranks are told; empty: all is well. A rank that is silent is why others fail.
std::string Rendezvous::verdict(const std::vector<Socket>& meeting, const std::string& error,
                                Clock::time_point deadline) const {
  std::string silent, failed = error;
  for (int r = 1; r < job_.size; ++r) {
    const std::string answer = receive_text(meeting[r], deadline);
    if (answer.empty()) silent += (silent.empty() ? "" : ", ") + name(r);
    if (answer.size() > 1 && failed.empty()) failed = answer.substr(1);
  }
  return silent.empty() ? failed : silence(silent);
}

std::string Rendezvous::name(int rank) const {
  return fmt::format("rank {} on {}", rank, table_[rank].host);
}

std::string Rendezvous::table_text() const {
  std::string text = fmt::format("{}\n", secret_);
  for (const Entry& entry : table_) {
    text += fmt::format("{} {} {}\n", entry.host, entry.address.empty() ? "-" : entry.address,
                        entry.port);
  }
  return text;
}

std::string Rendezvous::strangers_text() const {
  std::string text;
  for (const std::string& stranger : reception_.strangers()) {
    text += fmt::format("; from {} came somebody who is no rank of Capstan", stranger);
  }
  return text;
}

Socket Rendezvous::call(int rank, const Name& name, Clock::time_point deadline) {
  const Entry& entry = table_[rank];
  Socket socket =
      Socket::connect(entry.address.empty() ? job_.address : entry.address, entry.port, deadline);
  Hello hello;
  hello.secret = secret_;
  std::tie(hello.communicator, hello.caller, hello.connection) = name;
  if (socket && !socket.send(&hello, sizeof hello, deadline)) return {};
  return socket;
}

Socket Rendezvous::await(const Name& name, Clock::time_point deadline,
                         const std::function<bool()>& stop) {
  while (!stop()) {
    std::lock_guard lock(mutex_);
    if (auto found = called_.extract(name)) return std::move(found.mapped());
    if (Clock::now() >= deadline) return {};
    // Briefly: another communicator may wait for its callers, too, and get them here.
    auto caller = reception_.next(std::min(deadline, Clock::now() + 5ms));
    if (!caller) continue;
    auto& [socket, hello] = *caller;
    if (hello.secret == secret_) {
      called_[{hello.communicator, hello.caller, hello.connection}] = std::move(socket);
    } else if (hello.secret == 0) {
      const std::string error = fmt::format(
          "[tcp] this job has started already, with another rank {}: to start one rank again, "
          "start all",
          hello.rank);
      send_text(socket, "E" + error, Clock::now() + 1ms);
    }
  }
  return {};
}

}  // namespace capstan::distributed
