// Defines PieceReader, which reads parts of tensors from a checkpoint, in one process: for load()
// and the tools.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "distributed/checkpoint/manifest.h"
#include "distributed/checkpoint/piece.h"

namespace capstan::distributed {

/// What is wrong with a file: empty, or that it is missing, is no file, or has another size than
/// the manifest says. Looks at no byte of it.
std::string file_fault(const std::string& folder, const Manifest& manifest,
                       const std::string& file);
/// The same with the file's checksum; `after(n)` is called when n more bytes have been read.
std::string checksum_fault(const std::string& folder, const Manifest& manifest,
                           const std::string& file, const std::function<void(int64_t)>& after = {});

class PieceReader {
 public:
  /// Both must outlive the reader.
  PieceReader(const std::string& folder, const Manifest& manifest)
      : folder_(folder), manifest_(manifest) {}

  /// Fills the piece, of a tensor of `group`, with what the checkpoint has. Throws IoError for
  /// files that are not as the manifest says.
  void read(const std::string& group, const Piece& piece);
  /// Throws the IoError that read() would begin with: opens the files, but reads no element.
  void check_files(const std::string& group, const Piece& piece);

 private:
  SafetensorsFile& open(const Manifest::Tensor& tensor, const Manifest::Piece& saved);

  const std::string& folder_;
  const Manifest& manifest_;
  std::map<std::string, SafetensorsFile> files_;  // open
};

}  // namespace capstan::distributed
