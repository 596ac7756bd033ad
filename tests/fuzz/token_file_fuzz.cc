#include "data/token_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  return capstan::testing::fuzz_file(bytes, size, [](const std::string& path) {
    const capstan::data::TokenDataset set(path, {.context = 3, .stride = 1, .vocabulary = 60'000});
    for (int64_t i = 0; i < set.size(); ++i) set.batch({&i, 1});
  });
}
