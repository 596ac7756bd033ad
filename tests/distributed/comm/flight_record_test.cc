// Flight records as JSON files: what they say, when they are saved, and that a disk which refuses
// them harms nothing.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "distributed/comm/self.h"
#include "distributed/comm/thread.h"
#include "tests/distributed/comm/collectives.h"
#include "tests/testing/files.h"

namespace {

using namespace capstan;
using namespace capstan::distributed;
using namespace capstan::distributed::testing;
using namespace std::chrono_literals;
using capstan::testing::read_file;
using capstan::testing::TemporaryFolder;
using Json = nlohmann::json;

Json json_of(const std::string& path) { return Json::parse(read_file(path)); }

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

TEST_CASE("a record that is asked for") {
  const TemporaryFolder folder;
  const double before = seconds_since_1970();
  for (int n : {1, 3}) {
    run_ranks(n, [&](Communicator& c) {
      c.all_reduce(zeros({1000}), Reduce::max, "bucket 3").wait();
      c.broadcast(zeros({7}, {.dtype = Dtype::int64}), 0, "\xff is no text").wait();
      const std::string path = c.save_flight_record(folder.file("new"));
      CHECK(path == folder.file("new/world-rank-" + std::to_string(c.rank()) + ".json"));
      const Json record = json_of(path);
      CHECK(record["communicator"] == "world");
      CHECK(record["rank"] == c.rank());
      CHECK(record["hosts"].size() == static_cast<size_t>(n));
      CHECK(record["hosts"][0] == c.host(0));
      CHECK(record["failure"].is_null());
      REQUIRE(record["calls"].size() == 2);
      const Json &first = record["calls"][0], &second = record["calls"][1];
      CHECK(first["sequence"] == 1);
      CHECK(first["kind"] == "all_reduce");
      CHECK(first["op"] == "max");
      CHECK(first["dtype"] == "float32");
      CHECK(first["count"] == 1000);
      CHECK(first["root"].is_null());
      CHECK(first["tag"] == "bucket 3");
      CHECK(first["state"] == "done");
      CHECK(first["queued"].get<double>() >= before - 1e-3);
      CHECK(first["started"] >= first["queued"]);
      CHECK(first["finished"] >= first["started"]);
      CHECK(record["saved"].get<double>() >= first["finished"].get<double>() - 1e-3);
      CHECK(second["root"] == 0);
      CHECK(second["op"].is_null());
      CHECK(second["dtype"] == "int64");
    });
  }
  const auto alone = make_self({.flight_records = folder.path(), .name = "alone"});
  CHECK(alone->save_flight_record() == folder.file("alone-rank-0.json"));
  CHECK(json_of(folder.file("alone-rank-0.json"))["calls"].empty());
  CHECK_THROWS_AS(make_self()->save_flight_record(), ValueError);
  capstan::testing::write_file(folder.file("file"), "");
  CHECK_THROWS_AS(alone->save_flight_record(folder.file("file")), IoError);
  CHECK_THROWS_AS(alone->save_flight_record(folder.file("file/below")), IoError);
}

TEST_CASE("a call that fails leaves a record of each rank, and the error says where") {
  const TemporaryFolder folder;
  both_ways(
      3,
      [&](Communicator& world) {
        const auto c = world.split(4);
        const std::string text = error_of([&] {
          if (c->rank() != 2) c->all_reduce(zeros({7}), Reduce::sum, "bucket 4").wait();
          while (c->failure().empty()) std::this_thread::sleep_for(1ms);
          c->barrier();
        });
        check_shared(world, text,
                     "; " + name_of(*c, 2) + " has come to no call; ranks 0-1 on " + c->host(0) +
                         " have come to call 1; flight records in " + folder.path());
        // The file is there before anybody hears of the failure.
        const Json record =
            json_of(folder.file("world-1.4-rank-" + std::to_string(c->rank()) + ".json"));
        CHECK(record["failure"] == text);
        REQUIRE(record["calls"].size() == (c->rank() == 2 ? 0 : 1));
        if (c->rank() != 2) {
          CHECK(record["calls"][0]["tag"] == "bucket 4");
          CHECK(record["calls"][0]["state"] == "running");  // where it was, not what came of it
          CHECK(record["calls"][0]["finished"].is_null());
        }
        const Json later = json_of(c->save_flight_record());
        if (c->rank() != 2) CHECK(later["calls"][0]["state"] == "failed");
      },
      {.timeout = 200ms, .flight_records = folder.path()});
  CHECK(folder.count() == 3);
}

TEST_CASE("records are saved for calls that differ and for a rank that fails, if they are wanted") {
  const TemporaryFolder folder;
  run_ranks(
      2,
      [&](Communicator& world) {
        auto c = world.split(0);
        std::string text = error_of([&] { c->barrier(c->rank() ? "a" : "b").wait(); });
        check_shared(world, text,
                     "every rank must make the same calls in the same order; flight records in ");
        c = world.split(0);
        text = c->rank() == 1 ? c->fail("no file") : error_of([&] { c->barrier().wait(); });
        check_shared(world, text, name_of(*c, 1) + ": no file; flight records in " + folder.path());
        c = world.split(0);
        text = c->fail("an option that all refuse", false);
        check_shared(world, text, "an option that all refuse");
        CHECK(text.find("flight records") == std::string::npos);
      },
      {.flight_records = folder.path()});
  CHECK(folder.count() == 4);
}

TEST_CASE("a folder that cannot be written harms nothing else") {
  const TemporaryFolder folder;
  capstan::testing::write_file(folder.file("file"), "");
  run_ranks(2,
            [&](Communicator& world) {
              const auto c = world.split(0);
              const std::string text =
                  c->rank() == 1 ? c->fail("no file") : error_of([&] { c->barrier().wait(); });
              check_shared(world, text, name_of(*c, 1) + ": no file");
              CHECK(text.find("flight records") == std::string::npos);  // there are none
            },
            {.flight_records = folder.file("file")});
}

TEST_CASE("CAPSTAN_FLIGHT_RECORDS") {
  unsetenv("CAPSTAN_FLIGHT_RECORDS");
  CHECK(CommOptions().flight_records.empty());
  setenv("CAPSTAN_FLIGHT_RECORDS", "somewhere", 1);
  CHECK(CommOptions().flight_records == "somewhere");
  unsetenv("CAPSTAN_FLIGHT_RECORDS");
}

}  // namespace
