#include "distributed/checkpoint/saver.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/raise.h"

namespace capstan::distributed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    raise<IoError>("[checkpoint] cannot make the folder {}: {}", folder.string(), error.message());
  }
}

void make_slots(const std::string& folder) {
  for (const char* slot : {"a", "b"}) make_folder(fs::path(folder) / slot);
}

/// What an earlier save left in a slot that is not in use: whole files, and those written aside.
void empty_slot(const fs::path& slot) {
  std::error_code ignored;  // what cannot be removed is in the way of a file, which will say so
  for (const auto& entry : fs::directory_iterator(slot, ignored)) {
    const std::string name = entry.path().filename();
    if (name.find(".safetensors") != std::string::npos) fs::remove(entry, ignored);
  }
}

std::string to_text(const std::map<std::string, Manifest::File>& files) {
  json text = json::object();
  for (const auto& [name, file] : files) text[name] = {file.bytes, file.sha256};
  return text.dump();
}

void add_files(const std::string& text, std::map<std::string, Manifest::File>& files) {
  const json value = json::parse(text);
  for (const auto& [name, file] : value.items()) files[name] = {file[0], file[1]};
}

}  // namespace

/// What the thread needs.
struct Saver::Job {
  Manifest manifest;
  std::map<std::string, NamedTensors> files;  // of this rank, with its copies
};

Saver::Saver(std::string folder, Communicator& communicator, SaverOptions options)
    : folder_(std::move(folder)), communicator_(communicator), options_(options) {
  communicator.together("checkpoint", [&] { prepare(folder_); });
  apart_ = communicator.split(0);
}

Saver::~Saver() {
  if (thread_.joinable()) thread_.join();
}

std::vector<std::string> Saver::paths(const std::string& folder) {
  const fs::path path(folder);
  return {path / kManifestFile, path / "a", path / "b"};
}

void Saver::prepare(const std::string& folder) {
  make_slots(folder);
  for (const char* slot : {"a", "b"}) {
    check_writable(fs::path(folder) / slot / file_name("model", 0, 1));
  }
  check_writable(manifest_path(folder));
}

void Saver::save(const Groups& groups, const Metadata& run) {
  finish();
  std::string outline, slot;
  communicator_.together("checkpoint", [&] {
    make_slots(folder_);
    outline = to_json(outlines(groups));
    if (communicator_.rank() == 0) slot = free_slot(folder_);
  });
  std::vector<std::vector<Outline>> held;
  for (const std::string& text : communicator_.all_gather_strings(outline, "pieces to save")) {
    held.push_back(parse_outlines(text));
  }
  slot = communicator_.broadcast_string(slot, 0, "slot of the checkpoint");

  Job job;
  communicator_.together("checkpoint", [&] {
    const SavePlan plan = plan_save(held);
    job.manifest = plan.manifest;
    job.manifest.slot = slot;
    job.manifest.run = run;
    to_json(job.manifest);  // throws for what the thread could not write
    if (communicator_.local_rank() == 0) empty_slot(fs::path(folder_) / slot);
    if (communicator_.rank() == 0) remove_leftovers(manifest_path(folder_));

    std::vector<const Piece*> pieces;  // as outlines() numbers them
    for (const auto& [_, list] : groups) {
      for (const Piece& piece : list) pieces.push_back(&piece);
    }
    const std::vector<Outline>& mine = held[communicator_.rank()];
    for (const size_t i : plan.writes[communicator_.rank()]) {
      const auto& [group, name, dtype, region] = mine[i];
      // A range is a list, whatever the shape of the values.
      const Shape shape = region.is_box() ? region.shape : Shape{region.count()};
      job.files[file_name(group, communicator_.rank(), communicator_.size())].emplace_back(
          key_of(name, region), reshaped(dense_copy(pieces[i]->values), shape));
    }
  });
  thread_ = std::thread([this, job = std::move(job)]() mutable { write(std::move(job)); });
  if (!options_.background) finish();
}

void Saver::write(Job job) {
  try {
    std::map<std::string, Manifest::File> files;
    apart_->together("checkpoint", [&] {
      for (auto& [name, tensors] : job.files) {
        const std::string path = path_of(folder_, job.manifest, name);
        Sha256 sum;
        save_safetensors(path, tensors, {}, &sum);
        files[name] = {static_cast<int64_t>(fs::file_size(path)), sum.hex()};
        tensors.clear();
      }
    });
    for (const std::string& text : apart_->all_gather_strings(to_text(files), "checksums")) {
      add_files(text, job.manifest.files);
    }
    apart_->together("checkpoint", [&] {
      if (apart_->rank() > 0) return;
      write_atomically(manifest_path(folder_),
                       [&](std::ostream& out) { out << to_json(job.manifest); });
    });
  } catch (...) {
    error_ = std::current_exception();
  }
}

void Saver::finish() {
  if (thread_.joinable()) thread_.join();
  if (const auto error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

}  // namespace capstan::distributed
