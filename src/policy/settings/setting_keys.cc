#include "policy/settings/setting_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "policy/settings/egress_settings.h"
#include "policy/settings/profiles.h"
#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

using namespace setting;  // NOLINT(google-build-using-namespace): the words of this file

constexpr std::array<std::string_view, 8> kTools = {"shell_exec",  "file_read",     "file_write",
                                                    "file_list",   "http_request",  "file_edit",
                                                    "file_search", "request_access"};
constexpr std::array<std::string_view, 5> kLevels = {"trace", "debug", "info", "warning", "error"};
constexpr std::array<std::string_view, 2> kFormats = {"text", "json"};

// What an agent types by mistake more than by malice. It stops accidents; the walls stop the rest.
constexpr std::array<std::string_view, 5> kBlocklist = {
    // rm -rf /, rm -r -f /*, rm --recursive /
    R"(\brm\s+(-\S+\s+)*(-[A-Za-z]*[rR]\S*|--recursive)\s+(-\S+\s+)*/(\*|\s|;|&|\||$))",
    R"((^|[;&|(]\s*)(sudo\s+)?(shutdown|reboot|halt|poweroff)(\s|;|&|$))",
    R"(:\s*\(\s*\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:)",  // the fork bomb everybody knows
    R"((^|[;&|(]\s*)(sudo\s+)?mkfs(\.\w+)?\s)",
    R"(\bdd\b.*\bof=/dev/(sd|hd|vd|xvd|nvme|mmcblk))",
};

constexpr std::string_view word(bool value) { return value ? "true" : "false"; }

// --- server ---

Result<void> read_listen(const YamlNode& node, std::string_view path, Settings& out) {
  YamlNode list;  // one address may stand without the brackets of a list
  list.kind = YamlNode::Kind::List;
  list.at = node.at;
  if (node.kind == YamlNode::Kind::Scalar) {
    list.items = {node};
  } else {
    TRY(require_list(node, path, kListenMax));
    list.items = node.items;
  }
  if (list.items.empty()) return wrong(node, path, "a server listens somewhere: name an address");
  std::vector<ListenAddress> listen;
  for (const YamlNode& item : list.items) {
    const std::string text = TRY(read_text(item, path, kUnixPathBytesMax + 16));
    const ListenAddress address = TRY(placed(item, path, parse_listen_address(text)));
    const bool twice = std::ranges::find(listen, address) != listen.end();
    if (twice && (address.port != 0 || address.family == ListenAddress::Family::Unix))
      return wrong(item, path, fmt::format("{} is named twice", in_quotes(text)));
    listen.push_back(address);
  }
  out.server.listen = std::move(listen);
  return {};
}

// The port alone, for the one address it can mean.
Result<void> read_port(const YamlNode& node, std::string_view path, Settings& out) {
  const std::int64_t port = TRY(read_whole(node, path, 0, 65535));
  const auto is_tcp = [](const ListenAddress& one) {
    return one.family != ListenAddress::Family::Unix;
  };
  if (std::ranges::count_if(out.server.listen, is_tcp) != 1) {
    return wrong(node, path,
                 "there is not exactly one address it could belong to; write the port in "
                 "server.listen");
  }
  std::ranges::find_if(out.server.listen, is_tcp)->port = static_cast<std::uint16_t>(port);
  return {};
}

Result<void> read_hosts(const YamlNode& node, std::string_view path, Settings& out) {
  TRY(require_list(node, path, kHostsMax));
  std::vector<std::string> hosts;
  for (const YamlNode& item : node.items) {
    const std::string text = TRY(read_text(item, path, 300));
    hosts.push_back(TRY(placed(item, path, parse_host_header(text))));
  }
  out.server.hosts = std::move(hosts);
  return {};
}

