// Tests that a manifest comes back as it went, and that none is believed.
#include "distributed/checkpoint/manifest.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/sha256.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::distributed;
using capstan::testing::TemporaryFolder;
using capstan::testing::write_file;
using doctest::Contains;
using nlohmann::json;

namespace {

Manifest example() {
  Manifest manifest;
  manifest.slot = "b";
  manifest.ranks = 2;
  manifest.run = {{"step", "7"}, {"ü", "\"\n"}};
  manifest.files = {{"model-00000-of-00002.safetensors", {100, "ab"}},
                    {"model-00001-of-00002.safetensors", {int64_t{1} << 40, "cd"}}};
  const Region whole = Region::whole({4, 6});
  manifest.groups["model"] = {
      {"w",
       {Dtype::bfloat16,
        {4, 6},
        {{"model-00000-of-00002.safetensors", key_of("w", whole.range(0, 9)), whole.range(0, 9)},
         {"model-00001-of-00002.safetensors", key_of("w", whole.range(9, 24)),
          whole.range(9, 24)}}}},
      {"nothing", {Dtype::float32, {3, 0}, {}}},
      {"scalar",
       {Dtype::int64, {}, {{"model-00000-of-00002.safetensors", "scalar", Region::whole({})}}}}};
  return manifest;
}

/// The text of a manifest that somebody changed, with the right checksum for it.
std::string changed(const std::function<void(json&)>& change) {
  json value = json::parse(to_json(example()));
  change(value);
  value.erase("manifest_sha256");
  const std::string text = value.dump();
  value["manifest_sha256"] = sha256_hex(std::as_bytes(std::span(text)));
  return value.dump();
}

void refuse(const std::string& text, const char* reason) {
  CHECK_THROWS_WITH_AS(parse_manifest(text, "here/latest.json"), Contains(reason), IoError);
  CHECK_THROWS_WITH_AS(parse_manifest(text, "here/latest.json"), Contains("here/latest.json"),
                       IoError);
}

}  // namespace

TEST_CASE("a manifest comes back as it went") {
  const Manifest manifest = example(), back = parse_manifest(to_json(manifest), "x");
  CHECK(to_json(back) == to_json(manifest));
  CHECK(back.slot == "b");
  CHECK(back.run == manifest.run);
  CHECK(back.files.at("model-00001-of-00002.safetensors").bytes == int64_t{1} << 40);
  const Manifest::Tensor& w = back.groups.at("model").at("w");
  CHECK(w.dtype == Dtype::bfloat16);
  CHECK(w.pieces[1].key == "w [0:4, 0:6] 9:24");
  CHECK(w.pieces[1].region == manifest.groups.at("model").at("w").pieces[1].region);
  CHECK(parse_manifest(changed([](json&) {}), "x").ranks == 2);

  CHECK(path_of("run", manifest, "f") == "run/b/f");
  CHECK(file_name("model", 3, 12) == "model-00003-of-00012.safetensors");
  CHECK(key_of("w", Region::slice({4, 6}, 0, 1, 2)) == "w [1:3, 0:6]");

  Manifest foreign = example();
  foreign.run["a"] = "\xff";
  CHECK_THROWS_WITH_AS(to_json(foreign), Contains("must be UTF-8"), ValueError);
}

TEST_CASE("no changed byte of a manifest goes unnoticed") {
  const std::string text = to_json(example());
  for (size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    std::string back = text;  // as it is if the damage is noticed
    try {
      back = to_json(parse_manifest(damaged, "x"));
    } catch (const IoError&) {
    }
    CHECK_MESSAGE(back == text, damaged);  // white space means nothing
  }
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    CHECK_THROWS_AS(parse_manifest(text.substr(0, length), "x"), IoError);
  }
}

