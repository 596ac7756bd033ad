// Defines how a program starts as one rank or many: world() looks at what the launcher left in the
// environment, preflight() describes the ranks, run_main() is the frame around a program's main.
//
// | started by            | ranks are known from                    | and joined by              |
// |-----------------------|-----------------------------------------|----------------------------|
// | mpirun, mpiexec       | OMPI_COMM_WORLD_RANK, _SIZE or PMI_...  | MPI                        |
// | anybody, rank by rank | RANK, WORLD_SIZE                        | TCP                        |
// | srun, with PMI        | PMI_..., or SLURM_PROCID and PMIX_RANK  | MPI                        |
// | srun                  | SLURM_PROCID, SLURM_STEP_NUM_TASKS      | TCP                        |
// | a user                |                                         | nothing: it runs alone     |
//
// The first that fits counts: ranks may be started one by one inside a shell that srun started.
// Ranks that TCP joins meet at MASTER_ADDR, MASTER_PORT, where rank 0 listens. Under srun these may
// be missing: then they are the step's first host, and a port made of the job's number.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "distributed/comm/communicator.h"

namespace capstan::distributed {

/// What a launcher says about this process.
struct Launcher {
  std::string name;  // "mpirun (Open MPI)", "mpiexec (PMI)", "srun (Slurm)", "the environment"
  int rank = 0;
  int size = 1;
  // Where ranks meet that TCP joins; no port: MPI joins them, or there is one only.
  std::string address{};
  int port = 0;
};

/// Reads the environment; nothing where no launcher is known. Throws CommError for variables that
/// make no sense.
std::optional<Launcher> find_launcher();
/// Its rank, unchecked, for the time before there is a communicator; 0 where no launcher is known.
int launched_rank();

/// The communicator of this job: over MPI or TCP where several ranks were started, else one of size
/// one. Waits for all ranks, at most the timeout of the options, or 10 s if that is shorter. Throws
/// CommError if not all come, or if MPI counts other ranks than the launcher does.
std::unique_ptr<Communicator> world(CommOptions options = {});

/// A table of the ranks: rank, host, device, threads. A collective; every rank gets the same text.
std::string preflight(Communicator& communicator, const std::string& device = "cpu:0");

/// The body of a program: returns its exit status.
using Main = std::function<int(Communicator&, int argc, char** argv)>;

/// Runs `body` with world(), and returns what main() should return:
///   int main(int argc, char** argv) { return run_main(argc, argv, train); }
/// If it throws on any rank, the job ends on every rank, with a non-zero status, in bounded time,
/// and with one line "program: message" on standard error. The line begins "program: rank N on
/// HOST: " if the error happened on rank N alone. An error within a part of the ranks
/// (Communicator::split) is reported by the lowest of them. A job that has not started within the
/// timeout of CommOptions, or 10 s if that is shorter, ends the same way. A rank that is told to
/// end (SIGTERM) saves the flight records of all its communicators first; if the body handles the
/// signal (LastWords::speak) and returns, they are taken back.
int run_main(int argc, char** argv, const Main& body);

}  // namespace capstan::distributed
