#include "core/sha256.h"

#include <doctest/doctest.h>

#include <string_view>

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
