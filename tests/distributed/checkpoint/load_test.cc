// Tests that nothing wrong is loaded: all that is wrong is said at once, on every rank, and changes
// nothing.
#include "distributed/checkpoint/load.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>

#include "core/error.h"
#include "distributed/checkpoint/saver.h"
#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "tests/distributed/checkpoint/layouts.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::testing;
using doctest::Contains;
namespace fs = std::filesystem;

namespace {

/// What rank 0 and 1 hold of a small model: [6, 4] in rows, a bias on both, and an optimizer.
Groups two_rows(int rank, double value) {
  const Region rows = Region::slice({6, 4}, 0, 3 * rank, 3);
  return {{"model", {{"w", rows, full({3, 4}, value)}, whole("bias", full({5}, value))}},
          {"optimizer", {{"w.m", rows, full({3, 4}, value)}}}};
}

void save_two_rows(const std::string& folder) {
  run_ranks(2, [&](Communicator& c) {
    Saver saver(folder, c, {.background = false});
    saver.save(two_rows(c.rank(), 1), {{"step", "3"}});
  });
}

/// Two ranks cannot load `change`d wishes: they say the same, and nothing is changed.
void refuse(
    const std::string& folder, const std::vector<std::string>& texts,
    const std::function<void(Groups&, int rank)>& change = [](Groups&, int) {}) {
  std::string messages[2];
  run_ranks(2, [&](Communicator& c) {
    Groups wanted = two_rows(c.rank(), 0);
    change(wanted, c.rank());
    try {
      load(folder, wanted, c);
    } catch (const SharedError& error) {
      messages[c.rank()] = error.what();
    }
    for (const auto& [_, pieces] : wanted) {
      for (const Piece& piece : pieces) {
        const auto values = piece.values.to_vector<float>();
        CHECK(std::ranges::all_of(values, [](float x) { return x == 0; }));
      }
    }
  });
  CHECK(messages[0] == messages[1]);
  for (const std::string& text : texts) {
    CHECK_MESSAGE(messages[0].find(text) != std::string::npos, messages[0] << " has no " << text);
  }
}

}  // namespace

TEST_CASE("parts may be loaded: groups by their names, tensors of a group if asked to") {
  const TemporaryFolder folder;
  save_two_rows(folder.path());
  const auto self = make_self();
  const Tensor w = zeros({6, 4});
  CHECK(load(folder.path(), {{"optimizer", {whole("w.m", w)}}}, *self).at("step") == "3");
  CHECK(w.to_vector<float>() == std::vector<float>(24, 1));

  const Groups bias{{"model", {whole("bias", zeros({5}))}}};
  CHECK_THROWS_WITH_AS(load(folder.path(), bias, *self),
                       Contains("w is in its model and nobody wants it"), SharedError);
  load(folder.path(), bias, *self, {.allow_extra = true});
  CHECK(bias.at("model")[0].values.to_vector<float>() == std::vector<float>(5, 1));
  // Not all of a tensor need be wanted, and several ranks may want the same.
  run_ranks(3, [&](Communicator& c) {
    const Piece middle{"w.m", Region::whole({6, 4}).range(7, 15), zeros({2, 4})};
    load(folder.path(), {{"optimizer", {middle}}}, c);
    CHECK(middle.values.to_vector<float>() == std::vector<float>(8, 1));
  });
  load(folder.path(), {}, *self);
}

TEST_CASE("all that does not fit is said at once, on every rank") {
  const TemporaryFolder folder;
  save_two_rows(folder.path());
  refuse(folder.path(),
         {"bias is float32 [5] there and float64 [5] here",
          "w is float32 [6, 4] there and float32 [4, 6] here", "x.m is not in its optimizer",
          "y is not in its pictures", "w.m is in its optimizer and nobody wants it"},
         [](Groups& wanted, int rank) {
           if (rank == 0) {
             wanted["model"] = {whole("bias", zeros({5}, {.dtype = Dtype::float64}))};
             wanted["optimizer"] = {whole("x.m", zeros({2}))};
           } else {
             wanted["model"] = {{"w", Region::slice({4, 6}, 0, 0, 2), zeros({2, 6})}};
             wanted["optimizer"] = {};
             wanted["pictures"] = {whole("y", zeros({}))};
           }
         });
  refuse(folder.path(), {"[checkpoint] there are two pieces [0:5] of bias"},
         [](Groups& wanted, int) { wanted["model"].push_back(wanted["model"][1]); });
  refuse(folder.path(), {": [checkpoint] the piece [0:5] of bias needs 5 values"},
         [](Groups& wanted, int rank) {
           if (rank == 1) wanted["model"][1].values = zeros({6});
         });
  refuse(folder.path(), {"\uFFFD is not in its model"},
         [](Groups& wanted, int) { wanted["model"].push_back(whole("\xff", zeros({}))); });
  refuse(folder.path(), {"; and 11 more"}, [](Groups& wanted, int) {
    for (int i = 0; i < 31; ++i) {
      wanted["model"].push_back(whole("x" + std::to_string(i), zeros({})));
    }
  });
}

