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
namespace fs = std::filesystem;

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
  const auto refuse = [](const std::string& path, const char* text) {
    const auto nothing = [](std::ostream&) {};
    CHECK_THROWS_WITH_AS(write_atomically(path, nothing), doctest::Contains(text), IoError);
    CHECK_THROWS_WITH_AS(check_writable(path), doctest::Contains(text), IoError);
  };
  refuse(folder.file("none/a.txt"), "No such file or directory");
  refuse(folder.path(), "exists and is not a file");
  refuse("/dev/null", "exists and is not a file");
  CHECK(fs::is_character_file("/dev/null"));
  refuse("/proc/a.txt", "cannot create /proc/a.txt.");
  CHECK_THROWS_AS(write_atomically("", [](std::ostream&) {}), IoError);
  CHECK(folder.count() == 0);
}

TEST_CASE("a check leaves everything as it is") {
  const TemporaryFolder folder;
  check_writable(folder.file("new"));
  CHECK(folder.count() == 0);
  write_file(folder.file("old"), "text");
  check_writable(folder.file("old"));
  CHECK(read_file(folder.file("old")) == "text");
  CHECK(folder.count() == 1);
}

TEST_CASE("a file that is replaced hands down its mode") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  for (const auto mode : {fs::perms::owner_read | fs::perms::owner_write, fs::perms::all}) {
    write_file(path, "old");
    fs::permissions(path, mode);
    write_atomically(path, [](std::ostream& out) { out << "new"; });
    CHECK(read_file(path) == "new");
    CHECK(fs::status(path).permissions() == mode);
  }
}

TEST_CASE("a link stays, and what it points to is written") {
  const TemporaryFolder folder;
  write_file(folder.file("real"), "old");
  fs::create_symlink(folder.file("real"), folder.file("link"));
  write_atomically(folder.file("link"), [](std::ostream& out) { out << "new"; });
  CHECK(fs::is_symlink(folder.file("link")));
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
  fs::create_directories(folder.file("a.txt.7-0.tmp/full"));  // not ours, and stays
  remove_leftovers(folder.file("a.txt"));
  CHECK(folder.count() == 7);
  CHECK(!fs::exists(folder.file("a.txt.12-0.tmp")));
  CHECK(!fs::exists(folder.file("a.txt.3-456.tmp")));
  remove_leftovers(folder.file("none/a.txt"));
}
