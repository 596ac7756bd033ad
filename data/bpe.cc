// encode() keeps a word as a list of tokens and a queue of the pairs that could be merged, so that
// a word of n bytes takes n log n steps, not n * n.
#include "data/bpe.h"

#include <queue>
#include <tuple>

#include "core/raise.h"

namespace capstan::data {
namespace {

constexpr bool printable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// The byte for each of the characters U+0000 to U+0143, -1 where there is none.
constexpr int kCharacters = 256 + 68;
constexpr std::array<int, kCharacters> kByteOf = [] {
  std::array<int, kCharacters> bytes{};
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) bytes[printable(byte) ? byte : next++] = byte;
  return bytes;
}();

constexpr uint64_t key_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

}  // namespace

std::optional<std::string> bytes_of_written(std::string_view written) {
  std::string bytes;
  for (size_t i = 0; i < written.size(); ++i) {
    int code = static_cast<uint8_t>(written[i]);
    if (code >= 0x80) {  // all characters that count take one or two bytes of UTF-8
      if (code < 0xc2 || code > 0xdf || i + 1 == written.size()) return std::nullopt;
      const int second = static_cast<uint8_t>(written[++i]);
      if ((second & 0xc0) != 0x80) return std::nullopt;
      code = (code & 0x1f) << 6 | (second & 0x3f);
    }
    if (code >= kCharacters || kByteOf[static_cast<size_t>(code)] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[static_cast<size_t>(code)]);
  }
  return bytes;
}

void Bpe::add_token(const std::string& written, int64_t token) {
  const auto bytes = bytes_of_written(written);
  if (!bytes) {
    raise<ValueError>("[Bpe] token {}, \"{}\", is not in the byte-level alphabet", token, written);
  }
  add(*bytes, token);
  token_of_.emplace(*bytes, token);
}

void Bpe::add_byte(char byte, int64_t token) {
  const std::string bytes(1, byte);
  add(bytes, token);
  token_of_.emplace(bytes, token);
}

void Bpe::add_literal(const std::string& text, int64_t token) {
  const std::string* known = bytes(token);
  if (!known || *known != text) add(text, token);
}

void Bpe::add(const std::string& bytes, int64_t token) {
  if (token < 0 || token > INT32_MAX) {
    raise<ValueError>("[Bpe] tokens must be in [0, 2^31), \"{}\" is {}", bytes, token);
  }
  const auto [place, added] = bytes_of_.emplace(token, bytes);
  if (!added) {
    raise<ValueError>("[Bpe] \"{}\" and \"{}\" are both token {}", place->second, bytes, token);
  }
  size_ = std::max(size_, token + 1);
}

void Bpe::add_merge(const std::string& left, const std::string& right) {
  int64_t tokens[3];
  const std::string written[3] = {left, right, left + right};
  for (int i = 0; i < 3; ++i) {
    const auto bytes = bytes_of_written(written[i]);
    const auto token = bytes ? find(*bytes) : std::nullopt;
    if (!token || bytes->empty()) {
      raise<ValueError>("[Bpe] merge {} of \"{}\" and \"{}\": \"{}\" is no token", ranks_, left,
                        right, written[i]);
    }
    tokens[i] = *token;
  }
  merges_[key_of(tokens[0], tokens[1])] = {ranks_++, tokens[2]};
}

void Bpe::finish() {
  for (int byte = 0; byte < 256; ++byte) {
    const auto token = find(std::string(1, static_cast<char>(byte)));
    if (!token) {
      raise<ValueError>("[Bpe] byte 0x{:02x} is no token; a byte-level vocabulary has all 256",
                        byte);
    }
    byte_tokens_[static_cast<size_t>(byte)] = *token;
  }
}

const std::string* Bpe::bytes(int64_t token) const {
  const auto found = bytes_of_.find(token);
  return found == bytes_of_.end() ? nullptr : &found->second;
}

std::optional<int64_t> Bpe::find(std::string_view bytes) const {
  const auto found = token_of_.find(std::string(bytes));
  return found == token_of_.end() ? std::nullopt : std::optional(found->second);
}

const Bpe::Merge* Bpe::merge_of(int64_t left, int64_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::encode(std::string_view word, std::vector<int64_t>& out) const {
  if (whole_words_) {
    if (const auto token = find(word)) return out.push_back(*token);
  }
  if (merges_.empty()) {
    for (char byte : word) out.push_back(byte_tokens_[static_cast<uint8_t>(byte)]);
    return;
  }
  struct Symbol {
    int64_t token;  // -1: merged into the one before
    int64_t previous, next;
  };
  std::vector<Symbol> symbols;
  for (int64_t i = 0; i < std::ssize(word); ++i) {
    symbols.push_back(
        {byte_tokens_[static_cast<uint8_t>(word[static_cast<size_t>(i)])], i - 1, i + 1});
  }
  const int64_t end = std::ssize(symbols);
  const auto at = [&](int64_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };

  // Rank and place of a pair, and its tokens, by which one that has changed since is known.
  using Pair = std::tuple<int64_t, int64_t, int64_t, int64_t>;
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> queue;
  const auto consider = [&](int64_t i) {
    if (i < 0 || at(i).next >= end) return;
    const int64_t left = at(i).token, right = at(at(i).next).token;
    if (const Merge* merge = merge_of(left, right)) queue.emplace(merge->rank, i, left, right);
  };
  for (int64_t i = 0; i < end; ++i) consider(i);
  while (!queue.empty()) {
    const auto [rank, i, left, right] = queue.top();
    queue.pop();
    const int64_t next = at(i).next;
    if (at(i).token != left || next >= end || at(next).token != right) continue;
    at(i) = {merge_of(left, right)->token, at(i).previous, at(next).next};
    at(next).token = -1;
    if (at(i).next < end) at(at(i).next).previous = i;
    consider(at(i).previous);
    consider(i);
  }
  for (int64_t i = 0; i < end; i = at(i).next) out.push_back(at(i).token);
}

}  // namespace capstan::data
