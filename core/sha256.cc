// Sha256 over OpenSSL's libcrypto, which uses the processor's SHA instructions where it has them.
#include "core/sha256.h"

#include <openssl/evp.h>

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

}  // namespace capstan
