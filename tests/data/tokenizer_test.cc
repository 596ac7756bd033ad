#include "data/tokenizer.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/bpe.h"
#include "data/word_pattern.h"
#include "tests/testing/files.h"

using namespace capstan;
using data::Bpe;
using data::Tokenizer;
using data::WordPattern;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;
using Json = nlohmann::json;

namespace {

using Tokens = std::vector<int64_t>;

const std::string kFolder = "tests/data/testdata/";

Tokenizer tokenizer(const std::string& name) {
  return Tokenizer::from_json(kFolder + "tokenizer_" + name + ".json");
}

/// Any bytes, often such as have a meaning.
rc::Gen<std::string> any_text() {
  const auto piece =
      rc::gen::element<std::string>("a", "the", " ", "  ", "\n", "'ll", "7", "é", "你", "🙂",
                                    "\xff", "\xe4\xbd", "<|end|>", "<|", "\0");
  const auto pieces = rc::gen::container<std::vector<std::string>>(piece);
  return rc::gen::oneOf(rc::gen::container<std::string>(rc::gen::arbitrary<char>()),
                        rc::gen::map(pieces, [](const std::vector<std::string>& all) {
                          std::string text;
                          for (const std::string& one : all) text += one;
                          return text;
                        }));
}

/// Expects that a tokenizer.json changed by `change` is refused with `reason`.
template <class F>
void check_refused(F change, const std::string& reason) {
  Json json = Json::parse(read_file(kFolder + "tokenizer_gpt2.json"));
  change(json);
  const TemporaryFolder folder;
  const std::string path = folder.file("bad.json");
  write_file(path, json.dump());
  INFO("expected: " << reason);
  CHECK_THROWS_WITH_AS(Tokenizer::from_json(path), doctest::Contains(reason.c_str()), IoError);
  CHECK_THROWS_WITH_AS(Tokenizer::from_json(path), doctest::Contains(path.c_str()), IoError);
}

}  // namespace

TEST_CASE("tokens are those of Hugging Face's library") {
  for (const std::string name : {"gpt2", "spaced", "llama"}) {
    const Tokenizer t = tokenizer(name);
    CHECK(t.vocabulary_size() == 360);
    for (const Json& pair : Json::parse(read_file(kFolder + "encoded_" + name + ".json"))) {
      const auto text = pair[0].get<std::string>();
      INFO(name << ": " << text);
      CHECK(t.encode(text) == pair[1].get<Tokens>());
      if (name != "spaced") CHECK(t.decode(t.encode(text)) == text);
    }
  }
}

TEST_CASE("vocab.json and merges.txt give the same") {
  const Tokenizer pair = Tokenizer::from_vocabulary(kFolder + "vocab.json", kFolder + "merges.txt",
                                                    {"<|end|>", "<|begin|>"});
  for (const Json& encoded : Json::parse(read_file(kFolder + "encoded_gpt2.json"))) {
    CHECK(pair.encode(encoded[0].get<std::string>()) == encoded[1].get<Tokens>());
  }
}

TEST_CASE("any bytes come back") {
  for (const std::string name : {"gpt2", "llama"}) {
    const Tokenizer t = tokenizer(name);
    CHECK(rc::check([&] {
      const std::string text = *any_text();
      RC_ASSERT(t.decode(t.encode(text)) == text);
      const Tokens ordinary = t.encode_ordinary(text);
      RC_ASSERT(t.decode(ordinary) == text);
      for (int64_t token : ordinary) RC_ASSERT(token > 1);  // 0 and 1 are special
    }));
  }
}

TEST_CASE("special tokens, or their text") {
  const Tokenizer t = tokenizer("gpt2");
  CHECK(t.token("<|end|>") == 0);
  CHECK(t.encode("<|end|>") == Tokens{0});
  CHECK(t.encode("x<|begin|>").back() == 1);
  CHECK(t.encode_ordinary("<|end|>").size() > 1);
  CHECK(t.decode(Tokens{0, 1, 0}) == "<|end|><|begin|><|end|>");
  CHECK(t.decode(Tokens{t.token("a")}) == "a");
  CHECK(t.token("nothing of that kind") == -1);
  CHECK(t.decode(Tokens{}).empty());
  CHECK_THROWS_WITH_AS(t.decode(Tokens{360}), doctest::Contains("360 is no token"), ValueError);
  CHECK_THROWS_AS(t.decode(Tokens{-1}), ValueError);
}

