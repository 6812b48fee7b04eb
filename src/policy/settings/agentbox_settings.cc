#include "policy/settings/agentbox_settings.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/host_name.h"
#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

using namespace setting;  // NOLINT(google-build-using-namespace): the words of this file

// In this order: a session shows them so.
constexpr std::array<std::string_view, 8> kHosts = {
    "pypi.org",   "files.pythonhosted.org",    "registry.npmjs.org",
    "github.com", "raw.githubusercontent.com", "objects.githubusercontent.com",
    "crates.io",  "static.crates.io",
};

// GRPC_PORT, SANDBOX_RUNTIME, STORAGE_PATH and SIGNING_KEY mean more than a value.
constexpr std::array<AgentboxVariable, 4> kVariables = {{
    {"SANDBOX_IMAGE", "agentbox.image"},
    {"SESSION_TIMEOUT", "agentbox.session_timeout_seconds"},
    {"PROXY_HOST", "agentbox.proxy_host"},
    {"PROXY_PORT", "agentbox.proxy_port"},
}};

constexpr std::size_t kUrlBytesMax = 1024;
constexpr std::size_t kIndexAddressesMax = 8;

}  // namespace

AgentboxSettings::AgentboxSettings() {
  for (const std::string_view host : kHosts) allowed_hosts.emplace_back(host);
}

Result<AgentboxListen> read_grpc_listen(const YamlNode& node, std::string_view path) {
  const std::string text = TRY(read_text(node, path, kUnixPathBytesMax + 16));
  if (text.empty() || text == "off") return AgentboxListen{std::nullopt, !text.empty()};
  return AgentboxListen{TRY(placed(node, path, parse_listen_address(text))), false};
}

Result<std::vector<std::string>> read_allowed_hosts(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kAllowedHostsMax));
  std::vector<std::string> out;
  for (const YamlNode& item : node.items) {
    std::string text = TRY(read_text(item, path, 300));
    if (text != "localhost") TRY(placed(item, path, canonical_rule_domain(text)));
    out.push_back(std::move(text));
  }
  if (out.empty())
    return wrong(node, path, "want at least one name; [localhost] is the list that allows nothing");
  return out;
}

Result<std::vector<std::string>> read_web_origins(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kWebOriginsMax));
  std::vector<std::string> out;
  for (const YamlNode& item : node.items) {
    const std::string text = TRY(read_text(item, path, 300));
    out.push_back(TRY(placed(item, path, parse_origin(text))));
  }
  return out;
}

Result<std::string> read_proxy_host(const YamlNode& node, std::string_view path) {
  std::string text = TRY(read_text(node, path, 253));
  if (text.empty() || text == "localhost") return text.empty() ? text : "127.0.0.1";
  in_addr four{};
  in6_addr six{};
  // The proxy is inside, on the guest's own loopback, whatever address another one had outside.
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1 ||
      ::inet_pton(AF_INET6, text.c_str(), &six) == 1)
    return "127.0.0.1";
  std::string name = TRY(placed(node, path, canonical_rule_domain(text)));
  if (name.starts_with('*')) return wrong(node, path, "want one name, not all of a domain");
  return name;
}

Result<std::string> read_index_url(const YamlNode& node, std::string_view path) {
  std::string text = TRY(read_text(node, path, kUrlBytesMax));
  if (text.empty()) return text;
  const bool known = text.starts_with("https://") || text.starts_with("http://");
  const bool plain = std::ranges::all_of(text, [](char c) {
    return c > ' ' && c != 0x7f && c != '"' && c != '\'' && c != '\\' && c != '@';
  });
  if (!known || !plain)
    return wrong(node, path,
                 fmt::format("want http(s)://host[:port]/path without a password, found {}",
                             in_quotes(text)));
  return text;
}

Result<std::vector<std::string>> read_index_addresses(const YamlNode& node, std::string_view path) {
  TRY(require_list(node, path, kIndexAddressesMax));
  std::vector<std::string> out;
  out.reserve(node.items.size());
  for (const YamlNode& item : node.items) out.push_back(TRY(read_text(item, path, 64)));
  return out;
}

std::span<const AgentboxVariable> agentbox_variables() noexcept { return kVariables; }

}  // namespace caisson::policy
