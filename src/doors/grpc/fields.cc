#include "doors/grpc/fields.h"

#include <cstdint>
#include <optional>

namespace caisson::grpc {
namespace {

std::optional<std::uint64_t> take_varint(std::string_view& bytes) noexcept {
  constexpr std::size_t kBytesMax = 10;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kBytesMax && i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= std::uint64_t{byte & 0x7FU} << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

// False: it cannot be read.
bool skip_value(std::uint64_t tag, std::string_view& bytes) noexcept {
  std::uint64_t size = 0;
  switch (tag & 7U) {
    case 0:
      return take_varint(bytes).has_value();
    case 1:
      size = 8;
      break;
    case 2: {
      const auto said = take_varint(bytes);
      if (!said) return false;
      size = *said;
      break;
    }
    case 3:  // a group begins, or ends: its fields stand in a row with all others
    case 4:
      break;
    case 5:
      size = 4;
      break;
    default:
      return false;
  }
  if (size > bytes.size()) return false;
  bytes.remove_prefix(static_cast<std::size_t>(size));
  return true;
}

}  // namespace

std::size_t count_fields(std::string_view message, std::size_t most) noexcept {
  std::size_t count = 0;
  while (count <= most) {
    const auto tag = take_varint(message);
    if (!tag) break;
    ++count;
    if (!skip_value(*tag, message)) break;
  }
  return count;
}

}  // namespace caisson::grpc
