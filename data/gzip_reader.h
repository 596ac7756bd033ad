// Defines GzipReader, which reads a file from front to back, decompressed if it is gzip (RFC 1952).
//
// zlib's own gzread() reads a damaged end as if it were the end and skips what follows a stream;
// data sets must not be cut short in silence, so this drives inflate() itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct z_stream_s;  // zlib's z_stream

namespace capstan::data {

class GzipReader {
 public:
  /// Opens `path`. Throws IoError if it cannot be read.
  explicit GzipReader(const std::string& path);

  /// Fills `out` and returns its size; less only at the end. Throws IoError if the compressed
  /// stream is damaged, cut, or followed by something else.
  int64_t read(std::span<std::byte> out);

  /// The most bytes that the whole file can hold once decompressed.
  int64_t most_bytes() const;

 private:
  /// Reads the next piece of the file into `input_`; empty at the end.
  void fill();
  /// Move some of `input_` to the front of `out` and return how many bytes they wrote.
  int64_t copy_some(std::span<std::byte> out);
  int64_t inflate_some(std::span<std::byte> out);

  std::string path_;
  std::ifstream file_;
  int64_t file_bytes_ = 0;
  std::vector<std::byte> buffer_;
  std::span<const std::byte> input_;  // the part of buffer_ that was not used yet
  std::unique_ptr<z_stream_s, void (*)(z_stream_s*)> stream_;  // null: the file is plain
  bool stream_ended_ = false;  // between two gzip members, or after the last
};

}  // namespace capstan::data
