// Implements world(), preflight() and run_main().
#include "distributed/comm/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "core/raise.h"
#include "core/threads.h"
#include "distributed/comm/last_words.h"
#include "distributed/comm/mpi.h"
#include "distributed/comm/progress.h"
#include "distributed/comm/self.h"
#include "distributed/comm/tcp.h"
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
// inside an allocation. Whoever starts ranks by hand may do so inside a step of srun's, which then
// counts one task.
struct Variables {
  const char *launcher, *size, *rank;
  const char* mpi;  // is set if MPI joins the ranks
};
constexpr Variables kVariables[] = {
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec (PMI)", "PMI_SIZE", "PMI_RANK", "PMI_SIZE"},
    {"the environment", "WORLD_SIZE", "RANK", nullptr},
    {"srun (Slurm)", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "PMIX_RANK"},
};

// The first that are set, or else half of which are, or null.
const Variables* find_variables() {
  for (bool half : {false, true}) {
    for (const Variables& known : kVariables) {
      if (std::getenv(known.size) && (half || std::getenv(known.rank))) return &known;
    }
  }
  return nullptr;
}

// The first of "h1", "h1,h2", "h[01-04,7],g[1-2]": "h1", "h1", "h01".
std::string first_host(const std::string& list) {
  const std::string name = list.substr(0, list.find_first_of(",["));
  if (name.size() == list.size() || list[name.size()] == ',') return name;
  const size_t begin = name.size() + 1;
  return name + list.substr(begin, list.find_first_of(",-]", begin) - begin);
}

// Where ranks without MPI meet.
void find_meeting_point(Launcher& launcher) {
  const char* address = std::getenv("MASTER_ADDR");
  const char* hosts = std::getenv("SLURM_STEP_NODELIST");
  if (address && *address) {
    launcher.address = address;
  } else if (hosts) {
    launcher.address = first_host(hosts);
  } else {
    raise<CommError>(
        "[launch] {} says that this is one of {} ranks: MASTER_ADDR must name the host "
        "of rank 0, and MASTER_PORT a free port there",
        launcher.name, launcher.size);
  }
  if (std::getenv("MASTER_PORT") || !std::getenv("SLURM_JOB_ID")) {
    launcher.port = environment_number("MASTER_PORT");
  } else {  // below the ports that systems give out by themselves
    launcher.port = 20'000 + environment_number("SLURM_JOB_ID") % 12'000;
  }
  if (launcher.port < 1 || launcher.port > 65535) {
    raise<CommError>("[launch] MASTER_PORT is in [1, 65535], got {}", launcher.port);
  }
}

// The flight records of a rank that is told to end. If it ends well after all, it takes them back.
class LastRecords {
 public:
  void save() {
    std::lock_guard lock(mutex_);
    files_ = save_flight_records(
        "told to end (SIGTERM), as launchers tell all ranks when one has ended");
  }
  void take_back() {
    std::lock_guard lock(mutex_);
    for (const std::string& file : files_) std::remove(file.c_str());
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> files_;
};

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
  if (!all_came && mpi_is_running() && !std::getenv("OMPI_COMM_WORLD_SIZE")) mpi_abort(1);
  std::_Exit(1);  // no destructors: MPI must not be finalised, and nothing waits for a peer
}

}  // namespace

std::optional<Launcher> find_launcher() {
  const Variables* variables = find_variables();
  if (!variables) return std::nullopt;
  Launcher launcher{variables->launcher, environment_number(variables->rank),
                    environment_number(variables->size)};
  if (launcher.size < 1 || launcher.rank >= launcher.size) {
    raise<CommError>("[launch] {} says that this is rank {} of {}", launcher.name, launcher.rank,
                     launcher.size);
  }
  const bool mpi = variables->mpi && std::getenv(variables->mpi);
  if (!mpi && launcher.size > 1) find_meeting_point(launcher);
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
  if (launcher->port) {
    return make_tcp({launcher->rank, launcher->size, launcher->address, launcher->port,
                     std::max(options.timeout, Watchdog::kShortest)},
                    options);
  }
  const Watchdog limit("[world] MPI did not start", options.timeout,
                       "a host cannot be reached, or a rank is stopped, or hosts have several "
                       "networks; name the one that joins them: mpirun --mca btl_tcp_if_include "
                       "eth0 --mca oob_tcp_if_include eth0");
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
    communicator = world();
  } catch (const std::exception& error) {
    // As a rule all ranks have the same environment and error, and the launcher ends them with the
    // first: so rank 0 speaks, and others do if they are left.
    const int rank = launched_rank();
    if (rank > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    const bool shared = dynamic_cast<const SharedError*>(&error) || rank == 0;
    complain(program, shared ? error.what()
                             : fmt::format("rank {} on {}: {}", rank, host_name(), error.what()));
    std::_Exit(1);
  }
  LastRecords records;
  const LastWords last_words([&records] { records.save(); });
  try {
    const int status = body(*communicator, argc, argv);
    // Without this, a rank that ends early would not hear of an error on another one.
    communicator->barrier("end of the program").wait();
    records.take_back();
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
