// MappedFile over mmap(), and ByteReader.
#include "data/bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "core/raise.h"

namespace capstan::data {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie");

/// A descriptor that closes itself.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

[[noreturn]] void refuse(const std::string& path) {
  raise<IoError>("[MappedFile] {}: cannot be read: {}", path, std::strerror(errno));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status;
  if (file.number < 0 || ::fstat(file.number, &status) != 0) refuse(path);
  if (!S_ISREG(status.st_mode)) raise<IoError>("[MappedFile] {}: is not a plain file", path);
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // which mmap() refuses
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) refuse(path);
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void ByteReader::seek(uint64_t position, const char* what) {
  if (position > bytes_.size()) {
    raise<IoError>("[{}] {}: expected {} at byte {}, but there are only {} bytes", operation_,
                   name_, what, position, bytes_.size());
  }
  position_ = position;
}

std::span<const std::byte> ByteReader::take(uint64_t count, const char* what) {
  if (count > remaining()) {
    raise<IoError>("[{}] {}: expected {} bytes of {}, found {}", operation_, name_, count, what,
                   remaining());
  }
  const auto taken = bytes_.subspan(position_, count);
  position_ += count;
  return taken;
}

void ByteReader::expect_end() const {
  if (remaining() > 0) {
    raise<IoError>("[{}] {}: expected the end after {} bytes, found {} more", operation_, name_,
                   position_, remaining());
  }
}

}  // namespace capstan::data
