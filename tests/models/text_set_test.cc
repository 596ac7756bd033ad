// Texts cut into tokens, and texts that do not fit.
#include "models/text_set.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/testing/files.h"

using namespace capstan;
using namespace capstan::models;
using testing::TemporaryFolder;
using testing::write_file;

namespace {

constexpr const char* kTokenizer = "tests/data/testdata/tokenizer_gpt2.json";

/// Words that the tokenizer has tokens for, and some that it has none for.
std::string words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += i % 3 == 0 ? "lower " : "qz ";
  return text;
}

}  // namespace

TEST_CASE("bytes: the last tenth is for validation") {
  const TemporaryFolder folder;
  GptOptions options;
  options.text = folder.file("text");
  options.shape.context = 4;
  std::string bytes(100, 'a');
  bytes[90] = '\xff';
  write_file(options.text, bytes);
  const TextSet text(options);
  CHECK(text.tokenizer.vocabulary_size() == 256);
  CHECK(text.training.tokens() == 90);
  CHECK(text.validation.tokens() == 10);
  CHECK(text.validation.token(0) == 255);
  CHECK(text.validation.size() == 2);
  CHECK(text.bytes_per_token() == 1);
  CHECK(text.digest.starts_with("text "));
}

TEST_CASE("a tokenizer's tokens, from a text or a file") {
  const TemporaryFolder folder;
  GptOptions options;
  options.text = folder.file("text");
  options.tokenizer = kTokenizer;
  options.shape.context = 3;
  write_file(options.text, words(200));
  const TextSet text(options);
  CHECK(text.digest.starts_with("tokenizer "));
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < text.all.tokens(); ++i) tokens.push_back(text.all.token(i));
  CHECK(text.tokenizer.decode(tokens) == words(200));
  CHECK(tokens.size() < words(200).size());

  int64_t labels = 0, bytes = 0;
  for (int64_t i = 0; i < text.validation.size(); ++i) {
    const auto label = text.validation.batch(std::vector{i}).labels.to_vector<int64_t>();
    labels += std::ssize(label);
    bytes += std::ssize(text.tokenizer.decode(label));
  }
  CHECK(text.bytes_per_token() ==
        doctest::Approx(static_cast<double>(bytes) / static_cast<double>(labels)));

  options.tokens = folder.file("tokens");
  data::write_tokens(options.tokens, tokens);
  const TextSet same(options);
  CHECK(same.all.tokens() == text.all.tokens());
  CHECK(same.validation.token(1) == text.validation.token(1));
  CHECK(same.digest != text.digest);
}

TEST_CASE("files that do not fit are refused before training") {
  const TemporaryFolder folder;
  GptOptions options;
  options.text = folder.file("text");
  const auto refuse = [&]<class E>(const E&, const std::string& text) {
    CHECK_THROWS_WITH_AS(TextSet{options}, doctest::Contains(text.c_str()), E);
  };
  refuse(IoError(""), options.text);
  write_file(options.text, std::string(1289, 'a'));
  refuse(ValueError(""), options.text +
                             " has 1289 tokens, and the last tenth of them, for validation, must "
                             "be more than --context 128");
  write_file(options.text, std::string(1290, 'a'));
  CHECK(TextSet(options).validation.size() == 1);
  write_file(options.text, "");
  refuse(ValueError(""), "has 0 tokens");

  options.tokenizer = folder.file("tokenizer.json");
  refuse(IoError(""), options.tokenizer);
  write_file(options.tokenizer, "{}");
  refuse(IoError(""), options.tokenizer);

  options.tokenizer = "";
  options.tokens = folder.file("tokens");
  refuse(IoError(""), options.tokens);
  std::vector<int64_t> tokens(2000, 3);
  tokens[1999] = 256;  // of another vocabulary
  data::write_tokens(options.tokens, tokens);
  refuse(IoError(""), "tokens must be below 256, token 1999 is 256");
  write_file(options.tokens, "abc");
  refuse(IoError(""), "expected tokens of 2 bytes, found 3 bytes");
}
