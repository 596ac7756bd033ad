// Reading order: to_json(), then Parser, which reads the same back and believes none of it.
#include "distributed/checkpoint/manifest.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/raise.h"
#include "core/sha256.h"

namespace capstan::distributed {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 3;
constexpr int kDeepest = 7;  // a number in the shape of a piece
constexpr const char* kChecksum = "manifest_sha256";

std::vector<int64_t> list(const Shape& shape) { return {shape.begin(), shape.end()}; }

json to_value(const Manifest::Piece& piece) {
  const Region& r = piece.region;
  return {{"file", piece.file},     {"key", piece.key}, {"start", list(r.start)},
          {"shape", list(r.shape)}, {"begin", r.begin}, {"end", r.end}};
}

std::string checksum_of(json manifest) {
  manifest.erase(kChecksum);
  const std::string text = manifest.dump();
  return sha256_hex(std::as_bytes(std::span(text)));
}

/// JSON of which objects that lie less than `depth` deep are broken into lines.
std::string pretty(const json& value, int depth, const std::string& indent = "") {
  if (depth == 0 || !value.is_object() || value.empty()) return value.dump();
  std::string text;
  for (const auto& [name, member] : value.items()) {
    text += fmt::format("{}{}  {}: {}", text.empty() ? "{\n" : ",\n", indent, json(name).dump(),
                        pretty(member, depth - 1, indent + "  "));
  }
  return text + "\n" + indent + "}";
}

class Parser {
 public:
  explicit Parser(const std::string& path) : path_(path) {}

  Manifest parse(const std::string& text) const {
    try {
      return manifest_from(json::parse(text, [this](int depth, json::parse_event_t, json&) {
        // (Printing for the checksum goes as deep as this.)
        if (depth > kDeepest) damaged("it is nested more than {} deep", kDeepest);
        return true;
      }));
    } catch (const json::parse_error& error) {
      raise<IoError>("[checkpoint] {} is not a manifest: {}", path_, error.what());
    } catch (const json::exception& error) {
      damaged("{}", error.what());
    } catch (const ShapeError& error) {
      damaged("{}", error.what());
    }
  }

 private:
  template <class... Args>
  [[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) const {
    raise<IoError>("[checkpoint] {} is damaged: {}", path_,
                   fmt::format(format, std::forward<Args>(args)...));
  }

  Manifest manifest_from(const json& value) const {
    if (const int format = value.at("format").get<int>(); format != kFormat) {
      raise<IoError>(
          "[checkpoint] {} is of another version of the program: its format is {}, {} can be read",
          path_, format, kFormat);
    }
    const std::string expected = value.at(kChecksum).get<std::string>();
    if (const std::string found = checksum_of(value); found != expected) {
      damaged("expected sha256 {}, found {}", expected, found);
    }
    Manifest manifest;
    manifest.slot = value.at("slot").get<std::string>();
    if (manifest.slot != "a" && manifest.slot != "b") {
      damaged("no slot is named '{}'", manifest.slot);
    }
    manifest.ranks = value.at("ranks").get<int>();
    manifest.run = value.at("run").get<Metadata>();
    static const std::regex safe("[A-Za-z0-9_-]+\\.safetensors");
    for (const auto& [name, file] : value.at("files").items()) {
      if (!std::regex_match(name, safe)) damaged("no file of a checkpoint is named '{}'", name);
      manifest.files[name] = {file.at("bytes").get<int64_t>(),
                              file.at("sha256").get<std::string>()};
    }
    for (const auto& [group, tensors] : value.at("tensors").items()) {
      Manifest::Tensors& to = manifest.groups[group];
      for (const auto& [name, tensor] : tensors.items()) {
        to[name] = tensor_from(name, tensor, manifest);
      }
    }
    return manifest;
  }

  Manifest::Tensor tensor_from(const std::string& name, const json& value,
                               const Manifest& manifest) const {
    Manifest::Tensor tensor{dtype_from(name, value.at("dtype")), shape_from(value.at("shape")), {}};
    numel(tensor.shape);  // throws if 63 bits do not hold it
    std::vector<Region> regions;
    for (const json& entry : value.at("pieces")) {
      const Region region{tensor.shape, shape_from(entry.at("start")),
                          shape_from(entry.at("shape")), entry.at("begin").get<int64_t>(),
                          entry.at("end").get<int64_t>()};
      check(name, region);
      const std::string file = entry.at("file").get<std::string>();
      if (!manifest.files.contains(file)) {
        damaged("a piece of {} is in {}, which is not among its files", name, file);
      }
      tensor.pieces.push_back({file, entry.at("key").get<std::string>(), region});
      regions.push_back(region);
    }
    const std::string fault = cover_fault(tensor.shape, regions);
    if (!fault.empty()) damaged("of {}, {}", name, fault);
    return tensor;
  }

  Dtype dtype_from(const std::string& name, const json& value) const {
    for (const Dtype dtype : kDtypes) {
      if (value == to_string(dtype)) return dtype;
    }
    damaged("{} has no dtype but {}", name, value.dump());
  }

  static Shape shape_from(const json& value) {
    const auto sizes = value.get<std::vector<int64_t>>();
    return Shape(std::span(sizes));
  }

  const std::string& path_;
};

}  // namespace

std::string manifest_path(const std::string& folder) { return fs::path(folder) / kManifestFile; }

std::string path_of(const std::string& folder, const Manifest& manifest, const std::string& file) {
  return fs::path(folder) / manifest.slot / file;
}

std::string file_name(const std::string& group, int rank, int ranks) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", group, rank, ranks);
}

