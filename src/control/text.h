// control/text.h — bytes from inside a sandbox, made fit for a JSON document.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::control {

[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;
// Each byte that is not part of valid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string to_utf8(std::string_view bytes);
// At most `bytes_max`, not cut inside a character; valid UTF-8.
[[nodiscard]] std::string cut_text(std::string_view bytes, std::size_t bytes_max);

[[nodiscard]] std::string to_base64(std::string_view bytes);
// Strict: the padding is there, and nothing else than the alphabet.
[[nodiscard]] Result<std::string> from_base64(std::string_view text);

}  // namespace caisson::control