Result<void> read_origins(const YamlNode& node, std::string_view path, Settings& out) {
  TRY(require_list(node, path, kHostsMax));
  std::vector<std::string> origins;
  for (const YamlNode& item : node.items) {
    const std::string text = TRY(read_text(item, path, 300));
    origins.push_back(TRY(placed(item, path, parse_origin(text))));
  }
  out.server.origins = std::move(origins);
  return {};
}

Result<void> read_user(const YamlNode& node, std::string_view path, Settings& out) {
  const std::string text = TRY(read_text(node, path, kUserBytesMax));
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '-';
  };
  const bool begins = !text.empty() && !is_digit(text[0]) && text[0] != '-';
  if (!begins || !std::ranges::all_of(text, fits))
    return wrong(node, path, fmt::format("want the name of a user, found {}", in_quotes(text)));
  if (text == "root")
    return wrong(node, path, "the server has no privileges: name another user than root");
  out.server.user = text;
  return {};
}

std::string print_listen(const Settings& settings) {
  std::vector<std::string> texts;
  for (const ListenAddress& one : settings.server.listen) texts.push_back(to_string(one));
  return print_list(texts, 4);
}

// --- a table row's two functions, for the plain ones ---

#define CAISSON_SETTING(reader, member, printed)                                   \
  [](const YamlNode& node, std::string_view path, Settings& out) -> Result<void> { \
    out.member = TRY(reader);                                                      \
    return {};                                                                     \
  },                                                                               \
      [](const Settings& settings) -> std::string {                                \
        const auto& value = settings.member;                                       \
        return printed;                                                            \
      }

