#include "doors/rest/document/document.h"

// NOLINTBEGIN(readability-identifier-naming): the names are the assembler's.
extern "C" {
extern const char caisson_openapi_begin[];
extern const char caisson_openapi_end[];
extern const char caisson_docs_begin[];
extern const char caisson_docs_end[];
extern const char caisson_docs_csp_begin[];
extern const char caisson_docs_csp_end[];
}
// NOLINTEND(readability-identifier-naming)

namespace caisson::rest {

std::string_view openapi_json() noexcept { return {caisson_openapi_begin, caisson_openapi_end}; }
std::string_view docs_html() noexcept { return {caisson_docs_begin, caisson_docs_end}; }
std::string_view docs_csp() noexcept { return {caisson_docs_csp_begin, caisson_docs_csp_end}; }

}  // namespace caisson::rest
