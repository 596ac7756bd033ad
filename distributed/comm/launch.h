// Defines how a program starts as one rank or many: world() looks at what the launcher left in the
// environment, preflight() describes the ranks, run_main() is the frame around a program's main.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// What a launcher says about this process.
struct Launcher {
  std::string name;  // "mpirun (Open MPI)", "mpiexec (PMI)", "srun (Slurm)"
  int rank = 0;
  int size = 1;
};

/// Reads the environment; nothing where no launcher is known. Throws CommError for variables that
/// make no sense.
std::optional<Launcher> find_launcher();
/// Its rank, unchecked, for the time before there is a communicator; 0 where no launcher is known.
int launched_rank();

/// The communicator of this job: MPI's where a launcher started several ranks, else one of size
/// one. Throws CommError if MPI counts other ranks than the launcher does.
std::unique_ptr<Communicator> world(CommOptions options = {});

/// A table of the ranks: rank, host, device, threads. A collective; every rank gets the same text.
std::string preflight(Communicator& communicator, const std::string& device = "cpu:0");

/// The body of a program: returns its exit status.
using Main = std::function<int(Communicator&, int argc, char** argv)>;

/// Runs `body` with world(), and returns what main() should return:
///   int main(int argc, char** argv) { return run_main(argc, argv, train); }
/// If it throws on any rank, the job ends on every rank, with a non-zero status, in bounded time,
/// and with one line "program: message" on standard error. The line begins "program: rank N: " if
/// the error happened on rank N alone. An error within a part of the ranks (Communicator::split) is
/// reported by the lowest of them. A job that has not started within the timeout of CommOptions, or
/// 10 s if that is shorter, ends the same way.
int run_main(int argc, char** argv, const Main& body);

}  // namespace capstan::distributed
