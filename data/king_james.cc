#include "data/king_james.h"

#include <array>
#include <filesystem>
#include <vector>

#include "core/raise.h"
#include "data/bytes.h"
#include "data/lzw.h"

namespace capstan::data {
namespace {

constexpr std::string_view kMagic = "EC02Compressed Data File";
constexpr std::string_view kCompressHeader = "\x1f\x9d\x90";
constexpr uint32_t kLargestWindow = 1 << 24;

/// 4 bytes, the highest first.
uint32_t read_number(ByteReader& reader, const char* what) {
  const auto bytes = reader.take(4, what);
  uint32_t value = 0;
  for (std::byte byte : bytes) value = value << 8 | std::to_integer<uint32_t>(byte);
  return value;
}

}  // namespace

bool is_king_james(std::string_view bytes) { return bytes.starts_with(kMagic); }

std::string king_james(const std::string& path) {
  const MappedFile file(path);
  const auto fail = [&](const std::string& expected) {
    raise<IoError>("[king_james] {}: expected {}", path, expected);
  };
  if (!is_king_james(file.text())) {
    fail(fmt::format("a file that begins with {}, as Debian's package bible-kjv-text has it",
                     kMagic));
  }
  ByteReader reader("king_james", path, file.bytes());
  reader.seek(0x54, "the size of a window");
  const uint32_t window = read_number(reader, "the size of a window");
  const uint32_t count = read_number(reader, "the number of windows");
  if (window == 0 || window > kLargestWindow || count == 0) {
    fail(fmt::format("windows of 1 to {} bytes, found {} of {}", kLargestWindow, count, window));
  }
  const uint64_t codes_begin = 0x5c + 4 * (uint64_t{count} + 1) + kCompressHeader.size();
  std::string text;
  uint64_t end = read_number(reader, "offsets");
  if (end != codes_begin) fail(fmt::format("codes from byte {} on, found {}", codes_begin, end));
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t begin = std::exchange(end, read_number(reader, "offsets"));
    if (end < begin || end > file.bytes().size()) {
      fail(fmt::format("window {} inside the file, found bytes {} to {} of {}", i, begin, end,
                       file.bytes().size()));
    }
    std::string part;
    try {
      part = expand_lzw(file.bytes().subspan(begin, end - begin), window);
    } catch (const ValueError& error) {
      raise<IoError>("[king_james] {}: window {}: {}", path, i, error.what());
    }
    if (i + 1 < count && part.size() != window) {
      fail(fmt::format("{} bytes in window {}, found {}", window, i, part.size()));
    }
    text += part;
  }
  if (reader.take_text(kCompressHeader.size(), "compress's header") != kCompressHeader) {
    fail("compress's header before the codes");
  }
  if (end != file.bytes().size()) {
    fail(fmt::format("the end at byte {}, found {} bytes", end, file.bytes().size()));
  }
  return text;
}

}  // namespace capstan::data
