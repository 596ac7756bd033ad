// Defines fuzz_file(), with which a fuzz target gives its input to a reader of files.
//
// A target passes if the reader returns or throws an Error of Capstan's, whatever the input;
// crashes, other exceptions, undefined behaviour, hangs and memory beyond all measure are findings.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "core/error.h"

namespace capstan::testing {

/// Runs `read(path)` on a file of these bytes.
template <class F>
int fuzz_file(const uint8_t* bytes, size_t size, F read) {
  static const std::string path = [] {
    std::string pattern = "/tmp/capstan_fuzz_XXXXXX";
    const int descriptor = ::mkstemp(pattern.data());
    if (descriptor < 0) std::abort();
    ::close(descriptor);
    static std::string kept = pattern;
    std::atexit([] { ::unlink(kept.c_str()); });
    return pattern;
  }();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes), size);
  try {
    read(path);
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace capstan::testing
