#include "control/code.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/text.h"

namespace caisson::control {
namespace {

bool is_module_name(Language language, std::string_view name) {
  const auto fits = [language](char c) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '.';
    return word || (language == Language::JavaScript &&
                    std::string_view("@/-:").find(c) != std::string_view::npos);
  };
  return !name.empty() && name.size() <= kImportBytesMax && std::ranges::all_of(name, fits);
}

}  // namespace

std::string_view to_string(Language language) noexcept {
  return language == Language::Python ? "python" : "javascript";
}

Result<Language> parse_language(std::string_view text, std::string_view field) {
  if (text == "python") return Language::Python;
  if (text == "javascript") return Language::JavaScript;
  return bad_field(std::string(field),
                   fmt::format("{} is '{}': want python or javascript", field, cut_text(text, 64)));
}

Result<void> check_imports(Language language, const std::vector<std::string>& imports,
                           std::string_view field) {
  if (imports.size() > kImportsMax)
    return bad_field(std::string(field), fmt::format("{}: {} modules are too many, want at most {}",
                                                     field, imports.size(), kImportsMax));
  for (const std::string& name : imports) {
    if (is_module_name(language, name)) continue;
    return bad_field(std::string(field),
                     fmt::format("{} has '{}': want names of modules of at most {} bytes", field,
                                 cut_text(name, 64), kImportBytesMax));
  }
  return {};
}

Result<void> check_interpreters(const InterpreterWishes& wishes) {
  for (const auto& [language, wish] : wishes)
    TRY(check_imports(language, wish.imports,
                      fmt::format("interpreters.{}.imports", to_string(language))));
  return {};
}

}  // namespace caisson::control
