// Defines how tests make zip archives.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/data/deflate.h"

namespace capstan::testing {

/// `value` in `bytes` bytes, little endian.
inline std::string little(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

/// A member of an archive, with what its records say about it.
struct ZipMember {
  std::string name, bytes;
  bool packed = false;
  uint16_t flags = 0;
  int method = -1;        // what the record says; -1: what is true
  int64_t promised = -1;  // bytes that the record promises; -1: what is true
  bool wide = false;      // 64-bit sizes in an extra field
};

/// An archive of `members`, with a 64-bit end record if `wide`.
inline std::string zip_bytes(const std::vector<ZipMember>& members, bool wide = false) {
  std::string out, directory;
  for (const ZipMember& m : members) {
    const std::string stored = m.packed ? deflated(m.bytes, -MAX_WBITS) : m.bytes;
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(m.bytes.data()), m.bytes.size());
    const uint64_t bytes = m.promised < 0 ? m.bytes.size() : static_cast<uint64_t>(m.promised);
    const int method = m.method < 0 ? (m.packed ? 8 : 0) : m.method;
    const std::string head =
        little(45, 2) + little(m.flags, 2) + little(method, 2) + little(0, 4) + little(crc, 4);
    const std::string sizes = little(stored.size(), 4) + little(bytes, 4);
    const std::string ones = little(~uint64_t{0}, 8);
    const std::string extra = m.wide ? little(7, 2) + little(1, 2) + "x" + little(1, 2) +
                                           little(24, 2) + little(bytes, 8) +
                                           little(stored.size(), 8) + little(out.size(), 8)
                                     : "";
    directory += "PK\x01\x02" + little(45, 2) + head + (m.wide ? ones : sizes) +
                 little(m.name.size(), 2) + little(extra.size(), 2) + little(0, 2) + little(0, 8) +
                 little(m.wide ? ~0u : out.size(), 4) + m.name + extra;
    out += "PK\x03\x04" + head + sizes + little(m.name.size(), 2) + little(0, 2) + m.name + stored;
  }
  const uint64_t begin = out.size();
  out += directory;
  if (wide) {
    const uint64_t end = out.size();
    out += "PK\x06\x06" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) +
           little(members.size(), 8) + little(members.size(), 8) + little(directory.size(), 8) +
           little(begin, 8);
    out += "PK\x06\x07" + little(0, 4) + little(end, 8) + little(1, 4);
  }
  const uint64_t count = wide ? 0xffff : members.size();
  return out + "PK\x05\x06" + little(0, 4) + little(count, 2) + little(count, 2) +
         little(directory.size(), 4) + little(wide ? ~0u : begin, 4) + little(0, 2);
}

}  // namespace capstan::testing
