#include "data/csv.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cmath>

#include "core/error.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::csv_dataset;
using data::CsvOptions;
using data::read_csv;
using data::read_csv_text;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

using Records = std::vector<std::vector<std::string>>;

/// A file of this text, for as long as it lives.
struct File {
  explicit File(const std::string& text) { write_file(path, text); }
  TemporaryFolder folder;
  std::string path = folder.file("x.csv");
};

void check_refused(const std::string& text, const std::string& reason, CsvOptions options = {}) {
  const File file(text);
  INFO("expected: " << reason);
  CHECK_THROWS_WITH_AS(read_csv(file.path, options), doctest::Contains(reason.c_str()), IoError);
  CHECK_THROWS_WITH_AS(read_csv(file.path, options), doctest::Contains(file.path.c_str()), IoError);
}

std::string quoted(const std::string& field) {
  std::string out = "\"";
  for (char c : field) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

TEST_CASE("numbers, with and without a header") {
  const File file("a,b\n1, 2.5\r\n-3e2,\"4\"");
  const auto table = read_csv(file.path);
  CHECK(table.columns == std::vector<std::string>{"a", "b"});
  CHECK(table.values.shape() == Shape{2, 2});
  CHECK(table.values.to_vector<double>() == std::vector<double>{1, 2.5, -300, 4});
  const File plain(
      "\xef\xbb\xbf"
      "1;2\n");
  const auto numbered = read_csv(plain.path, {.delimiter = ';', .header = false});
  CHECK(numbered.columns == std::vector<std::string>{"0", "1"});
  CHECK(numbered.values.to_vector<double>() == std::vector<double>{1, 2});
}

TEST_CASE("no rows, and nothing at all") {
  CHECK(read_csv(File("a,b,c\n").path).values.shape() == Shape{0, 3});
  CHECK(read_csv(File("").path, {.header = false}).values.shape() == Shape{0, 0});
  CHECK(read_csv_text(File("").path).empty());
  check_refused("", "expected a header");
}

TEST_CASE("empty fields need a value") {
  check_refused("a,b\n1,\n", "line 2, column \"b\": expected a number, found \"\"; set `missing`");
  const File file("a,b\n1,\n,2\n");
  const auto values = read_csv(file.path, {.missing = -1}).values;
  CHECK(values.to_vector<double>() == std::vector<double>{1, -1, -1, 2});
  CHECK(std::isnan(read_csv(file.path, {.missing = NAN}).values.to_vector<double>()[1]));
}

TEST_CASE("text that is not right") {
  check_refused("a\nx1\n", "line 2, column \"a\": expected a number, found \"x1\"");
  check_refused("a\n1x\n", "expected a number, found \"1x\"");
  check_refused("a\n1e999\n", "expected a number");
  check_refused("a,b\n1,2\n1\n", "line 3: expected 2 fields, found 1");
  check_refused("a,b\n1,2,3\n", "line 2: expected 2 fields, found 3");
  check_refused("a,b\n1,2\n\n", "line 3: expected 2 fields, found 1");
  check_refused("a\n\"1\n", "a quote is opened and not closed");
  check_refused("a\n\"1\"2\n", "line 2, field 1: expected the end of the field after a quote");
  check_refused("a\n1\"\n", "a quote inside a field");
  check_refused("a\n1\r2\n", "carriage return");
  check_refused("\"a\nb\"\nx\n", "line 3");
  CHECK_THROWS_AS(read_csv(File("a").path, {.delimiter = '"'}), ValueError);
  CHECK_THROWS_WITH_AS(read_csv("/none"), doctest::Contains("/none: cannot be read"), IoError);
}

TEST_CASE("any text between quotes comes back") {
  CHECK(rc::check([] {
    const size_t width = *rc::gen::inRange<size_t>(1, 5);
    const auto field =
        rc::gen::container<std::string>(rc::gen::element('a', ',', '"', '\n', '\r', ' '));
    const auto records =
        *rc::gen::container<Records>(rc::gen::container<std::vector<std::string>>(width, field));
    std::string text;
    for (const auto& record : records) {
      for (size_t i = 0; i < width; ++i) text += (i > 0 ? "," : "") + quoted(record[i]);
      text += "\n";
    }
    RC_ASSERT(read_csv_text(File(text).path) == records);
  }));
}

TEST_CASE("a column of labels, the others inputs") {
  const File file("x,class,y\n1,7,2\n3,-1,4\n");
  const auto set = csv_dataset(file.path, "class");
  const auto batch = set.batch(std::vector<int64_t>{1, 0});
  CHECK(batch.inputs.to_vector<float>() == std::vector<float>{3, 4, 1, 2});
  CHECK(batch.labels.to_vector<int64_t>() == std::vector<int64_t>{-1, 7});
  CHECK_THROWS_WITH_AS(csv_dataset(file.path, "z"),
                       doctest::Contains("named \"z\", the columns are x, class, y"), IoError);
  CHECK_THROWS_AS(csv_dataset(File("a,a\n1,2\n").path, "a"), IoError);
  for (const std::string label : {"0.5", "nan", "inf", "1e300"}) {
    const File bad("class\n1\n" + label + "\n");
    CHECK_THROWS_WITH_AS(csv_dataset(bad.path, "class"), doctest::Contains("row 1 has"), IoError);
  }
}
