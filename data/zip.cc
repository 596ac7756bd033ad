// ZipArchive: the end record, the central directory, one member, and inflate().
#include "data/zip.h"

#include <zlib.h>

#include <algorithm>

#include "core/raise.h"

namespace capstan::data {
namespace {

constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr uint32_t kRecord = 0x02014b50, kHeader = 0x04034b50;
constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kLongestComment = 0xffff;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1;
constexpr uint64_t kMostExpansion = 1032;  // of deflate

struct Directory {
  uint64_t records = 0;
  uint64_t offset = 0;
};

void expect(ByteReader& reader, const std::string& path, uint32_t signature, const char* what) {
  const size_t position = reader.position();
  const auto found = reader.number<uint32_t>(what);
  if (found != signature) {
    raise<IoError>("[ZipArchive] {}: expected {} (0x{:08x}) at byte {}, found 0x{:08x}", path, what,
                   signature, position, found);
  }
}

/// Where the end record begins: the last place with its signature that leaves room for it.
size_t find_end(const MappedFile& file) {
  const auto bytes = file.bytes();
  const size_t size = bytes.size();
  for (size_t back = kEndBytes; back <= std::min(size, kEndBytes + kLongestComment); ++back) {
    uint32_t signature;
    std::memcpy(&signature, bytes.data() + size - back, sizeof signature);
    if (signature == kEnd) return size - back;
  }
  raise<IoError>("[ZipArchive] {}: is no zip file, or cut: its {} bytes have no end record",
                 file.path(), size);
}

Directory find_directory(const MappedFile& file) {
  const std::string& path = file.path();
  ByteReader reader("ZipArchive", path, file.bytes());
  const size_t end = find_end(file);
  reader.seek(end + 4, "the end record");
  const auto disk = reader.number<uint16_t>("end record");
  reader.take(4, "end record");
  Directory directory{.records = reader.number<uint16_t>("end record")};
  reader.take(4, "end record");
  directory.offset = reader.number<uint32_t>("end record");
  if (disk != 0 && disk != 0xffff) {
    raise<IoError>("[ZipArchive] {}: is part {} of an archive in several parts", path, disk);
  }
  if (directory.records != 0xffff && directory.offset != 0xffffffff) return directory;
  if (end < kLocatorBytes) {
    raise<IoError>("[ZipArchive] {}: the 64-bit end record is missing", path);
  }
  reader.seek(end - kLocatorBytes, "the 64-bit locator");
  expect(reader, path, kLocator64, "64-bit locator");
  reader.take(4, "64-bit locator");
  reader.seek(reader.number<uint64_t>("64-bit locator"), "the 64-bit end record");
  expect(reader, path, kEnd64, "64-bit end record");
  reader.take(28, "64-bit end record");
  directory.records = reader.number<uint64_t>("64-bit end record");
  reader.take(8, "64-bit end record");
  directory.offset = reader.number<uint64_t>("64-bit end record");
  return directory;
}

/// The 64-bit sizes from a record's extra fields, for those that are all ones in the record itself.
void widen(ZipArchive::Member& member, const std::string& path, std::span<const std::byte> extra) {
  ByteReader fields("ZipArchive", path, extra);
  while (fields.remaining() > 0) {
    const auto kind = fields.number<uint16_t>("extra field");
    const auto size = fields.number<uint16_t>("extra field");
    ByteReader field("ZipArchive", path, fields.take(size, "extra field"));
    if (kind != 1) continue;
    for (uint64_t* number : {&member.bytes, &member.packed_bytes, &member.offset}) {
      if (*number == 0xffffffff) *number = field.number<uint64_t>("64-bit sizes");
    }
  }
}

std::vector<std::byte> inflate_all(const std::string& where, std::span<const std::byte> packed,
                                   uint64_t bytes) {
  if (bytes / kMostExpansion > packed.size()) {
    raise<IoError>("[ZipArchive] {}: {} packed bytes cannot hold the {} that its record promises",
                   where, packed.size(), bytes);
  }
  std::vector<std::byte> out(bytes);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) raise<Error>("[ZipArchive] zlib does not start");
  size_t used = 0, made = 0;
  int status = Z_OK;
  std::byte beyond;  // inflate() wants room even if nothing is to come
  do {               // zlib counts in 32 bits
    constexpr size_t kMost = 1 << 30;
    const size_t in = std::min(packed.size() - used, kMost), room = std::min(bytes - made, kMost);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + used));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(room > 0 ? out.data() + made : &beyond);
    stream.avail_out = static_cast<uInt>(std::max<size_t>(room, 1));
    const uInt space = stream.avail_out;
    status = inflate(&stream, Z_NO_FLUSH);
    used += in - stream.avail_in;
    made += space - stream.avail_out;
  } while (status == Z_OK && made <= bytes);
  const std::string reason = stream.msg ? stream.msg : zError(status);
  inflateEnd(&stream);
  if (status != Z_STREAM_END || made != bytes || used != packed.size()) {
    raise<IoError>(
        "[ZipArchive] {}: expected {} bytes from {} packed ones, found {} from {}: zlib says "
        "\"{}\"",
        where, bytes, packed.size(), made, used, reason);
  }
  return out;
}

}  // namespace

