// Defines reading and writing of safetensors files, the format in which weights are kept.
//
// The format (Hugging Face, https://huggingface.co/docs/safetensors): eight bytes with the length n
// of the header, little endian; n bytes of JSON; then the tensors' bytes, dense, row-major, little
// endian, without holes. The header maps a name to its dtype ("F32", "F64", "F16", "BF16", "I64",
// "I32", "U8", "BOOL"), shape and first and last byte; "__metadata__" maps strings to strings.
#pragma once

#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/sha256.h"
#include "core/tensor.h"

namespace capstan {

using Metadata = std::map<std::string, std::string>;

/// Writes tensors under their names, atomically (core/atomic_file.h). Views are written densely.
/// Throws ValueError for a name that is used twice, reserved or not UTF-8, IoError if the disk
/// refuses, DeviceError for tensors without bytes (meta). `sum`, if given, takes up all bytes of
/// the file, which saves reading them again.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {}, Sha256* sum = nullptr);

/// What the header says of a tensor.
struct TensorSpec {
  std::string name;
  Dtype dtype;
  Shape shape;
};

/// The same for tensors that need not be in memory together: `values(i)` is called once for each
/// number in `specs`, and its tensor is let go before the next. Throws ShapeError or DtypeError for
/// one that is not as its spec says.
void save_safetensors(const std::string& path, const std::vector<TensorSpec>& specs,
                      const std::function<Tensor(size_t)>& values, const Metadata& metadata = {},
                      Sha256* sum = nullptr);

/// A file of which parts are read. It is not trusted: everything in it that is not as the format
/// says is an IoError with the file, the tensor, what was expected and what was found. Tensors must
/// lie at multiples of their element's size.
class SafetensorsFile {
 public:
  struct Entry {
    Dtype dtype;
    Shape shape;
    int64_t begin, end;  // bytes after the header
  };

  /// Opens the file, and reads and checks its header.
  explicit SafetensorsFile(const std::string& path);

  const std::map<std::string, Entry>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }

  /// Reads elements [first, first + count), in row-major order, to `to`. Throws ValueError for a
  /// tensor or a range that is not there, IoError if the disk refuses.
  void read(const std::string& name, int64_t first, int64_t count, void* to);
  /// A whole tensor, on cpu:0.
  Tensor read(const std::string& name);

 private:
  std::string path_;
  std::ifstream file_;
  int64_t data_start_ = 0;  // in the file
  std::map<std::string, Entry> tensors_;
  Metadata metadata_;
};

/// What a file holds.
struct Safetensors {
  std::map<std::string, Tensor> tensors;  // on cpu:0
  Metadata metadata;
};

/// Reads a whole file, as SafetensorsFile does.
Safetensors load_safetensors(const std::string& path);

}  // namespace capstan
