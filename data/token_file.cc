#include "data/token_file.h"

#include "core/atomic_file.h"
#include "core/raise.h"
#include "data/rows.h"

namespace capstan::data {
namespace {

void check_width(const char* operation, int64_t token_bytes) {
  if (token_bytes != 2 && token_bytes != 4) {
    raise<ValueError>("[{}] token_bytes must be 2 or 4, got {}", operation, token_bytes);
  }
}

TokenOptions checked(TokenOptions options) {
  check_width("TokenDataset", options.token_bytes);
  if (options.context < 1 || options.stride < 0 || options.vocabulary < 0) {
    raise<ValueError>(
        "[TokenDataset] context must be 1 or more, stride and vocabulary 0 or more, got {}, {} and "
        "{}",
        options.context, options.stride, options.vocabulary);
  }
  if (options.stride == 0) options.stride = options.context;
  return options;
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, const TokenOptions& options)
    : options_(checked(options)), file_(path) {
  const auto bytes = std::ssize(file_.bytes());
  if (bytes % options_.token_bytes != 0) {
    raise<IoError>("[TokenDataset] {}: expected tokens of {} bytes, found {} bytes: {} too many",
                   path, options_.token_bytes, bytes, bytes % options_.token_bytes);
  }
}

int64_t TokenDataset::size() const {
  const int64_t begins = tokens() - options_.context;  // places with a token after the sample
  return begins < 1 ? 0 : (begins - 1) / options_.stride + 1;
}

int64_t TokenDataset::token(int64_t position) const {
  uint32_t token = 0;  // little endian, so the upper bytes may stay zero
  std::memcpy(&token, file_.bytes().data() + position * options_.token_bytes,
              static_cast<size_t>(options_.token_bytes));
  if (options_.vocabulary > 0 && token >= options_.vocabulary) {
    raise<IoError>("[TokenDataset] {}: tokens must be below {}, token {} is {}", file_.path(),
                   options_.vocabulary, position, token);
  }
  return token;
}

Batch TokenDataset::batch(std::span<const int64_t> indices) const {
  check_indices("TokenDataset", indices, size());
  const Shape shape{std::ssize(indices), options_.context};
  Batch out{empty(shape, {.dtype = Dtype::int64}), empty(shape, {.dtype = Dtype::int64})};
  auto* input = out.inputs.mutable_data<int64_t>();
  auto* label = out.labels.mutable_data<int64_t>();
  for (int64_t index : indices) {
    const int64_t begin = index * options_.stride;
    for (int64_t i = begin; i < begin + options_.context; ++i) {
      *input++ = token(i);
      *label++ = token(i + 1);
    }
  }
  return out;
}

void write_tokens(const std::string& path, std::span<const int64_t> tokens, int64_t token_bytes) {
  check_width("write_tokens", token_bytes);
  write_atomically(path, [&](std::ostream& out) {
    for (int64_t token : tokens) {
      if (token < 0 || token >> (8 * token_bytes) != 0) {
        raise<ValueError>("[write_tokens] {}: token {} does not fit into {} bytes", path, token,
                          token_bytes);
      }
      out.write(reinterpret_cast<const char*>(&token), token_bytes);
    }
  });
}

}  // namespace capstan::data
