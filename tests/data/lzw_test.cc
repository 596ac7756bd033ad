#include "data/lzw.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/data/lzw_writer.h"

using namespace capstan;
using data::expand_lzw;
using testing::compress_lzw;

namespace {

std::string expand(const std::string& codes, size_t most = SIZE_MAX) {
  return expand_lzw(std::as_bytes(std::span(codes)), most);
}

std::string random_text(size_t size, uint64_t letters) {
  Generator generator(3);
  std::string text(size, ' ');
  for (char& c : text) c = static_cast<char>(generator.below(letters));
  return text;
}

}  // namespace

TEST_CASE("what is compressed comes back") {
  // (Of few letters, a code may be used right after the one that defines it.)
  for (const size_t size : {0, 1, 2, 3, 7, 256, 300, 1000, 20'000, 300'000}) {
    for (const uint64_t letters : {1, 2, 30, 256}) {
      const std::string text = random_text(size, letters);
      CAPTURE(size);
      CAPTURE(letters);
      CHECK((expand(compress_lzw(text)) == text));
      for (const size_t forget_at : {size_t{1}, size / 3, size - size / 4}) {
        CHECK((expand(compress_lzw(text, forget_at)) == text));
      }
      CHECK((expand(compress_lzw(text), size) == text));
    }
  }
}

TEST_CASE("codes by hand, which gzip reads so too") {
  // a, b, 257 = ab, 259 = aba (which this code itself defines), a
  CHECK(expand(std::string("\x61\xc4\x04\x1c\x18\x06", 6)) == "abababaa");
}

TEST_CASE("what is damaged is refused") {
  const std::string text = random_text(1000, 4);
  CHECK_THROWS_WITH_AS(expand(compress_lzw(text), 999),
                       doctest::Contains("expected 999 bytes or less, found more"), ValueError);
  // The first code can only be a byte; 257 is known after two.
  CHECK_THROWS_WITH_AS(expand(std::string("\x01\x01", 2)),
                       doctest::Contains("code 257 stands for nothing, 257 codes are known"),
                       ValueError);
  CHECK_THROWS_AS(expand("\xff\xff"), ValueError);
  CHECK(expand("a") == "");  // no whole code
}
