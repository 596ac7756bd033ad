#include "data/npy.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include "core/error.h"
#include "tests/data/zip_files.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::read_npy;
using data::read_npz;
using testing::little;
using testing::TemporaryFolder;
using testing::write_file;
using testing::zip_bytes;
using testing::ZipMember;

namespace {

const std::string kFolder = "tests/data/testdata/";

/// A file of version 1 with this header and these elements.
std::string npy(const std::string& header, const std::string& elements) {
  return "\x93NUMPY" + little(1, 1) + little(0, 1) + little(header.size(), 2) + header + elements;
}

std::string header(const std::string& descr, const std::string& shape,
                   const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }  \n";
}

Tensor read_bytes(const std::string& bytes) {
  const TemporaryFolder folder;
  write_file(folder.file("x"), bytes);
  return read_npy(folder.file("x"));
}

void check_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bad.npy");
  write_file(path, bytes);
  INFO("expected: " << reason);
  CHECK_THROWS_WITH_AS(read_npy(path), doctest::Contains(reason.c_str()), IoError);
  CHECK_THROWS_WITH_AS(read_npy(path), doctest::Contains(path.c_str()), IoError);
}

void check_archive_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bad.npz");
  write_file(path, bytes);
  INFO("expected: " << reason);
  CHECK_THROWS_WITH_AS(read_npz(path), doctest::Contains(reason.c_str()), IoError);
  CHECK_THROWS_WITH_AS(read_npz(path), doctest::Contains(path.c_str()), IoError);
}

/// What testdata/make.py wrote: 0, 1, ..., 5 as [2, 3].
void check_counting(const Tensor& tensor, Dtype dtype) {
  CHECK(tensor.dtype() == dtype);
  CHECK(tensor.shape() == Shape{2, 3});
  CHECK(tensor.is_contiguous());
  const std::vector<int64_t> expected = dtype == Dtype::boolean
                                            ? std::vector<int64_t>{0, 1, 1, 1, 1, 1}
                                            : std::vector<int64_t>{0, 1, 2, 3, 4, 5};
  CHECK(tensor.to_vector<int64_t>() == expected);
}

}  // namespace

TEST_CASE("files that NumPy wrote") {
  check_counting(read_npy(kFolder + "float32.npy"), Dtype::float32);
  check_counting(read_npy(kFolder + "fortran_big_endian_int64.npy"), Dtype::int64);
  for (const std::string name : {"stored.npz", "packed.npz"}) {
    const auto arrays = read_npz(kFolder + name);
    CHECK(arrays.size() == 8);
    check_counting(arrays.at("f4"), Dtype::float32);
    check_counting(arrays.at("f8"), Dtype::float64);
    check_counting(arrays.at("f2"), Dtype::float16);
    check_counting(arrays.at("i4"), Dtype::int32);
    check_counting(arrays.at("i8"), Dtype::int64);
    check_counting(arrays.at("u1"), Dtype::uint8);
    check_counting(arrays.at("b1"), Dtype::boolean);
    CHECK(arrays.at("scalar").item<float>() == 2.5f);
  }
}

TEST_CASE("any shape and order of axes comes back") {
  CHECK(rc::check([] {
    const auto sizes = *rc::gen::container<std::vector<int64_t>>(*rc::gen::inRange(0, 5),
                                                                 rc::gen::inRange<int64_t>(0, 4));
    const bool fortran = *rc::gen::arbitrary<bool>();
    std::string shape = "(", elements;
    for (int64_t size : sizes) shape += std::to_string(size) + ",";
    const Shape expected{std::span<const int64_t>(sizes)};
    // The element at indices i, j, ... is their number in row-major order.
    std::vector<int32_t> values(static_cast<size_t>(numel(expected)));
    for (size_t place = 0; place < values.size(); ++place) {
      int64_t rest = static_cast<int64_t>(place), value = 0, step = 1;
      if (!fortran) {
        value = rest;
      } else {
        std::vector<int64_t> indices;
        for (int64_t size : sizes) indices.push_back(rest % size), rest /= size;
        for (size_t axis = sizes.size(); axis-- > 0; step *= sizes[axis])
          value += indices[axis] * step;
      }
      elements += little(static_cast<uint64_t>(value), 4);
      values[static_cast<size_t>(value)] = static_cast<int32_t>(value);
    }
    const Tensor tensor =
        read_bytes(npy(header("<i4", shape + ")", fortran ? "True" : "False"), elements));
    RC_ASSERT(tensor.shape() == expected);
    RC_ASSERT(tensor.to_vector<int32_t>() == values);
  }));
}

