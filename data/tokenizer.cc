#include "data/tokenizer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/raise.h"
#include "data/bpe.h"
#include "data/bytes.h"
#include "data/word_pattern.h"

namespace capstan::data {
namespace {

using Json = nlohmann::json;

// GPT-2's: short forms of English, letters, digits, signs, and spaces but the last before a word.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr int kDeepest = 8;

struct Added {
  std::string text;
  int64_t token;
};

Json parse(const MappedFile& file) {
  try {
    return Json::parse(file.text());
  } catch (const Json::exception& error) {
    raise<IoError>("[Tokenizer] {}: is no JSON: {}", file.path(), error.what());
  }
}

/// Runs `read`, and gives what it throws the file's name.
template <class F>
auto reading(const std::string& path, F read) {
  try {
    return read();
  } catch (const ValueError& error) {
    raise<IoError>("[Tokenizer] {}: {}", path, error.what());
  } catch (const Json::exception& error) {
    raise<IoError>("[Tokenizer] {}: is not as the format says: {}", path, error.what());
  }
}

/// Refuses a field that, unless it has one of its harmless values, would change tokens.
void expect_unset(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null() || *found == false || *found == "" || *found == 0) {
    return;
  }
  raise<ValueError>("\"{}\" is not supported, found {}", field, found->type_name());
}

/// The value of a field that may be missing or null.
template <class T>
T value_or(const Json& object, const char* field, T otherwise) {
  const auto found = object.find(field);
  return found == object.end() || found->is_null() ? otherwise : found->get<T>();
}

int64_t whole_number(const Json& number, const std::string& text) {
  if (!number.is_number_integer()) {
    raise<ValueError>("the number of token \"{}\" must be an integer, found {}", text,
                      number.type_name());
  }
  return number.get<int64_t>();
}

/// A pattern that matches `text` itself.
std::string literally(const std::string& text) {
  std::string pattern;
  for (char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}#- ").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

/// How text is cut, from "pre_tokenizer".
struct Cutting {
  std::vector<WordPattern> patterns;
  bool prefix_space = false;
  bool byte_level = false;

  void read(const Json& step, int depth = 0) {
    if (depth > kDeepest)
      raise<ValueError>("pre-tokenizers are nested more than {} deep", kDeepest);
    const std::string type = step.at("type").get<std::string>();
    if (type == "Sequence") {
      for (const Json& inner : step.at("pretokenizers")) read(inner, depth + 1);
    } else if (byte_level) {
      raise<ValueError>("a pre-tokenizer after ByteLevel is not supported, found {}", type);
    } else if (type == "ByteLevel") {
      byte_level = true;
      prefix_space = value_or(step, "add_prefix_space", true);
      if (prefix_space && !patterns.empty()) {
        raise<ValueError>("\"add_prefix_space\" after another pre-tokenizer is not supported");
      }
      if (value_or(step, "use_regex", true)) patterns.emplace_back(kGpt2Pattern);
    } else if (type == "Digits") {
      const bool each = value_or(step, "individual_digits", false);
      patterns.emplace_back(each ? R"(\p{N})" : R"(\p{N}+)");
    } else if (type == "Split") {
      const auto behavior = step.at("behavior").get<std::string>();
      if (behavior != "Isolated" || value_or(step, "invert", false)) {
        raise<ValueError>("a Split must be \"Isolated\" and not inverted, found \"{}\"", behavior);
      }
      const Json& pattern = step.at("pattern");
      patterns.emplace_back(pattern.contains("Regex")
                                ? pattern.at("Regex").get<std::string>()
                                : literally(pattern.at("String").get<std::string>()));
    } else {
      raise<ValueError>("the pre-tokenizer {} is not supported", type);
    }
  }
};

/// A line of merges.txt, or an element of "merges".
void add_merge(Bpe& bpe, const std::string& line) {
  const size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
    raise<ValueError>("a merge is two tokens with a space between, found \"{}\"",
                      line.substr(0, 100));
  }
  bpe.add_merge(line.substr(0, space), line.substr(space + 1));
}

void add_vocabulary(Bpe& bpe, const Json& vocabulary, const std::vector<Added>& added) {
  for (const auto& [written, token] : vocabulary.get_ref<const Json::object_t&>()) {
    const bool literal = std::any_of(added.begin(), added.end(),
                                     [&text = written](const Added& a) { return a.text == text; });
    if (!literal || bytes_of_written(written) == written)
      bpe.add_token(written, whole_number(token, written));
  }
  for (const auto& [text, token] : added) bpe.add_literal(text, token);
}

}  // namespace

struct Tokenizer::Rules {
  Bpe bpe;
  std::vector<WordPattern> patterns;
  std::vector<Added> added;        // the longest first
  std::array<bool, 256> begins{};  // an added token
  bool prefix_space = false;

  void finish() {
    bpe.finish();
    for (const Added& token : added) begins[static_cast<uint8_t>(token.text[0])] = true;
    std::stable_sort(added.begin(), added.end(),
                     [](const Added& a, const Added& b) { return a.text.size() > b.text.size(); });
  }

  void encode_ordinary(std::string_view text, std::vector<int64_t>& out) const {
    std::string spaced;
    if (prefix_space && !text.empty() && text[0] != ' ') text = spaced = " " + std::string(text);
    std::vector<std::string_view> words{text}, finer;
    for (const WordPattern& pattern : patterns) {
      finer.clear();
      for (std::string_view word : words) {
        const auto parts = pattern.split(word);
        finer.insert(finer.end(), parts.begin(), parts.end());
      }
      words.swap(finer);
    }
    for (std::string_view word : words) bpe.encode(word, out);
  }

