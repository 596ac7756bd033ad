// Defines make_tcp(), the communicator of processes that nobody joined into a job: each was started
// with its rank and the address of rank 0.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "distributed/comm/communicator.h"

namespace capstan::distributed {

struct TcpJob {
  int rank = 0, size = 1;
  std::string address;  // of rank 0's machine, as the others reach it: a name or a number
  int port = 0;         // at which rank 0 listens; free until then
  /// How long ranks wait for each other to come.
  std::chrono::milliseconds patience{60'000};
};

/// A communicator of the ranks that name the same address and port. Each two of them keep two
/// connections for each communicator. Ranks of one machine share memory as under MPI. Returns when
/// all have come. Throws CommError, as a rule with the same text on all ranks, if a rank does not
/// come in time, comes twice, or has another number of ranks in mind, or if the port is taken; and
/// ValueError for a rank or port that is none.
std::unique_ptr<Communicator> make_tcp(const TcpJob& job, CommOptions options = {});

}  // namespace capstan::distributed