TEST_CASE("versions 2 and 3 have a longer length, and the keys any order") {
  const std::string text = "{\"shape\":(1,),'descr':'|u1','fortran_order':False}";
  for (int version : {2, 3}) {
    const Tensor tensor = read_bytes("\x93NUMPY" + little(version, 1) + little(0, 1) +
                                     little(text.size(), 4) + text + "\x07");
    CHECK(tensor.to_vector<uint8_t>() == std::vector<uint8_t>{7});
  }
}

TEST_CASE("headers that are not right") {
  check_refused("", "expected 6 bytes of magic, found 0");
  check_refused("PK\x03\x04xx", "begins with \"\\x93NUMPY\"");
  check_refused("\x93NUMPY\x04" + little(0, 5), "version 1, 2 or 3, found 4");
  check_refused("\x93NUMPY" + little(1, 2) + little(500, 2) + "{}", "500 bytes of header, found 2");
  check_refused("\x93NUMPY" + little(2, 2) + little(~0u, 4) + "{}", "4294967295 bytes of header");
  check_refused(npy("", ""), "expected '{' in the header, found its end");
  check_refused(npy("{}", ""), "expected the keys");
  check_refused(npy("{'descr': '<f4', 'descr': '<f4'}", ""), "once each");
  check_refused(npy("{'other': 1}", ""), "once each");
  check_refused(npy("{'descr': [('a', '<f4')]}", ""), "not one with fields");
  check_refused(npy("{'descr': '<f4", ""), "the end of a string");
  check_refused(npy("{'descr': 3", ""), "a string in the header, found \"3\"");
  check_refused(npy("{'descr' '<f4'", ""), "':'");
  check_refused(npy("{'fortran_order': Maybe}", ""), "True or False");
  check_refused(npy(header("<f4", "(1 2)"), ""), "',' or ')'");
  check_refused(npy(header("<f4", "(-1,)"), ""), "a size of at most 63 bits");
  check_refused(npy(header("<f4", "(99999999999999999999,)"), ""), "a size of at most 63 bits");
  check_refused(npy(header("<f4", "(1,1,1,1,1,1,1,1,1)"), ""), "at most 8 axes");
  check_refused(npy(header("<f4", "()") + "x", "1234"), "the end of the header");
  check_refused(npy("{'descr': '<f4' 'shape': ()}", ""), "',' or '}'");
}

TEST_CASE("element types without a dtype") {
  for (const std::string descr :
       {"<f1", "<i2", "<u4", "|i1", "<c8", "|O", "<U3", "", "f4", "<f44"}) {
    check_refused(npy(header(descr, "(1,)"), "12345678"), "'" + descr + "'");
  }
  check_refused(npy(header("|b1", "(2,)"), "\x01\x02"), "must be 0 or 1");
}

TEST_CASE("sizes that the elements do not fill, or that cannot be counted") {
  check_refused(npy(header("<f4", "(2, 3)"), std::string(23, 'x')), "[2, 3] elements of float32");
  check_refused(npy(header("<f4", "(2, 3)"), std::string(25, 'x')), "found 25 bytes");
  check_refused(npy(header("|u1", "(4000000000000000000,)"), "x"), "found 1 bytes");
  check_refused(npy(header("<f8", "(4000000000000000000, 4000000000000000000)"), "x"), "promises");
  check_refused(npy(header("<f8", "(0, 4000000000000000000, 4000000000000000000)"), ""),
                "promises");
  CHECK(read_bytes(npy(header("<f8", "(0, 4000000)"), "")).shape() == Shape{0, 4000000});
}

