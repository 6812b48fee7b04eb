#include "control/guest_path.h"

#include <algorithm>
#include <vector>

namespace caisson::control {
namespace {

constexpr std::size_t kNameBytesMax = 255;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

std::unexpected<Error> climbs(std::string_view field) {
  return std::unexpected(Error{Errc::Denied,
                               std::string(field) +
                                   ": holds '..'; name the path from the workspace or from the "
                                   "root, without it",
                               0, std::string(field)});
}

}  // namespace

Result<std::string> guest_path(std::string_view text, std::string_view base,
                               std::string_view field) {
  const auto wrong = [&](std::string_view why) {
    return bad_field(std::string(field), std::string(field) + ": " + std::string(why));
  };
  if (text.empty()) return wrong("is empty; want a path inside the sandbox");
  if (text.size() > kPathBytesMax) return wrong("is longer than 4000 bytes");
  if (std::ranges::any_of(text, is_control)) return wrong("holds a NUL or control character");
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    if (part.size() > kNameBytesMax) return wrong("holds a name longer than 255 bytes");
    if (part == "..") return climbs(field);
    parts.push_back(part);
  }
  std::string out = text.front() == '/' ? std::string() : std::string(base);
  if (out == "/") out.clear();
  for (const std::string_view part : parts) out.append("/").append(part);
  if (out.size() > kPathBytesMax) return wrong("is longer than 4000 bytes");
  return out.empty() ? std::string("/") : out;
}

}  // namespace caisson::control
