// The main function of tests that run under mpirun; see mpi.h for the rules.
//
// Rank 0 reports as doctest always does. The others keep their report and print it, each line with
// their rank, only if something failed there. Read main first, then Verdicts.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // a crash must reach mpirun as a crash
#include <doctest/doctest.h>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include "tests/testing/mpi.h"

namespace capstan::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(5);

int rank = 0;
int size = 1;
std::string label;  // "[rank 2] "
std::string current_case = "start-up";
std::ostringstream report;  // of a rank other than 0

void print_report() {
  if (rank == 0) {
    std::cout.flush();
    return;
  }
  std::istringstream lines(report.str());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += label + line + '\n';
  }
  std::cerr << text << std::flush;  // one write: ranks do not mix their lines
  report.str("");
}

/// Compares the verdicts of all ranks at the end of each test case.
class Verdicts : public doctest::IReporter {
 public:
  explicit Verdicts(const doctest::ContextOptions&) { MPI_Comm_dup(MPI_COMM_WORLD, &comm_); }

  /// Number of test cases that failed on some rank, this one or another.
  static int failed_cases;

  void test_case_start(const doctest::TestCaseData& test) override { current_case = test.m_name; }

  void test_case_end(const doctest::CurrentTestCaseStats& stats) override {
    const int failed_here = stats.failure_flags != 0;
    if (failed_here) print_report();

    // A communicator of its own: the test's ranks may still be inside a collective on another.
    int failed_ranks = 0;
    MPI_Request request;
    MPI_Iallreduce(&failed_here, &failed_ranks, 1, MPI_INT, MPI_SUM, comm_, &request);
    const auto start = std::chrono::steady_clock::now();
    for (int done = 0;;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done) break;
      if (failed_here && std::chrono::steady_clock::now() - start > kPatience) {
        std::cerr << label + "failed in \"" + current_case +
                         "\", and others do not reach its end\n";
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }

    if (failed_ranks == 0) return;
    ++failed_cases;
    if (rank == 0) {
      std::cout << "\"" << current_case << "\" failed on " << failed_ranks << " of " << size
                << " ranks\n";
    }
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override { MPI_Comm_free(&comm_); }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  MPI_Comm comm_;
};

int Verdicts::failed_cases = 0;

/// Says where this rank was when mpirun or a time limit stopped it. Async-signal-safe calls only.
void report_signal(int signal) {
  const auto say = [](const char* text) { return write(STDERR_FILENO, text, std::strlen(text)); };
  for (const char* part : {label.c_str(), "stopped in \"", current_case.c_str(), "\"\n"}) {
    if (say(part) < 0) break;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

int world_rank() { return rank; }
int world_size() { return size; }

}  // namespace capstan::testing

REGISTER_LISTENER("verdicts", 1, capstan::testing::Verdicts);

int main(int argc, char** argv) {
  using namespace capstan::testing;
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &threads);
  if (threads != MPI_THREAD_MULTIPLE) {
    std::cerr << "this MPI library gives no MPI_THREAD_MULTIPLE\n";
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  label = "[rank " + std::to_string(rank) + "] ";
  std::signal(SIGTERM, report_signal);
  std::signal(SIGABRT, report_signal);

  doctest::Context context;
  context.setOption("no-colors",
                    true);  // mpirun's terminals would otherwise put them into log files
  if (rank != 0) {
    context.setOption("no-intro", true);
    context.setCout(&report);
  }
  context.applyCommandLine(argc, argv);
  const int failed = context.run();
  MPI_Finalize();
  if (rank == 0) {
    std::cout << "[ranks] " << size << " ranks; " << Verdicts::failed_cases
              << " test cases failed on one or more of them" << std::endl;
  }
  return failed != 0 || Verdicts::failed_cases != 0;
}
