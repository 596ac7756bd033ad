// Reading and writing safetensors; the format is described in the header.
//
// Writing puts the widest dtypes first, as the reference implementation does: without holes, that
// alone aligns every tensor. Reading goes in the order file, header, tensors, and checks each part
// before it uses it; memory is only allocated for bytes that the file has.
#include "core/safetensors.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
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

/// The header of a file that holds `specs` in this `order`, padded so that the data is aligned.
std::string header_for(const std::vector<TensorSpec>& specs, const std::vector<size_t>& order,
                       const Metadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t begin = 0;
  for (const size_t i : order) {
    const auto& [name, dtype, shape] = specs[i];
    if (name == kMetadata) raise<ValueError>("[save_safetensors] the name {} is reserved", name);
    if (header.contains(name)) raise<ValueError>("[save_safetensors] two tensors named {}", name);
    const int64_t end = begin + numel(shape) * item_size(dtype);
    header[name] = {{"dtype", code_of(dtype)},
                    {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
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

template <class... Args>
[[noreturn]] void fail(const std::string& path, fmt::format_string<Args...> format,
                       Args&&... args) {
  raise<IoError>("[load_safetensors] {}: {}", path,
                 fmt::format(format, std::forward<Args>(args)...));
}

void read_bytes(std::ifstream& file, const std::string& path, int64_t offset, void* to,
                int64_t bytes) {
  if (bytes == 0) return;
  file.clear();
  file.seekg(offset);
  file.read(static_cast<char*>(to), bytes);
  if (!file) fail(path, "cannot read {} bytes at {}", bytes, offset);
}

/// Reads and checks the header of one file.
class HeaderReader {
 public:
  using Entry = SafetensorsFile::Entry;

  HeaderReader(const std::string& path, std::ifstream& file) : path_(path), file_(file) {
    std::error_code error;
    size_ = static_cast<int64_t>(std::filesystem::file_size(path, error));
    if (error) fail("cannot be read: {}", error.message());
    if (!file_) fail("cannot be opened");
  }

  void read(std::map<std::string, Entry>& tensors, Metadata& metadata) {
    const json header = read_header();
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadata) {
        metadata = metadata_from(value);
      } else {
        tensors.emplace(name, entry_from(name, value));
      }
    }
    check_tiling(tensors);
  }

  int64_t data_start() const { return data_start_; }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    capstan::fail(path_, format, std::forward<Args>(args)...);
  }

  /// A piece of the header for a message.
  static std::string excerpt(const json& value) {
    const std::string text = value.dump(-1, ' ', true);
    return text.size() <= 60 ? text : text.substr(0, 60) + "...";
  }

  json read_header() {
    if (size_ < 8) fail("expected at least 8 bytes, the file has {}", size_);
    uint64_t length = 0;
    read_bytes(file_, path_, 0, &length, 8);
    if (length > kLongestHeader) {
      fail("a header has at most {} bytes, this one claims {}", kLongestHeader, length);
    }
    data_start_ = 8 + static_cast<int64_t>(length);
    if (data_start_ > size_) {
      fail("expected a header of {} bytes after the first 8, the file has {} bytes", length, size_);
    }
    std::string text(length, ' ');
    read_bytes(file_, path_, 8, text.data(), static_cast<int64_t>(length));
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
    return {dtype, Shape(std::span(sizes)), offsets[0], offsets[1]};
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

  /// Tensors must cover the data without holes and without overlaps.
  void check_tiling(const std::map<std::string, Entry>& tensors) const {
    std::vector<std::pair<std::string, Entry>> entries(tensors.begin(), tensors.end());
    std::ranges::sort(entries, {},
                      [](const auto& e) { return std::pair(e.second.begin, e.second.end); });
    int64_t covered = 0;
    for (const auto& [name, entry] : entries) {
      if (entry.begin != covered) {
        fail("tensor {} must start at byte {}, where the one before it ends, found {}", name,
             covered, entry.begin);
      }
      covered = entry.end;
    }
    if (covered != size_ - data_start_) {
      fail("the tensors take {} bytes, the file has {} after its header", covered,
           size_ - data_start_);
    }
  }

  const std::string& path_;
  std::ifstream& file_;
  int64_t size_ = 0;
  int64_t data_start_ = 0;
};

/// What `values` gave for `spec`, dense.
Tensor checked(const TensorSpec& spec, Tensor tensor) {
  if (tensor.device().kind != Device::Kind::cpu) {
    raise<DeviceError>("[save_safetensors] tensor {} must be on the cpu, it is on {}", spec.name,
                       tensor.device());
  }
  if (tensor.shape() != spec.shape) {
    raise<ShapeError>("[save_safetensors] tensor {} must be {}, got {}", spec.name, spec.shape,
                      tensor.shape());
  }
  if (tensor.dtype() != spec.dtype) {
    raise<DtypeError>("[save_safetensors] tensor {} must be {}, got {}", spec.name, spec.dtype,
                      tensor.dtype());
  }
  return tensor.is_contiguous() ? tensor : dense_copy(tensor);
}

}  // namespace

void save_safetensors(const std::string& path, const std::vector<TensorSpec>& specs,
                      const std::function<Tensor(size_t)>& values, const Metadata& metadata,
                      Sha256* sum) {
  std::vector<size_t> order(specs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&](size_t i) { return item_size(specs[i].dtype); });
  const std::string header = header_for(specs, order, metadata);
  const uint64_t length = header.size();
  write_atomically(path, [&](std::ostream& out) {
    const auto write = [&](const void* bytes, int64_t count) {
      if (sum) sum->update({static_cast<const std::byte*>(bytes), static_cast<size_t>(count)});
      out.write(static_cast<const char*>(bytes), count);
    };
    write(&length, sizeof length);
    write(header.data(), std::ssize(header));
    for (const size_t i : order) {
      const Tensor tensor = checked(specs[i], values(i));
      if (tensor.bytes() > 0) write(tensor.address(), tensor.bytes());
    }
  });
}

