#include "core/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "tests/testing/files.h"

using namespace capstan;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

/// The bytes of a file with this header and data, as the format wants them.
std::string file_bytes(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

/// A header of one tensor "x".
std::string header_of(const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
  return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

/// Expects that loading `bytes` is an IoError that names the file and says `reason`.
void check_refused(const std::string& bytes, const std::string& reason) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bad.safetensors");
  write_file(path, bytes);
  INFO("expected: " << reason);
  CHECK_THROWS_WITH_AS(load_safetensors(path), doctest::Contains(reason.c_str()), IoError);
  CHECK_THROWS_WITH_AS(load_safetensors(path), doctest::Contains(path.c_str()), IoError);
}

template <class T>
void check_equal(const Tensor& a, const std::vector<T>& values, const Shape& shape) {
  CHECK(a.dtype() == dtype_of<T>());
  CHECK(a.shape() == shape);
  CHECK(a.to_vector<T>() == values);
}

}  // namespace

TEST_CASE("every dtype comes back as it went") {
  const TemporaryFolder folder;
  const std::string path = folder.file("all.safetensors");
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> floats{1.5f, -0.0f, inf, 1e-45f, 3e38f, 7};
  const Metadata metadata{{"step", "12"}, {"ü", "a \"quoted\" line\n"}, {"", ""}};
  save_safetensors(path,
                   {{"flags", from_vector<bool>({true, false, true}, {3})},
                    {"bytes", from_vector<uint8_t>({0, 255, 7, 8, 9}, {5, 1})},
                    {"weights", from_vector<float>(floats, {2, 3})},
                    {"scalar", from_vector<double>({0.1}, {})},
                    {"int32", from_vector<int32_t>({INT32_MIN, INT32_MAX}, {2})},
                    {"int64", from_vector<int64_t>({INT64_MIN, INT64_MAX}, {1, 2, 1})},
                    {"empty", zeros({3, 0, 2})}},
                   metadata);
  const Safetensors loaded = load_safetensors(path);
  CHECK(loaded.metadata == metadata);
  CHECK(loaded.tensors.size() == 7);
  check_equal<bool>(loaded.tensors.at("flags"), {true, false, true}, {3});
  check_equal<uint8_t>(loaded.tensors.at("bytes"), {0, 255, 7, 8, 9}, {5, 1});
  check_equal<float>(loaded.tensors.at("weights"), floats, {2, 3});
  CHECK(std::signbit(loaded.tensors.at("weights").to_vector<float>()[1]));
  check_equal<double>(loaded.tensors.at("scalar"), {0.1}, {});
  check_equal<int32_t>(loaded.tensors.at("int32"), {INT32_MIN, INT32_MAX}, {2});
  check_equal<int64_t>(loaded.tensors.at("int64"), {INT64_MIN, INT64_MAX}, {1, 2, 1});
  check_equal<float>(loaded.tensors.at("empty"), {}, {3, 0, 2});
  CHECK(folder.count() == 1);
}

TEST_CASE("every dtype comes back bit for bit") {
  for (const Dtype dtype : kDtypes) {
    CAPTURE(to_string(dtype));
    const TemporaryFolder folder;
    const Tensor x = ones({3, 2}, {.dtype = dtype});
    save_safetensors(folder.file("x"), {{"x", x}});
    const Tensor back = load_safetensors(folder.file("x")).tensors.at("x");
    CHECK(back.dtype() == dtype);
    CHECK(std::memcmp(back.address(), x.address(), x.bytes()) == 0);
  }
  const TemporaryFolder folder;
  write_file(folder.file("x"),
             file_bytes(header_of("\"BF16\"", "[2]", "[0,4]"), "\x80\x3f\x20\xc0"));
  const auto tensors = load_safetensors(folder.file("x")).tensors;
  CHECK(tensors.at("x").dtype() == Dtype::bfloat16);
  CHECK(tensors.at("x").to_vector<float>() == std::vector<float>{1, -2.5});
}

TEST_CASE("a file without tensors") {
  const TemporaryFolder folder;
  save_safetensors(folder.file("none"), {});
  CHECK(read_file(folder.file("none")) == file_bytes("{}      "));
  const Safetensors loaded = load_safetensors(folder.file("none"));
  CHECK(loaded.tensors.empty());
  CHECK(loaded.metadata.empty());
}

TEST_CASE("the layout is the reference implementation's: widest dtypes first, data aligned to 8") {
  const TemporaryFolder folder;
  save_safetensors(folder.file("x"),
                   {{"b", from_vector<bool>({true}, {1})}, {"f", from_vector<float>({1}, {1})}});
  const std::string header = R"({"b":{"data_offsets":[4,5],"dtype":"BOOL","shape":[1]},)"
                             R"("f":{"data_offsets":[0,4],"dtype":"F32","shape":[1]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  CHECK(read_file(folder.file("x")) ==
        file_bytes(header + padding, std::string("\0\0\x80\x3f\x01", 5)));
}

