#include <filesystem>

#include "data/cifar.h"
#include "tests/fuzz/fuzz.h"

// The reader wants a folder, so the input is linked under the name that it looks for.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  return capstan::testing::fuzz_file(bytes, size, [](const std::string& path) {
    namespace fs = std::filesystem;
    const std::string folder = path + "_folder";
    fs::create_directory(folder);
    fs::create_symlink(path, folder + "/test.bin");
    const auto remove = [&] { fs::remove_all(folder); };
    try {
      capstan::data::cifar100(folder, capstan::data::Split::test);
    } catch (...) {
      remove();
      throw;
    }
    remove();
  });
}
