#include "base/id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace caisson {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::size_t kRandomBytes = 16;

}  // namespace

Result<SandboxId> SandboxId::random() {
  std::array<std::uint8_t, kRandomBytes> bytes{};
  const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
  if (got != static_cast<ssize_t>(bytes.size())) return sys_failure("getrandom", errno);
  std::string text;
  text.reserve(kLength);
  std::uint32_t buffer = 0;
  unsigned bits = 0;
  for (const std::uint8_t byte : bytes) {
    buffer = (buffer << 8U) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text.push_back(kAlphabet[(buffer >> bits) & 31U]);
    }
  }
  text.push_back(
      kAlphabet[(buffer << (5U - bits)) & 31U]);  // the last three bits, padded with zeros
  CAISSON_ASSERT(text.size() == kLength);
  return SandboxId(std::move(text));
}

Result<SandboxId> SandboxId::parse(std::string_view text) {
  if (text.size() != kLength || text.find_first_not_of(kAlphabet) != std::string_view::npos) {
    return failure(Errc::InvalidArgument, "sandbox id: want 26 characters of a-z and 2-7, got " +
                                              std::to_string(text.size()) + " characters");
  }
  return SandboxId(std::string(text));
}

}  // namespace caisson
