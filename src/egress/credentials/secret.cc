#include "egress/credentials/secret.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace caisson::egress {

namespace {

constexpr std::size_t kSmallestBytes = 32;

// OpenSSL's secure heap: one arena between guard pages, locked, not dumped, cleared on free. Its
// own private keys live there too once it is there.
int begin_heap() {
  if (CRYPTO_secure_malloc_initialized() == 1) return 1;
  return CRYPTO_secure_malloc_init(kLockedBytesMax, kSmallestBytes);
}

}  // namespace

Result<void> lock_secret_memory() {
  static const int state = begin_heap();
  if (state == 1) return {};
  return failure(Errc::Unsupported,
                 fmt::format("cannot lock {} KiB of memory for secrets; raise the limit "
                             "(LimitMEMLOCK= of the service, ulimit -l)",
                             kLockedBytesMax / 1024));
}

Result<Secret> Secret::of_size(std::size_t size) {
  if (size > kSecretBytesMax) {
    return failure(Errc::TooLarge, fmt::format("a secret has at most {} bytes, this one has {}",
                                               kSecretBytesMax, size));
  }
  TRY(lock_secret_memory());
  void* data = OPENSSL_secure_zalloc(std::max<std::size_t>(size, 1));
  if (data == nullptr) {
    return failure(
        Errc::Exhausted,
        fmt::format("the {} KiB of locked memory for secrets are used up", kLockedBytesMax / 1024));
  }
  return Secret(static_cast<char*>(data), size);
}

Result<Secret> Secret::copy_of(std::string_view bytes) {
  Secret out = TRY(of_size(bytes.size()));
  std::ranges::copy(bytes, out.data_);
  return out;
}

Secret::Secret(Secret&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this == &other) return *this;
  drop();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Secret::~Secret() { drop(); }

void Secret::drop() noexcept {
  if (data_ != nullptr) OPENSSL_secure_clear_free(data_, std::max<std::size_t>(size_, 1));
  data_ = nullptr;
  size_ = 0;
}

void Secret::cut(std::size_t size) noexcept {
  if (size >= size_) return;
  OPENSSL_cleanse(data_ + size, size_ - size);
  size_ = size;
}

bool Secret::equals(std::string_view other) const noexcept {
  return other.size() == size_ && CRYPTO_memcmp(data_, other.data(), size_) == 0;
}

}  // namespace caisson::egress
