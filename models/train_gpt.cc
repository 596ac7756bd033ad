// train_gpt: trains a GPT on a text, alone or under mpirun, and lets it write. See --help.
#include <iostream>

#include "distributed/comm/launch.h"
#include "models/gpt_task.h"
#include "models/stop_signal.h"
#include "models/trainer.h"

using namespace capstan;
using namespace capstan::models;
using distributed::Communicator;

namespace {

TrainResult train_on_file(const GptOptions& options, Communicator& communicator) {
  std::optional<TextSet> text;
  communicator.together("data", [&] { text.emplace(options); });
  communicator.agree("data", text->digest);
  catch_stop_signals();
  return train(options, *text, communicator, std::cout);
}

int run(Communicator& communicator, int argc, char** argv) {
  return run_trainer<GptOptions>(communicator, argc, argv, [&](const GptOptions& options) {
    return train_on_file(options, communicator);
  });
}

}  // namespace

int main(int argc, char** argv) { return distributed::run_main(argc, argv, run); }
