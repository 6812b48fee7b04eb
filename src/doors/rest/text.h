// doors/rest/text.h — bytes of a guest as text for JSON: UTF-8 that is always valid.
#pragma once

#include <string>
#include <string_view>

namespace caisson::rest {

// Each byte that is not part of valid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string valid_utf8(std::string_view bytes);
// At most `bytes_max` bytes, never half a character.
[[nodiscard]] std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) noexcept;

// For a header: every byte but letters, digits and "-._~" as %XX (RFC 8187).
[[nodiscard]] std::string percent_encode(std::string_view text);

}  // namespace caisson::rest
