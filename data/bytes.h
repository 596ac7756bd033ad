// Defines MappedFile, the bytes of a file without reading it into memory, and ByteReader, which
// takes such bytes from front to back and never goes beyond them. Readers of binary formats are
// written over these two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace capstan::data {

/// A file mapped into memory, read-only: pages are read when they are looked at, and shared between
/// the processes of a host. The file must not be made shorter while it is mapped.
class MappedFile {
 public:
  /// Throws IoError, naming the path, for anything that is not a readable plain file.
  explicit MappedFile(const std::string& path);
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// A place in some bytes. Its errors begin with "[operation] name:".
class ByteReader {
 public:
  ByteReader(const char* operation, std::string name, std::span<const std::byte> bytes)
      : operation_(operation), name_(std::move(name)), bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  /// Throws IoError for a position beyond the end.
  void seek(uint64_t position, const char* what);

  /// The next `count` bytes, which stay where they are. Throws IoError if there are fewer.
  std::span<const std::byte> take(uint64_t count, const char* what);
  std::string_view take_text(uint64_t count, const char* what) {
    return {reinterpret_cast<const char*>(take(count, what).data()), count};
  }
  /// The next number, little endian.
  template <class T>
  T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  /// Throws IoError if bytes are left.
  void expect_end() const;

 private:
  const char* operation_;
  std::string name_;
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace capstan::data
