#include "data/lzw.h"

#include <cstdint>
#include <vector>

#include "core/raise.h"

namespace capstan::data {
namespace {

constexpr uint32_t kForget = 256;  // the code after which only the bytes are known
constexpr uint32_t kFewestBits = 9, kMostBits = 16;

/// Codes of a width that grows, the lowest bits first. Writers put eight codes of one width into as
/// many bytes as the width has bits; where the width changes, the rest of such a group is empty.
class CodeReader {
 public:
  explicit CodeReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint32_t bits() const { return bits_; }
  bool at_end() const { return at_ + bits_ > 8 * bytes_.size(); }
  uint32_t next() {
    uint32_t code = 0;
    for (uint32_t i = 0; i < bits_; ++i, ++at_) {
      code |= (std::to_integer<uint32_t>(bytes_[at_ / 8]) >> at_ % 8 & 1) << i;
    }
    return code;
  }
  void change(uint32_t bits) {
    const size_t group = 8 * size_t{bits_};
    at_ = begin_ += (at_ - begin_ + group - 1) / group * group;
    bits_ = bits;
  }

 private:
  std::span<const std::byte> bytes_;
  uint32_t bits_ = kFewestBits;
  size_t at_ = 0, begin_ = 0;  // in bits; begin_: where this width began
};

}  // namespace

std::string expand_lzw(std::span<const std::byte> codes, size_t most) {
  struct Text {
    size_t begin, size;  // where it stands in `out`
  };
  std::vector<Text> texts;  // of the codes from kForget + 1 on
  std::string out;
  Text before{0, 0};  // of the code before; size 0: there is none
  CodeReader reader(codes);
  const auto known = [&] { return static_cast<uint32_t>(kForget + 1 + texts.size()); };
  while (true) {
    if (reader.bits() < kMostBits && known() >= 1u << reader.bits()) {
      reader.change(reader.bits() + 1);
    }
    if (reader.at_end()) return out;
    const uint32_t code = reader.next();
    if (code == kForget) {
      reader.change(kFewestBits);
      texts.clear();
      before.size = 0;
      continue;
    }
    // The text that this code adds stands in `out` once its last byte, the next one, is written.
    const bool adds = before.size > 0 && known() < 1u << kMostBits;
    if (adds) texts.push_back({before.begin, before.size + 1});
    if (code >= known()) {
      raise<ValueError>("[expand_lzw] code {} stands for nothing, {} codes are known", code,
                        known());
    }
    const Text text = code < kForget ? Text{0, 1} : texts[code - kForget - 1];
    if (text.size > most - out.size()) {
      raise<ValueError>("[expand_lzw] expected {} bytes or less, found more", most);
    }
    before = {out.size(), text.size};
    if (code < kForget) {
      out += static_cast<char>(code);
    } else {
      // Byte by byte: the last one may be the first of these.
      for (size_t i = 0; i < text.size; ++i) out += out[text.begin + i];
    }
  }
}

}  // namespace capstan::data
