// Tests that what any layout saves any layout loads, what a save leaves behind when it fails, and
// that it does not keep its caller waiting.
#include "distributed/checkpoint/saver.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "core/error.h"
#include "distributed/checkpoint/load.h"
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

Groups groups_of(int64_t seed, LayoutKind kind, const Communicator& c, bool filled) {
  NamedTensors state;
  for (const auto& [name, tensor] : known_tensors(seed + 1)) {
    state.emplace_back(name + ".momentum", tensor);
  }
  return {{"model", pieces_of(known_tensors(seed), kind, c.rank(), c.size(), filled)},
          {"optimizer", pieces_of(state, kind, c.rank(), c.size(), filled)}};
}

void save_by(LayoutKind kind, int ranks, const std::string& folder, int64_t seed) {
  run_ranks(ranks, [&](Communicator& c) {
    Saver saver(folder, c);
    saver.save(groups_of(seed, kind, c, true), {{"seed", std::to_string(seed)}});
    saver.finish();
  });
}

void load_by(LayoutKind kind, int ranks, const std::string& folder, int64_t seed) {
  run_ranks(ranks, [&](Communicator& c) {
    const Groups wanted = groups_of(seed, kind, c, false);
    const Metadata run = load(folder, wanted, c);
    CHECK(run.at("seed") == std::to_string(seed));
    const Groups expected = groups_of(seed, kind, c, true);
    for (const char* group : {"model", "optimizer"}) {
      CHECK(same(wanted.at(group), expected.at(group)));
    }
  });
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(fs::relative(entry, folder));
  }
  std::ranges::sort(files);
  return files;
}

/// What one rank saves.
Groups small(double value) { return {{"model", {whole("w", full({3}, value))}}}; }

double saved_value(const std::string& folder) {
  const Groups wanted = small(0);
  load(folder, wanted, *make_self());
  return wanted.at("model")[0].values.to_vector<double>()[2];
}

}  // namespace

TEST_CASE("any layout loads what any layout saved, on any number of ranks") {
  constexpr int kCounts[] = {1, 2, 3, 4, 6, 8};
  const TemporaryFolder folder;
  int64_t number = 0;
  for (const LayoutKind saved : kLayouts) {
    for (const int ranks : kCounts) {
      CAPTURE(static_cast<int>(saved));
      CAPTURE(ranks);
      save_by(saved, ranks, folder.path(), number);
      for (const LayoutKind loaded : kLayouts) {
        const int others = kCounts[(number * 5 + static_cast<int>(loaded)) % 6];
        CAPTURE(static_cast<int>(loaded));
        CAPTURE(others);
        load_by(loaded, others, folder.path(), number);
      }
      ++number;
    }
  }
}

TEST_CASE("a model that is not cut is an ordinary safetensors file") {
  const TemporaryFolder folder;
  save_by(LayoutKind::whole, 1, folder.path(), 5);
  CHECK(files_in(folder.path()) ==
        std::vector<std::string>{"a/model-00000-of-00001.safetensors",
                                 "a/optimizer-00000-of-00001.safetensors", "latest.json"});
  const auto file = load_safetensors(folder.file("a/model-00000-of-00001.safetensors"));
  const NamedTensors model = known_tensors(5);
  for (const auto& [name, tensor] : model) {
    if (tensor.numel() == 0) continue;
    CHECK(file.tensors.at(name).shape() == tensor.shape());
    CHECK(file.tensors.at(name).to_vector<float>() == tensor.to_vector<float>());
  }
}

TEST_CASE("values may be views") {
  const TemporaryFolder folder;
  const auto self = make_self();
  const Tensor base = reshaped(arange(6), {2, 3});
  const Tensor turned = view_of(base, base.layout().transposed(0, 1));
  Saver saver(folder.path(), *self);
  saver.save({{"model", {whole("w", turned)}}});
  saver.finish();
  const Tensor to = zeros({3, 2, 2}, {.dtype = Dtype::int64});
  const Tensor column = view_of(to, to.layout().selected(2, 1));
  load(folder.path(), {{"model", {whole("w", column)}}}, *self);
  CHECK(to.to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5});
}

TEST_CASE("a save copies, so that training may go on at once") {
  const TemporaryFolder folder;
  const auto self = make_self();
  Saver saver(folder.path(), *self);
  const Groups groups = small(1);
  saver.save(groups);
  fill_elements(groups.at("model")[0].values, 2);
  saver.finish();
  CHECK(saved_value(folder.path()) == 1);
  saver.save(groups);
  saver.save(small(3));  // waits for the one before
  saver.finish();
  saver.finish();
  CHECK(saved_value(folder.path()) == 3);
  {
    Saver other(folder.path(), *self);
    other.save(small(4));
  }  // waits
  CHECK(saved_value(folder.path()) == 4);
  Saver at_once(folder.path(), *self, {.background = false});
  at_once.save(small(5));
  CHECK(saved_value(folder.path()) == 5);
}

