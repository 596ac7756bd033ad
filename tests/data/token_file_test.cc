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

TEST_CASE("tokens in memory, and parts of them") {
  for (const int64_t width : {2, 4}) {
    const TokenDataset all(Tokens{5, 6, 7, 8, 9, 10, 11}, {.context = 2, .token_bytes = width});
    CHECK(all.tokens() == 7);
    CHECK(all.context() == 2);
    CHECK(all.token(6) == 11);
    CHECK(all.batch(Tokens{2}).labels.to_vector<int64_t>() == Tokens{10, 11});
    const TokenDataset part = all.part(1, 6);
    CHECK(part.tokens() == 5);
    CHECK(part.size() == 2);
    CHECK(part.batch(Tokens{1}).inputs.to_vector<int64_t>() == Tokens{8, 9});
    CHECK(part.part(3, 5).token(1) == 10);
    CHECK(all.part(7, 7).size() == 0);
    for (const auto& [begin, end] : {std::pair(-1, 2), {3, 2}, {0, 8}}) {
      CHECK_THROWS_WITH_AS(all.part(begin, end),
                           doctest::Contains("a part must lie in [0, 7], got "), ValueError);
    }
  }
  const auto early = [] {  // a part outlives what it is of
    return TokenDataset(Tokens{1, 2, 3}, {.context = 1}).part(1, 3);
  };
  CHECK(early().batch(Tokens{0}).inputs.to_vector<int64_t>() == Tokens{2});
  CHECK_THROWS_WITH_AS(TokenDataset(Tokens{65536}, {.context = 1}),
                       doctest::Contains("token 65536 does not fit into 2 bytes"), ValueError);
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
