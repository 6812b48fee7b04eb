#include "image/digest.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>

namespace caisson::image {

namespace {

constexpr std::size_t kSha256Hex = 64;
constexpr std::size_t kSha512Hex = 128;
constexpr std::size_t kShownBytesMax = 160;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string_view to_string(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::Sha512 ? "sha512" : "sha256";
}

Result<Digest> Digest::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view hex = colon == text.npos ? std::string_view() : text.substr(colon + 1);
  if (colon == text.npos || (name != "sha256" && name != "sha512")) {
    return bad_field("digest", fmt::format("'{}' is not a digest: want sha256:<64 hex digits> or "
                                           "sha512:<128 hex digits>",
                                           text.substr(0, kShownBytesMax)));
  }
  const std::size_t want = name == "sha512" ? kSha512Hex : kSha256Hex;
  if (hex.size() != want || !is_hex(hex)) {
    return bad_field("digest", fmt::format("'{}' is not a digest: {} has {} lower-case hex digits",
                                           text.substr(0, kShownBytesMax), name, want));
  }
  return Digest(std::string(text));
}

Algorithm Digest::algorithm() const noexcept {
  return text_.starts_with("sha512:") ? Algorithm::Sha512 : Algorithm::Sha256;
}

std::string_view Digest::hex() const noexcept {
  return empty() ? std::string_view() : std::string_view(text_).substr(7);
}

struct Hasher::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(md); }
};

Hasher::Hasher(Algorithm algorithm) : algorithm_(algorithm), context_(std::make_unique<Context>()) {
  CAISSON_ASSERT(context_->md != nullptr);
  const EVP_MD* kind = algorithm == Algorithm::Sha512 ? EVP_sha512() : EVP_sha256();
  CAISSON_ASSERT(EVP_DigestInit_ex(context_->md, kind, nullptr) == 1);
}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  CAISSON_ASSERT(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
}

void Hasher::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

Digest Hasher::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned size = 0;
  CAISSON_ASSERT(EVP_DigestFinal_ex(context_->md, raw.data(), &size) == 1);
  std::string text = std::string(to_string(algorithm_)) + ":";
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", raw[i]);
  return Digest(std::move(text));
}

Digest Hasher::peek() const {
  Hasher copy(algorithm_);
  CAISSON_ASSERT(EVP_MD_CTX_copy_ex(copy.context_->md, context_->md) == 1);
  return copy.finish();
}

Digest digest_of(std::string_view text, Algorithm algorithm) {
  Hasher hasher(algorithm);
  hasher.update(text);
  return hasher.finish();
}

}  // namespace caisson::image
