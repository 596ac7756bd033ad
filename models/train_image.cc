// train_image: trains LeNet or an MLP on Fashion-MNIST, alone or under mpirun. See --help.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "core/error.h"
#include "core/threads.h"
#include "data/fashion_mnist.h"
#include "distributed/comm/launch.h"
#include "models/stop_signal.h"
#include "models/train.h"

using namespace capstan;
using namespace capstan::models;
using distributed::Communicator;

namespace {

/// Unless told otherwise, the ranks of a machine share its cores evenly.
void share_cores(const Communicator& communicator, std::optional<int64_t> threads) {
  int here = 0;  // ranks on this machine
  for (int r = 0; r < communicator.size(); ++r) {
    here += communicator.host(r) == communicator.host(communicator.rank());
  }
  if (threads) {
    set_thread_count(static_cast<int>(*threads));
  } else if (!std::getenv("CAPSTAN_THREADS")) {
    set_thread_count(std::max(1, thread_count() / here));
  }
}

/// A line about what the weights depend on, where the user has reason to expect something.
std::string describe_sums(const TrainOptions& options, int ranks) {
  if (const int64_t shards = options.virtual_shards(ranks)) {
    return fmt::format(
        "{} virtual shards a step: the same weights on every number of ranks that divides them "
        "(--reproducible 0 is faster)\n",
        shards);
  }
  if (options.compress != "none") {
    return fmt::format("gradients travel as {}: the weights depend on the ranks\n",
                       options.compress);
  }
  if (!options.global_batch || options.reproducible) return "";
  return fmt::format(
      "no virtual shards on {} ranks with {} passes: the weights depend on both, by rounding\n",
      ranks, options.accumulate);
}

void print_result(const TrainResult& result, const TrainOptions& options, int ranks) {
  fmt::print("{:.0f} samples/s", result.samples_per_second);
  if (ranks > 1)
    fmt::print(", {:.0f} % of communication hidden", 100 * result.hidden_communication);
  fmt::print("\n");
  if (!options.checkpoint.empty()) {
    fmt::print("checkpoint of step {} in {}\n", result.step, options.checkpoint);
  }
  if (result.test) fmt::print("test accuracy {:.2f} %\n", 100 * result.test->accuracy());
  if (result.stopped) fmt::print("stopped by a signal after step {}\n", result.step);
  fmt::print("weights sha256 {}\n", result.weights_sha256);
}

int run(Communicator& communicator, int argc, char** argv) {
  const bool first = communicator.rank() == 0;
  CommandLine line;
  communicator.together("options", [&] { line = parse_command_line(argc, argv); });
  communicator.agree("options", line.shared);
  if (!line.help.empty()) {
    if (first) std::cout << line.help;
    return EXIT_SUCCESS;
  }
  const TrainOptions& options = line.options;

  share_cores(communicator, options.threads);
  const std::string ranks = distributed::preflight(communicator);
  if (first && !options.quiet) {
    std::cout << ranks << describe_sums(options, communicator.size()) << std::flush;
  }

  std::optional<data::ImageDataset> training_set, test_set;
  communicator.together("data", [&] {
    training_set = data::fashion_mnist(options.data, data::Split::train);
    test_set = data::fashion_mnist(options.data, data::Split::test);
  });

  communicator.agree("data",
                     "training set " + training_set->digest() + ", test set " + test_set->digest());

  catch_stop_signals();
  const TrainResult result = train(options, communicator, *training_set, *test_set, std::cout);
  if (first) print_result(result, options, communicator.size());
  std::cout.flush();
  if (std::fflush(stdout) != 0 || !std::cout) {
    throw IoError("[train_image] the results could not be written to standard output");
  }
  return result.stopped ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) { return distributed::run_main(argc, argv, run); }
