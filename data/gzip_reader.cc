// GzipReader over zlib's inflate().
#include "data/gzip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "core/raise.h"

namespace capstan::data {
namespace {

constexpr int64_t kBufferBytes = 1 << 16;
constexpr int64_t kMostExpansion = 1032;  // of deflate: one bit a literal or 258 bytes of match
constexpr int kGzipOnly = 16 + MAX_WBITS;

void close(z_stream* stream) {
  inflateEnd(stream);
  delete stream;
}

}  // namespace

GzipReader::GzipReader(const std::string& path)
    : path_(path), file_(path, std::ios::binary), buffer_(kBufferBytes), stream_(nullptr, close) {
  std::error_code error;
  file_bytes_ = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) raise<IoError>("[GzipReader] {}: cannot be read: {}", path, error.message());
  if (!file_) raise<IoError>("[GzipReader] {}: cannot be opened", path);
  fill();
  const bool gzip =
      input_.size() >= 2 && input_[0] == std::byte{0x1f} && input_[1] == std::byte{0x8b};
  if (!gzip) return;
  stream_.reset(new z_stream{});
  if (inflateInit2(stream_.get(), kGzipOnly) != Z_OK)
    raise<Error>("[GzipReader] zlib does not start");
}

int64_t GzipReader::most_bytes() const {
  return stream_ ? file_bytes_ * kMostExpansion : file_bytes_;
}

void GzipReader::fill() {
  file_.read(reinterpret_cast<char*>(buffer_.data()), std::ssize(buffer_));
  if (file_.bad()) raise<IoError>("[GzipReader] {}: the disk refuses to read", path_);
  input_ = std::span(buffer_).first(static_cast<size_t>(file_.gcount()));
}

int64_t GzipReader::copy_some(std::span<std::byte> out) {
  const size_t count = std::min(out.size(), input_.size());
  std::memcpy(out.data(), input_.data(), count);
  input_ = input_.subspan(count);
  return static_cast<int64_t>(count);
}

int64_t GzipReader::inflate_some(std::span<std::byte> out) {
  if (stream_ended_) inflateReset(stream_.get());  // a file may hold several members in a row
  const auto space = std::min<size_t>(out.size(), 1 << 30);  // zlib counts in 32 bits
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input_.data()));
  stream_->avail_in = static_cast<uInt>(input_.size());
  stream_->next_out = reinterpret_cast<Bytef*>(out.data());
  stream_->avail_out = static_cast<uInt>(space);
  const int status = inflate(stream_.get(), Z_NO_FLUSH);
  if (status != Z_OK && status != Z_STREAM_END) {
    raise<IoError>("[GzipReader] {}: the gzip stream is damaged: zlib says \"{}\"", path_,
                   stream_->msg ? stream_->msg : zError(status));
  }
  stream_ended_ = status == Z_STREAM_END;
  input_ = input_.last(stream_->avail_in);
  return static_cast<int64_t>(space - stream_->avail_out);
}

int64_t GzipReader::read(std::span<std::byte> out) {
  int64_t done = 0;
  while (done < std::ssize(out)) {
    if (input_.empty()) fill();
    if (input_.empty()) break;
    const auto rest = out.subspan(static_cast<size_t>(done));
    done += stream_ ? inflate_some(rest) : copy_some(rest);
  }
  if (done < std::ssize(out) && stream_ && !stream_ended_) {
    raise<IoError>("[GzipReader] {}: the gzip stream is cut: expected more than its {} bytes",
                   path_, file_bytes_);
  }
  return done;
}

}  // namespace capstan::data
