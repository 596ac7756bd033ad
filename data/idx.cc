// read_idx(): header, elements, end of file, and the turn from big endian to this machine's order.
#include "data/idx.h"

#include <algorithm>
#include <bit>
#include <filesystem>

#include "core/raise.h"
#include "data/gzip_reader.h"

namespace capstan::data {
namespace {

static_assert(std::endian::native == std::endian::little, "IDX elements are turned round");

/// Bytes of a file that must be there.
void read_exactly(GzipReader& reader, const std::string& path, const char* what,
                  std::span<std::byte> out) {
  const int64_t found = reader.read(out);
  if (found < std::ssize(out)) {
    raise<IoError>("[read_idx] {}: expected {} bytes of {}, found {}", path, out.size(), what,
                   found);
  }
}

Dtype dtype_from(const std::string& path, int code) {
  switch (code) {
    case 0x08:
      return Dtype::uint8;
    case 0x0C:
      return Dtype::int32;
    case 0x0D:
      return Dtype::float32;
    case 0x0E:
      return Dtype::float64;
    case 0x09:
    case 0x0B:
      raise<IoError>(
          "[read_idx] {}: its elements are {}, which Capstan has no dtype for; convert the file to "
          "32-bit integers (code 0x0C)",
          path, code == 0x09 ? "signed bytes (code 0x09)" : "16-bit integers (code 0x0B)");
    default:
      raise<IoError>(
          "[read_idx] {}: expected an element code of 0x08, 0x0C, 0x0D or 0x0E, found 0x{:02X}",
          path, code);
  }
}

Dtype read_magic(GzipReader& reader, const std::string& path, int& rank) {
  std::byte magic[4];
  read_exactly(reader, path, "IDX magic", magic);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    raise<IoError>("[read_idx] {}: an IDX file begins with two zero bytes, found 0x{:02X} 0x{:02X}",
                   path, static_cast<int>(magic[0]), static_cast<int>(magic[1]));
  }
  rank = static_cast<int>(magic[3]);
  if (rank > kMaxRank) {
    raise<IoError>("[read_idx] {}: at most {} axes are supported, found {}", path, kMaxRank, rank);
  }
  return dtype_from(path, static_cast<int>(magic[2]));
}

Shape read_shape(GzipReader& reader, const std::string& path, int rank) {
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) {
    std::byte bytes[4];
    read_exactly(reader, path, "axis sizes", bytes);
    int64_t size = 0;
    for (std::byte byte : bytes) size = size << 8 | static_cast<int64_t>(byte);
    shape.push_back(size);
  }
  return shape;
}

/// The bytes that the elements take. Nothing is allocated for more than the file can hold.
int64_t checked_bytes(const GzipReader& reader, const std::string& path, const Shape& shape,
                      Dtype dtype) {
  int64_t bytes = item_size(dtype);
  bool overflow = false;
  for (int64_t size : shape) overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  if (overflow || bytes > reader.most_bytes()) {
    raise<IoError>(
        "[read_idx] {}: its header promises {} elements of {}, the file holds at most {} bytes",
        path, shape, dtype, reader.most_bytes());
  }
  return bytes;
}

void reverse_bytes(std::span<std::byte> elements, int64_t item_size) {
  for (auto item = elements.begin(); item != elements.end(); item += item_size) {
    std::reverse(item, item + item_size);
  }
}

}  // namespace

Tensor read_idx(const std::string& path) {
  GzipReader reader(path);
  int rank = 0;
  const Dtype dtype = read_magic(reader, path, rank);
  const Shape shape = read_shape(reader, path, rank);
  const int64_t bytes = checked_bytes(reader, path, shape, dtype);

  const Tensor tensor = empty(shape, {.dtype = dtype});
  const std::span elements(static_cast<std::byte*>(tensor.address()), static_cast<size_t>(bytes));
  read_exactly(reader, path, "elements", elements);
  std::byte beyond[1];
  if (reader.read(beyond) != 0) {
    raise<IoError>(
        "[read_idx] {}: expected the end of the file after {} elements, found more bytes", path,
        shape);
  }
  if (item_size(dtype) > 1) reverse_bytes(elements, item_size(dtype));
  return tensor;
}

std::string find_idx(const std::string& directory, const std::string& name,
                     const std::string& advice) {
  const auto plain = std::filesystem::path(directory) / name;
  const auto packed = plain.string() + ".gz";
  std::error_code ignored;
  for (const auto& path : {plain.string(), packed}) {
    if (std::filesystem::exists(path, ignored)) return path;
  }
  raise<IoError>("[find_idx] neither {} nor {} exists; {}", plain.string(), packed, advice);
}

}  // namespace capstan::data