TEST_CASE("texts that are no manifest are refused") {
  refuse("", "is not a manifest");
  refuse("{", "is not a manifest");
  refuse("[]", "is damaged");
  refuse("{}", "is damaged");
  refuse("\"format\"", "is damaged");
  refuse(std::string(1'000'000, '['), "nested more than 7 deep");
  refuse(R"({"format":2,"slot":"a"})", "its format is 2, 3 can be read");
  refuse(to_json(example()).replace(to_json(example()).find("\"b\""), 3, "\"a\""),
         "is damaged: expected sha256 ");
}

TEST_CASE("a right checksum does not make nonsense acceptable") {
  refuse(changed([](json& m) { m["slot"] = "../a"; }), "no slot is named '../a'");
  refuse(changed([](json& m) { m["slot"] = 1; }), "is damaged");
  refuse(changed([](json& m) { m["run"]["step"] = 7; }), "is damaged");
  refuse(changed([](json& m) { m["files"]["../x.safetensors"] = m["files"].front(); }),
         "no file of a checkpoint is named '../x.safetensors'");
  refuse(changed([](json& m) { m["files"].front() = 3; }), "is damaged");
  const auto with_w = [](const std::function<void(json&)>& change) {
    return changed([&](json& m) { change(m["tensors"]["model"]["w"]); });
  };
  refuse(with_w([](json& w) { w["dtype"] = "float8"; }), "w has no dtype but \"float8\"");
  refuse(with_w([](json& w) { w["shape"] = 4; }), "is damaged");
  refuse(with_w([](json& w) { w["shape"] = {4, -6}; }), "is damaged");
  refuse(with_w([](json& w) { w["shape"] = std::vector<int>(9, 1); }), "is damaged");
  refuse(with_w([](json& w) { w["shape"] = {INT64_MAX, INT64_MAX}; }), "is damaged");
  refuse(with_w([](json& w) { w["shape"] = {INT64_MAX / 8, 6}; }), "is damaged");
  refuse(with_w([](json& w) { w["shape"] = {4, 7}; }), "of w, elements");
  refuse(with_w([](json& w) { w["pieces"].erase(0); }), "of w, elements 0 to 8 of 24 are missing");
  refuse(with_w([](json& w) { w["pieces"][0]["end"] = 10; }), "of w, elements are held twice");
  refuse(with_w([](json& w) { w["pieces"][0]["end"] = 99; }), "a range of w must lie in its box");
  refuse(with_w([](json& w) {
           w["pieces"][0]["start"] = {1, 0};
         }),
         "a box of w must lie in [4, 6]");
  refuse(with_w([](json& w) { w["pieces"][0]["file"] = "other.safetensors"; }),
         "a piece of w is in other.safetensors, which is not among its files");
}

TEST_CASE("manifests are found, and slots that they do not name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_manifest(folder.path()),
                       Contains(("there is no checkpoint in " + folder.path()).c_str()), IoError);
  CHECK_THROWS_WITH_AS(read_manifest(folder.file("none")), Contains("there is no checkpoint in"),
                       IoError);
  CHECK(free_slot(folder.path()) == "a");
  write_file(folder.file("latest.json"), to_json(example()));
  CHECK(read_manifest(folder.path()).slot == "b");
  CHECK(free_slot(folder.path()) == "a");
  Manifest other = example();
  other.slot = "a";
  write_file(folder.file("latest.json"), to_json(other));
  CHECK(free_slot(folder.path()) == "b");
  write_file(folder.file("latest.json"), "{\"slot\": ");
  CHECK(free_slot(folder.path()) == "a");
  CHECK_THROWS_WITH_AS(read_manifest(folder.file("latest.json")), Contains("is not a folder"),
                       IoError);
  // What cannot be read may well be a checkpoint.
  write_file(folder.file("latest.json"), to_json(other));
  CHECK_THROWS_WITH_AS(testing::without_files([&] { free_slot(folder.path()); }),
                       Contains("latest.json: Too many open files"), IoError);
  std::filesystem::remove(folder.file("latest.json"));
  std::filesystem::create_directory(folder.file("latest.json"));
  CHECK_THROWS_WITH_AS(read_manifest(folder.path()), Contains("latest.json: Is a directory"),
                       IoError);
}