std::string key_of(const std::string& name, const Region& region) {
  return region.is_whole() ? name : name + " " + to_string(region);
}

std::string to_json(const Manifest& manifest) {
  json files = json::object(), groups = json::object();
  for (const auto& [name, file] : manifest.files) {
    files[name] = {{"bytes", file.bytes}, {"sha256", file.sha256}};
  }
  for (const auto& [group, tensors] : manifest.groups) {
    json& to = groups[group] = json::object();
    for (const auto& [name, tensor] : tensors) {
      json pieces = json::array();
      for (const Manifest::Piece& piece : tensor.pieces) pieces.push_back(to_value(piece));
      to[name] = {
          {"dtype", to_string(tensor.dtype)}, {"shape", list(tensor.shape)}, {"pieces", pieces}};
    }
  }
  json value = {{"format", kFormat},   {"slot", manifest.slot}, {"ranks", manifest.ranks},
                {"run", manifest.run}, {"files", files},        {"tensors", groups}};
  try {
    value[kChecksum] = checksum_of(value);
  } catch (const json::type_error& error) {
    raise<ValueError>("[checkpoint] names and what is said of the run must be UTF-8: {}",
                      error.what());
  }
  return pretty(value, 3) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& path) {
  return Parser(path).parse(text);
}

std::string read_manifest_text(const std::string& folder) {
  const std::string path = manifest_path(folder);
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) {
    raise<IoError>("[checkpoint] {} is not a folder, so there is no checkpoint in it", folder);
  }
  if (fs::status(path, error).type() == fs::file_type::not_found) {
    raise<IoError>("[checkpoint] there is no checkpoint in {}: it has no {}", folder,
                   kManifestFile);
  }
  const auto size = fs::file_size(path, error);  // an error for what is not a file, too
  std::string text(error ? 0 : size, '\0');
  if (error || !std::ifstream(path, std::ios::binary).read(text.data(), std::ssize(text))) {
    raise<IoError>("[checkpoint] cannot read {}: {}", path,
                   error ? error.message() : std::strerror(errno));
  }
  return text;
}

Manifest read_manifest(const std::string& folder) {
  return parse_manifest(read_manifest_text(folder), manifest_path(folder));
}

std::string free_slot(const std::string& folder) {
  std::error_code error;
  if (fs::status(manifest_path(folder), error).type() == fs::file_type::not_found) return "a";
  const std::string text = read_manifest_text(folder);
  try {
    return json::parse(text).at("slot") == "a" ? "b" : "a";
  } catch (const json::exception&) {
    return "a";
  }
}

}  // namespace capstan::distributed