TEST_CASE("views are saved as they look") {
  const TemporaryFolder folder;
  const Tensor base = from_vector<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  const Layout layout = base.layout();
  save_safetensors(folder.file("x"), {{"transposed", view_of(base, layout.transposed(0, 1))},
                                      {"column", view_of(base, layout.selected(1, 1))},
                                      {"row", view_of(base, layout.selected(0, 1))},
                                      {"same", view_of(base, layout.sliced(0, 0, 2))}});
  const auto tensors = load_safetensors(folder.file("x")).tensors;
  check_equal<float>(tensors.at("transposed"), {0, 3, 1, 4, 2, 5}, {3, 2});
  check_equal<float>(tensors.at("column"), {1, 4}, {2});
  check_equal<float>(tensors.at("row"), {3, 4, 5}, {3});
  check_equal<float>(tensors.at("same"), {0, 1, 2, 3, 4, 5}, {2, 3});
}

TEST_CASE("a file made by the reference implementation") {
  const Safetensors loaded = load_safetensors("tests/core/testdata/reference.safetensors");
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(loaded.metadata == Metadata{{"format", "np"}, {"ü", "naïve \"quotes\""}});
  CHECK(loaded.tensors.size() == 7);
  check_equal<bool>(loaded.tensors.at("bool"), {true, false, true}, {3});
  check_equal<float>(loaded.tensors.at("f32"), {1.5f, -2, .25f, inf, 1e-45f, 3e38f}, {2, 3});
  check_equal<double>(loaded.tensors.at("f64"), {0.1}, {});
  check_equal<int32_t>(loaded.tensors.at("i32"), {INT32_MIN, INT32_MAX}, {2});
  check_equal<int64_t>(loaded.tensors.at("i64"), {INT64_MIN, INT64_MAX}, {2, 1});
  check_equal<float>(loaded.tensors.at("nothing"), {}, {3, 0});
  check_equal<uint8_t>(loaded.tensors.at("u8"), {0, 127, 255}, {3});
}

TEST_CASE("a cut file is refused wherever it is cut") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  save_safetensors(path, {{"w", ones({3})}, {"b", ones({2}, {.dtype = Dtype::uint8})}});
  const std::string whole = read_file(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    write_file(path, whole.substr(0, length));
    INFO("length " << length);
    CHECK_THROWS_AS(load_safetensors(path), IoError);
  }
  check_refused(whole + "x", "the tensors take 14 bytes, the file has 15 after its header");
}

TEST_CASE("no single changed byte crashes the reader") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  save_safetensors(path, {{"w", ones({3})}, {"b", ones({2}, {.dtype = Dtype::boolean})}},
                   {{"step", "1"}});
  const std::string whole = read_file(path);
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (char flip : {'\x01', '\x10', '\x80'}) {
      std::string damaged = whole;
      damaged[i] ^= flip;
      write_file(path, damaged);
      try {
        load_safetensors(path);
      } catch (const IoError&) {
        ++refused;
      }
    }
  }
  CHECK(refused > static_cast<int>(whole.size()));
}

TEST_CASE("missing files and folders") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(load_safetensors(folder.file("none")),
                       doctest::Contains("No such file or directory"), IoError);
  CHECK_THROWS_WITH_AS(load_safetensors(folder.path()), doctest::Contains("directory"), IoError);
}

TEST_CASE("a file that cannot be opened") {
  const TemporaryFolder folder;
  save_safetensors(folder.file("x"), {});
  CHECK_THROWS_WITH_AS(testing::without_files([&] { load_safetensors(folder.file("x")); }),
                       doctest::Contains("x: cannot be opened"), IoError);
}

TEST_CASE("a file that has fewer bytes than the disk says") {
  const std::string path = "/sys/class/net/lo/mtu";  // "65536", of 4096 bytes
  if (std::filesystem::exists(path)) {
    CHECK_THROWS_WITH_AS(load_safetensors(path), doctest::Contains("cannot read 8 bytes at 0"),
                         IoError);
  }
}

TEST_CASE("bad header lengths") {
  check_refused("1234567", "expected at least 8 bytes, the file has 7");
  check_refused(file_bytes("{}").substr(0, 9), "expected a header of 2 bytes");
  std::string huge = file_bytes("{}");
  huge[7] = '\xff';
  check_refused(huge, "a header has at most 100000000 bytes");
  check_refused(file_bytes(""), "must begin with '{'");
}

