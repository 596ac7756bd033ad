#include "distributed/checkpoint/inspect.h"

#include <algorithm>

#include "core/raise.h"
#include "distributed/checkpoint/piece_reader.h"

namespace capstan::distributed {
namespace {

using Table = std::vector<std::vector<std::string>>;

/// Rows of cells, each column as wide as its widest cell; numbers in the last `right` ones stand at
/// the right.
std::string print(const Table& table, size_t right) {
  std::vector<size_t> widths(table[0].size());
  for (const auto& row : table) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : table) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const bool at_right = c + right >= row.size();
      line += at_right ? fmt::format("  {:>{}}", row[c], widths[c])
                       : fmt::format("  {:<{}}", row[c], widths[c]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

int64_t bytes_of(const Manifest::Tensor& tensor) {
  return numel(tensor.shape) * item_size(tensor.dtype);
}

using Files = std::map<std::string, Manifest::File>;

int64_t bytes_of(const Files& files) {
  int64_t bytes = 0;
  for (const auto& [_, file] : files) bytes += file.bytes;
  return bytes;
}

/// Counts up to all bytes that will be read.
class Counter {
 public:
  Counter(const ReadProgress& progress, int64_t all) : progress_(progress), all_(all) {}
  void add(int64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, all_);
  }

 private:
  const ReadProgress& progress_;
  const int64_t all_;
  int64_t done_ = 0;
};

std::vector<std::string> checksum_faults(const std::string& folder, const Manifest& manifest,
                                         const Files& files, Counter& counter) {
  std::vector<std::string> faults;
  for (const auto& [name, _] : files) {
    const std::string fault =
        checksum_fault(folder, manifest, name, [&](int64_t bytes) { counter.add(bytes); });
    if (!fault.empty()) faults.push_back(fault);
  }
  return faults;
}

}  // namespace

std::string to_string(const Manifest& manifest) {
  std::string text = fmt::format("saved by {} {}, in slot {}\n", manifest.ranks,
                                 manifest.ranks == 1 ? "rank" : "ranks", manifest.slot);
  if (!manifest.run.empty()) {
    Table run;
    for (const auto& [name, value] : manifest.run) run.push_back({name, value});
    text += "\nrun\n" + print(run, 0);
  }
  Table files;
  for (const auto& [name, file] : manifest.files) {
    files.push_back({name, fmt::format("{} bytes", file.bytes)});
  }
  if (!files.empty()) text += "\nfiles\n" + print(files, 1);
  for (const auto& [group, tensors] : manifest.groups) {
    Table table{{"tensor", "dtype", "shape", "pieces", "bytes"}};
    int64_t bytes = 0;
    for (const auto& [name, tensor] : tensors) {
      table.push_back({name, to_string(tensor.dtype), to_string(tensor.shape),
                       std::to_string(tensor.pieces.size()), std::to_string(bytes_of(tensor))});
      bytes += bytes_of(tensor);
    }
    text += fmt::format("\n{}: {} {}, {} bytes\n", group, tensors.size(),
                        tensors.size() == 1 ? "tensor" : "tensors", bytes);
    text += print(table, 2);
  }
  return text;
}

std::vector<std::string> verify(const std::string& folder, const ReadProgress& progress) {
  const Manifest manifest = read_manifest(folder);
  Counter counter(progress, bytes_of(manifest.files));
  std::vector<std::string> faults = checksum_faults(folder, manifest, manifest.files, counter);
  if (!faults.empty()) return faults;
  // The files are those that were saved; what is left is whether they are what the manifest says.
  PieceReader reader(folder, manifest);
  for (const auto& [group, tensors] : manifest.groups) {
    for (const auto& [name, tensor] : tensors) {
      try {
        reader.read(group, whole(name, empty(tensor.shape, {.dtype = tensor.dtype})));
      } catch (const IoError& error) {
        faults.push_back(error.what());
      }
    }
  }
  return faults;
}

void consolidate(const std::string& folder, const std::string& file,
                 const std::vector<std::string>& groups, const ReadProgress& progress) {
  const Manifest manifest = read_manifest(folder);
  std::vector<TensorSpec> specs;
  std::vector<std::string> group_of;  // by tensor
  Files files;
  int64_t all = 0;
  for (const std::string& group : groups) {
    const auto tensors = manifest.groups.find(group);
    if (tensors == manifest.groups.end()) {
      raise<ValueError>("[checkpoint] there is no group {} in the checkpoint in {}", group, folder);
    }
    for (const auto& [name, tensor] : tensors->second) {
      specs.push_back({name, tensor.dtype, tensor.shape});
      group_of.push_back(group);
      all += bytes_of(tensor);
      for (const auto& p : tensor.pieces) files[p.file] = manifest.files.at(p.file);
    }
  }
  Counter counter(progress, bytes_of(files) + all);
  const auto faults = checksum_faults(folder, manifest, files, counter);
  if (!faults.empty()) raise<IoError>("[checkpoint] {}", fmt::join(faults, "; "));
  PieceReader reader(folder, manifest);
  save_safetensors(
      file, specs,
      [&](size_t i) {
        const Tensor tensor = empty(specs[i].shape, {.dtype = specs[i].dtype});
        reader.read(group_of[i], whole(specs[i].name, tensor));
        counter.add(tensor.bytes());
        return tensor;
      },
      manifest.run);
}

}  // namespace capstan::distributed
