// Defines read_idx(): the file format of MNIST and its relatives.
//
// The format (Y. LeCun, C. Cortes, C. Burges, http://yann.lecun.com/exdb/mnist): two zero bytes, a
// byte for the element type, a byte for the number of axes; the size of each axis in 32 bits, big
// endian; then the elements, row-major, big endian.
#pragma once

#include <string>

#include "core/tensor.h"

namespace capstan::data {

/// Reads a file, plain or gzip, into a tensor of its shape: unsigned bytes as uint8, 32-bit
/// integers as int32, floats as float32, doubles as float64. Throws IoError if the file is missing,
/// damaged, shorter or longer than its header says, or of another element type.
Tensor read_idx(const std::string& path);

/// The path of `name` or of `name`.gz in `directory`. Throws IoError if neither is there, ending
/// with `advice`, such as which package brings the file.
std::string find_idx(const std::string& directory, const std::string& name,
                     const std::string& advice);

}  // namespace capstan::data
