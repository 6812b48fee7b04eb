#include "doors/mcp/output.h"

#include <fmt/format.h>

#include "doors/shared/text.h"

namespace caisson::mcp {
namespace {

// Not in the middle of a character.
std::string_view last_bytes(std::string_view bytes, std::size_t most) {
  if (bytes.size() <= most) return bytes;
  bytes.remove_prefix(bytes.size() - most);
  constexpr std::size_t kCharacterBytesMax = 4;
  for (std::size_t i = 0; i < kCharacterBytesMax && !bytes.empty(); ++i) {
    if ((static_cast<unsigned char>(bytes.front()) & 0xC0U) != 0x80U) break;
    bytes.remove_prefix(1);
  }
  return bytes;
}

}  // namespace

Shown show_output(std::string_view bytes, std::uint64_t lost, std::size_t bytes_max) {
  if (lost == 0 && bytes.size() <= bytes_max) return {doors::lossy_utf8(bytes), 0};
  const std::size_t half = bytes_max / 2;
  const std::string_view head = bytes.substr(0, half);
  const std::string_view tail = last_bytes(bytes.substr(head.size()), half);
  Shown out;
  out.omitted = bytes.size() - head.size() - tail.size() + lost;
  out.text = fmt::format(
      "{}\n[… {} bytes left out here; write the output to a file and read or search that …]\n{}",
      doors::lossy_utf8(head), out.omitted, doors::lossy_utf8(tail));
  return out;
}

}  // namespace caisson::mcp
