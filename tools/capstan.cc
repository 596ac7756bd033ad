// capstan: what there is to do apart from training. See --help.
//
//   bazel build //tools:capstan
//   bazel-bin/tools/capstan checkpoint inspect runs/gpt
//   bazel-bin/tools/capstan checkpoint verify runs/gpt
//   bazel-bin/tools/capstan checkpoint consolidate runs/gpt gpt.safetensors
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/error.h"
#include "distributed/checkpoint/inspect.h"

namespace {

using namespace capstan::distributed;

/// A line on standard error that counts along while bytes are read, if a person looks at it.
class Counting {
 public:
  Counting() : seen_(::isatty(STDERR_FILENO)) {}
  ~Counting() {
    if (percent_ >= 0) fmt::print(stderr, "\r{:30}\r", "");
  }

  ReadProgress progress() {
    return [this](int64_t done, int64_t all) {
      const auto percent = static_cast<int>(100.0 * static_cast<double>(done) /
                                            static_cast<double>(std::max<int64_t>(all, 1)));
      if (!seen_ || percent == percent_) return;
      percent_ = percent;
      fmt::print(stderr, "\r{:3} % of {:.1f} MB", percent, static_cast<double>(all) / 1e6);
      std::fflush(stderr);
    };
  }

 private:
  const bool seen_;
  int percent_ = -1;
};

int verify_and_tell(const std::string& folder) {
  std::vector<std::string> faults;
  {
    Counting counting;
    faults = verify(folder, counting.progress());
  }
  for (const std::string& fault : faults) fmt::print("{}\n", fault);
  if (!faults.empty()) return EXIT_FAILURE;
  const Manifest manifest = read_manifest(folder);
  size_t tensors = 0;
  for (const auto& [_, group] : manifest.groups) tensors += group.size();
  fmt::print("{} tensors in {} files: all as they were saved\n", tensors, manifest.files.size());
  return EXIT_SUCCESS;
}

int run(int argc, char** argv) {
  CLI::App app("What there is to do with Capstan apart from training.");
  app.require_subcommand(1);
  CLI::App& checkpoint = *app.add_subcommand("checkpoint", "Look at what a training saved");
  checkpoint.require_subcommand(1);
  std::string folder, file;
  bool optimizer = false;

  CLI::App& inspect = *checkpoint.add_subcommand(
      "inspect", "Print the run, the files and the tensors, without reading these");
  CLI::App& verify = *checkpoint.add_subcommand(
      "verify", "Read everything and list what is wrong; the exit status says whether anything is");
  CLI::App& consolidate =
      *checkpoint.add_subcommand("consolidate", "Write the whole model into one safetensors file");
  for (CLI::App* command : {&inspect, &verify, &consolidate}) {
    command->add_option("folder", folder, "That of --checkpoint")->required();
  }
  consolidate.add_option("file", file, "To write")->required();
  consolidate.add_flag("--optimizer", optimizer, "The optimizer's state as well");
  CLI11_PARSE(app, argc, argv);

  if (inspect) fmt::print("{}", to_string(read_manifest(folder)));
  if (verify) return verify_and_tell(folder);
  if (consolidate) {
    Counting counting;
    std::vector<std::string> groups{"model"};
    if (optimizer) groups.push_back("optimizer");
    capstan::distributed::consolidate(folder, file, groups, counting.progress());
  }
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = run(argc, argv);
    if (std::fflush(stdout) != 0) throw capstan::IoError("standard output cannot be written");
    return status;
  } catch (const std::exception& error) {
    fmt::print(stderr, "capstan: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