TEST_CASE("headers that are not the right JSON") {
  check_refused(file_bytes("{"), "not JSON");
  check_refused(file_bytes("[]"), "must begin with '{'");
  check_refused(file_bytes("{} x"), "not JSON, see its byte 4");
  check_refused(file_bytes("{\"\xff\":1}"), "not JSON");
  check_refused(file_bytes(R"({"x":[[[[1]]]]})"), "nested deeper");
  check_refused(file_bytes("{\"x\":" + std::string(1'000'000, '[')), "nested deeper");
  check_refused(file_bytes(R"({"x":1,"x":1})"), R"(the key "x" twice)");
  check_refused(file_bytes(R"({"x":{"dtype":"U8","dtype":"I64"}})"), R"(the key "dtype" twice)");
}

TEST_CASE("bad metadata") {
  check_refused(file_bytes(R"({"__metadata__":{"step":1}})"), "__metadata__ must map strings");
  check_refused(file_bytes(R"({"__metadata__":["a"]})"), "__metadata__ must map strings");
}

TEST_CASE("bad tensors") {
  const std::string data(8, '\0');
  const auto refused = [&](const std::string& header, const std::string& reason) {
    check_refused(file_bytes(header, data), reason);
  };
  refused(R"({"x":1})", "tensor x must have dtype, shape and data_offsets, found 1");
  refused(R"({"x":{"dtype":"F32","shape":[2]}})", "must have dtype, shape and data_offsets");
  refused(header_of("\"F8_E4M3\"", "[8]", "[0,8]"),
          "dtype of tensor x must be F32, F64, F16, BF16, I64, I32, U8 or BOOL");
  refused(header_of("4", "[4]", "[0,8]"), "dtype of tensor x");
  refused(header_of("\"F32\"", "2", "[0,8]"), "shape of tensor x");
  refused(header_of("\"F32\"", "[-2]", "[0,8]"), "shape of tensor x");
  refused(header_of("\"F32\"", "[2.0]", "[0,8]"), "found [2.0]");
  refused(header_of("\"F32\"", "[18446744073709551615]", "[0,8]"), "shape of tensor x");
  refused(header_of("\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), "9 axes, at most 8");
  refused(header_of("\"F32\"", "[4611686018427387904,4]", "[0,0]"), "too large to address");
  refused(header_of("\"F32\"", "[4611686018427387904,4,0]", "[0,0]"), "too large to address");
  refused(header_of("\"F32\"", "[3]", "[0,8]"), "needs 12 bytes, its data_offsets hold 8");
  refused(header_of("\"F32\"", "[2]", "[0]"), "data_offsets of tensor x");
  refused(header_of("\"F32\"", "[2]", "[8,0]"), "data_offsets of tensor x");
  refused(header_of("\"F32\"", "[2]", "[4,12]"), "within the 8 bytes of data, found [4,12]");
  refused(header_of("\"F32\"", "[1]", "[2,6]"), "must start at a multiple of 4 bytes, found 2");
  refused(header_of("\"F32\"", "[1]", "[4,8]"), "must start at byte 0");
  refused(header_of("\"F32\"", "[1]", "[0,4]"), "the tensors take 4 bytes, the file has 8");
  check_refused(file_bytes(header_of("\"BOOL\"", "[2]", "[0,2]"), "\x01\x02"),
                "expected bytes 0 and 1, found 2 at element 1");
}

TEST_CASE("tensors that overlap or leave a hole") {
  const auto two = [](const std::string& a, const std::string& b) {
    return file_bytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                          R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                      std::string(9, '\0'));
  };
  check_refused(two("[0,4]", "[3,7]"), "tensor b must start at byte 4");
  check_refused(two("[0,4]", "[0,4]"), "tensor b must start at byte 4");
  check_refused(two("[5,9]", "[0,4]"), "tensor a must start at byte 4");
}

TEST_CASE("what cannot be saved leaves no file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  const Tensor one = ones({1});
  CHECK_THROWS_WITH_AS(save_safetensors(path, {{"a", one}, {"a", one}}),
                       doctest::Contains("two tensors named a"), ValueError);
  CHECK_THROWS_WITH_AS(save_safetensors(path, {{"__metadata__", one}}),
                       doctest::Contains("reserved"), ValueError);
  CHECK_THROWS_WITH_AS(save_safetensors(path, {{"\xff", one}}), doctest::Contains("UTF-8"),
                       ValueError);
  CHECK_THROWS_WITH_AS(save_safetensors(path, {{"a", one}}, {{"a", "\xff"}}),
                       doctest::Contains("UTF-8"), ValueError);
  CHECK_THROWS_WITH_AS(save_safetensors(path, {{"a", empty({1}, {.device = Device::meta()})}}),
                       doctest::Contains("must be on the cpu, it is on meta"), DeviceError);
  CHECK_THROWS_WITH_AS(save_safetensors(path, {}, {{"a", std::string(100'000'000, 'x')}}),
                       doctest::Contains("the header would have 1000000"), ValueError);
  CHECK_THROWS_AS(save_safetensors(path, {{"a", Tensor()}}), ValueError);
  CHECK_THROWS_AS(save_safetensors(folder.file("none/x"), {{"a", one}}), IoError);
  CHECK(folder.count() == 0);
}

TEST_CASE("parts of a file are read") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x");
  save_safetensors(path,
                   {{"numbers", reshaped(arange(12), {3, 4})},
                    {"flags", from_vector<bool>({true, false, true}, {3})},
                    {"none", zeros({2, 0})}},
                   {{"step", "1"}});
  SafetensorsFile file(path);
  CHECK(file.metadata() == Metadata{{"step", "1"}});
  CHECK(file.tensors().size() == 3);
  CHECK(file.tensors().at("numbers").shape == Shape{3, 4});
  CHECK(file.tensors().at("flags").dtype == Dtype::boolean);
  std::vector<int64_t> part(5);
  file.read("numbers", 6, 5, part.data());
  CHECK(part == std::vector<int64_t>{6, 7, 8, 9, 10});
  file.read("numbers", 11, 1, part.data());
  CHECK(part[0] == 11);
  file.read("numbers", 12, 0, nullptr);
  file.read("none", 0, 0, nullptr);
  check_equal<bool>(file.read("flags"), {true, false, true}, {3});

  const auto refused = [&](const char* name, int64_t first, int64_t count, const char* text) {
    CHECK_THROWS_WITH_AS(file.read(name, first, count, part.data()), doctest::Contains(text),
                         ValueError);
  };
  refused("other", 0, 1, "there is no tensor other");
  refused("numbers", 8, 5, "tensor numbers has 12 elements, asked for 5 from 8 on");
  refused("numbers", -1, 2, "asked for 2 from -1 on");
  refused("numbers", 1, -1, "asked for -1 from 1 on");
  refused("numbers", INT64_MAX, 1, "asked for 1 from 9223372036854775807 on");
  CHECK_THROWS_WITH_AS(file.read("other"), doctest::Contains("no tensor other"), ValueError);

  // A file that is cut behind our back is noticed, and reading elsewhere goes on.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  CHECK_THROWS_WITH_AS(file.read("flags"), doctest::Contains("cannot read 3 bytes"), IoError);
  file.read("numbers", 0, 1, part.data());
  CHECK(part[0] == 0);

  write_file(path, file_bytes(header_of("\"BOOL\"", "[3]", "[0,3]"), std::string("\0\1\2", 3)));
  SafetensorsFile flags(path);
  bool to[2];
  flags.read("x", 0, 2, to);
  CHECK_THROWS_WITH_AS(flags.read("x", 1, 2, to), doctest::Contains("found 2 at element 2"),
                       IoError);
}

