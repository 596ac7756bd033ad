#include "data/token_file.h"

#include <cstring>

#include "core/atomic_file.h"
#include "core/raise.h"
#include "data/bytes.h"
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

void append(std::string& bytes, const char* operation, const std::string& name, int64_t token,
            int64_t token_bytes) {
  if (token < 0 || token >> (8 * token_bytes) != 0) {
    raise<ValueError>("[{}] {}: token {} does not fit into {} bytes", operation, name, token,
                      token_bytes);
  }
  bytes.append(reinterpret_cast<const char*>(&token), static_cast<size_t>(token_bytes));
}

}  // namespace

TokenDataset::TokenDataset(const std::string& path, const TokenOptions& options)
    : options_(checked(options)), name_(path) {
  const auto file = std::make_shared<const MappedFile>(path);
  owner_ = file;
  bytes_ = file->bytes();
  const auto bytes = std::ssize(bytes_);
  if (bytes % options_.token_bytes != 0) {
    raise<IoError>("[TokenDataset] {}: expected tokens of {} bytes, found {} bytes: {} too many",
                   path, options_.token_bytes, bytes, bytes % options_.token_bytes);
  }
}

TokenDataset::TokenDataset(std::span<const int64_t> tokens, const TokenOptions& options)
    : options_(checked(options)), name_("tokens in memory") {
  const auto bytes = std::make_shared<std::string>();
  bytes->reserve(tokens.size() * static_cast<size_t>(options_.token_bytes));
  for (int64_t token : tokens) append(*bytes, "TokenDataset", name_, token, options_.token_bytes);
  owner_ = bytes;
  bytes_ = std::as_bytes(std::span(*bytes));
}

TokenDataset TokenDataset::part(int64_t begin, int64_t end) const {
  if (begin < 0 || begin > end || end > tokens()) {
    raise<ValueError>("[TokenDataset] {}: a part must lie in [0, {}], got {} to {}", name_,
                      tokens(), begin, end);
  }
  TokenDataset part = *this;
  part.bytes_ = bytes_.subspan(static_cast<size_t>(begin * options_.token_bytes),
                               static_cast<size_t>((end - begin) * options_.token_bytes));
  return part;
}

int64_t TokenDataset::size() const {
  const int64_t begins = tokens() - options_.context;  // places with a token after the sample
  return begins < 1 ? 0 : (begins - 1) / options_.stride + 1;
}

int64_t TokenDataset::token(int64_t position) const {
  uint32_t token = 0;  // little endian, so the upper bytes may stay zero
  std::memcpy(&token, bytes_.data() + position * options_.token_bytes,
              static_cast<size_t>(options_.token_bytes));
  if (options_.vocabulary > 0 && token >= options_.vocabulary) {
    raise<IoError>("[TokenDataset] {}: tokens must be below {}, token {} is {}", name_,
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
    std::string bytes;
    for (int64_t token : tokens) {
      bytes.clear();
      append(bytes, "write_tokens", path, token, token_bytes);
      out << bytes;
    }
  });
}

}  // namespace capstan::data