TEST_CASE("archives with 64-bit sizes, and none at all") {
  const std::string array = npy(header("<i4", "()"), little(7, 4));
  const TemporaryFolder folder;
  for (const bool wide : {false, true}) {
    write_file(folder.file("x.npz"),
               zip_bytes({{.name = "a.npy", .bytes = array, .packed = true, .wide = wide}}, wide));
    CHECK(read_npz(folder.file("x.npz")).at("a").item<int>() == 7);
  }
  write_file(folder.file("x.npz"), zip_bytes({}));
  CHECK(read_npz(folder.file("x.npz")).empty());
}

TEST_CASE("archives that are not right") {
  const std::string array = npy(header("<i4", "()"), little(7, 4));
  const ZipMember good{.name = "a.npy", .bytes = array};
  const auto with = [&](auto change) {
    ZipMember member = good;
    change(member);
    return zip_bytes({member});
  };
  check_archive_refused("", "is no zip file, or cut: its 0 bytes");
  check_archive_refused(array, "is no zip file");
  check_archive_refused(zip_bytes({good, good}), "two members named a.npy");
  check_archive_refused(with([](auto& m) { m.name = "a.txt"; }), "a.txt: is no .npy file");
  check_archive_refused(with([](auto& m) { m.bytes = "hello!"; }),
                        "a.npy: a .npy file begins with");
  check_archive_refused(with([](auto& m) { m.flags = 1; }), "is encrypted");
  check_archive_refused(with([](auto& m) { m.method = 12; }), "method 0 (stored) or 8");
  check_archive_refused(with([](auto& m) { m.promised = 9; }), "its sizes differ");
  check_archive_refused(with([](auto& m) { m.packed = true, m.promised = 9; }), "expected 9 bytes");
  check_archive_refused(with([](auto& m) { m.packed = true, m.promised = 90; }),
                        "expected 90 bytes");
  check_archive_refused(with([](auto& m) { m.packed = true, m.promised = 0xfffffff0; }),
                        "cannot hold the 4294967280");
  check_archive_refused(with([](auto& m) { m.method = 8; }), "zlib says");
  std::string damaged = zip_bytes({good});
  damaged[30 + 5 + 20] ^= 1;
  check_archive_refused(damaged, "expected checksum");
}

TEST_CASE("an archive that is cut, or has a wrong byte, anywhere") {
  const std::string array = npy(header("<i4", "(3,)"), little(7, 4) + little(8, 8));
  const std::string whole =
      zip_bytes({{.name = "a.npy", .bytes = array, .packed = true, .wide = true},
                 {.name = "b.npy", .bytes = array}},
                true);
  const TemporaryFolder folder;
  const std::string path = folder.file("x.npz");
  for (size_t length = 0; length < whole.size(); ++length) {
    check_archive_refused(whole.substr(0, length), "");
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int flip : {1, 0x80, 0xff}) {
      std::string changed = whole;
      changed[i] ^= static_cast<char>(flip);
      write_file(path, changed);
      try {
        for (const auto& [name, tensor] : read_npz(path)) {
          CHECK(tensor.to_vector<int32_t>() == std::vector<int32_t>{7, 8, 0});
        }
      } catch (const IoError&) {
      }
    }
  }
}

TEST_CASE("files that cannot be read") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_npy(folder.file("none")), doctest::Contains("No such file"), IoError);
  CHECK_THROWS_WITH_AS(read_npz(folder.path()), doctest::Contains("not a plain file"), IoError);
  CHECK_THROWS_WITH_AS(read_npy("/dev/null"), doctest::Contains("not a plain file"), IoError);
}
