// Defines read_npy() and read_npz(): NumPy's files of one array and of several.
//
// The format (NumPy, "numpy.lib.format"): "\x93NUMPY", the version in two bytes, the length of the
// header in two (version 1) or four bytes, little endian; the header, a Python dictionary with
// 'descr' (the element type), 'fortran_order' and 'shape'; then the elements. A .npz file is a zip
// archive of such files.
#pragma once

#include <map>
#include <string>

#include "core/tensor.h"

namespace capstan::data {

/// Reads an array of float32, float64, int32, int64, uint8 or bool elements, of either byte order
/// and either order of axes, into a dense tensor. Throws IoError if the file is missing, damaged,
/// shorter or longer than its header says, or of another element type (it names what to convert
/// to).
Tensor read_npy(const std::string& path);

/// Reads all arrays of an archive, by their names without ".npy". Throws IoError as read_npy()
/// does, and for members that are no arrays.
std::map<std::string, Tensor> read_npz(const std::string& path);

}  // namespace capstan::data
