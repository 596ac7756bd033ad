#include <cstdlib>

#include "data/tokenizer.h"
#include "tests/fuzz/fuzz.h"

// The input is text for a sound tokenizer.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const auto tokenizer =
      capstan::data::Tokenizer::from_json("tests/data/testdata/tokenizer_llama.json");
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (tokenizer.decode(tokenizer.encode(text)) != text) std::abort();
  if (tokenizer.decode(tokenizer.encode_ordinary(text)) != text) std::abort();
  return 0;
}
