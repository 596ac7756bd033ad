// Reading order: save(), read_checkpoint() (which trusts nothing that it reads), load().
#include "models/train_state.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/raise.h"
#include "core/safetensors.h"
#include "core/sha256.h"
#include "distributed/replicate.h"
#include "nn/state.h"

namespace capstan::models {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 2;  // of the manifest; readers refuse others
constexpr const char* kManifest = "latest.json";
constexpr const char* kChecksum = "manifest_sha256";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";

std::string read_file(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);  // an error for what is not a file, too
  std::string bytes(error ? 0 : size, '\0');
  if (error || !std::ifstream(path, std::ios::binary).read(bytes.data(), std::ssize(bytes))) {
    raise<IoError>("[checkpoint] cannot read {}: {}", path.string(),
                   error ? error.message() : std::strerror(errno));
  }
  return bytes;
}

std::string sha256_of(const std::string& bytes) {
  return sha256_hex(std::as_bytes(std::span(bytes)));
}

/// The manifest's own checksum: over its entries in the order of their names, without itself.
std::string checksum_of(json manifest) {
  manifest.erase(kChecksum);
  return sha256_of(manifest.dump());
}

json read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifest;
  try {
    return json::parse(read_file(path));
  } catch (const json::exception& error) {
    raise<IoError>("[checkpoint] {} is not a manifest: {}", path.string(), error.what());
  }
}

std::vector<fs::path> own_files(const fs::path& folder) {
  return {folder / kManifest, folder / "a" / kModelFile, folder / "a" / kOptimizerFile,
          folder / "b" / kModelFile, folder / "b" / kOptimizerFile};
}

/// The slot that the manifest in `folder` does not name.
std::string free_slot(const fs::path& folder) {
  try {
    return read_manifest(folder).at("slot") == "a" ? "b" : "a";
  } catch (const std::exception&) {
    return "a";  // no manifest, or a broken one, protects nothing
  }
}

}  // namespace

std::vector<std::string> TrainState::paths(const std::string& folder) {
  const fs::path path(folder);
  return {path / kManifest, path / "a", path / "b"};
}

void TrainState::prepare(const std::string& folder) {
  for (const fs::path& file : own_files(folder)) {
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error) {
      raise<IoError>("[checkpoint] cannot make the folder {}: {}", file.parent_path().string(),
                     error.message());
    }
    check_writable(file);
  }
}

void TrainState::save(const std::string& folder) const {
  prepare(folder);
  for (const fs::path& file : own_files(folder)) remove_leftovers(file);

  const std::string slot = free_slot(folder);
  const fs::path files = fs::path(folder) / slot;
  save_safetensors(files / kModelFile, nn::state_dict(model));
  save_safetensors(files / kOptimizerFile, optimizer.state());
  json manifest = {
      {"format", kFormat},
      {"model", run.model},
      {"optimizer", run.optimizer},
      {"seed", run.seed},
      {"training_samples", run.training_samples},
      {"step", step},
      {"samples", samples},
      {"gradient_order", gradient_order},
      {"slot", slot},
      {"sha256",
       {{kModelFile, sha256_of(read_file(files / kModelFile))},
        {kOptimizerFile, sha256_of(read_file(files / kOptimizerFile))}}},
  };
  manifest[kChecksum] = checksum_of(manifest);
  write_atomically(fs::path(folder) / kManifest,
                   [&](std::ostream& out) { out << manifest.dump(2) << '\n'; });
}

namespace {

template <class T>
void require_same(const char* what, const T& saved, const T& ours) {
  if (saved == ours) return;
  raise<ValueError>("[resume] the checkpoint is of another run: its {} is {}, this run's is {}",
                    what, saved, ours);
}

/// Takes over what the manifest says about the run. Throws json::exception for anything amiss.
void take_manifest(TrainState& state, const json& manifest) {
  require_same("model", manifest.at("model").get<std::string>(), state.run.model);
  require_same("optimizer", manifest.at("optimizer").get<std::string>(), state.run.optimizer);
  require_same("seed", manifest.at("seed").get<uint64_t>(), state.run.seed);
  require_same("number of training samples", manifest.at("training_samples").get<int64_t>(),
               state.run.training_samples);
  state.step = manifest.at("step").get<int64_t>();
  state.samples = manifest.at("samples").get<int64_t>();
  state.gradient_order = manifest.at("gradient_order").get<std::vector<int>>();
}

void require_sha256(const fs::path& file, const std::string& found, const json& expected) {
  if (found == expected.get<std::string>()) return;
  raise<IoError>("[checkpoint] {} is damaged: expected sha256 {}, found {}", file.string(),
                 expected.get<std::string>(), found);
}

/// A file of the slot, once its checksum is found right.
std::map<std::string, Tensor> read_tensors(const fs::path& files, const json& manifest,
                                           const char* name) {
  const fs::path file = files / name;
  require_sha256(file, sha256_of(read_file(file)), manifest.at("sha256").at(name));
  return load_safetensors(file).tensors;
}

/// Reads the checkpoint in `folder` into `state` and returns the manifest.
std::string read_checkpoint(TrainState& state, const fs::path& folder) {
  const fs::path path = folder / kManifest;
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    raise<IoError>("[resume] {} is not a folder, so there is no checkpoint in it", folder.string());
  }
  if (fs::status(path, error).type() == fs::file_type::not_found) {
    raise<IoError>("[resume] there is no checkpoint in {}: it has no {}; start without --resume",
                   folder.string(), kManifest);
  }
  const json manifest = read_manifest(folder);
  try {
    require_same("format", manifest.at("format").get<int>(), kFormat);
    require_sha256(path, checksum_of(manifest), manifest.at(kChecksum));
    take_manifest(state, manifest);
    const std::string slot = manifest.at("slot").get<std::string>();
    if (slot != "a" && slot != "b") raise<IoError>("[checkpoint] no slot is named '{}'", slot);
    nn::load_state_dict(state.model, read_tensors(folder / slot, manifest, kModelFile));
    state.optimizer.load_state(read_tensors(folder / slot, manifest, kOptimizerFile));
  } catch (const json::exception& error) {
    raise<IoError>("[checkpoint] {} is damaged: {}", path.string(), error.what());
  }
  return manifest.dump();
}

}  // namespace

void TrainState::load(const std::string& folder, distributed::Communicator& communicator) {
  std::string manifest;
  communicator.together("resume", [&] {
    if (communicator.rank() == 0) manifest = read_checkpoint(*this, folder);
  });
  manifest = communicator.broadcast_string(manifest, 0, "manifest");
  take_manifest(*this, json::parse(manifest));

  const NamedTensors kept = optimizer.state();
  distributed::replicate(kept, communicator, "the optimizer's state");
  optimizer.load_state({kept.begin(), kept.end()});
}

}  // namespace capstan::models