TEST_CASE("merges: the first of the list first, from the left; long words in little time") {
  Bpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    std::string written;  // that of the byte, by trying
    for (int code = 0; code < 0x800 && written.empty(); ++code) {
      std::string one(1, static_cast<char>(code));
      if (code >= 0x80)
        one = {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
      if (data::bytes_of_written(one) == std::string(1, static_cast<char>(byte))) written = one;
    }
    REQUIRE(!written.empty());
    bpe.add_token(written, byte);
  }
  bpe.add_token("aa", 256);
  bpe.add_token("ab", 257);
  bpe.add_token("aaaa", 258);
  bpe.add_merge("a", "a");
  bpe.add_merge("a", "b");
  bpe.add_merge("aa", "aa");
  bpe.finish();
  const auto encode = [&](std::string_view word) {
    Tokens out;
    bpe.encode(word, out);
    return out;
  };
  CHECK(encode("aaa") == Tokens{256, 'a'});
  CHECK(encode("aab") == Tokens{256, 'b'});
  CHECK(encode("cab") == Tokens{'c', 257});
  CHECK(encode("aaaaaaaaaab") == Tokens{258, 258, 256, 'b'});
  CHECK(encode("").empty());
  CHECK(encode(std::string(1 << 18, 'a')) == Tokens(1 << 16, 258));
  CHECK_THROWS_AS(bpe.add_merge("aa", "b"), ValueError);
  CHECK_THROWS_AS(bpe.add_token("x", 256), ValueError);
  CHECK_THROWS_AS(bpe.add_token("x", -1), ValueError);
  CHECK_THROWS_AS(bpe.add_token("x y", 999), ValueError);
  CHECK_THROWS_AS(Bpe().finish(), ValueError);
}

TEST_CASE("patterns cut text into words that are all of it") {
  const WordPattern pattern(R"(\p{L}+|\s+(?!\S))");
  using Words = std::vector<std::string_view>;
  CHECK(pattern.split("ab 12é\xff\xfe z  ") == Words{"ab", " 12", "é", "\xff\xfe", " ", "z", "  "});
  CHECK(pattern.split("").empty());
  CHECK(rc::check([&] {
    const std::string text = *any_text();
    std::string joined;
    for (std::string_view word : pattern.split(text)) {
      RC_ASSERT(!word.empty());
      joined += word;
    }
    RC_ASSERT(joined == text);
  }));
  CHECK_THROWS_WITH_AS(WordPattern("(a"), doctest::Contains("wrong at byte 2"), ValueError);
  const WordPattern slow("(a+)+$");
  CHECK_THROWS_WITH_AS(slow.split(std::string(60, 'a') + "b"), doctest::Contains("gives up"),
                       ValueError);
}