TEST_CASE("tensors that are made one after another give the same file, and its sum") {
  const TemporaryFolder folder;
  const NamedTensors tensors{{"b", full({3}, 1, {.dtype = Dtype::uint8})}, {"w", ones({2, 2})}};
  Sha256 sum, other_sum;
  save_safetensors(folder.file("x"), tensors, {{"a", "b"}}, &sum);
  std::vector<size_t> order;
  save_safetensors(
      folder.file("y"), {{"b", Dtype::uint8, {3}}, {"w", Dtype::float32, {2, 2}}},
      [&](size_t i) {
        order.push_back(i);
        return tensors[i].second;
      },
      {{"a", "b"}}, &other_sum);
  CHECK(order == std::vector<size_t>{1, 0});
  const std::string bytes = read_file(folder.file("x"));
  CHECK(bytes == read_file(folder.file("y")));
  CHECK(sum.hex() == sha256_hex(std::as_bytes(std::span(bytes))));
  CHECK(other_sum.hex() == sum.hex());

  const auto refused = [&]<class E>(E, const TensorSpec& spec, const char* text) {
    CHECK_THROWS_WITH_AS(
        save_safetensors(folder.file("z"), {spec}, [&](size_t) { return tensors[1].second; }),
        doctest::Contains(text), E);
    CHECK(folder.count() == 2);
  };
  refused(ShapeError(""), {"w", Dtype::float32, {4}}, "tensor w must be [4], got [2, 2]");
  refused(DtypeError(""), {"w", Dtype::int32, {2, 2}}, "tensor w must be int32, got float32");
}
