// doors/rest/document/document.h — the contract as bytes of the program, made from
// api/openapi.yaml by api/embed.py when the program is built.
#pragma once

#include <string_view>

namespace caisson::rest {

[[nodiscard]] std::string_view openapi_json() noexcept;
[[nodiscard]] std::string_view docs_html() noexcept;
// The page's Content-Security-Policy: nothing but its one style sheet, by its hash.
[[nodiscard]] std::string_view docs_csp() noexcept;

}  // namespace caisson::rest