// A list comes after a second name of it only where that second name refines it: the environment
// is applied in this order.
constexpr std::array<SettingKey, 105> kKeys = {{
    {"server.listen", Reload::Restart, ',', read_listen, print_listen},
    {"server.port", Reload::Restart, '\0', read_port, nullptr},
    {"server.state_dir", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Refused), server.state_dir, print_text(value))},
    {"server.hosts", Reload::Restart, ',', read_hosts,
     [](const Settings& settings) { return print_list(settings.server.hosts, 4); }},
    {"server.origins", Reload::Restart, ',', read_origins,
     [](const Settings& settings) { return print_list(settings.server.origins, 4); }},
    {"server.behind_tls_proxy", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), server.behind_tls_proxy, std::string(word(value)))},
    {"server.vhost", Reload::Restart, '\0',
     CAISSON_SETTING(read_vhost(node, path), server.vhost, print_text(to_string(value)))},
    {"server.user", Reload::Restart, '\0', read_user,
     [](const Settings& settings) { return print_text(settings.server.user); }},
    {"sandbox.default_image", Reload::Live, '\0',
     CAISSON_SETTING(read_image(node, path), sandbox.default_image, print_text(value))},
    {"sandbox.max_concurrent", Reload::Live, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kConcurrentMax), sandbox.max_concurrent,
                     fmt::to_string(value))},
    {"sandbox.max_per_tenant", Reload::Live, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kConcurrentMax), sandbox.max_per_tenant,
                     fmt::to_string(value))},
    {"sandbox.timeout_seconds", Reload::Live, '\0',
     CAISSON_SETTING(read_life(node, path), sandbox.limits.timeout_seconds,
                     fmt::to_string(value.value_or(0)))},
    {"sandbox.idle_seconds", Reload::Live, '\0',
     CAISSON_SETTING(read_life(node, path), sandbox.idle_seconds, fmt::to_string(value))},
    {"sandbox.rest_seconds", Reload::Live, '\0',
     CAISSON_SETTING(read_life(node, path), sandbox.limits.rest_seconds,
                     fmt::to_string(value.value_or(0)))},
    {"sandbox.exec_timeout_seconds", Reload::Live, '\0',
     CAISSON_SETTING(read_fraction(node, path, 0.001, kExecSecondsMax),
                     sandbox.exec_timeout_seconds, fmt::to_string(value))},
    {"sandbox.resource_limits.cpu", Reload::Live, '\0',
     CAISSON_SETTING(read_cpu(node, path), sandbox.limits.cpu, fmt::to_string(value.value_or(0)))},
    {"sandbox.resource_limits.memory_mb", Reload::Live, '\0',
     CAISSON_SETTING(read_megabytes(node, path), sandbox.limits.memory_mb,
                     fmt::to_string(value.value_or(0)))},
    {"sandbox.resource_limits.processes", Reload::Live, '\0',
     CAISSON_SETTING(read_processes(node, path), sandbox.limits.processes,
                     fmt::to_string(value.value_or(0)))},
    {"sandbox.resource_limits.disk_mb", Reload::Live, '\0',
     CAISSON_SETTING(read_megabytes(node, path), sandbox.limits.disk_mb,
                     fmt::to_string(value.value_or(0)))},
    {"sandbox.resource_limits.timeout_seconds", Reload::Live, '\0',
     [](const YamlNode& node, std::string_view path, Settings& out) -> Result<void> {
       out.sandbox.limits.timeout_seconds = TRY(read_life(node, path));
       return {};
     },
     nullptr},
    {"sandbox.tools", Reload::Live, ',',
     CAISSON_SETTING(read_tools(node, path), sandbox.tools, print_list(value, 4))},
    {"sandbox.command_blocklist", Reload::Live, '\n',
     CAISSON_SETTING(read_patterns(node, path), sandbox.command_blocklist, print_list(value, 4))},
    {"sandbox.limits_max.cpu", Reload::Live, '\0',
     CAISSON_SETTING(read_fraction(node, path, 0, kCoresMax), sandbox.limits_max.cpu,
                     fmt::to_string(value))},
    {"sandbox.limits_max.memory_mb", Reload::Live, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kMegabytesMax), sandbox.limits_max.memory_mb,
                     fmt::to_string(value))},
    {"sandbox.limits_max.processes", Reload::Live, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kProcessesMax), sandbox.limits_max.processes,
                     fmt::to_string(value))},
    {"sandbox.limits_max.disk_mb", Reload::Live, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kMegabytesMax), sandbox.limits_max.disk_mb,
                     fmt::to_string(value))},
    {"sandbox.limits_max.timeout_seconds", Reload::Live, '\0',
     CAISSON_SETTING(read_life(node, path), sandbox.limits_max.timeout_seconds,
                     fmt::to_string(value))},
    {"profiles", Reload::Live, '\0',
     CAISSON_SETTING(read_profiles(node, path), profiles, print_profiles(value))},
    {"audit.database_path", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), audit.database_path,
                     print_text(value))},
    {"audit.anchor_path", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), audit.anchor_path, print_text(value))},
    {"audit.anchor_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kAnchorSecondsMax), audit.anchor_seconds,
                     fmt::to_string(value))},
    {"audit.tenant_mb_per_minute", Reload::Live, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kMegabytesMax), audit.tenant_mb_per_minute,
                     fmt::to_string(value))},
    {"logging.level", Reload::Live, '\0',
     [](const YamlNode& node, std::string_view path, Settings& out) -> Result<void> {
       out.logging.level = static_cast<LogLevel>(TRY(read_word(node, path, kLevels, Case::Any)));
       return {};
     },
     [](const Settings& settings) { return std::string(to_string(settings.logging.level)); }},
    {"logging.format", Reload::Live, '\0',
     [](const YamlNode& node, std::string_view path, Settings& out) -> Result<void> {
       out.logging.format = static_cast<LogFormat>(TRY(read_word(node, path, kFormats, Case::Any)));
       return {};
     },
     [](const Settings& settings) { return std::string(to_string(settings.logging.format)); }},
    {"auth.open", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), auth.open, std::string(word(value)))},
    {"egress.dns_servers", Reload::Restart, ',',
     CAISSON_SETTING(read_dns_servers(node, path), egress.dns_servers, print_addresses(value))},
    {"egress.trust_store", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), egress.trust_store, print_text(value))},
    {"egress.host_port", Reload::Restart, '\0',
     CAISSON_SETTING(read_host_port(node, path), egress.host_port,
                     print_text(value ? to_string(*value) : ""))},
    {"egress.jwt_secret_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), egress.jwt_secret_file,
                     print_text(value))},
    {"egress.secrets_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), egress.secrets_file,
                     print_text(value))},
    {"egress.secrets_key_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), egress.secrets_key_file,
                     print_text(value))},
    {"egress.gateway.openai.upstream", Reload::Restart, '\0',
     CAISSON_SETTING(read_upstream(node, path), egress.openai.upstream, print_text(value))},
    {"egress.gateway.openai.key_secret", Reload::Restart, '\0',
     CAISSON_SETTING(read_key_secret(node, path), egress.openai.key_secret, print_text(value))},
    {"egress.gateway.openai.path_prefix", Reload::Restart, '\0',
     CAISSON_SETTING(read_upstream_prefix(node, path), egress.openai.path_prefix,
                     print_text(value))},
    {"egress.gateway.anthropic.upstream", Reload::Restart, '\0',
     CAISSON_SETTING(read_upstream(node, path), egress.anthropic.upstream, print_text(value))},
    {"egress.gateway.anthropic.key_secret", Reload::Restart, '\0',
     CAISSON_SETTING(read_key_secret(node, path), egress.anthropic.key_secret, print_text(value))},
    {"egress.gateway.anthropic.path_prefix", Reload::Restart, '\0',
     CAISSON_SETTING(read_upstream_prefix(node, path), egress.anthropic.path_prefix,
                     print_text(value))},
    {"egress.prices", Reload::Restart, '\0',
     CAISSON_SETTING(read_prices(node, path), egress.prices, print_prices(value))},
    {"egress.budgets", Reload::Restart, '\0',
     CAISSON_SETTING(read_budgets(node, path), egress.budgets, print_budgets(value))},
    {"images.mirrors", Reload::Restart, '\0',
     CAISSON_SETTING(read_mirrors(node, path), images.mirrors, print_mirrors(value))},
    {"images.insecure", Reload::Restart, ',',
     CAISSON_SETTING(read_registries(node, path), images.insecure, print_list(value, 4))},
    {"images.credentials_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), images.credentials_file,
                     print_text(value))},
    {"images.allow_private", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), images.allow_private, std::string(word(value)))},
    {"images.pull_on_create", Reload::Live, '\0',
     CAISSON_SETTING(read_truth(node, path), images.pull_on_create, std::string(word(value)))},
    {"images.layer_bytes_max", Reload::Live, '\0',
     CAISSON_SETTING(read_whole(node, path, kLayerBytesMin, kLayerBytesMost),
                     images.layer_bytes_max, fmt::to_string(value))},
    {"daiv.api_key_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), daiv.api_key_file, print_text(value))},
    {"daiv.tenant", Reload::Restart, '\0',
     CAISSON_SETTING(read_text(node, path, kProfileNameBytesMax), daiv.tenant, print_text(value))},
    {"daiv.prefix", Reload::Restart, '\0',
     CAISSON_SETTING(read_door_prefix(node, path), daiv.prefix, print_text(value))},
    {"daiv.version", Reload::Restart, '\0',
     CAISSON_SETTING(read_text(node, path, kUserBytesMax), daiv.version, print_text(value))},
    {"daiv.run_uid", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kGuestIdMax), daiv.run_uid, fmt::to_string(value))},
    {"daiv.run_gid", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kGuestIdMax), daiv.run_gid, fmt::to_string(value))},
    {"daiv.command_timeout_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kDaivSecondsMax), daiv.command_timeout_seconds,
                     fmt::to_string(value))},
    {"daiv.lock_wait_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kDaivSecondsMax), daiv.lock_wait_seconds,
                     fmt::to_string(value))},
    {"daiv.close_removes", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), daiv.close_removes, std::string(word(value)))},
    {"daiv.prune_dirs", Reload::Restart, ',',
     CAISSON_SETTING(read_prune_dirs(node, path), daiv.prune_dirs, print_list(value, 4))},
    {"daiv.reaper", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), daiv.reaper, std::string(word(value)))},
    {"daiv.reaper_interval_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kDaivSecondsMax), daiv.reaper_interval_seconds,
                     fmt::to_string(value))},
    {"daiv.grace_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kDaivSecondsMax), daiv.grace_seconds,
                     fmt::to_string(value))},
    {"daiv.max_stopped", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kConcurrentMax), daiv.max_stopped,
                     fmt::to_string(value))},
    {"daiv.running_idle_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kDaivSecondsMax), daiv.running_idle_seconds,
                     fmt::to_string(value))},
    {"agentbox.listen", Reload::Restart, '\0',
     [](const YamlNode& node, std::string_view path, Settings& out) -> Result<void> {
       const AgentboxListen said = TRY(read_grpc_listen(node, path));
       out.agentbox.listen = said.address;
       out.agentbox.off = said.off;
       return {};
     },
     [](const Settings& settings) {
       if (settings.agentbox.off) return print_text("off");
       return print_text(settings.agentbox.listen ? to_string(*settings.agentbox.listen) : "");
     }},
    {"agentbox.tls_certificate_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), agentbox.tls_certificate_file,
                     print_text(value))},
    {"agentbox.tls_key_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), agentbox.tls_key_file,
                     print_text(value))},
    {"agentbox.web_origins", Reload::Restart, ',',
     CAISSON_SETTING(read_web_origins(node, path), agentbox.web_origins, print_list(value, 4))},
    {"agentbox.message_bytes_max", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, kGrpcMessageBytesMin, kGrpcMessageBytesMax),
                     agentbox.message_bytes_max, fmt::to_string(value))},
    {"agentbox.image", Reload::Restart, '\0',
     CAISSON_SETTING(read_text(node, path, kImageBytesMax), agentbox.image, print_text(value))},
    {"agentbox.storage", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), agentbox.storage, std::string(word(value)))},
    {"agentbox.storage_mb", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kMegabytesMax), agentbox.storage_mb,
                     fmt::to_string(value))},
    {"agentbox.session_timeout_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kAgentboxSecondsMax),
                     agentbox.session_timeout_seconds, fmt::to_string(value))},
    {"agentbox.sweep_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kAgentboxSecondsMax), agentbox.sweep_seconds,
                     fmt::to_string(value))},
    {"agentbox.max_sessions", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kConcurrentMax), agentbox.max_sessions,
                     fmt::to_string(value))},
    {"agentbox.allowed_hosts", Reload::Restart, ',',
     CAISSON_SETTING(read_allowed_hosts(node, path), agentbox.allowed_hosts, print_list(value, 4))},
    {"agentbox.read_only_root", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), agentbox.read_only_root, std::string(word(value)))},
    {"agentbox.keep_partial_output", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), agentbox.keep_partial_output,
                     std::string(word(value)))},
    {"agentbox.proxy_host", Reload::Restart, '\0',
     CAISSON_SETTING(read_proxy_host(node, path), agentbox.proxy_host, print_text(value))},
    {"agentbox.proxy_port", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, 65535), agentbox.proxy_port, fmt::to_string(value))},
    {"agentbox.signing_key_file", Reload::Restart, '\0',
     CAISSON_SETTING(read_path(node, path, Empty::Allowed), agentbox.signing_key_file,
                     print_text(value))},
    {"agentbox.pip_index_url", Reload::Restart, '\0',
     CAISSON_SETTING(read_index_url(node, path), agentbox.pip_index_url, print_text(value))},
    {"agentbox.pip_index_addresses", Reload::Restart, ',',
     CAISSON_SETTING(read_index_addresses(node, path), agentbox.pip_index_addresses,
                     print_list(value, 4))},
    {"sandboxer.profile", Reload::Restart, '\0',
     CAISSON_SETTING(read_text(node, path, kProfileNameBytesMax), sandboxer.profile,
                     print_text(value))},
    {"sandboxer.cpu", Reload::Restart, '\0',
     CAISSON_SETTING(read_fraction(node, path, kCoresMin, kCoresMax), sandboxer.cpu,
                     fmt::to_string(value))},
    {"sandboxer.memory_mb", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kMegabytesMax), sandboxer.memory_mb,
                     fmt::to_string(value))},
    {"sandboxer.disk_mb", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kMegabytesMax), sandboxer.disk_mb,
                     fmt::to_string(value))},
    {"sandboxer.processes", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kProcessesMax), sandboxer.processes,
                     fmt::to_string(value))},
    {"sandboxer.port_wait_ms", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 0, kPortWaitMsMax), sandboxer.port_wait_ms,
                     fmt::to_string(value))},
    {"sandboxer.listings_max", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kListingsMax), sandboxer.listings_max,
                     fmt::to_string(value))},
    {"mcp.profile", Reload::Restart, '\0',
     CAISSON_SETTING(read_text(node, path, kProfileNameBytesMax), mcp.profile, print_text(value))},
    {"mcp.life_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_life(node, path), mcp.life_seconds, fmt::to_string(value))},
    {"mcp.idle_seconds", Reload::Restart, '\0',
     CAISSON_SETTING(read_life(node, path), mcp.idle_seconds, fmt::to_string(value))},
    {"mcp.sandboxes_per_token", Reload::Restart, '\0',
     CAISSON_SETTING(read_whole(node, path, 1, kMcpSandboxesMax), mcp.sandboxes_per_token,
                     fmt::to_string(value))},
    {"mcp.one_sandbox_per_token", Reload::Restart, '\0',
     CAISSON_SETTING(read_truth(node, path), mcp.one_sandbox_per_token, std::string(word(value)))},
    {"tiers.minimum", Reload::Live, '\0',
     CAISSON_SETTING(read_tier(node, path), tiers.minimum, std::string(tier_word(value)))},
    {"tiers.raise", Reload::Live, '\0',
     CAISSON_SETTING(read_truth(node, path), tiers.raise, std::string(word(value)))},
    {"tiers.tenants", Reload::Live, '\0',
     CAISSON_SETTING(read_tier_rules(node, path), tiers.tenants, print_tier_rules(value))},
    {"tiers.images", Reload::Live, '\0',
     CAISSON_SETTING(read_tier_rules(node, path), tiers.images, print_tier_rules(value))},
}};

#undef CAISSON_SETTING

constexpr std::array<SettingAlias, 2> kAliases = {{
    {"server.port", "server.listen"},
    {"sandbox.resource_limits.timeout_seconds", "sandbox.timeout_seconds"},
}};

}  // namespace

std::span<const std::string_view> known_tools() noexcept { return kTools; }

SandboxSettings::SandboxSettings()
    : tools(kTools.begin(), kTools.end()),
      command_blocklist(kBlocklist.begin(), kBlocklist.end()) {}

std::string_view to_string(LogLevel level) noexcept {
  return kLevels[static_cast<std::size_t>(level)];
}

std::string_view to_string(LogFormat format) noexcept {
  return kFormats[static_cast<std::size_t>(format)];
}

std::span<const SettingKey> setting_keys() noexcept { return kKeys; }

const SettingKey* find_setting(std::string_view path) noexcept {
  const auto found = std::ranges::find(kKeys, path, &SettingKey::path);
  return found == kKeys.end() ? nullptr : &*found;
}

std::span<const SettingAlias> setting_aliases() noexcept { return kAliases; }

}  // namespace caisson::policy
