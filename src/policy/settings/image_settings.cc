#include "policy/settings/image_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

using namespace setting;  // NOLINT(google-build-using-namespace): the words of this file

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == ':' ||
         c == '[' || c == ']';
}

Result<std::string> check_registry(const YamlNode& node, std::string_view path, std::string text) {
  if (!text.empty() && text.size() <= kRegistryBytesMax &&
      std::ranges::all_of(text, is_host_character))
    return text;
  return wrong(node, path,
               fmt::format("want a registry as registry.example or registry.example:5000, in lower "
                           "case, found {}",
                           in_quotes(text)));
}

// Clear text only where images.insecure says so; that list is what the puller asks.
Result<std::string> read_mirror(const YamlNode& node, std::string_view path) {
  std::string text = TRY(read_text(node, path, kRegistryBytesMax));
  const std::string_view scheme = text.starts_with("https://")  ? "https://"
                                  : text.starts_with("http://") ? "http://"
                                                                : "";
  const std::string_view rest = std::string_view(text).substr(scheme.size());
  const std::string_view host = rest.substr(0, rest.find('/'));
  const bool plain = std::ranges::none_of(text, [](unsigned char c) {
    return c <= ' ' || c >= 0x7f || c == '@' || c == '?' || c == '#' || c == '"' || c == '\\';
  });
  if (!scheme.empty() && !host.empty() && plain && std::ranges::all_of(host, is_host_character))
    return text;
  return wrong(node, path,
               fmt::format("want a mirror as https://mirror.example, found {}", in_quotes(text)));
}

}  // namespace

Result<RegistryMirrors> read_mirrors(const YamlNode& node, std::string_view path) {
  if (node.at.line == 0) return wrong(node, path, "stands in the file only");
  RegistryMirrors out;
  if (node.kind == YamlNode::Kind::Null) return out;
  if (node.kind != YamlNode::Kind::Mapping) return wrong_type(node, path, "a mapping");
  if (node.keys.size() > kRegistriesMax)
    return wrong(node, path, fmt::format("more than {} registries", kRegistriesMax));
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    YamlNode at;
    at.at = node.keys[i].at;
    const std::string registry = TRY(check_registry(at, path, node.keys[i].name));
    const std::string full = fmt::format("{}.{}", path, registry);
    TRY(require_list(node.items[i], full, kMirrorsMax));
    for (const YamlNode& item : node.items[i].items)
      out[registry].push_back(TRY(read_mirror(item, full)));
  }
  return out;
}

Result<std::vector<std::string>> read_registries(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kRegistriesMax));
  std::vector<std::string> out;
  for (const YamlNode& item : node.items) {
    std::string text = TRY(read_text(item, path, kRegistryBytesMax));
    out.push_back(TRY(check_registry(item, path, std::move(text))));
  }
  return out;
}

std::string print_mirrors(const RegistryMirrors& mirrors) {
  if (mirrors.empty()) return "{}";
  std::string out;
  for (const auto& [registry, urls] : mirrors)
    out += fmt::format("\n    {}: {}", print_text(registry), print_list(urls, 6));
  return out;
}

}  // namespace caisson::policy