  /// The longest added token at the beginning of `text`, null if there is none.
  const Added* added_at(std::string_view text) const {
    if (!begins[static_cast<uint8_t>(text[0])]) return nullptr;
    const auto fits = [&](const Added& a) { return text.starts_with(a.text); };
    const auto found = std::find_if(added.begin(), added.end(), fits);
    return found == added.end() ? nullptr : &*found;
  }
};

Tokenizer Tokenizer::from_json(const std::string& path) {
  const MappedFile file(path);
  const Json json = parse(file), none = Json::array();
  return reading(path, [&] {
    auto rules = std::make_shared<Rules>();
    const Json& model = json.at("model");
    const auto type = value_or<std::string>(model, "type", "BPE");
    if (type != "BPE") raise<ValueError>("expected a model of type BPE, found {}", type);
    expect_unset(json, "normalizer");
    for (const char* field :
         {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
      expect_unset(model, field);
    }
    Cutting cutting;
    cutting.read(json.at("pre_tokenizer"));
    if (!cutting.byte_level) raise<ValueError>("expected a ByteLevel pre-tokenizer, found none");
    rules->patterns = std::move(cutting.patterns);
    rules->prefix_space = cutting.prefix_space;

    for (const Json& token : json.contains("added_tokens") ? json.at("added_tokens") : none) {
      for (const char* field : {"single_word", "lstrip", "rstrip"}) expect_unset(token, field);
      const auto text = token.at("content").get<std::string>();
      if (text.empty()) raise<ValueError>("an added token has no text");
      rules->added.push_back({text, whole_number(token.at("id"), text)});
    }
    add_vocabulary(rules->bpe, model.at("vocab"), rules->added);
    rules->finish();
    for (const Json& merge : model.at("merges")) {
      if (merge.is_string()) {
        add_merge(rules->bpe, merge.get<std::string>());
      } else if (merge.is_array() && merge.size() == 2) {
        rules->bpe.add_merge(merge[0].get<std::string>(), merge[1].get<std::string>());
      } else {
        raise<ValueError>("a merge is two tokens, found {}", merge.type_name());
      }
    }
    rules->bpe.set_whole_words(value_or(model, "ignore_merges", false));
    return Tokenizer(std::move(rules));
  });
}

Tokenizer Tokenizer::from_vocabulary(const std::string& vocab_path, const std::string& merges_path,
                                     const std::vector<std::string>& special) {
  auto rules = std::make_shared<Rules>();
  rules->patterns.emplace_back(kGpt2Pattern);
  const MappedFile vocab_file(vocab_path), merges_file(merges_path);
  const Json vocabulary = parse(vocab_file);
  reading(vocab_path, [&] {
    for (const std::string& text : special) {
      if (text.empty() || !vocabulary.contains(text)) {
        raise<ValueError>("the special token \"{}\" is not in the vocabulary", text);
      }
      rules->added.push_back({text, whole_number(vocabulary.at(text), text)});
    }
    add_vocabulary(rules->bpe, vocabulary, rules->added);
    rules->finish();
  });
  reading(merges_path, [&] {
    std::string_view text = merges_file.text();
    for (bool first = true; !text.empty(); first = false) {
      std::string line(text.substr(0, text.find('\n')));
      text.remove_prefix(std::min(line.size() + 1, text.size()));
      if (line.ends_with('\r')) line.pop_back();
      if (line.empty() || (first && line.starts_with("#version"))) continue;
      add_merge(rules->bpe, line);
    }
  });
  return Tokenizer(std::move(rules));
}

Tokenizer Tokenizer::of_bytes() {
  auto rules = std::make_shared<Rules>();
  for (int byte = 0; byte < 256; ++byte) {
    rules->bpe.add_byte(static_cast<char>(byte), byte);
  }
  rules->finish();
  return Tokenizer(std::move(rules));
}

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int64_t> out;
  size_t begin = 0, at = 0;  // of the ordinary text, and of what is looked at
  while (at < text.size()) {
    const Added* added = rules_->added_at(text.substr(at));
    if (!added) {
      ++at;
      continue;
    }
    rules_->encode_ordinary(text.substr(begin, at - begin), out);
    out.push_back(added->token);
    begin = at += added->text.size();
  }
  rules_->encode_ordinary(text.substr(begin), out);
  return out;
}

std::vector<int64_t> Tokenizer::encode_ordinary(std::string_view text) const {
  std::vector<int64_t> out;
  rules_->encode_ordinary(text, out);
  return out;
}

std::string Tokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (int64_t token : tokens) {
    const std::string* bytes = rules_->bpe.bytes(token);
    if (!bytes) {
      raise<ValueError>("[Tokenizer] {} is no token; the vocabulary has {}", token,
                        rules_->bpe.size());
    }
    text += *bytes;
  }
  return text;
}

int64_t Tokenizer::vocabulary_size() const { return rules_->bpe.size(); }

int64_t Tokenizer::token(std::string_view bytes) const {
  for (const Added& added : rules_->added) {
    if (added.text == bytes) return added.token;
  }
  return rules_->bpe.find(bytes).value_or(-1);
}

}  // namespace capstan::data
