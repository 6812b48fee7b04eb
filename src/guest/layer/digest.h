// guest/layer/digest.h — SHA-256 of a stream, as fast as this processor has it.
#pragma once

// The low-level calls are the fast way in: no provider to load, nothing to allocate.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace caisson::layer {

enum class Hashing : std::uint8_t { Wanted, Unwanted };

class Digest {
 public:
  Digest() { ::SHA256_Init(&state_); }
  void add(std::span<const std::byte> bytes) {
    ::SHA256_Update(&state_, bytes.data(), bytes.size());
  }
  [[nodiscard]] std::array<std::uint8_t, 32> finish() {
    std::array<std::uint8_t, 32> result{};
    ::SHA256_Final(result.data(), &state_);
    return result;
  }

 private:
  SHA256_CTX state_{};
};

}  // namespace caisson::layer
