#include "core/atomic_file.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "core/error.h"
#include "tests/testing/files.h"

using namespace capstan;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

TEST_CASE("write_atomically creates and replaces a file") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  write_atomically(path, [](std::ostream& out) { out << "first\n"; });
  CHECK(read_file(path) == "first\n");
  write_atomically(path, [](std::ostream& out) { out << ""; });
  CHECK(read_file(path).empty());
  CHECK(folder.count() == 1);
}

TEST_CASE("the old file is whole until the new one is") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  write_file(path, "old");
  write_atomically(path, [&](std::ostream& out) {
    out << "new" << std::flush;
    CHECK(read_file(path) == "old");
  });
  CHECK(read_file(path) == "new");
}

TEST_CASE("a writer that throws leaves the old file and nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  write_file(path, "old");
  const auto half = [](std::ostream& out) {
    out << "half";
    throw ValueError("stop");
  };
  CHECK_THROWS_WITH_AS(write_atomically(path, half), "stop", ValueError);
  CHECK(read_file(path) == "old");
  CHECK(folder.count() == 1);
}

TEST_CASE("a stream that failed is an error") {
  const TemporaryFolder folder;
  const auto full_disk = [](std::ostream& out) { out.setstate(std::ios::badbit); };
  CHECK_THROWS_AS(write_atomically(folder.file("a.txt"), full_disk), IoError);
  CHECK(folder.count() == 0);
}

TEST_CASE("paths that cannot be written") {
  const TemporaryFolder folder;
  const auto nothing = [](std::ostream&) {};
  CHECK_THROWS_WITH_AS(write_atomically(folder.file("none/a.txt"), nothing),
                       doctest::Contains("No such file or directory"), IoError);
  CHECK_THROWS_WITH_AS(write_atomically(folder.path(), nothing),
                       doctest::Contains("exists and is not a file"), IoError);
  CHECK_THROWS_AS(write_atomically("/dev/null", nothing), IoError);
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK_THROWS_AS(write_atomically("", nothing), IoError);
  CHECK(folder.count() == 0);
}

TEST_CASE("a link stays, and what it points to is written") {
  const TemporaryFolder folder;
  write_file(folder.file("real"), "old");
  std::filesystem::create_symlink(folder.file("real"), folder.file("link"));
  write_atomically(folder.file("link"), [](std::ostream& out) { out << "new"; });
  CHECK(std::filesystem::is_symlink(folder.file("link")));
  CHECK(read_file(folder.file("real")) == "new");
}

TEST_CASE("threads that write one path leave one of their files") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  {
    std::vector<std::jthread> threads;
    for (char letter : {'a', 'b', 'c', 'd'}) {
      threads.emplace_back([=] {
        write_atomically(path, [=](std::ostream& out) { out << std::string(100'000, letter); });
      });
    }
  }
  const std::string text = read_file(path);
  CHECK(text == std::string(100'000, text.at(0)));
  CHECK(folder.count() == 1);
}

TEST_CASE("what killed writers left beside a file is removed, and nothing else") {
  const TemporaryFolder folder;
  for (const char* name : {"a.txt.12-0.tmp", "a.txt.3-456.tmp", "a.txt", "b.a.txt.1-0.tmp",
                           "a.txt.old.tmp", "a.txt.1-0.tmp.x", "a.txt.-0.tmp", "a.txt.1-2-3.tmp"}) {
    write_file(folder.file(name), "");
  }
  std::filesystem::create_directories(folder.file("a.txt.7-0.tmp/full"));  // not ours, and stays
  remove_leftovers(folder.file("a.txt"));
  CHECK(folder.count() == 7);
  CHECK(!std::filesystem::exists(folder.file("a.txt.12-0.tmp")));
  CHECK(!std::filesystem::exists(folder.file("a.txt.3-456.tmp")));
  remove_leftovers(folder.file("none/a.txt"));
}
