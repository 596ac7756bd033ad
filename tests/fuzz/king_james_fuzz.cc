#include "data/king_james.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  return capstan::testing::fuzz_file(
      bytes, size, [](const std::string& path) { capstan::data::king_james(path); });
}
