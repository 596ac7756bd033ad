// Defines run_trainer(), what the programs that train have in common: from the command line to the
// last line printed.
#pragma once

#include "models/train.h"

namespace capstan::models {

namespace detail {

/// Prints the help text, on rank 0. Returns the program's exit status.
int show_help(const std::string& help, const distributed::Communicator& communicator);
/// Shares out the cores, and prints who takes part. A collective.
void prepare(const TrainOptions& options, distributed::Communicator& communicator);
/// Prints the last lines, on rank 0. Returns the program's exit status; throws IoError if what was
/// printed did not arrive.
int finish(const TrainResult& result, const TrainOptions& options,
           const distributed::Communicator& communicator);

}  // namespace detail

/// Reads the options and calls `train(options)`, which returns a TrainResult. A collective; returns
/// the program's exit status.
template <class Options, class Train>
int run_trainer(distributed::Communicator& communicator, int argc, char** argv,
                const Train& train) {
  CommandLine<Options> line;
  communicator.together("options", [&] { line = parse_command_line<Options>(argc, argv); });
  communicator.agree("options", line.shared);
  if (!line.help.empty()) return detail::show_help(line.help, communicator);
  detail::prepare(line.options, communicator);
  return detail::finish(train(line.options), line.options, communicator);
}

}  // namespace capstan::models
