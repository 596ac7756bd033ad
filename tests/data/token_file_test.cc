#include "data/token_file.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::TokenDataset;
using data::write_tokens;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

using Tokens = std::vector<int64_t>;

}  // namespace

TEST_CASE("windows, and the tokens that follow") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokens");
  for (const int64_t width : {2, 4}) {
    write_tokens(path, Tokens{10, 11, 65535, 13, 14, 15, 16}, width);
    const TokenDataset set(path, {.context = 3, .token_bytes = width});
    CHECK(set.tokens() == 7);
    CHECK(set.size() == 2);
    const auto batch = set.batch(Tokens{1, 0});
    CHECK(batch.inputs.shape() == Shape{2, 3});
    CHECK(batch.inputs.to_vector<int64_t>() == Tokens{13, 14, 15, 10, 11, 65535});
    CHECK(batch.labels.to_vector<int64_t>() == Tokens{14, 15, 16, 11, 65535, 13});
    CHECK(set.batch(Tokens{}).inputs.shape() == Shape{0, 3});
    CHECK_THROWS_AS(set.batch(Tokens{2}), ValueError);
  }
}

TEST_CASE("how many windows fit") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokens");
  for (int64_t count = 0; count < 12; ++count) {
    write_tokens(path, Tokens(static_cast<size_t>(count), 1));
    for (int64_t context = 1; context < 5; ++context) {
      for (int64_t stride = 1; stride < 5; ++stride) {
        int64_t fitting = 0;
        for (int64_t begin = 0; begin + context + 1 <= count; begin += stride) ++fitting;
        const TokenDataset set(path, {.context = context, .stride = stride});
        CHECK(set.size() == fitting);
        if (fitting > 0) CHECK(set.batch(Tokens{fitting - 1}).size() == 1);
      }
    }
  }
}

TEST_CASE("files and options that are not right") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tokens");
  write_file(path, "abc");
  CHECK_THROWS_WITH_AS(TokenDataset(path, {.context = 1}),
                       doctest::Contains("tokens: expected tokens of 2 bytes, found 3 bytes"),
                       IoError);
  CHECK_THROWS_AS(TokenDataset(folder.file("none"), {.context = 1}), IoError);
  CHECK_THROWS_AS(TokenDataset(path, {}), ValueError);
  CHECK_THROWS_AS(TokenDataset(path, {.context = 1, .stride = -1}), ValueError);
  CHECK_THROWS_AS(TokenDataset(path, {.context = 1, .token_bytes = 3}), ValueError);
  write_tokens(path, Tokens{4, 5, 6}, 4);
  const TokenDataset set(path, {.context = 1, .token_bytes = 4, .vocabulary = 6});
  CHECK(set.batch(Tokens{0}).size() == 1);
  CHECK_THROWS_WITH_AS(set.batch(Tokens{1}),
                       doctest::Contains("tokens must be below 6, token 2 is 6"), IoError);
  CHECK_THROWS_WITH_AS(write_tokens(path, Tokens{65536}), doctest::Contains("65536"), ValueError);
  CHECK_THROWS_AS(write_tokens(path, Tokens{-1}, 4), ValueError);
  CHECK_THROWS_AS(write_tokens(path, Tokens{1}, 8), ValueError);
  CHECK(testing::read_file(path).size() == 12);  // what was there is still there
}
