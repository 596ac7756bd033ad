// Whole texts: plain, gzip, and the King James Bible's own format.
#include "data/text.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/sha256.h"
#include "data/king_james.h"
#include "tests/data/lzw_writer.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::king_james;
using data::read_text;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

/// 4 bytes, the highest first.
std::string number(size_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

/// `text` in the format of king_james.h.
std::string packed(const std::string& text, size_t window) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size(); begin += window) {
    parts.push_back(testing::compress_lzw(text.substr(begin, window)));
  }
  std::string file = "EC02Compressed Data File";
  file.resize(0x54);
  file += number(window) + number(parts.size());
  size_t offset = 0x5c + 4 * (parts.size() + 1) + 3;
  file += number(offset);
  for (const std::string& part : parts) file += number(offset += part.size());
  file += "\x1f\x9d\x90";
  for (const std::string& part : parts) file += part;
  return file;
}

}  // namespace

TEST_CASE("a text is read as it is, and gzip unpacked") {
  const TemporaryFolder folder;
  const std::string text("In the beginning\n\xff\0was", 21), path = folder.file("text");
  write_file(path, text);
  CHECK(read_text(path) == text);
  write_file(path, "");
  CHECK(read_text(path) == "");
  const gzFile file = gzopen(path.c_str(), "w");
  std::string longer;
  for (int i = 0; i < 10'000; ++i) longer += text;
  gzwrite(file, longer.data(), static_cast<unsigned>(longer.size()));
  gzclose(file);
  CHECK((read_text(path) == longer));
  CHECK_THROWS_WITH_AS(read_text(folder.file("none")), doctest::Contains("none"), IoError);
  CHECK_THROWS_AS(read_text(folder.path()), IoError);
  if (!std::filesystem::exists(data::kKingJamesFile)) {
    CHECK_THROWS_WITH_AS(read_text(data::kKingJamesFile),
                         doctest::Contains("Debian's package bible-kjv-text brings it"), IoError);
  }
}

TEST_CASE("windows of compressed text") {
  const TemporaryFolder folder;
  const std::string path = folder.file("bible");
  std::string text;
  for (int i = 0; i < 500; ++i) text += "Ge1:" + std::to_string(i) + " And the evening\n";
  for (const size_t window : {100, 4096, 20'000}) {
    write_file(path, packed(text, window));
    CHECK((king_james(path) == text));
    CHECK((read_text(path) == text));
  }
}

TEST_CASE("damaged files are refused") {
  const TemporaryFolder folder;
  const std::string path = folder.file("bible");
  const std::string whole = packed(std::string(50, 'x') + std::string(50, 'y'), 40);  // 3 windows
  const auto refuse = [&](std::string bytes, const char* text) {
    write_file(path, bytes);
    CHECK_THROWS_WITH_AS(king_james(path), doctest::Contains(text), IoError);
  };
  const auto with = [&](size_t at, const std::string& bytes) {
    return std::string(whole).replace(at, bytes.size(), bytes);
  };
  write_file(path, whole);
  CHECK(king_james(path).size() == 100);
  refuse("", "expected a file that begins with EC02");
  refuse("In the beginning", "expected a file that begins with EC02");
  for (size_t size = 24; size < whole.size(); ++size) refuse(whole.substr(0, size), path.c_str());
  refuse(whole + "z", "expected the end at byte");
  refuse(with(0x54, number(0)), "expected windows of 1 to 16777216 bytes, found 3 of 0");
  refuse(with(0x54, number(39)), "window 0: [expand_lzw] expected 39 bytes or less");
  refuse(with(0x54, number(41)), "expected 41 bytes in window 0, found 40");
  refuse(with(0x58, number(0)), "found 0 of 40");
  refuse(with(0x58, number(2)), "expected codes from byte ");
  refuse(with(0x58, number(0xffffffff)), "expected codes from byte ");
  refuse(with(0x60, number(1)), "expected window 0 inside the file");
  refuse(with(0x64, number(0xfffffff0)), "expected window 1 inside the file");
  refuse(with(0x6c, "abc"), "compress's header");
  refuse(with(0x6f, "\xff\xff"), "window 0: [expand_lzw] code 511 stands for nothing");
}

TEST_CASE("the Bible, where it is installed") {
  if (!std::filesystem::exists(data::kKingJamesFile)) return;
  const std::string text = king_james();
  CHECK(text.size() == 4'404'475);
  CHECK(text.starts_with("Holy Bible, Authorized (King James) Version."));
  CHECK(text.ends_with("Rev22:21 The grace of our Lord Jesus Christ be with you all. Amen.\n"));
  CHECK(sha256_hex(std::as_bytes(std::span(text))) ==
        "e53aaf0af1e58f259e35d0d9f7ca1bbe154fd77bb95471279b37b34d3c397a98");
}