void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const Metadata& metadata, Sha256* sum) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) {
    specs.push_back({name, tensor.dtype(), tensor.shape()});
  }
  save_safetensors(
      path, specs, [&](size_t i) { return tensors[i].second; }, metadata, sum);
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), file_(path, std::ios::binary) {
  HeaderReader reader(path_, file_);
  reader.read(tensors_, metadata_);
  data_start_ = reader.data_start();
}

void SafetensorsFile::read(const std::string& name, int64_t first, int64_t count, void* to) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    raise<ValueError>("[load_safetensors] {}: there is no tensor {}", path_, name);
  }
  const Entry& entry = found->second;
  const int64_t size = item_size(entry.dtype), all = (entry.end - entry.begin) / size;
  if (first < 0 || count < 0 || first > all - count) {
    raise<ValueError>("[load_safetensors] {}: tensor {} has {} elements, asked for {} from {} on",
                      path_, name, all, count, first);
  }
  read_bytes(file_, path_, data_start_ + entry.begin + first * size, to, count * size);
  if (entry.dtype == Dtype::boolean) {
    const auto* bytes = static_cast<const uint8_t*>(to);
    const auto* wrong = std::find_if(bytes, bytes + count, [](int b) { return b > 1; });
    if (wrong != bytes + count) {
      fail(path_, "tensor {} is BOOL, expected bytes 0 and 1, found {} at element {}", name, *wrong,
           first + (wrong - bytes));
    }
  }
}

Tensor SafetensorsFile::read(const std::string& name) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    raise<ValueError>("[load_safetensors] {}: there is no tensor {}", path_, name);
  }
  const Tensor tensor = empty(found->second.shape, {.dtype = found->second.dtype});
  read(name, 0, tensor.numel(), tensor.address());
  return tensor;
}

Safetensors load_safetensors(const std::string& path) {
  SafetensorsFile file(path);
  Safetensors out{{}, file.metadata()};
  for (const auto& [name, _] : file.tensors()) out.tensors[name] = file.read(name);
  return out;
}

}  // namespace capstan
