// Sha256 over OpenSSL's libcrypto, which uses the processor's SHA instructions where it has them.
#include "core/sha256.h"

#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/raise.h"

namespace capstan {
namespace {

void check(int ok, const char* call) {
  if (ok != 1) raise<Error>("[sha256] libcrypto's {} failed", call);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  check(context_ != nullptr, "EVP_MD_CTX_new");
  check(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr), "EVP_DigestInit_ex");
}

void Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

std::string Sha256::hex() const {
  const Sha256 copy;  // closing a digest ends it, so close a copy
  unsigned char digest[32];
  check(EVP_MD_CTX_copy_ex(copy.context_.get(), context_.get()), "EVP_MD_CTX_copy_ex");
  check(EVP_DigestFinal_ex(copy.context_.get(), digest, nullptr), "EVP_DigestFinal_ex");
  std::string text;
  for (unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 sum;
  sum.update(bytes);
  return sum.hex();
}

std::string sha256_of_file(const std::string& path, const std::function<void(int64_t)>& after) {
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) raise<IoError>("[sha256] cannot read {}: {}", path, error.message());
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(1 << 20);
  Sha256 sum;
  for (int64_t rest = size; rest > 0;) {
    const int64_t count = std::min(rest, std::ssize(bytes));
    if (!file.read(bytes.data(), count)) {
      raise<IoError>("[sha256] cannot read {}: {}", path, std::strerror(errno));
    }
    sum.update(std::as_bytes(std::span(bytes).first(count)));
    rest -= count;
    if (after) after(count);
  }
  return sum.hex();
}

}  // namespace capstan