TEST_CASE("a checkpoint that is damaged, or lacks files, is refused with their names") {
  const TemporaryFolder folder;
  refuse(folder.path(), {"there is no checkpoint in " + folder.path() + ": it has no latest.json"});
  save_two_rows(folder.path());
  const std::string first = folder.file("a/model-00000-of-00002.safetensors");
  const std::string other = folder.file("a/optimizer-00001-of-00002.safetensors");
  const std::string first_bytes = read_file(first), other_bytes = read_file(other);

  fs::remove(first);
  fs::remove(other);
  refuse(folder.path(), {first + " is missing", other + " is missing"});
  write_file(first, first_bytes.substr(0, first_bytes.size() - 1));
  refuse(folder.path(), {first + " is damaged: expected ", other + " is missing"});
  write_file(other, other_bytes);
  for (const size_t at : {size_t{3}, size_t{20}, first_bytes.size() - 1}) {
    std::string changed = first_bytes;
    changed[at] ^= 1;
    write_file(first, changed);
    // A changed header may be noticed before the checksum is.
    refuse(folder.path(), {first});
  }
  std::string changed = first_bytes, other_changed = other_bytes;
  changed.back() ^= 1;
  other_changed.back() ^= 1;
  write_file(first, changed);
  write_file(other, other_changed);
  refuse(folder.path(),
         {first + " is damaged: expected sha256 ", other + " is damaged: expected sha256 "});
  fs::remove(first);
  fs::create_directory(first);
  refuse(folder.path(), {"cannot read " + first + ": Is a directory"});
  fs::remove(first);
  write_file(first, first_bytes);
  write_file(other, other_bytes);

  const std::string manifest = read_file(folder.file("latest.json"));
  write_file(folder.file("latest.json"), manifest.substr(0, manifest.size() / 2));
  refuse(folder.path(), {": [checkpoint] " + folder.file("latest.json") + " is not a manifest"});
  write_file(folder.file("latest.json"), manifest);
  load(folder.path(), {{"model", {whole("w", zeros({6, 4})), whole("bias", zeros({5}))}}},
       *make_self());
}

TEST_CASE("files that are not as a manifest says are refused, though all checksums are right") {
  const TemporaryFolder folder;
  save_two_rows(folder.path());
  Manifest manifest = read_manifest(folder.path());
  const std::string name = "model-00000-of-00002.safetensors", path = folder.file("a/" + name);
  const auto replace = [&](const NamedTensors& tensors) {
    Sha256 sum;
    save_safetensors(path, tensors, {}, &sum);
    manifest.files[name] = {static_cast<int64_t>(fs::file_size(path)), sum.hex()};
    write_file(folder.file("latest.json"), to_json(manifest));
  };
  const auto file = load_safetensors(path).tensors;
  replace({{"w", zeros({12})}});
  refuse(folder.path(), {path + " is not as the manifest says: it has no w [0:3, 0:4]"});
  replace({{"w [0:3, 0:4]", zeros({13})}});
  refuse(folder.path(), {"w [0:3, 0:4] is float32 [13], not 12 numbers of float32"});
  replace({{"w [0:3, 0:4]", zeros({12}, {.dtype = Dtype::int32})}});
  refuse(folder.path(), {"w [0:3, 0:4] is int32 [12], not 12 numbers of float32"});
}

TEST_CASE("files that only some hosts have are named with the hosts that lack them") {
  const TemporaryFolder folder, other;
  save_two_rows(folder.path());
  fs::copy(folder.path(), other.path(), fs::copy_options::recursive);
  const std::string lost = other.file("a/optimizer-00000-of-00002.safetensors");
  fs::remove(lost);
  run_ranks(2, [&](Communicator& c) {
    const Tensor w = zeros({6, 4});
    const std::string mine = c.rank() == 0 ? folder.path() : other.path();
    const std::string text = lost + " is missing (rank 1 on " + c.host(1) + ")";
    CHECK_THROWS_WITH_AS(load(mine, {{"optimizer", {whole("w.m", w)}}}, c), Contains(text.c_str()),
                         SharedError);
    // Rank 1 needs the second half only, which is there.
    const Piece half{"w.m", Region::slice({6, 4}, 0, 3 * c.rank(), 3), zeros({3, 4})};
    load(mine, {{"optimizer", {half}}}, c);
    CHECK(half.values.to_vector<float>() == std::vector<float>(12, 1));
  });
}

TEST_CASE("each rank reads about what it needs") {
  const TemporaryFolder folder;
  constexpr int64_t kRows = 3000;
  const Tensor all = reshaped(arange(kRows * 32), {kRows, 32});
  const auto self = make_self();
  Saver saver(folder.path(), *self, {.background = false});
  saver.save({{"model", {whole("w", all)}}});
  // Columns lie in many runs, which are read in spans; a range in one.
  run_ranks(4, [&](Communicator& c) {
    const Region columns = Region::slice({kRows, 32}, 1, 8 * c.rank(), 8);
    for (const Region& region : {columns, columns.range(17, 9001)}) {
      const Piece mine{"w", region, zeros({region.count()}, {.dtype = Dtype::int64})};
      const Piece expected{"w", region, zeros({region.count()}, {.dtype = Dtype::int64})};
      copy_overlap(whole("w", all), expected);
      load(folder.path(), {{"model", {mine}}}, c);
      CHECK(mine.values.to_vector<int64_t>() == expected.values.to_vector<int64_t>());
    }
  });
}
