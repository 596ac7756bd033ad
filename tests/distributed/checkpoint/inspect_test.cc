// Tests the tables, that every kind of damage is found, and that one file can be made of a
// checkpoint.
#include "distributed/checkpoint/inspect.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/error.h"
#include "distributed/checkpoint/saver.h"
#include "distributed/comm/thread.h"
#include "tests/distributed/checkpoint/layouts.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::testing;
using doctest::Contains;
namespace fs = std::filesystem;

namespace {

void save(const std::string& folder, LayoutKind kind, int ranks) {
  run_ranks(ranks, [&](Communicator& c) {
    Saver saver(folder, c, {.background = false});
    NamedTensors state;
    for (const auto& [name, tensor] : known_tensors(2)) state.emplace_back(name + ".m", tensor);
    saver.save({{"model", pieces_of(known_tensors(1), kind, c.rank(), ranks, true)},
                {"optimizer", pieces_of(state, kind, c.rank(), ranks, true)}},
               {{"model", "known"}, {"step", "12"}});
  });
}

}  // namespace

TEST_CASE("a checkpoint is described in tables") {
  Manifest manifest;
  manifest.slot = "a";
  manifest.ranks = 2;
  manifest.run = {{"step", "12"}, {"model", "gpt"}};
  manifest.files = {{"model-00000-of-00002.safetensors", {96, ""}}};
  const Region whole = Region::whole({4, 6});
  manifest.groups["model"] = {
      {"w", {Dtype::float32, {4, 6}, {{"", "", whole.range(0, 1)}, {"", "", whole.range(1, 24)}}}},
      {"bias", {Dtype::int64, {}, {{"", "", Region::whole({})}}}}};
  CHECK(to_string(manifest) == R"(saved by 2 ranks, in slot a

run
  model  gpt
  step   12

files
  model-00000-of-00002.safetensors  96 bytes

model: 2 tensors, 104 bytes
  tensor  dtype    shape   pieces  bytes
  bias    int64    []           1      8
  w       float32  [4, 6]       2     96
)");
  Manifest empty;
  empty.ranks = 1;
  empty.slot = "b";
  CHECK(to_string(empty) == "saved by 1 rank, in slot b\n");
}

TEST_CASE("all bytes are verified, and each fault is listed") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(verify(folder.path()), Contains("there is no checkpoint in"), IoError);
  save(folder.path(), LayoutKind::sliced_and_flat, 4);
  int64_t last = 0, all = 0;
  CHECK(verify(folder.path(), [&](int64_t done, int64_t of) {
          CHECK(done > last);
          last = done;
          all = of;
        }).empty());
  CHECK(last == all);
  CHECK(all > 0);

  const auto file = [&](const char* group, int rank) {
    return folder.file("a/" + file_name(group, rank, 4));
  };
  std::string bytes = read_file(file("model", 1));
  bytes.back() ^= 1;
  write_file(file("model", 1), bytes);
  fs::remove(file("model", 3));
  fs::resize_file(file("optimizer", 0), 100);
  fs::remove(file("optimizer", 2));
  fs::create_directory(file("optimizer", 2));
  const auto faults = verify(folder.path());
  CHECK(faults.size() == 4);
  CHECK(faults[0].starts_with(file("model", 1) + " is damaged: expected sha256 "));
  CHECK(faults[1] == file("model", 3) + " is missing");
  CHECK(faults[2].find("is damaged: expected ") != std::string::npos);
  CHECK(faults[3] == "cannot read " + file("optimizer", 2) + ": Is a directory");

  // A file that never was what the manifest says.
  const TemporaryFolder other;
  save(other.path(), LayoutKind::whole, 1);
  Manifest manifest = read_manifest(other.path());
  const std::string name = file_name("model", 0, 1), path = other.file("a/" + name);
  Sha256 sum;
  save_safetensors(path, {{"list", zeros({13}, {.dtype = Dtype::float64})}}, {}, &sum);
  manifest.files[name] = {static_cast<int64_t>(fs::file_size(path)), sum.hex()};
  write_file(other.file("latest.json"), to_json(manifest));
  const auto foreign = verify(other.path());
  CHECK(foreign.size() == known_tensors(1).size() - 2);  // but for "list" and the empty one
  CHECK(foreign[0] == "[checkpoint] " + path + " is not as the manifest says: it has no bias");
}

TEST_CASE("one file is made of what many ranks saved") {
  const TemporaryFolder folder;
  for (const LayoutKind kind : kLayouts) {
    save(folder.path(), kind, 3);
    int64_t last = 0, all = 0;
    consolidate(folder.path(), folder.file("one"), {"model", "optimizer"},
                [&](int64_t done, int64_t of) {
                  last = done;
                  all = of;
                });
    CHECK(last == all);
    const Safetensors one = load_safetensors(folder.file("one"));
    CHECK(one.metadata == Metadata{{"model", "known"}, {"step", "12"}});
    CHECK(one.tensors.size() == 2 * known_tensors(1).size());
    NamedTensors expected = known_tensors(1);
    for (const auto& [name, tensor] : known_tensors(2)) expected.emplace_back(name + ".m", tensor);
    for (const auto& item : expected) {
      CHECK(same(distributed::whole({{item.first, one.tensors.at(item.first)}}),
                 distributed::whole({item})));
    }
  }
  consolidate(folder.path(), folder.file("model"));
  CHECK(load_safetensors(folder.file("model")).tensors.size() == known_tensors(1).size());

  CHECK_THROWS_WITH_AS(consolidate(folder.path(), folder.file("x"), {"pictures"}),
                       Contains("there is no group pictures in the checkpoint in"), ValueError);
  CHECK_THROWS_AS(consolidate(folder.path(), folder.file("none/x")), IoError);
  const Manifest manifest = read_manifest(folder.path());
  fs::remove(path_of(folder.path(), manifest, file_name("model", 1, 3)));
  CHECK_THROWS_WITH_AS(consolidate(folder.path(), folder.file("x")), Contains("is missing"),
                       IoError);
  CHECK(!fs::exists(folder.file("x")));
}
