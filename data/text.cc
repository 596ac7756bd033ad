#include "data/text.h"

#include <array>
#include <filesystem>
#include <fstream>

#include "core/raise.h"
#include "data/gzip_reader.h"
#include "data/king_james.h"

namespace capstan::data {

std::string read_text(const std::string& path) {
  if (path == kKingJamesFile && !std::filesystem::exists(path)) {
    raise<IoError>("[read_text] {} is missing: Debian's package bible-kjv-text brings it", path);
  }
  std::array<char, 64> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  if (is_king_james({begin.data(), begin.size()})) return king_james(path);

  std::string text;
  GzipReader reader(path);
  std::array<std::byte, 1 << 16> part;
  while (const int64_t read = reader.read(part)) {
    text.append(reinterpret_cast<const char*>(part.data()), static_cast<size_t>(read));
  }
  return text;
}

}  // namespace capstan::data
