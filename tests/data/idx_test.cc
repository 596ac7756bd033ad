#include "data/idx.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/data/idx_files.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::read_idx;
using testing::gzip;
using testing::idx_bytes;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

Tensor read_bytes(const std::string& bytes) {
  const TemporaryFolder folder;
  write_file(folder.file("x"), bytes);
  return read_idx(folder.file("x"));
}

/// Expects that reading `bytes` is an IoError that names the file and says `reason`.
void check_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bad-idx3");
  write_file(path, bytes);
  INFO("expected: " << reason);
  CHECK_THROWS_WITH_AS(read_idx(path), doctest::Contains(reason.c_str()), IoError);
  CHECK_THROWS_WITH_AS(read_idx(path), doctest::Contains(path.c_str()), IoError);
}

/// `count` bytes that compress, but not too well.
std::string varied(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * i % 251);
  return bytes;
}

}  // namespace

TEST_CASE("bytes, plain and gzip") {
  const std::string bytes = idx_bytes(0x08, {2, 3}, {0, 1, 2, 3, 4, '\xff'});
  for (const std::string& file : {bytes, gzip(bytes)}) {
    const Tensor tensor = read_bytes(file);
    CHECK(tensor.dtype() == Dtype::uint8);
    CHECK(tensor.shape() == Shape{2, 3});
    CHECK(tensor.to_vector<uint8_t>() == std::vector<uint8_t>{0, 1, 2, 3, 4, 255});
  }
}

TEST_CASE("wider elements are big endian") {
  const Tensor ints =
      read_bytes(idx_bytes(0x0C, {2}, std::string("\x01\x02\x03\x04\xff\xff\xff\xfe", 8)));
  CHECK(ints.to_vector<int32_t>() == std::vector<int32_t>{0x01020304, -2});
  const Tensor floats = read_bytes(idx_bytes(0x0D, {1, 1}, std::string("\x3f\xc0\0\0", 4)));
  CHECK(floats.shape() == Shape{1, 1});
  CHECK(floats.to_vector<float>() == std::vector<float>{1.5f});
  const Tensor doubles = read_bytes(idx_bytes(0x0E, {1}, std::string("\xc0\x04\0\0\0\0\0\0", 8)));
  CHECK(doubles.to_vector<double>() == std::vector<double>{-2.5});
}

TEST_CASE("no elements, and no axes") {
  CHECK(read_bytes(idx_bytes(0x08, {0, 28, 28}, "")).shape() == Shape{0, 28, 28});
  CHECK(read_bytes(gzip(idx_bytes(0x0D, {0}, ""))).shape() == Shape{0});
  CHECK(read_bytes(idx_bytes(0x08, {}, "\x07")).item<int>() == 7);
}

