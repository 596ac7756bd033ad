#include "models/trainer.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "core/error.h"
#include "core/threads.h"
#include "distributed/comm/launch.h"

namespace capstan::models::detail {

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
  const int replicas = options.layout.mesh(ranks).size("data");
  if (options.layout.tensor * options.layout.context > 1 || options.layout.spread_experts) {
    return "samples computed by several ranks: the weights depend on their number, by rounding\n";
  }
  if (const int64_t shards = options.virtual_shards(replicas)) {
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
      ranks, options.passes());
}

void print_result(const TrainResult& result, const TrainOptions& options, int ranks) {
  std::cout << result.speed_text;
  if (ranks > 1) {
    std::cout << fmt::format(", {:.0f} % of communication hidden",
                             100 * result.hidden_communication);
  }
  std::cout << '\n';
  if (!options.checkpoint.empty()) {
    std::cout << fmt::format("checkpoint of step {} in {}\n", result.step, options.checkpoint);
  }
  if (result.test) std::cout << result.test_text << '\n';
  if (result.stopped) {
    std::cout << fmt::format("stopped by a signal after step {}\n", result.step);
  }
  std::cout << fmt::format("weights sha256 {}\n", result.weights_sha256);
}

}  // namespace

int show_help(const std::string& help, const Communicator& communicator) {
  if (communicator.rank() == 0) std::cout << help;
  return EXIT_SUCCESS;
}

void prepare(const TrainOptions& options, Communicator& communicator) {
  communicator.together("options", [&] { options.layout.mesh(communicator.size()); });
  share_cores(communicator, options.threads);
  const std::string ranks = distributed::preflight(communicator);
  if (communicator.rank() == 0 && !options.quiet) {
    std::cout << ranks << to_string(options.layout, communicator.size())
              << describe_sums(options, communicator.size()) << std::flush;
  }
}

int finish(const TrainResult& result, const TrainOptions& options,
           const Communicator& communicator) {
  if (communicator.rank() == 0) print_result(result, options, communicator.size());
  std::cout.flush();
  if (std::fflush(stdout) != 0 || !std::cout) {
    throw IoError("[train] the results could not be written to standard output");
  }
  return result.stopped ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace capstan::models::detail
