// Reading and writing safetensors; the format is described in the header.
//
// Writing puts the widest dtypes first, as the reference implementation does: without holes, that
// alone aligns every tensor. Reading goes in the order file, header, tensors, and checks each part
// before it uses it; memory is only allocated for bytes that the file has.
#include "core/safetensors.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/atomic_file.h"
#include "core/raise.h"

namespace capstan {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr int64_t kLongestHeader = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadata = "__metadata__";

struct Code {
  Dtype dtype;
  const char* name;
};
constexpr Code kCodes[] = {{Dtype::float32, "F32"}, {Dtype::float64, "F64"},
                           {Dtype::float16, "F16"}, {Dtype::bfloat16, "BF16"},
                           {Dtype::int64, "I64"},   {Dtype::int32, "I32"},
                           {Dtype::uint8, "U8"},    {Dtype::boolean, "BOOL"}};

const char* code_of(Dtype dtype) { return std::ranges::find(kCodes, dtype, &Code::dtype)->name; }

/// The header of a file that holds `tensors` in this order, padded so that the data is aligned.
std::string header_for(const NamedTensors& tensors, const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t begin = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadata) raise<ValueError>("[save_safetensors] the name {} is reserved", name);
    if (header.contains(name)) raise<ValueError>("[save_safetensors] two tensors named {}", name);
    const int64_t end = begin + tensor.bytes();
    header[name] = {{"dtype", code_of(tensor.dtype())},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::type_error& error) {
    raise<ValueError>("[save_safetensors] names and metadata must be UTF-8: {}", error.what());
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (std::ssize(text) > kLongestHeader) {
    raise<ValueError>("[save_safetensors] the header would have {} bytes, at most {} are allowed",
                      text.size(), kLongestHeader);
  }
  return text;
}

/// What the header says about one tensor; `begin` and `end` count bytes after the header.
struct Entry {
  std::string name;
  Dtype dtype;
  Shape shape;
  int64_t begin, end;
};

/// One file while it is read.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code error;
    size_ = static_cast<int64_t>(std::filesystem::file_size(path, error));
    if (error) fail("cannot be read: {}", error.message());
    if (!file_) fail("cannot be opened");
  }

  Safetensors read() {
    const json header = read_header();
    Safetensors out;
    std::vector<Entry> entries;
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        out.metadata = metadata_from(value);
      } else {
        entries.push_back(entry_from(name, value));
      }
    }
    check_tiling(entries);
    for (const Entry& entry : entries) out.tensors[entry.name] = read_tensor(entry);
    return out;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    raise<IoError>("[load_safetensors] {}: {}", path_,
                   fmt::format(format, std::forward<Args>(args)...));
  }

  /// A piece of the header for a message.
  static std::string excerpt(const json& value) {
    const std::string text = value.dump(-1, ' ', true);
    return text.size() <= 60 ? text : text.substr(0, 60) + "...";
  }

  void read_bytes(int64_t offset, void* to, int64_t bytes) {
    if (bytes == 0) return;
    file_.seekg(offset);
    file_.read(static_cast<char*>(to), bytes);
    if (!file_) fail("cannot read {} bytes at {}", bytes, offset);
  }

  json read_header() {
    if (size_ < 8) fail("expected at least 8 bytes, the file has {}", size_);
    uint64_t length = 0;
    read_bytes(0, &length, 8);
    if (length > kLongestHeader) {
      fail("a header has at most {} bytes, this one claims {}", kLongestHeader, length);
    }
    data_start_ = 8 + static_cast<int64_t>(length);
    if (data_start_ > size_) {
      fail("expected a header of {} bytes after the first 8, the file has {} bytes", length, size_);
    }
    std::string text(length, ' ');
    read_bytes(8, text.data(), static_cast<int64_t>(length));
    if (!text.starts_with('{')) fail("the header must begin with '{{'");
    return parse(text);
  }

  /// JSON parsers keep one of two equal keys without a word, so the keys are watched here; so is
  /// the depth, since a header of brackets alone would take a hundred times its size in memory.
  json parse(const std::string& text) const {
    std::vector<std::set<std::string>> keys;  // of each object that is open
    const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
      using Event = json::parse_event_t;
      if ((event == Event::object_start || event == Event::array_start) && depth > 2) {
        fail("the header is nested deeper than a shape in a tensor");
      }
      if (event == Event::object_start) keys.emplace_back();
      if (event == Event::object_end) keys.pop_back();
      if (event == Event::key && !keys.back().insert(parsed.get<std::string>()).second) {
        fail("the header has the key {} twice", excerpt(parsed));
      }
      return true;
    };
    try {
      return json::parse(text, watch);
    } catch (const json::exception& error) {
      const auto* syntax = dynamic_cast<const json::parse_error*>(&error);
      fail("the header is not JSON, see its byte {}", syntax ? syntax->byte : 0);
    }
  }

  Metadata metadata_from(const json& value) const {
    const bool strings = value.is_object() && std::ranges::all_of(value, &json::is_string);
    if (!strings) fail("{} must map strings to strings, found {}", kMetadata, excerpt(value));
    return value.get<Metadata>();
  }

  /// A list of non-negative integers.
  std::vector<int64_t> integers(const std::string& name, const char* key, const json& value) const {
    const bool fits = value.is_array() && std::ranges::all_of(value, [](const json& item) {
                        return item.is_number_unsigned() && item.get<uint64_t>() <= INT64_MAX;
                      });
    if (!fits) {
      fail("{} of tensor {} must list integers from 0 on, found {}", key, name, excerpt(value));
    }
    return value.get<std::vector<int64_t>>();
  }

  Dtype dtype_from(const std::string& name, const json& value) const {
    for (const Code& code : kCodes) {
      if (value == code.name) return code.dtype;
    }
    fail("dtype of tensor {} must be F32, F64, F16, BF16, I64, I32, U8 or BOOL, found {}", name,
         excerpt(value));
  }

  Entry entry_from(const std::string& name, const json& value) const {
    if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
        !value.contains("shape") || !value.contains("data_offsets")) {
      fail("tensor {} must have dtype, shape and data_offsets, found {}", name, excerpt(value));
    }
    const Dtype dtype = dtype_from(name, value["dtype"]);
    const auto sizes = integers(name, "shape", value["shape"]);
    const auto offsets = integers(name, "data_offsets", value["data_offsets"]);
    if (sizes.size() > kMaxRank) {
      fail("tensor {} has {} axes, at most {} are supported", name, sizes.size(), kMaxRank);
    }
    const int64_t available = size_ - data_start_;
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > available) {
      fail("data_offsets of tensor {} must be [first, last] within the {} bytes of data, found {}",
           name, available, excerpt(value["data_offsets"]));
    }
    if (offsets[0] % item_size(dtype) != 0) {
      fail("tensor {} must start at a multiple of {} bytes, found {}", name, item_size(dtype),
           offsets[0]);
    }
    check_length(name, dtype, sizes, offsets[1] - offsets[0]);
    return {name, dtype, Shape(std::span(sizes)), offsets[0], offsets[1]};
  }

  void check_length(const std::string& name, Dtype dtype, const std::vector<int64_t>& sizes,
                    int64_t found) const {
    // Strides are products of sizes too, and must fit even where a size of 0 empties the tensor.
    int64_t strides = item_size(dtype);
    bool empty = false, overflow = false;
    for (int64_t size : sizes) {
      empty |= size == 0;
      overflow |= __builtin_mul_overflow(strides, std::max<int64_t>(size, 1), &strides);
    }
    if (overflow)
      fail("tensor {} has a shape too large to address: {}", name, fmt::join(sizes, ", "));
    const int64_t expected = empty ? 0 : strides;
    if (found != expected) {
      fail("tensor {}, {} [{}], needs {} bytes, its data_offsets hold {}", name, dtype,
           fmt::join(sizes, ", "), expected, found);
    }
  }

  /// Tensors must cover the data without holes and without overlaps. Sorts them as they lie.
  void check_tiling(std::vector<Entry>& entries) const {
    std::ranges::sort(entries, {}, [](const Entry& e) { return std::pair(e.begin, e.end); });
    int64_t covered = 0;
    for (const Entry& entry : entries) {
      if (entry.begin != covered) {
        fail("tensor {} must start at byte {}, where the one before it ends, found {}", entry.name,
             covered, entry.begin);
      }
      covered = entry.end;
    }
    if (covered != size_ - data_start_) {
      fail("the tensors take {} bytes, the file has {} after its header", covered,
           size_ - data_start_);
    }
  }

  Tensor read_tensor(const Entry& entry) {
    const Tensor tensor = empty(entry.shape, {.dtype = entry.dtype});
    read_bytes(data_start_ + entry.begin, tensor.address(), entry.end - entry.begin);
    if (entry.dtype == Dtype::boolean) {
      const auto* bytes = static_cast<const uint8_t*>(tensor.address());
      const auto* wrong = std::find_if(bytes, bytes + tensor.numel(), [](int b) { return b > 1; });
      if (wrong != bytes + tensor.numel()) {
        fail("tensor {} is BOOL, expected bytes 0 and 1, found {} at element {}", entry.name,
             *wrong, wrong - bytes);
      }
    }
    return tensor;
  }

  std::string path_;
  std::ifstream file_;
  int64_t size_ = 0;
  int64_t data_start_ = 0;  // in the file
};

}  // namespace

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata) {
  NamedTensors sorted = tensors;
  for (auto& [name, tensor] : sorted) {
    if (tensor.device().kind != Device::Kind::cpu) {
      raise<DeviceError>("[save_safetensors] tensor {} must be on the cpu, it is on {}", name,
                         tensor.device());
    }
    if (!tensor.is_contiguous()) tensor = dense_copy(tensor);
  }
  std::ranges::stable_sort(sorted, std::greater{},
                           [](const auto& item) { return item_size(item.second.dtype()); });
  const std::string header = header_for(sorted, metadata);
  const uint64_t length = header.size();
  write_atomically(path, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << header;
    for (const auto& [name, tensor] : sorted) {
      out.write(static_cast<const char*>(tensor.address()), tensor.bytes());
    }
  });
}

Safetensors load_safetensors(const std::string& path) { return Reader(path).read(); }

}  // namespace capstan
