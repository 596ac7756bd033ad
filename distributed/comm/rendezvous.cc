// Implements Rendezvous.
#include "distributed/comm/rendezvous.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>
#include <utility>

#include "core/raise.h"
#include "distributed/comm/self.h"

namespace capstan::distributed {
namespace {

using namespace std::chrono_literals;

// How long a caller may take to say who it is.
constexpr auto kIntroduction = 2s;
// How much longer than itself rank 0 is waited for, and how long it goes on telling an error.
constexpr auto kVerdict = 2s;

// The first thing that a caller says.
struct Hello {
  static constexpr char kMagic[8] = {'C', 'A', 'P', 'S', 'T', 'A', 'N', '1'};

  char magic[8] = {'C', 'A', 'P', 'S', 'T', 'A', 'N', '1'};
  int32_t rank = 0, size = 0;  // of the job
  int32_t port = 0;            // where it listens
  int32_t connection = 0;      // the parts of a Name, and the job's secret; 0 to join the job
  int32_t caller = 0;
  uint64_t communicator = 0, secret = 0;
  char host[64] = {};

  bool is_ours() const { return std::memcmp(magic, kMagic, sizeof magic) == 0; }
};

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

double in_seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Rendezvous::Rendezvous(const TcpJob& job)
    : job_(job), port_(Socket::listen(job.rank == 0 ? job.port : 0)), table_(job.size) {
  const auto deadline = Clock::now() + job.patience;
  job.rank == 0 ? gather(deadline) : join(deadline);
}

// Rank 0: waits for the others.
void Rendezvous::gather(Clock::time_point deadline) {
  std::random_device random;
  secret_ = uint64_t{random()} << 32 | random() | 1;
  table_[0] = {host_name(), "", port_.port()};
  std::vector<Socket> ranks(job_.size);
  for (int missing = job_.size - 1; missing > 0;) {
    Socket socket = port_.accept(deadline);
    if (!socket) {
      std::string absent;
      for (int r = 1; r < job_.size; ++r) {
        if (!ranks[r]) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", r);
      }
      refuse(fmt::format("[tcp] not all of {} ranks came to {}:{} within {} s: no rank {}{}",
                         job_.size, job_.address, job_.port, in_seconds(job_.patience), absent,
                         strangers_text()),
             ranks);
    }
    Hello hello;
    if (!socket.receive(&hello, sizeof hello, std::min(deadline, Clock::now() + kIntroduction)) ||
        !hello.is_ours() || hello.secret != 0) {
      strangers_.insert(socket.peer());
      continue;
    }
    hello.host[sizeof hello.host - 1] = 0;
    const std::string host = hello.host;
    std::string error;
    if (hello.size != job_.size) {
      error = fmt::format(
          "[tcp] the number of ranks differs: rank 0 on {} has {}, rank {} on {} has {}",
          table_[0].host, job_.size, hello.rank, host, hello.size);
    } else if (hello.rank < 1 || hello.rank >= job_.size || ranks[hello.rank]) {
      error = fmt::format(
          "[tcp] two processes are rank {}: on {} and on {}", hello.rank,
          hello.rank > 0 && hello.rank < job_.size ? table_[hello.rank].host : table_[0].host,
          host);
    }
    if (!error.empty()) {
      send_text(socket, "E" + error, Clock::now() + kVerdict);
      refuse(error, ranks);
    }
    // Who reached rank 0 by the loopback interface is on its machine.
    const std::string address = socket.peer();
    table_[hello.rank] = {host, is_loopback(address) ? "" : address, hello.port};
    ranks[hello.rank] = std::move(socket);
    --missing;
  }
  const std::string table = "T" + table_text();
  for (int r = 1; r < job_.size; ++r) {
    if (send_text(ranks[r], table, deadline + kVerdict)) continue;
    refuse(fmt::format("[tcp] rank {} on {} left before all ranks had come", r, table_[r].host),
           ranks);
  }
}

// Tells all ranks that have come, and those that still come soon.
void Rendezvous::refuse(const std::string& error, const std::vector<Socket>& ranks) {
  const auto deadline = Clock::now() + kVerdict;
  for (const Socket& rank : ranks) {
    if (rank) send_text(rank, "E" + error, deadline);
  }
  auto missing = std::count_if(ranks.begin() + 1, ranks.end(), [](const Socket& s) { return !s; });
  while (missing-- > 0) {
    const Socket late = port_.accept(deadline);
    if (!late) break;
    send_text(late, "E" + error, deadline);
  }
  throw CommError(error);
}

// Another rank: calls rank 0 and waits for its answer.
void Rendezvous::join(Clock::time_point deadline) {
  const Socket first = Socket::connect(job_.address, job_.port, deadline);
  if (!first) {
    raise<CommError>(
        "[tcp] rank {} found nobody at {}:{} within {} s: rank 0 does not run there, or cannot be "
        "reached",
        job_.rank, job_.address, job_.port, in_seconds(job_.patience));
  }
  Hello hello;
  hello.rank = job_.rank;
  hello.size = job_.size;
  hello.port = port_.port();
  host_name().copy(hello.host, sizeof hello.host - 1);
  first.send(&hello, sizeof hello, deadline);
  const std::string answer = receive_text(first, deadline + kVerdict);
  if (answer.starts_with("E")) throw CommError(answer.substr(1));
  if (answer.empty() && Clock::now() >= deadline) {
    raise<CommError>(
        "[tcp] nothing that rank {} found at {}:{} answered within {} s: rank 0 is "
        "stopped, or that is somebody else",
        job_.rank, job_.address, job_.port, in_seconds(job_.patience));
  }
  std::istringstream lines(answer);
  if (lines.get() == 'T') lines >> secret_;
  for (Entry& entry : table_) {
    lines >> entry.host >> entry.address >> entry.port;
    if (entry.address == "-") entry.address.clear();
  }
  if (!lines) {
    raise<CommError>("[tcp] what rank {} found at {}:{} is not rank 0 of a job, or it ended",
                     job_.rank, job_.address, job_.port);
  }
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
  for (const std::string& stranger : strangers_) {
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
    Socket socket = port_.accept(std::min(deadline, Clock::now() + 5ms));
    if (!socket) continue;
    Hello hello;
    const bool heard = socket.receive(&hello, sizeof hello, Clock::now() + kIntroduction);
    if (!heard || !hello.is_ours() || hello.secret != secret_) continue;
    called_[{hello.communicator, hello.caller, hello.connection}] = std::move(socket);
  }
  return {};
}

}  // namespace capstan::distributed
