#include "distributed/checkpoint/piece_reader.h"

#include <cstring>
#include <filesystem>

#include "core/raise.h"

namespace capstan::distributed {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostOpen = 64;

// Runs that lie this close are read at once, with what is between them, in spans of at most so many
// bytes: a read costs about as much as some thousands of bytes.
constexpr int64_t kGap = 16 << 10, kSpan = 1 << 20;

/// Copies runs [first, last), of elements of `size` bytes, from a span that begins with the first.
void scatter(const std::vector<std::byte>& span, const Run* first, const Run* last, int64_t size,
             std::byte* to) {
  for (const Run* run = first; run != last; ++run) {
    std::memcpy(to + run->to * size, span.data() + (run->from - first->from) * size,
                run->count * size);
  }
}

void read_runs(SafetensorsFile& file, const std::string& key, const std::vector<Run>& runs,
               int64_t size, std::byte* to) {
  std::vector<std::byte> span;
  const Run* const end = runs.data() + runs.size();
  for (const Run* first = runs.data(); first != end;) {
    const Run* last = first + 1;
    const auto stop = [](const Run* run) { return run->from + run->count; };
    while (last != end && (last->from - stop(last - 1)) * size <= kGap &&
           (stop(last) - first->from) * size <= kSpan) {
      ++last;
    }
    if (last == first + 1) {
      file.read(key, first->from, first->count, to + first->to * size);
    } else {
      const int64_t count = stop(last - 1) - first->from;
      span.resize(count * size);
      file.read(key, first->from, count, span.data());
      scatter(span, first, last, size, to);
    }
    first = last;
  }
}

}  // namespace

std::string file_fault(const std::string& folder, const Manifest& manifest,
                       const std::string& file) {
  const std::string path = path_of(folder, manifest, file);
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) return path + " is missing";
  const auto size = fs::file_size(path, error);
  if (error) return fmt::format("cannot read {}: {}", path, error.message());
  const int64_t expected = manifest.files.at(file).bytes;
  if (static_cast<int64_t>(size) == expected) return "";
  return fmt::format("{} is damaged: expected {} bytes, found {}", path, expected, size);
}

std::string checksum_fault(const std::string& folder, const Manifest& manifest,
                           const std::string& file, const std::function<void(int64_t)>& after) {
  const std::string path = path_of(folder, manifest, file);
  const std::string fault = file_fault(folder, manifest, file);
  if (!fault.empty()) return fault;
  try {
    const std::string found = sha256_of_file(path, after),
                      &expected = manifest.files.at(file).sha256;
    if (found == expected) return "";
    return fmt::format("{} is damaged: expected sha256 {}, found {}", path, expected, found);
  } catch (const IoError& error) {
    return error.what();
  }
}

SafetensorsFile& PieceReader::open(const Manifest::Tensor& tensor, const Manifest::Piece& saved) {
  const std::string path = path_of(folder_, manifest_, saved.file);
  auto at = files_.find(saved.file);
  if (at == files_.end()) {
    if (files_.size() == kMostOpen) files_.clear();
    at = files_.emplace(saved.file, SafetensorsFile(path)).first;
  }
  const auto entry = at->second.tensors().find(saved.key);
  if (entry == at->second.tensors().end()) {
    raise<IoError>("[checkpoint] {} is not as the manifest says: it has no {}", path, saved.key);
  }
  const auto& [dtype, shape, begin, end] = entry->second;
  if (dtype != tensor.dtype || numel(shape) != saved.region.count()) {
    raise<IoError>("[checkpoint] {} is not as the manifest says: {} is {} {}, not {} numbers of {}",
                   path, saved.key, dtype, shape, saved.region.count(), tensor.dtype);
  }
  return at->second;
}

void PieceReader::check_files(const std::string& group, const Piece& piece) {
  const Manifest::Tensor& tensor = manifest_.groups.at(group).at(piece.name);
  for (const Manifest::Piece& saved : tensor.pieces) {
    if (!overlap(saved.region, piece.region).empty()) open(tensor, saved);
  }
}

void PieceReader::read(const std::string& group, const Piece& piece) {
  const Manifest::Tensor& tensor = manifest_.groups.at(group).at(piece.name);
  const bool dense = piece.values.is_contiguous();
  const Tensor values = dense ? piece.values : dense_copy(piece.values);
  values.storage().bump_version();
  for (const Manifest::Piece& saved : tensor.pieces) {
    const std::vector<Run> runs = overlap(saved.region, piece.region);
    if (runs.empty()) continue;
    read_runs(open(tensor, saved), saved.key, runs, item_size(tensor.dtype),
              static_cast<std::byte*>(values.address()));
  }
  if (!dense) copy_elements(values, piece.values);
}

}  // namespace capstan::distributed
