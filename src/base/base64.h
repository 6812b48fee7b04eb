// base/base64.h — bytes as letters, the standard alphabet with padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace caisson {

[[nodiscard]] std::string to_base64(std::string_view bytes);
// Nothing when it is not base64 with its padding, or spells its last byte in another way than
// to_base64().
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace caisson
