// Defines Sha256, the checksum that names weights and guards checkpoint files (FIPS 180-4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace capstan {

/// The SHA-256 of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();

  void update(std::span<const std::byte> bytes);
  /// 64 lower-case hexadecimal digits over everything so far; more may follow.
  std::string hex() const;

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

/// The SHA-256 of `bytes` as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const std::byte> bytes);

/// The SHA-256 of a file, which is read piece by piece; `after(n)` is called when n more bytes have
/// been read. Throws IoError for what cannot be read as a file.
std::string sha256_of_file(const std::string& path, const std::function<void(int64_t)>& after = {});

}  // namespace capstan
