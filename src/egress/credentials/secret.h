// egress/credentials/secret.h — bytes that nobody but their user may see: in memory that is locked
// against swapping, left out of core dumps, and overwritten when it is given back. A Secret does
// not print and does not copy; who needs a second one says clone().
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::egress {

inline constexpr std::size_t kSecretBytesMax = std::size_t{8} * 1024;
// Locked for all secrets of the process together, private keys included.
inline constexpr std::size_t kLockedBytesMax = std::size_t{4} << 20U;

class Secret {
 public:
  // TooLarge beyond kSecretBytesMax, Exhausted when the locked memory is used up, Unsupported where
  // this process may lock none (RLIMIT_MEMLOCK): we do not keep secrets in memory that is not.
  [[nodiscard]] static Result<Secret> copy_of(std::string_view bytes);
  [[nodiscard]] static Result<Secret> of_size(std::size_t size);  // zeros, to be filled

  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  [[nodiscard]] Result<Secret> clone() const { return copy_of(expose()); }

  [[nodiscard]] std::string_view expose() const noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<char> fill() noexcept { return {data_, size_}; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void cut(std::size_t size) noexcept;  // to fewer bytes; the rest is overwritten

  // In a time that depends on the sizes only.
  [[nodiscard]] bool equals(std::string_view other) const noexcept;

 private:
  Secret(char* data, std::size_t size) noexcept : data_(data), size_(size) {}
  void drop() noexcept;

  char* data_ = nullptr;
  std::size_t size_ = 0;
};

// Puts the process's locked memory in place, before anything that makes keys; a second call does
// nothing.
[[nodiscard]] Result<void> lock_secret_memory();

}  // namespace caisson::egress
