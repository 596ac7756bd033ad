// kills_program FOLDER SEED THREADS STEPS: loads the checkpoint in FOLDER, if there is one, and
// then saves one after another until it is killed, or STEPS times. Each start has another layout.
// The ranks are THREADS threads, or with 0 the processes of a launcher.
//
// Prints "loaded N" and "saved N"; "torn", and exits with status 3, if a checkpoint holds anything
// but all elements of its step.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "distributed/checkpoint/load.h"
#include "distributed/checkpoint/saver.h"
#include "distributed/comm/launch.h"
#include "distributed/comm/thread.h"
#include "tests/distributed/checkpoint/layouts.h"

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::testing;

namespace {

void say(const Communicator& c, const std::string& word, int64_t step) {
  if (c.rank() > 0) return;
  fmt::print("{} {}\n", word, step);
  std::fflush(stdout);
}

Groups groups_of(int64_t step, LayoutKind kind, const Communicator& c, bool filled) {
  NamedTensors model = known_tensors(step), state;
  const Tensor large = empty({251, 509});
  fill_elements(large, static_cast<double>(step));
  model.emplace_back("large", large);
  for (const auto& [name, tensor] : model) state.emplace_back(name + ".momentum", tensor);
  return {{"model", pieces_of(model, kind, c.rank(), c.size(), filled)},
          {"optimizer", pieces_of(state, kind, c.rank(), c.size(), filled)}};
}

int run(Communicator& c, char** argv) {
  const std::string folder = argv[1];
  const LayoutKind kind = kLayouts[std::atoi(argv[2]) % std::size(kLayouts)];
  const int64_t steps = std::atoll(argv[4]);
  int64_t step = 0;
  bool found = false;
  c.together("look", [&] { found = std::filesystem::exists(manifest_path(folder)); });
  if (c.broadcast_string(found ? "yes" : "no", 0) == "yes") {
    const Groups wanted = groups_of(0, kind, c, false);
    step = std::stoll(load(folder, wanted, c).at("step"));
    const Groups expected = groups_of(step, kind, c, true);
    for (const auto& [group, pieces] : wanted) {
      if (same(pieces, expected.at(group))) continue;
      fmt::print("torn {}\n", step);
      std::exit(3);
    }
  }
  say(c, "loaded", step);
  Saver saver(folder, c);
  for (const int64_t first = step; step < first + steps; ++step) {
    saver.save(groups_of(step + 1, kind, c, true), {{"step", std::to_string(step + 1)}});
    if (step > first) say(c, "saved", step);  // that is when the next one may begin
  }
  saver.finish();
  say(c, "saved", step);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  if (const int threads = std::atoi(argv[3])) {
    run_ranks(threads, [&](Communicator& c) { run(c, argv); });
    return EXIT_SUCCESS;
  }
  return run_main(argc, argv,
                  [](Communicator& c, int, char** arguments) { return run(c, arguments); });
}