ZipArchive::ZipArchive(const std::string& path) : file_(path) {
  const Directory directory = find_directory(file_);
  ByteReader reader("ZipArchive", path, file_.bytes());
  reader.seek(directory.offset, "the central directory");
  for (uint64_t i = 0; i < directory.records; ++i) {
    expect(reader, path, kRecord, "directory record");
    reader.take(4, "directory record");
    const auto flags = reader.number<uint16_t>("directory record");
    Member member{.method = reader.number<uint16_t>("directory record")};
    reader.take(4, "directory record");
    member.crc = reader.number<uint32_t>("directory record");
    member.packed_bytes = reader.number<uint32_t>("directory record");
    member.bytes = reader.number<uint32_t>("directory record");
    const auto name_bytes = reader.number<uint16_t>("directory record");
    const auto extra_bytes = reader.number<uint16_t>("directory record");
    const auto comment_bytes = reader.number<uint16_t>("directory record");
    reader.take(8, "directory record");
    member.offset = reader.number<uint32_t>("directory record");
    const std::string name(reader.take_text(name_bytes, "member name"));
    widen(member, path, reader.take(extra_bytes, "extra fields"));
    reader.take(comment_bytes, "comment");
    if (flags & kEncrypted) raise<IoError>("[ZipArchive] {}: {} is encrypted", path, name);
    if (!members_.emplace(name, member).second) {
      raise<IoError>("[ZipArchive] {}: there are two members named {}", path, name);
    }
  }
}

std::vector<std::byte> ZipArchive::read(const std::string& name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) {
    raise<ValueError>("[ZipArchive] {}: has no member {}", file_.path(), name);
  }
  const Member& member = found->second;
  const std::string where = fmt::format("{}: {}", file_.path(), name);
  ByteReader reader("ZipArchive", where, file_.bytes());
  reader.seek(member.offset, "the member");
  expect(reader, where, kHeader, "member header");
  reader.take(22, "member header");
  const auto name_bytes = reader.number<uint16_t>("member header");
  const auto extra_bytes = reader.number<uint16_t>("member header");
  reader.take(uint64_t{name_bytes} + extra_bytes, "member header");
  const auto packed = reader.take(member.packed_bytes, "packed elements");

  std::vector<std::byte> out;
  if (member.method == kStored) {
    if (member.bytes != packed.size()) {
      raise<IoError>("[ZipArchive] {}: is stored as it is, but its sizes differ: {} and {}", where,
                     packed.size(), member.bytes);
    }
    out.assign(packed.begin(), packed.end());
  } else if (member.method == kDeflated) {
    out = inflate_all(where, packed, member.bytes);
  } else {
    raise<IoError>("[ZipArchive] {}: expected method 0 (stored) or 8 (deflated), found {}", where,
                   member.method);
  }
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(out.data()), out.size());
  if (sum != member.crc) {
    raise<IoError>("[ZipArchive] {}: is damaged: expected checksum {:08x}, found {:08x}", where,
                   member.crc, sum);
  }
  return out;
}

}  // namespace capstan::data
