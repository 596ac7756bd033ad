#include "distributed/checkpoint/load.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/raise.h"
#include "distributed/checkpoint/piece_reader.h"

namespace capstan::distributed {
namespace {

using nlohmann::json;

/// What one rank wants, and what is wrong with it.
struct Findings {
  std::set<std::string> faults;
  std::set<std::pair<std::string, std::string>> wanted;  // group and name
  std::set<std::string> files;                           // that it will read
};

/// Those of all ranks, by rank.
std::vector<Findings> share(const Findings& mine, Communicator& communicator) {
  const std::string text = json{mine.faults, mine.wanted, mine.files}.dump(
      -1, ' ', false, json::error_handler_t::replace);  // what is not UTF-8
  std::vector<Findings> all;
  for (const std::string& other : communicator.all_gather_strings(text, "checkpoint")) {
    const json value = json::parse(other);
    all.push_back({value[0], value[1], value[2]});
  }
  return all;
}

/// The faults of all ranks; those that not all have found, with the first rank that has.
std::set<std::string> faults_of(const std::vector<Findings>& all,
                                const Communicator& communicator) {
  std::map<std::string, std::vector<int>> finders;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const std::string& fault : all[rank].faults) {
      finders[fault].push_back(static_cast<int>(rank));
    }
  }
  std::set<std::string> faults;
  for (const auto& [fault, ranks] : finders) {
    faults.insert(ranks.size() == all.size() ? fault
                                             : fmt::format("{} (rank {} on {})", fault, ranks[0],
                                                           communicator.host(ranks[0])));
  }
  return faults;
}

/// Throws on every rank, or on none: all pass the same faults.
void throw_if_any(const std::set<std::string>& faults) {
  constexpr size_t kMost = 20;
  if (faults.empty()) return;
  std::string text;
  size_t listed = 0;
  for (const std::string& fault : faults) {
    if (listed++ == kMost) break;
    text += (text.empty() ? "" : "; ") + fault;
  }
  if (faults.size() > kMost) text += fmt::format("; and {} more", faults.size() - kMost);
  throw SharedError("[checkpoint] " + text);
}

/// The text of an error without "[operation] ".
std::string without_prefix(const std::string& text) {
  const size_t end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

/// Empty if the checkpoint has the tensor of the piece.
std::string tensor_fault(const Manifest& manifest, const std::string& group, const Piece& piece) {
  const auto tensors = manifest.groups.find(group);
  if (tensors == manifest.groups.end() || !tensors->second.contains(piece.name)) {
    return fmt::format("{} is not in its {}", piece.name, group);
  }
  const Manifest::Tensor& saved = tensors->second.at(piece.name);
  const Shape& shape = piece.region.global;
  const Dtype dtype = piece.values.dtype();
  if (saved.shape == shape && saved.dtype == dtype) return "";
  return fmt::format("{} is {} {} there and {} {} here", piece.name, saved.dtype, saved.shape,
                     dtype, shape);
}

/// Tensors of the wanted groups that nobody wants.
std::set<std::string> extra_faults(const Manifest& manifest, const std::vector<Findings>& all) {
  std::set<std::pair<std::string, std::string>> wanted;
  std::set<std::string> groups, faults;
  for (const Findings& findings : all) {
    wanted.insert(findings.wanted.begin(), findings.wanted.end());
    for (const auto& [group, _] : findings.wanted) groups.insert(group);
  }
  for (const auto& [group, tensors] : manifest.groups) {
    if (!groups.contains(group)) continue;
    for (const auto& [name, _] : tensors) {
      if (wanted.contains({group, name})) continue;
      faults.insert(fmt::format("{} is in its {} and nobody wants it", name, group));
    }
  }
  return faults;
}

/// Which files this rank compares with their checksums. Each is one rank's of those that will read
/// it: the largest go first, each to the one that has the least so far.
std::vector<std::string> files_to_check(const Manifest& manifest, const std::vector<Findings>& all,
                                        int rank) {
  std::map<std::string, std::vector<size_t>> readers;
  for (size_t r = 0; r < all.size(); ++r) {
    for (const std::string& file : all[r].files) readers[file].push_back(r);
  }
  std::vector<std::string> files, mine;
  for (const auto& [file, _] : readers) files.push_back(file);
  const auto bytes = [&](const std::string& file) { return manifest.files.at(file).bytes; };
  std::ranges::stable_sort(files, std::greater{}, bytes);
  std::vector<int64_t> load(all.size());
  for (const std::string& file : files) {
    const size_t least =
        *std::ranges::min_element(readers[file], {}, [&](size_t r) { return load[r]; });
    load[least] += bytes(file);
    if (static_cast<int>(least) == rank) mine.push_back(file);
  }
  return mine;
}

Findings look(const std::string& folder, const Manifest& manifest, const Groups& wanted) {
  Findings found;
  PieceReader reader(folder, manifest);
  for (const auto& [group, pieces] : wanted) {
    for (const Piece& piece : pieces) {
      found.wanted.emplace(group, piece.name);
      const std::string fault = tensor_fault(manifest, group, piece);
      if (!fault.empty()) {
        found.faults.insert(fault);
        continue;
      }
      bool there = true;
      for (const auto& saved : manifest.groups.at(group).at(piece.name).pieces) {
        if (overlap(saved.region, piece.region).empty()) continue;
        found.files.insert(saved.file);
        const std::string fault = file_fault(folder, manifest, saved.file);
        if (fault.empty()) continue;
        found.faults.insert(fault);
        there = false;
      }
      if (!there) continue;
      try {
        reader.check_files(group, piece);
      } catch (const IoError& error) {
        found.faults.insert(without_prefix(error.what()));
      }
    }
  }
  return found;
}

}  // namespace

Manifest read_manifest(const std::string& folder, Communicator& communicator) {
  std::string text;
  communicator.together("checkpoint", [&] {
    if (communicator.rank() == 0) {
      text = read_manifest_text(folder);
      parse_manifest(text, manifest_path(folder));
    }
  });
  return parse_manifest(communicator.broadcast_string(text, 0, "manifest"), manifest_path(folder));
}

void load(const std::string& folder, const Manifest& manifest, const Groups& wanted,
          Communicator& communicator, const LoadOptions& options) {
  Findings found;
  communicator.together("checkpoint", [&] {
    outlines(wanted);
    found = look(folder, manifest, wanted);
  });
  const std::vector<Findings> all = share(found, communicator);
  std::set<std::string> faults = faults_of(all, communicator);
  if (!options.allow_extra) faults.merge(extra_faults(manifest, all));
  throw_if_any(faults);

  Findings damage;
  for (const std::string& file : files_to_check(manifest, all, communicator.rank())) {
    const std::string fault = checksum_fault(folder, manifest, file);
    if (!fault.empty()) damage.faults.insert(fault);
  }
  throw_if_any(faults_of(share(damage, communicator), communicator));

  communicator.together("checkpoint", [&] {
    PieceReader reader(folder, manifest);
    for (const auto& [group, pieces] : wanted) {
      for (const Piece& piece : pieces) reader.read(group, piece);
    }
  });
}

Metadata load(const std::string& folder, const Groups& wanted, Communicator& communicator,
              const LoadOptions& options) {
  const Manifest manifest = read_manifest(folder, communicator);
  load(folder, manifest, wanted, communicator, options);
  return manifest.run;
}

}  // namespace capstan::distributed
