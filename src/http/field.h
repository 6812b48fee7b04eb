// http/field.h — one header field; apart from the rest because the blocking client needs no Asio.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace caisson::http {

struct Field {
  std::string name;  // as sent
  std::string value;
};

// Names compare without case, in ASCII only: a locale must not decide what a header means.
[[nodiscard]] bool same_name(std::string_view left, std::string_view right) noexcept;

// Whether a comma-separated list holds `token`, in any case: "keep-alive, Upgrade".
[[nodiscard]] bool has_token(std::string_view list, std::string_view token) noexcept;

// A name made of token characters, and a value without CR, LF, NUL or another control character.
[[nodiscard]] bool is_field_name(std::string_view name) noexcept;
[[nodiscard]] bool is_field_value(std::string_view value) noexcept;

// `text` without spaces and tabs at either end.
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;

}  // namespace caisson::http
