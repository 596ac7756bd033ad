// Defines reading and writing of safetensors files, the format in which weights are kept.
//
// The format (Hugging Face, https://huggingface.co/docs/safetensors): eight bytes with the length n
// of the header, little endian; n bytes of JSON; then the tensors' bytes, dense, row-major, little
// endian, without holes. The header maps a name to its dtype ("F32", "F64", "F16", "BF16", "I64",
// "I32", "U8", "BOOL"), shape and first and last byte; "__metadata__" maps strings to strings.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace capstan {

using Metadata = std::map<std::string, std::string>;

/// Writes tensors under their names, atomically (core/atomic_file.h). Views are written densely.
/// Throws ValueError for a name that is used twice, reserved or not UTF-8, IoError if the disk
/// refuses, DeviceError for tensors without bytes (meta).
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata = {});

/// What a file holds.
struct Safetensors {
  std::map<std::string, Tensor> tensors;  // on cpu:0
  Metadata metadata;
};

/// Reads a whole file. It is not trusted: everything in it that is not as the format says is an
/// IoError with the file, the tensor, what was expected and what was found. Tensors must lie at
/// multiples of their element's size.
Safetensors load_safetensors(const std::string& path);

}  // namespace capstan