TEST_CASE("slots take turns, and what earlier saves left in one is removed") {
  const TemporaryFolder folder;
  save_by(LayoutKind::whole, 3, folder.path(), 1);
  save_by(LayoutKind::whole, 1, folder.path(), 2);
  write_file(folder.file("a/model-00000-of-00003.safetensors.4321-7.tmp"), "half a fi");
  write_file(folder.file("latest.json.4321-7.tmp"), "half a fi");
  write_file(folder.file("a/notes"), "mine");
  save_by(LayoutKind::whole, 2, folder.path(), 3);
  std::vector<std::string> expected{"a/notes", "latest.json"};
  for (const char* group : {"model", "optimizer"}) {
    expected.push_back("b/" + file_name(group, 0, 1));
    for (const int rank : {0, 1}) expected.push_back("a/" + file_name(group, rank, 2));
  }
  std::ranges::sort(expected);
  CHECK(files_in(folder.path()) == expected);
  load_by(LayoutKind::whole, 1, folder.path(), 3);
}

TEST_CASE("before its manifest is in place, a save may have left anything in its slot") {
  const TemporaryFolder folder;
  save_by(LayoutKind::flat, 2, folder.path(), 1);
  save_by(LayoutKind::flat, 2, folder.path(), 2);
  for (const auto& entry : fs::directory_iterator(folder.file("a"))) {
    write_file(entry.path(), "half a fi");
  }
  load_by(LayoutKind::whole, 1, folder.path(), 2);
}

TEST_CASE("an error of the thread comes out on every rank at the next call, and can be got over") {
  const TemporaryFolder folder;
  save_by(LayoutKind::flat, 2, folder.path(), 1);
  const std::string in_the_way = folder.file("b/model-00001-of-00002.safetensors/x");
  fs::create_directories(in_the_way);
  run_ranks(2, [&](Communicator& c) {
    Saver saver(folder.path(), c);
    const Groups groups = groups_of(2, LayoutKind::flat, c, true);
    saver.save(groups);
    CHECK_THROWS_WITH_AS(saver.finish(), Contains(": [write_atomically] "), SharedError);
    saver.finish();  // thrown once
    saver.save(groups);
    CHECK_THROWS_WITH_AS(saver.save(groups), Contains("exists and is not a file"), SharedError);
    c.barrier().wait();
    if (c.rank() == 0) fs::remove_all(folder.file("b/model-00001-of-00002.safetensors"));
    c.barrier().wait();
    const Groups wanted = groups_of(1, LayoutKind::flat, c, false);
    CHECK(load(folder.path(), wanted, c).at("seed") == "1");  // nothing was lost
    saver.save(groups, {{"seed", "2"}});
    saver.finish();
  });
  load_by(LayoutKind::whole, 1, folder.path(), 2);
}

TEST_CASE("a save of what cannot be saved is refused on every rank, and begins nothing") {
  const TemporaryFolder folder;
  run_ranks(2, [&](Communicator& c) {
    Saver saver(folder.path(), c);
    const auto refuse = [&](const Groups& groups, const Metadata& run, const char* text) {
      CHECK_THROWS_WITH_AS(saver.save(groups, run), Contains(text), SharedError);
    };
    refuse({{"model", {whole("w", zeros({1 + c.rank()}))}}}, {},
           "w is float32 [1] on rank 0 and float32 [2] on rank 1");
    refuse({{"model", {{"w", Region::whole({4}).range(c.rank(), c.rank() + 1), zeros({1})}}}}, {},
           "of w, elements 2 to 3 of 4 are missing");
    refuse({{c.rank() == 0 ? "a b" : "model", {}}}, {}, ": [checkpoint] groups are named");
    refuse(small(1), {{"name", "\xff"}}, "must be UTF-8");
    if (c.rank() == 0) {
      refuse({{"model", {{"w", Region::whole({4}), zeros({1})}}}}, {}, ": [checkpoint] ");
    } else {
      refuse(small(1), {}, ": [checkpoint] the piece [0:4] of w needs 4 values, got [1]");
    }
    saver.finish();
  });
  CHECK(files_in(folder.path()).empty());
}

TEST_CASE("folders in which nothing can be saved are refused at once") {
  const TemporaryFolder folder;
  write_file(folder.file("file"), "");
  CHECK_THROWS_WITH_AS(Saver::prepare(folder.file("file")), Contains("cannot make the folder "),
                       IoError);
  fs::create_directories(folder.file("run/latest.json"));
  CHECK_THROWS_WITH_AS(Saver::prepare(folder.file("run")), Contains("exists and is not a file"),
                       IoError);
  run_ranks(2, [&](Communicator& c) {
    const std::string path = c.rank() == 0 ? folder.file("good") : folder.file("file");
    CHECK_THROWS_WITH_AS(Saver(path, c), Contains(": [checkpoint] cannot make the folder"),
                         SharedError);
  });
  CHECK(Saver::paths("x") == std::vector<std::string>{"x/latest.json", "x/a", "x/b"});
}

TEST_CASE("a manifest that cannot be read does not cost the checkpoint that it names") {
  const TemporaryFolder folder;
  const auto self = make_self();
  Saver saver(folder.path(), *self);
  saver.save(small(1));
  saver.finish();
  CHECK_THROWS_WITH_AS(without_files([&] { saver.save(small(2)); }),
                       Contains("Too many open files"), SharedError);
  CHECK(saved_value(folder.path()) == 1);
}
