// Defines Rendezvous, how processes that know only their rank, the number of ranks and where rank 0
// is come to know and to reach each other.
//
// Every process listens at a port. Rank 0's is known to all: each other rank calls it, says who it
// is and where it listens, and waits. When all have come, rank 0 answers all of them with the table
// of ranks; if something does not fit (another number of ranks, a rank that comes twice or not at
// all), it answers all of them with the same error. From then on any two ranks connect by
// themselves, as often as there are communicators: the higher rank calls the lower one. When each
// has said to rank 0 whether that went well for the first communicator, the meeting is over.
//
// Whoever calls says first that it is a rank of Capstan and of which job (reception.h), so
// strangers are found out and hung up on. They cannot harm a job, and if it does not start they are
// named.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "distributed/comm/reception.h"
#include "distributed/comm/tcp.h"

namespace capstan::distributed {

class Rendezvous {
 public:
  /// Returns when all ranks have met. Throws SharedError on all ranks if they do not, or CommError
  /// for what concerns this one alone.
  explicit Rendezvous(const TcpJob& job);

  const TcpJob& job() const { return job_; }
  const std::string& host(int rank) const { return table_[rank].host; }
  std::string name(int rank) const;  // "rank 2 on h3"
  /// Ends the meeting: rank 0 hears from each rank whether it has reached all others until
  /// `deadline` (`error` is empty) and tells all. Throws SharedError, with the same text on all, if
  /// one has not, or does not answer.
  void conclude(const std::string& error, Clock::time_point deadline);

  /// Which connection of a communicator: its number, which no other has, the rank in it that calls,
  /// and a number for each of several connections.
  using Name = std::tuple<uint64_t, int, int>;

  /// A connection to a rank of the job, and one from a rank that calls this one by the same name.
  /// None if it did not come about until the deadline or before stop().
  Socket call(int rank, const Name& name, Clock::time_point deadline);
  Socket await(const Name& name, Clock::time_point deadline, const std::function<bool()>& stop);

 private:
  struct Entry {
    std::string host, address;  // no address: that of rank 0
    int port = 0;
  };

  void gather(Clock::time_point deadline);
  void join(Clock::time_point deadline);
  std::string objection(const Reception::Caller& caller) const;
  std::vector<int> absent() const;
  [[noreturn]] void refuse(const std::string& error);
  std::string verdict(const std::vector<Socket>& meeting, const std::string& error,
                      Clock::time_point deadline) const;
  std::string table_text() const;
  std::string strangers_text() const;

  const TcpJob job_;
  uint64_t secret_ = 0;  // of the job
  std::vector<Entry> table_;
  std::vector<Socket> meeting_;  // until its end: of rank 0 to all others, of these to rank 0

  std::mutex mutex_;  // guards what follows
  Reception reception_;
  std::map<Name, Socket> called_;  // callers that nobody has awaited yet
};

}  // namespace capstan::distributed