TEST_CASE("files longer than the reader's buffer, in one and in several gzip members") {
  const std::string elements = varied(300'001);
  const std::string bytes = idx_bytes(0x08, {300'001}, elements);
  const std::string two = gzip(bytes.substr(0, 70'000)) + gzip(bytes.substr(70'000));
  for (const std::string& file : {bytes, gzip(bytes), two}) {
    const auto values = read_bytes(file).to_vector<uint8_t>();
    CHECK(std::string(values.begin(), values.end()) == elements);
  }
}

TEST_CASE("headers that are not right") {
  check_refused("", "expected 4 bytes of IDX magic, found 0");
  check_refused(std::string("\0\0\x08", 3), "expected 4 bytes of IDX magic, found 3");
  check_refused("PK\x03\x04", "begins with two zero bytes, found 0x50 0x4B");
  check_refused(idx_bytes(0x09, {1}, "x"), "signed bytes (code 0x09)");
  check_refused(idx_bytes(0x0B, {1}, "xy"), "16-bit integers (code 0x0B)");
  check_refused(idx_bytes(0x42, {1}, "x"), "found 0x42");
  check_refused(idx_bytes(0x08, std::vector<uint32_t>(9, 1), "x"), "at most 8 axes");
  check_refused(std::string("\0\0\x08\x02\0\0\0\x01\0", 9),
                "expected 4 bytes of axis sizes, found 1");
}

TEST_CASE("sizes beyond the file, and beyond counting") {
  check_refused(idx_bytes(0x08, {1000, 28, 28}, "x"), "promises [1000, 28, 28] elements of uint8");
  check_refused(idx_bytes(0x08, {~0u, ~0u, ~0u}, "x"), "the file holds at most 17 bytes");
  check_refused(gzip(idx_bytes(0x0E, {~0u, ~0u}, "x")), "elements of float64");
}

TEST_CASE("one element too few, one too many") {
  check_refused(idx_bytes(0x08, {20}, varied(19)), "expected 20 bytes of elements, found 19");
  check_refused(gzip(idx_bytes(0x08, {20}, varied(19))), "expected 20 bytes of elements, found 19");
  check_refused(idx_bytes(0x08, {20}, varied(21)), "expected the end of the file after [20]");
  check_refused(gzip(idx_bytes(0x08, {20}, varied(21))), "expected the end of the file");
}

TEST_CASE("a gzip stream that is cut anywhere, its checksum included") {
  const std::string whole = gzip(idx_bytes(0x08, {500}, varied(500)));
  for (size_t length = 2; length < whole.size(); ++length) {
    INFO("length " << length);
    check_refused(whole.substr(0, length), "cut");
  }
}

TEST_CASE("a gzip stream with any bit flipped after its header") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  const std::string elements = varied(500), whole = gzip(idx_bytes(0x08, {500}, elements));
  int refused = 0, flips = 0;
  for (size_t i = 10; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit, ++flips) {
      std::string damaged = whole;
      damaged[i] ^= static_cast<char>(1 << bit);
      write_file(path, damaged);
      INFO("bit " << bit << " of byte " << i);
      try {
        const auto values = read_idx(path).to_vector<uint8_t>();
        CHECK(std::string(values.begin(), values.end()) == elements);
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  CHECK(refused >= flips - 7);  // deflate leaves up to 7 bits of its last byte unused
  std::string wrong_sum = whole;
  wrong_sum[whole.size() - 8] ^= 1;
  check_refused(wrong_sum, "the gzip stream is damaged: zlib says \"incorrect data check\"");
}

TEST_CASE("a gzip stream followed by something else") {
  const std::string whole = gzip(idx_bytes(0x08, {5}, varied(5)));
  check_refused(whole + "garbage", "incorrect header check");
  check_refused(whole + std::string(1, '\0'), "the gzip stream is");
  check_refused(whole + gzip("more"), "expected the end of the file");
}

TEST_CASE("files that cannot be opened") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_idx(folder.file("none")), doctest::Contains("No such file"), IoError);
  CHECK_THROWS_WITH_AS(read_idx(folder.path()), doctest::Contains("directory"), IoError);
  write_file(folder.file("x"), idx_bytes(0x08, {1}, "x"));
  CHECK_THROWS_WITH_AS(testing::without_files([&] { read_idx(folder.file("x")); }),
                       doctest::Contains("cannot be opened"), IoError);
}

TEST_CASE("a disk that refuses to read") {  // as Linux does for addresses that hold nothing
  CHECK_THROWS_WITH_AS(read_idx("/proc/self/mem"), doctest::Contains("the disk refuses to read"),
                       IoError);
}

TEST_CASE("find_idx prefers the plain file and says what it looked for") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(data::find_idx(folder.path(), "x", "install it"),
                       doctest::Contains("/x.gz exists; install it"), IoError);
  write_file(folder.file("x.gz"), "");
  CHECK(data::find_idx(folder.path(), "x", "") == folder.file("x.gz"));
  write_file(folder.file("x"), "");
  CHECK(data::find_idx(folder.path() + "/", "x", "") == folder.path() + "/x");
}
