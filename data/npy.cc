// The header of a .npy file is a line of Python; HeaderReader knows as much of the language as the
// format needs.
#include "data/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/raise.h"
#include "data/bytes.h"
#include "data/zip.h"

namespace capstan::data {
namespace {

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderReader {
 public:
  HeaderReader(const std::string& name, std::string_view text) : name_(name), text_(text) {}

  Header read() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !std::exchange(descr, true)) {
        if (next() == '[') fail("a simple element type, not one with fields");
        header.descr = string();
      } else if (key == "fortran_order" && !std::exchange(order, true)) {
        header.fortran_order = boolean();
      } else if (key == "shape" && !std::exchange(shape, true)) {
        header.shape = tuple();
      } else {
        fail("the keys 'descr', 'fortran_order' and 'shape', once each");
      }
      if (!accept(',') && next() != '}') fail("',' or '}'");
    }
    if (!descr || !order || !shape) fail("the keys 'descr', 'fortran_order' and 'shape'");
    if (next() != '\0') fail("the end of the header");
    return header;
  }

 private:
  char next() {
    const size_t begin = std::min(text_.find_first_not_of(" \t\r\n"), text_.size());
    text_.remove_prefix(begin);
    return text_.empty() ? '\0' : text_.front();
  }
  bool accept(char wanted) {
    if (next() != wanted || text_.empty()) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) fail(fmt::format("'{}'", wanted));
  }

  std::string string() {
    const char quote = next();
    if (quote != '\'' && quote != '"') fail("a string");
    const size_t end = text_.find(quote, 1);
    if (end == std::string_view::npos) fail("the end of a string");
    std::string out(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return out;
  }

  bool boolean() {
    next();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    fail("True or False");
  }

  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      next();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), size);
      if (error != std::errc{} || size < 0) fail("a size of at most 63 bits");
      if (shape.rank() == kMaxRank) fail(fmt::format("at most {} axes", kMaxRank));
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      shape.push_back(size);
      if (!accept(',') && next() != ')') fail("',' or ')'");
    }
    return shape;
  }

  [[noreturn]] void fail(const std::string& wanted) {
    const auto rest = text_.substr(0, 40);
    raise<IoError>("[read_npy] {}: expected {} in the header, found {}", name_, wanted,
                   rest.empty() ? "its end" : fmt::format("\"{}\"", rest));
  }

  const std::string& name_;
  std::string_view text_;
};

struct Element {
  Dtype dtype;
  bool reversed;  // big endian
};

Element element_from(const std::string& name, const std::string& descr) {
  constexpr std::pair<std::string_view, Dtype> kKnown[] = {
      {"f4", Dtype::float32}, {"f8", Dtype::float64}, {"f2", Dtype::float16}, {"i4", Dtype::int32},
      {"i8", Dtype::int64},   {"u1", Dtype::uint8},   {"b1", Dtype::boolean}};
  const bool ordered =
      descr.size() == 3 && std::string_view("<>|=").find(descr[0]) != std::string::npos;
  for (const auto& [code, dtype] : kKnown) {
    if (ordered && descr.substr(1) == code) return {dtype, descr[0] == '>'};
  }
  raise<IoError>(
      "[read_npy] {}: its elements are '{}', which Capstan has no dtype for; convert the array to "
      "float32, float64, float16, int32, int64, uint8 or bool",
      name, descr);
}

/// The bytes that the elements take, none if 63 bits cannot count them (zeros left out, as for the
/// strides of a tensor).
std::optional<int64_t> bytes_of(const Shape& shape, Dtype dtype) {
  int64_t bytes = item_size(dtype);
  bool none = false;
  for (int64_t size : shape) {
    none |= size == 0;
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return none ? 0 : bytes;
}

Header read_header(ByteReader& reader, const std::string& name) {
  if (reader.take_text(6, "magic") != "\x93NUMPY") {
    raise<IoError>("[read_npy] {}: a .npy file begins with \"\\x93NUMPY\", this one does not",
                   name);
  }
  const auto version = reader.number<uint8_t>("version");
  reader.take(1, "version");
  if (version < 1 || version > 3) {
    raise<IoError>("[read_npy] {}: expected format version 1, 2 or 3, found {}", name, version);
  }
  const uint32_t length = version == 1 ? reader.number<uint16_t>("header length")
                                       : reader.number<uint32_t>("header length");
  return HeaderReader(name, reader.take_text(length, "header")).read();
}

Tensor parse_npy(const std::string& name, std::span<const std::byte> file) {
  ByteReader reader("read_npy", name, file);
  const Header header = read_header(reader, name);
  const auto [dtype, reversed] = element_from(name, header.descr);
  const auto bytes = bytes_of(header.shape, dtype);
  if (!bytes || *bytes != static_cast<int64_t>(reader.remaining())) {
    raise<IoError>("[read_npy] {}: its header promises {} elements of {}, found {} bytes", name,
                   header.shape, dtype, reader.remaining());
  }
  // Fortran's order is the row-major order of the axes turned round.
  Shape stored = header.shape;
  if (header.fortran_order) std::reverse(stored.begin(), stored.end());
  const Tensor tensor = empty(stored, {.dtype = dtype});
  const auto elements = reader.take(static_cast<uint64_t>(*bytes), "elements");
  auto* out = static_cast<std::byte*>(tensor.address());
  std::copy(elements.begin(), elements.end(), out);
  if (reversed) {
    for (int64_t i = 0; i < *bytes; i += item_size(dtype)) {
      std::reverse(out + i, out + i + item_size(dtype));
    }
  }
  const auto neither = [](std::byte b) { return b > std::byte{1}; };
  if (dtype == Dtype::boolean && std::any_of(elements.begin(), elements.end(), neither)) {
    raise<IoError>("[read_npy] {}: elements of bool must be 0 or 1", name);
  }
  if (!header.fortran_order || stored.rank() < 2) return tensor;
  Dims order;
  for (int axis = stored.rank() - 1; axis >= 0; --axis) order.push_back(axis);
  return dense_copy(view_of(tensor, tensor.layout().permuted(order)));
}

}  // namespace

Tensor read_npy(const std::string& path) {
  const MappedFile file(path);
  return parse_npy(path, file.bytes());
}

std::map<std::string, Tensor> read_npz(const std::string& path) {
  const ZipArchive archive(path);
  std::map<std::string, Tensor> arrays;
  for (const auto& [name, member] : archive.members()) {
    const std::string where = fmt::format("{}: {}", path, name);
    if (!name.ends_with(".npy")) raise<IoError>("[read_npz] {}: is no .npy file", where);
    arrays.emplace(name.substr(0, name.size() - 4), parse_npy(where, archive.read(name)));
  }
  return arrays;
}

}  // namespace capstan::data
