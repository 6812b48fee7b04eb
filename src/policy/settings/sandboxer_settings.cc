#include "policy/settings/sandboxer_settings.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "policy/host_name.h"
#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

constexpr std::size_t kVhostBytesMax = 200;  // a sandbox's label and a port stand before it

constexpr std::array<SandboxerVariable, 5> kVariables = {{
    {"SANDBOX_VHOST", "server.vhost"},
    {"SANDBOX_CPU", "sandboxer.cpu"},
    {"SANDBOX_MEMORY", "sandboxer.memory_mb", true},
    {"SANDBOX_STORAGE", "sandboxer.disk_mb", true},
    {"DEFAULT_PIDS_LIMIT", "sandboxer.processes"},
}};

std::unexpected<Error> no_vhost(std::string_view text, std::string_view why) {
  return failure(Errc::InvalidArgument,
                 fmt::format("{} {}; want a name such as sandbox.example.com, or its address as "
                             "browsers see it, such as http://localhost:8080",
                             in_quotes(text), why));
}

Result<std::string> vhost_name(std::string_view text, std::string_view whole) {
  if (text == "localhost") return std::string(text);
  auto name = canonical_rule_domain(text);
  if (!name || name->starts_with('*')) return no_vhost(whole, "has no name of a host");
  return *std::move(name);
}

}  // namespace

Result<Vhost> parse_vhost(std::string_view text) {
  Vhost vhost;
  if (text.empty()) return vhost;
  std::string_view rest = text;
  if (const auto colon = rest.find("://"); colon != std::string_view::npos) {
    vhost.scheme = rest.substr(0, colon);
    if (vhost.scheme != "http" && vhost.scheme != "https")
      return no_vhost(text, "has another scheme than http and https");
    rest.remove_prefix(colon + 3);
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (const auto colon = rest.rfind(':'); colon != std::string_view::npos) {
    const std::string_view port = rest.substr(colon + 1);
    const auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), vhost.port);
    if (wrong != std::errc() || end != port.data() + port.size() || vhost.port == 0)
      return no_vhost(text, "has no port behind its colon");
    rest = rest.substr(0, colon);
  }
  if (rest.size() > kVhostBytesMax) return no_vhost(text, "is too long");
  vhost.name = TRY(vhost_name(rest, text));
  if (vhost.port == (vhost.scheme == "http" ? 80 : 443)) vhost.port = 0;
  return vhost;
}

std::string authority_of(const Vhost& vhost) {
  return vhost.port == 0 ? vhost.name : fmt::format("{}:{}", vhost.name, vhost.port);
}

std::string to_string(const Vhost& vhost) {
  if (vhost.name.empty()) return {};
  return vhost.scheme + "://" + authority_of(vhost);
}

Result<Vhost> read_vhost(const YamlNode& node, std::string_view path) {
  const std::string text = TRY(setting::read_text(node, path, kVhostBytesMax + 20));
  return setting::placed(node, path, parse_vhost(text));
}

std::span<const SandboxerVariable> sandboxer_variables() noexcept { return kVariables; }

Result<std::string> megabytes_of(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(text.data(), end, number);
  std::string_view unit(at, static_cast<std::size_t>(end - at));
  if (unit.ends_with('b') || unit.ends_with('B')) unit.remove_suffix(1);
  constexpr std::string_view kUnits = "bkmgt";
  const char letter = unit.empty() ? 'b' : static_cast<char>(unit[0] | 0x20);
  const auto power = kUnits.find(letter);
  const double bytes =
      number * std::pow(1024.0, power == std::string_view::npos ? 0 : static_cast<double>(power));
  const double megabytes = bytes / 1024 / 1024;
  if (wrong != std::errc() || unit.size() > 1 || power == std::string_view::npos ||
      megabytes != std::floor(megabytes) || megabytes < 1 || megabytes > 1e12) {
    return failure(
        Errc::InvalidArgument,
        fmt::format("{} is no size in whole mebibytes; want such as 512m or 5g", in_quotes(text)));
  }
  return fmt::format("{:.0f}", megabytes);
}

}  // namespace caisson::policy
