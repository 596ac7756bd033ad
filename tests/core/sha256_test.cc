#include "core/sha256.h"

#include <doctest/doctest.h>

#include <string_view>

#include "core/error.h"
#include "tests/testing/files.h"

using namespace capstan;

namespace {

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

// The answers are NIST's examples for FIPS 180-4.
TEST_CASE("sha256 of known messages") {
  CHECK(sha256_hex({}) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex(bytes("abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("sha256 of a million letters in uneven pieces") {
  const std::string text(1'000'000, 'a');
  Sha256 sum;
  for (size_t begin = 0, length = 1; begin < text.size();
       begin += length, length = length * 3 % 997) {
    sum.update(bytes(std::string_view(text).substr(begin, length)));
  }
  CHECK(sum.hex() == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("sha256 can be asked on the way") {
  Sha256 sum;
  sum.update(bytes("ab"));
  CHECK(sum.hex() == sha256_hex(bytes("ab")));
  sum.update(bytes("c"));
  CHECK(sum.hex() == sha256_hex(bytes("abc")));
  CHECK(sum.hex() == sum.hex());
}

TEST_CASE("sha256 of a file") {
  const testing::TemporaryFolder folder;
  const std::string text(3'000'001, 'x');
  testing::write_file(folder.file("x"), text);
  int64_t read = 0;
  CHECK(sha256_of_file(folder.file("x"), [&](int64_t count) { read += count; }) ==
        sha256_hex(bytes(text)));
  CHECK(read == std::ssize(text));
  testing::write_file(folder.file("x"), "");
  CHECK(sha256_of_file(folder.file("x")) == sha256_hex({}));
  CHECK_THROWS_WITH_AS(sha256_of_file(folder.file("none")),
                       doctest::Contains("none: No such file or directory"), IoError);
  CHECK_THROWS_WITH_AS(sha256_of_file(folder.path()), doctest::Contains("Is a directory"), IoError);
  testing::write_file(folder.file("x"), "1");
  CHECK_THROWS_WITH_AS(testing::without_files([&] { sha256_of_file(folder.file("x")); }),
                       doctest::Contains("x: Too many open files"), IoError);
}