TEST_CASE("what is UTF-8") {
  CHECK(data::valid_utf8("aé你🙂") == 10);
  for (const std::string bad :
       {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xe4\xbd", "\xc3(", "\xff"}) {
    CHECK(data::valid_utf8(bad) == 0);
    CHECK(data::valid_utf8("ok" + bad) == 2);
  }
}

TEST_CASE("tokenizer.json that would give other tokens, or is damaged") {
  check_refused([](Json& j) { j = 3; }, "");
  check_refused([](Json& j) { j.erase("model"); }, "key 'model' not found");
  check_refused([](Json& j) { j["model"]["type"] = "WordPiece"; }, "type BPE, found WordPiece");
  check_refused([](Json& j) { j["normalizer"] = {{"type", "NFC"}}; }, "\"normalizer\" is not");
  check_refused([](Json& j) { j["model"]["byte_fallback"] = true; }, "\"byte_fallback\" is not");
  check_refused([](Json& j) { j["model"]["dropout"] = 0.5; }, "\"dropout\" is not");
  check_refused([](Json& j) { j["model"]["vocab"] = Json::array(); }, "not as the format says");
  check_refused([](Json& j) { j["model"]["vocab"]["a"] = "x"; }, "must be an integer");
  check_refused([](Json& j) { j["model"]["vocab"]["a"] = -1; }, "in [0, 2^31)");
  check_refused([](Json& j) { j["model"]["vocab"]["a"] = 1ull << 40; }, "in [0, 2^31)");
  check_refused([](Json& j) { j["model"]["vocab"]["a"] = 9; }, "are both token 9");
  check_refused([](Json& j) { j["model"]["vocab"].erase("a"); }, "");
  check_refused([](Json& j) { j["model"]["vocab"]["你"] = 999; }, "not in the byte-level alphabet");
  check_refused([](Json& j) { j["model"]["merges"] = {"a"}; }, "a merge is two tokens");
  check_refused([](Json& j) { j["model"]["merges"] = {"a b c"}; }, "a merge is two tokens");
  check_refused([](Json& j) { j["model"]["merges"] = {{"a"}}; }, "a merge is two tokens");
  check_refused([](Json& j) { j["model"]["merges"] = {3}; }, "a merge is two tokens");
  check_refused([](Json& j) { j["model"]["merges"] = {"q z"}; }, "\"qz\" is no token");
  check_refused([](Json& j) { j["pre_tokenizer"] = {{"type", "Metaspace"}}; }, "Metaspace is not");
  check_refused([](Json& j) { j["pre_tokenizer"] = {{"type", "Digits"}}; }, "found none");
  check_refused(
      [](Json& j) {
        for (int i = 0; i < 20; ++i) {
          Json inner = j["pre_tokenizer"];
          j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array({inner})}};
        }
      },
      "nested more than 8");
  const auto split = [](const char* behavior, const char* regex) {
    return [=](Json& j) {
      j["pre_tokenizer"] = {
          {"type", "Split"}, {"behavior", behavior}, {"pattern", {{"Regex", regex}}}};
    };
  };
  check_refused(split("Removed", "a"), "must be \"Isolated\"");
  check_refused(split("Isolated", "(a"), "PCRE2 says");
  check_refused([](Json& j) { j["added_tokens"][0]["lstrip"] = true; }, "\"lstrip\" is not");
  check_refused([](Json& j) { j["added_tokens"][0]["content"] = ""; }, "no text");
  check_refused([](Json& j) { j["added_tokens"][0]["id"] = 1.5; }, "must be an integer");
  check_refused(  // written so in the vocabulary, it is a space, not this letter
      [](Json& j) {
        j["added_tokens"][0] = {{"content", "Ġ"}, {"id", j["model"]["vocab"]["Ġ"]}};
      },
      "byte 0x20 is no token");
  check_refused([](Json& j) { j["added_tokens"][0]["id"] = 50; }, "are both token 50");
}

TEST_CASE("files that are cut or missing") {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.json"),
                    whole = read_file(kFolder + "tokenizer_gpt2.json");
  for (size_t length = 0; length < whole.size(); length += 97) {
    write_file(path, whole.substr(0, length));
    CHECK_THROWS_WITH_AS(Tokenizer::from_json(path), doctest::Contains("is no JSON"), IoError);
  }
  CHECK_THROWS_AS(Tokenizer::from_json(folder.file("none")), IoError);
  const std::string vocab = kFolder + "vocab.json", merges = folder.file("merges.txt");
  CHECK_THROWS_AS(Tokenizer::from_vocabulary(vocab, merges), IoError);
  write_file(merges, "#version: 0.2\r\n\r\nt h\r\n");
  CHECK(Tokenizer::from_vocabulary(vocab, merges).encode("th").size() == 1);
  for (const std::string bad : {"t", "t h e", "t \xff", "#version\n#version"}) {
    write_file(merges, bad);
    CHECK_THROWS_WITH_AS(Tokenizer::from_vocabulary(vocab, merges), doctest::Contains("merges.txt"),
                         IoError);
  }
  CHECK_THROWS_WITH_AS(Tokenizer::from_vocabulary(vocab, kFolder + "merges.txt", {"<|none|>"}),
                       doctest::Contains("\"<|none|>\" is not in the vocabulary"), IoError);
}

TEST_CASE("the tokenizer without merges") {
  const Tokenizer bytes = Tokenizer::of_bytes();
  CHECK(bytes.vocabulary_size() == 256);
  const std::string text("a \n\xff\0z", 6);
  CHECK(bytes.encode(text) == std::vector<int64_t>{'a', ' ', '\n', 255, 0, 'z'});
  CHECK(bytes.encode_ordinary("") == std::vector<int64_t>{});
  CHECK(bytes.decode(bytes.encode(text)) == text);
  CHECK(bytes.token("z") == 'z');
}
