#include "store/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <cstring>

#include "base/result.h"

namespace caisson::store {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

int nibble(char digit) noexcept {
  const std::size_t at = kHexDigits.find(digit);
  return at == std::string_view::npos ? -1 : static_cast<int>(at);
}

}  // namespace

// The algorithm is fetched once: EVP_sha256() would look it up again for every row.
struct Hasher::Context {
  EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* state = EVP_MD_CTX_new();
  Context() { CAISSON_ASSERT(algorithm != nullptr && state != nullptr); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    EVP_MD_CTX_free(state);
    EVP_MD_free(algorithm);
  }
};

Hasher::Hasher() : context_(std::make_unique<Context>()) {}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

Digest Hasher::sha256(std::string_view bytes) {
  Digest digest{};
  unsigned size = 0;
  const bool done = EVP_DigestInit_ex(context_->state, context_->algorithm, nullptr) == 1 &&
                    EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()) == 1 &&
                    EVP_DigestFinal_ex(context_->state, digest.data(), &size) == 1;
  CAISSON_ASSERT(done && size == digest.size());
  return digest;
}

Digest sha256(std::string_view bytes) { return Hasher().sha256(bytes); }

Digest hmac_sha256(std::string_view key, std::string_view bytes) {
  Digest digest{};
  unsigned size = 0;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): OpenSSL takes unsigned bytes
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  const bool done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data, bytes.size(),
                         digest.data(), &size) != nullptr;
  CAISSON_ASSERT(done && size == digest.size());
  return digest;
}

bool equal_in_constant_time(const Digest& left, const Digest& right) noexcept {
  return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

std::string to_hex(const Digest& digest) {
  std::string hex;
  hex.reserve(2 * digest.size());
  for (const std::uint8_t byte : digest) {
    hex.push_back(kHexDigits[byte >> 4U]);
    hex.push_back(kHexDigits[byte & 15U]);
  }
  return hex;
}

std::optional<Digest> digest_from_hex(std::string_view hex) noexcept {
  Digest digest{};
  if (hex.size() != 2 * digest.size()) return std::nullopt;
  for (std::size_t at = 0; at < digest.size(); ++at) {
    const int high = nibble(hex[2 * at]);
    const int low = nibble(hex[2 * at + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    digest[at] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return digest;
}

std::string_view as_bytes(const Digest& digest) noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes are bytes
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

std::optional<Digest> digest_from_bytes(std::string_view bytes) noexcept {
  Digest digest{};
  if (bytes.size() != digest.size()) return std::nullopt;
  std::memcpy(digest.data(), bytes.data(), digest.size());
  return digest;
}

}  // namespace caisson::store
