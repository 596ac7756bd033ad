#include <algorithm>
#include <cstdlib>

#include "data/tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace {

std::string without_spaces(std::string text) {
  std::erase(text, ' ');
  return text;
}

}  // namespace

// The input is a tokenizer.json; one that is read has to give back what it encodes,
// but for the spaces that its "add_prefix_space" may put before words.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  return capstan::testing::fuzz_file(bytes, size, [&](const std::string& path) {
    const auto tokenizer = capstan::data::Tokenizer::from_json(path);
    const std::string text(reinterpret_cast<const char*>(bytes), std::min<size_t>(size, 200));
    if (without_spaces(tokenizer.decode(tokenizer.encode(text))) != without_spaces(text))
      std::abort();
  });
}
