// Defines ZipArchive, which reads the members of a .zip file, as in NumPy's .npz.
//
// The format (PKWARE, "APPNOTE.TXT", 6.3): members, then the central directory with a record for
// each, then a record that says where that begins; 64-bit sizes are in extra fields. Members are
// found through the directory, as the standard wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/bytes.h"

namespace capstan::data {

class ZipArchive {
 public:
  /// Reads the directory. Throws IoError for anything that the format does not allow, and for
  /// archives in several parts, encrypted or repeated members.
  explicit ZipArchive(const std::string& path);

  /// Members by name.
  struct Member {
    uint16_t method = 0;
    uint32_t crc = 0;
    uint64_t packed_bytes = 0, bytes = 0;
    uint64_t offset = 0;  // of the member's own header
  };
  const std::map<std::string, Member>& members() const { return members_; }

  /// A member's bytes, stored or deflated. Throws IoError if they are damaged, which their checksum
  /// tells, or packed in another way; ValueError for a name that members() lacks.
  std::vector<std::byte> read(const std::string& name) const;

 private:
  MappedFile file_;
  std::map<std::string, Member> members_;
};

}  // namespace capstan::data
