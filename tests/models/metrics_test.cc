#include "models/metrics.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>

#include "core/error.h"
#include "models/plot.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::models;
using capstan::testing::read_file;
using capstan::testing::TemporaryFolder;
using capstan::testing::write_file;

TEST_CASE("metrics are JSON lines") {
  const TemporaryFolder folder;
  Metrics metrics(folder.file("m.jsonl"), 0);
  metrics.add(StepRecord{1, 1, 2.5, 0.125, 100});
  metrics.add(StepRecord{2, 1, 2.25, 0.25, 200, 3.5});
  metrics.add(EvaluationRecord{2, 1, 0.75, 1.5});
  CHECK(read_file(folder.file("m.jsonl")) ==
        "{\"step\":1,\"epoch\":1,\"loss\":2.5,\"rate\":0.125,\"samples_per_second\":100.0}\n"
        "{\"step\":2,\"epoch\":1,\"loss\":2.25,\"rate\":0.25,\"samples_per_second\":200.0,"
        "\"gradient_norm\":3.5}\n"
        "{\"step\":2,\"epoch\":1,\"test_accuracy\":0.75,\"test_loss\":1.5}\n");
}

TEST_CASE("a resumed run keeps what lies before it, and no line is double") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.jsonl");
  {
    Metrics metrics(path, 0);
    for (int64_t step = 1; step <= 4; ++step) metrics.add(StepRecord{step, 1, 2, 0.1, 100, 0.5});
    metrics.add(EvaluationRecord{4, 1, 0.75, 1.5});
    metrics.add(StepRecord{5, 2, 2, 0.1, 100});
  }
  const std::string whole = read_file(path);
  write_file(path, whole + "{\"step\":6,\"epo");  // cut short by a crash
  {
    const Metrics metrics(path, 4);
    CHECK(metrics.steps().size() == 4);
    CHECK(metrics.steps()[3].gradient_norm == 0.5);
    REQUIRE(metrics.evaluations().size() == 1);
    CHECK(metrics.evaluations()[0].test_accuracy == 0.75);
  }
  const std::string kept = whole.substr(0, whole.find("{\"step\":5"));
  CHECK(read_file(path) == kept);
  Metrics(path, 4).add(EvaluationRecord{4, 1, 0.75, 1.5});  // once more
  CHECK(read_file(path) == kept);
  const Metrics fresh(path, 0);
  CHECK(read_file(path) == "");
}

TEST_CASE("a file that cannot be written is an error") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(Metrics(folder.file("none/m.jsonl"), 0),
                       doctest::Contains("none/m.jsonl: No such file or directory"), IoError);
  CHECK_THROWS_WITH_AS(Metrics(folder.path(), 0), doctest::Contains("Is a directory"), IoError);
  CHECK_THROWS_AS(Metrics("/dev/null", 0), IoError);
}

TEST_CASE("a disk that fills up is an error") {
  const TemporaryFolder folder;
  Metrics metrics(folder.file("m.jsonl"), 0);
  rlimit limit;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{1000, limit.rlim_max};  // bytes of a file
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const auto write_all = [&] {
    for (int64_t step = 1; step <= 100; ++step) metrics.add(StepRecord{step, 1, 2, 0.1, 100});
  };
  CHECK_THROWS_WITH_AS(write_all(), doctest::Contains("[metrics] cannot write to "), IoError);
  setrlimit(RLIMIT_FSIZE, &limit);
  CHECK(metrics.steps().size() < 20);
}

TEST_CASE("a file that is there keeps its mode") {
  const TemporaryFolder folder;
  const std::string path = folder.file("m.jsonl");
  write_file(path, "");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  Metrics(path, 0).add(StepRecord{1, 1, 2, 0.1, 100});
  CHECK(std::filesystem::status(path).permissions() == std::filesystem::perms::owner_all);
}

TEST_CASE("a plot shows whatever there is") {
  const TemporaryFolder folder;
  Metrics metrics;
  write_plot(folder.file("p.svg"), metrics, "empty", "accuracy");
  for (int64_t step = 1; step <= 2500; ++step) {
    metrics.add(StepRecord{step, 1, 3.0 / static_cast<double>(step), 0.1, 100});
  }
  metrics.add(EvaluationRecord{2500, 1, 0.9, 0.3});
  write_plot(folder.file("p.svg"), metrics, "a < b & c", "test accuracy");
  const std::string svg = read_file(folder.file("p.svg"));
  CHECK(svg.find("a &lt; b &amp; c") != std::string::npos);
  CHECK(svg.find("test accuracy, %") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(svg.size() < 60'000);  // however many steps
  CHECK_THROWS_AS(write_plot(folder.file("none/p.svg"), metrics, "", ""), IoError);
}
