// Implements world(), preflight() and run_main().
#include "distributed/comm/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "core/raise.h"
#include "core/threads.h"
#include "distributed/comm/mpi.h"
#include "distributed/comm/self.h"
#include "distributed/comm/watchdog.h"

namespace capstan::distributed {
namespace {

int environment_number(const char* name) {
  const char* text = std::getenv(name);
  char* end = nullptr;
  const long number = text ? std::strtol(text, &end, 10) : -1;
  if (!text || end == text || *end || number < 0 || number > 1 << 24) {
    raise<CommError>("[launch] the launcher should have set {} to a number, got '{}'", name,
                     text ? text : "nothing");
  }
  return static_cast<int>(number);
}

std::string program_name(const char* path) {
  const std::string text = path ? path : "program";
  return text.substr(text.find_last_of('/') + 1);
}

// One write, so that lines of several ranks do not mix.
void complain(const std::string& program, const std::string& message) {
  const std::string line = program + ": " + message + "\n";
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

// What launchers set. srun sets the step's variables; SLURM_NTASKS alone only says that we are
// inside an allocation.
struct Variables {
  const char *launcher, *size, *rank;
};
constexpr Variables kVariables[] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpiexec (PMI)", "PMI_SIZE", "PMI_RANK"},
    {"srun (Slurm)", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
};

// Those that are set, or null.
const Variables* find_variables() {
  const auto is_set = [](const Variables& known) { return std::getenv(known.size) != nullptr; };
  const auto found = std::ranges::find_if(kVariables, is_set);
  return found == std::end(kVariables) ? nullptr : found;
}

// The end of a rank whose body threw: tells the others, lets the lowest of them report, and ends.
// `message` is what counts if all ranks were ended by it, else `account`, after "rank N: ".
[[noreturn]] void end_after(Communicator& communicator, const std::string& program,
                            const std::string& message, const std::string& account,
                            bool save_flight_records) {
  communicator.fail(account, save_flight_records);
  const bool all_came =
      communicator.leave(message, [&](const std::string& text) { complain(program, text); });
  // Ranks that did not come in time are stopped or busy: end them as well. Open MPI's mpirun does
  // it by itself when a rank ends with a non-zero status, and says less about it than after an
  // abort.
  if (!all_came && !std::getenv("OMPI_COMM_WORLD_SIZE")) mpi_abort(1);
  std::_Exit(1);  // no destructors: MPI must not be finalised, and nothing waits for a peer
}

}  // namespace

std::optional<Launcher> find_launcher() {
  const Variables* variables = find_variables();
  if (!variables) return std::nullopt;
  const Launcher launcher{variables->launcher, environment_number(variables->rank),
                          environment_number(variables->size)};
  if (launcher.size < 1 || launcher.rank >= launcher.size) {
    raise<CommError>("[launch] {} says that this is rank {} of {}", launcher.name, launcher.rank,
                     launcher.size);
  }
  return launcher;
}

// Variables that make no sense may be what there is to complain of, so they are only looked at.
int launched_rank() {
  const Variables* variables = find_variables();
  const char* rank = variables ? std::getenv(variables->rank) : nullptr;
  return rank ? std::max(0, std::atoi(rank)) : 0;
}

std::unique_ptr<Communicator> world(CommOptions options) {
  const std::optional<Launcher> launcher = find_launcher();
  if (!launcher || launcher->size == 1) return make_self(options);
  if (!std::getenv("CAPSTAN_FLIGHT_RECORDS") && options.flight_records.empty()) {
    options.flight_records = "flight_records";
  }
  auto communicator = make_mpi(options);
  if (communicator->size() != launcher->size) {
    raise<CommError>(
        "[world] {} started {} ranks, but the MPI library that this program is linked with counts "
        "{}: "
        "start it with the mpirun of that library",
        launcher->name, launcher->size, communicator->size());
  }
  return communicator;
}

std::string preflight(Communicator& communicator, const std::string& device) {
  const auto lines = communicator.all_gather_strings(
      fmt::format("{:>4}  {:<24} {:<8} {:>7}\n", communicator.rank(),
                  communicator.host(communicator.rank()), device, thread_count()),
      "preflight");
  std::string table =
      fmt::format("{:>4}  {:<24} {:<8} {:>7}\n", "rank", "host", "device", "threads");
  for (const std::string& line : lines) table += line;
  return table;
}

int run_main(int argc, char** argv, const Main& body) {
  const std::string program = program_name(argc > 0 ? argv[0] : nullptr);
  std::unique_ptr<Communicator> communicator;
  try {
    const CommOptions options;
    const Watchdog limit("[world] MPI did not start", options.timeout,
                         "a host cannot be reached, or a rank is stopped, or hosts have several "
                         "networks; name the one that joins them: mpirun --mca btl_tcp_if_include "
                         "eth0 --mca oob_tcp_if_include eth0");
    communicator = world(options);
  } catch (const std::exception& error) {
    // As a rule all ranks have the same environment and error, and the launcher ends them with the
    // first: so rank 0 speaks, and others do if they are left.
    const int rank = launched_rank();
    if (rank > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    complain(program, rank > 0 ? fmt::format("rank {}: {}", rank, error.what()) : error.what());
    std::_Exit(1);
  }
  try {
    const int status = body(*communicator, argc, argv);
    // Without this, a rank that ends early would not hear of an error on another one.
    communicator->barrier("end of the program").wait();
    return status;
  } catch (const SharedError& error) {
    // If only some ranks have it, it comes from their own communicator, which counts its ranks, and
    // has saved its records.
    const std::string message = error.what();
    end_after(*communicator, program, message, "in a part of the ranks, counted there: " + message,
              false);
  } catch (const std::exception& error) {
    end_after(*communicator, program, error.what(), error.what(), true);
  } catch (...) {
    end_after(*communicator, program, "unknown exception", "unknown exception", true);
  }
}

}  // namespace capstan::distributed
