#include "main/server_options.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "egress/wire/ip_address.h"
#include "sys/file.h"

namespace caisson::server {
namespace {

constexpr std::size_t kConfigBytesMax = 1024UL * 1024;
constexpr std::uint64_t kMegabyte = 1024UL * 1024;
constexpr std::size_t kKeyBytesMax = 4096;

control::LimitWish limits_of(const policy::LimitSettings& said) {
  control::LimitWish wish;
  wish.cpu = said.cpu;
  wish.timeout_seconds = said.timeout_seconds;
  wish.rest_seconds = said.rest_seconds;
  if (said.memory_mb) wish.memory_bytes = static_cast<std::uint64_t>(*said.memory_mb) * kMegabyte;
  if (said.processes) wish.processes = static_cast<std::uint32_t>(*said.processes);
  if (said.disk_mb) wish.disk_bytes = static_cast<std::uint64_t>(*said.disk_mb) * kMegabyte;
  return wish;
}

control::CreateWish profile_of(const policy::ProfileSettings& said) {
  control::CreateWish wish;
  wish.image = said.base_image;
  wish.tools = said.tools;
  wish.limits = limits_of(said.limits);
  if (said.tier) wish.tier = policy::tier_word(*said.tier);
  if (said.network) {
    wish.network.mode = said.network->mode == policy::NetworkMode::None ? "none" : "allowlist";
    wish.network.domain_allowlist = said.network->domain_allowlist;
  }
  if (said.root) {
    wish.root = *said.root == policy::RootChoice::Writable ? engine::RootMode::Writable
                                                           : engine::RootMode::ReadOnly;
  }
  for (const auto& [name, value] : said.env) wish.environment.emplace_back(name, value);
  if (!said.interpreters.empty()) wish.interpreters.emplace();
  for (const auto& [name, one] : said.interpreters) {
    const auto language =
        name == "python" ? control::Language::Python : control::Language::JavaScript;
    (*wish.interpreters)[language] = {one.warm, one.imports};
  }
  return wish;
}

Result<std::string> first_line(const std::string& file) {
  std::string text = TRY(sys::read_small(AT_FDCWD, file, kKeyBytesMax));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  if (text.empty()) return failure(Errc::InvalidArgument, "its first line is empty");
  return text;
}

bool is_any(const policy::ListenAddress& address) {
  return address.host == "0.0.0.0" || address.host == "::";
}

}  // namespace

std::optional<int> parse_flags(std::span<char*> args, ServerFlags& flags) {
  CLI::App app("caisson's server. It is started by `caisson serve`, which makes its surroundings.");
  app.add_option("--state-dir", flags.settings.state_dir);
  app.add_option("--launcher-socket", flags.launcher_socket)->required();
  app.add_option("--lock-fd", flags.lock);
  app.add_option("--listen-fd", flags.listeners)->required()->take_all();
  app.add_option("--config", flags.config);
  app.add_option("--grpc-listen-fd", flags.grpc_listeners)->take_all();
  app.add_option("--vhost", flags.settings.vhost);
  app.add_option("--drain", flags.drain_seconds);
  app.add_option("--log-level", flags.settings.log_level);
  app.add_option("--log-format", flags.settings.log_format);
  app.add_flag("--open", flags.settings.open);
  app.add_flag("--behind-tls-proxy", flags.settings.behind_tls_proxy);
  app.add_flag("--new-admin-token", flags.new_admin_token);
  try {
    app.parse(static_cast<int>(args.size()), args.data());
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return std::nullopt;
}

Result<policy::Settings> load_settings(const ServerFlags& flags) {
  std::string text;
  if (flags.config) text = TRY(sys::read_small(AT_FDCWD, *flags.config, kConfigBytesMax));
  policy::Settings settings = TRY(policy::parse_settings(text, flags.config.value_or("")));
  std::vector<std::string> environment;
  for (char** at = environ; *at != nullptr; ++at) environment.emplace_back(*at);
  TRY(policy::apply_environment(settings, environment));
  TRY(policy::apply_flags(settings, flags.settings));
  return settings;
}

control::FleetOptions fleet_options(const policy::Settings& settings) {
  const policy::SandboxSettings& said = settings.sandbox;
  control::FleetOptions options;
  options.max_concurrent = static_cast<std::size_t>(said.max_concurrent);
  options.max_per_tenant = static_cast<std::size_t>(said.max_per_tenant);
  options.limits = limits_of(said.limits);
  const policy::LimitsMaxSettings& most = said.limits_max;
  options.limits_max =
      limits_of({most.cpu, most.memory_mb, most.processes, most.disk_mb, most.timeout_seconds});
  options.audit_bytes_per_minute = static_cast<std::uint64_t>(settings.audit.tenant_mb_per_minute)
                                   << 20U;
  if (said.idle_seconds > 0) options.limits.idle_seconds = said.idle_seconds;
  for (const policy::ListenAddress& server : settings.egress.dns_servers) {
    if (const auto address = egress::IpAddress::parse(server.host))
      options.name_servers.push_back({*address, server.port});
  }
  options.trust_store = settings.egress.trust_store;
  options.image = said.default_image;
  options.tools = said.tools;
  options.exec_timeout_seconds = said.exec_timeout_seconds;
  options.command_blocklist = said.command_blocklist;
  for (const auto& [name, profile] : settings.profiles) {
    options.profiles.emplace(name, profile_of(profile));
    if (profile.minimum_tier) options.minimum.profiles.emplace(name, *profile.minimum_tier);
  }
  options.minimum.everybody = settings.tiers.minimum;
  options.minimum.raise = settings.tiers.raise;
  options.minimum.tenants = settings.tiers.tenants;
  options.minimum.images = settings.tiers.images;
  return options;
}

Result<void> add_models(const policy::EgressSettings& settings, control::FleetOptions& options) {
  using egress::Provider;
  const std::pair<Provider, const policy::GatewaySettings*> all[] = {
      {Provider::OpenAi, &settings.openai}, {Provider::Anthropic, &settings.anthropic}};
  for (const auto& [provider, said] : all) {
    if (!said->enabled()) continue;
    options.models.push_back(
        TRY_IN(provider == Provider::OpenAi ? "egress.openai" : "egress.anthropic",
               egress::gateway_provider(provider, *said)));
  }
  options.prices = TRY_IN("egress.prices", egress::PriceTable::make(settings.prices));
  for (const auto& [tenant, budget] : settings.budgets) {
    egress::BudgetLimits limits;
    limits.max_tokens = budget.max_tokens;
    if (budget.max_cost_usd) limits.max_cost = egress::nano_usd(*budget.max_cost_usd);
    options.budgets.emplace(tenant, limits);
  }
  return {};
}

Result<daiv::DaivOptions> daiv_options(const policy::Settings& settings) {
  const policy::DaivSettings& said = settings.daiv;
  daiv::DaivOptions options;
  options.api_key = said.api_key;
  if (options.api_key.empty() && !said.api_key_file.empty()) {
    options.api_key = TRY_IN("daiv.api_key_file", first_line(said.api_key_file));
  }
  options.tenant = said.tenant;
  options.prefix = said.prefix;
  options.version = said.version;
  options.run_uid = static_cast<std::uint32_t>(said.run_uid);
  options.run_gid = static_cast<std::uint32_t>(said.run_gid);
  options.command_timeout_seconds = static_cast<std::uint32_t>(
      std::min<std::int64_t>(said.command_timeout_seconds, UINT32_MAX / 1000));
  options.lock_wait = seconds(said.lock_wait_seconds);
  options.close_removes = said.close_removes;
  options.prune_dirs = said.prune_dirs;
  options.reaper = said.reaper;
  options.reaper_interval = seconds(said.reaper_interval_seconds);
  options.grace = seconds(said.grace_seconds);
  options.max_stopped = static_cast<std::size_t>(said.max_stopped);
  options.running_idle = seconds(said.running_idle_seconds);
  options.life_seconds = settings.sandbox.limits_max.timeout_seconds;
  return options;
}

grpc::GrpcOptions grpc_options(const policy::Settings& settings) {
  const policy::AgentboxSettings& said = settings.agentbox;
  grpc::GrpcOptions options;
  options.open = settings.auth.open;
  options.web_origins = said.web_origins;
  options.message_bytes_max = static_cast<std::size_t>(said.message_bytes_max);
  options.image = said.image;
  options.storage = said.storage;
  options.storage_bytes = static_cast<std::uint64_t>(said.storage_mb) * kMegabyte;
  options.session_timeout = seconds(said.session_timeout_seconds);
  options.max_sessions = static_cast<std::size_t>(said.max_sessions);
  options.allowed_hosts = said.allowed_hosts;
  options.read_only_root = said.read_only_root;
  options.keep_partial_output = said.keep_partial_output;
  options.proxy_host = said.proxy_host;
  options.proxy_port = static_cast<std::uint16_t>(said.proxy_port);
  options.pip_index_url = said.pip_index_url;
  options.pip_index_addresses = said.pip_index_addresses;
  // Never more than the operator gives anybody.
  const policy::LimitsMaxSettings& most = settings.sandbox.limits_max;
  if (most.cpu > 0) options.cores = std::min(options.cores, most.cpu);
  if (most.memory_mb > 0)
    options.memory_bytes =
        std::min(options.memory_bytes, static_cast<std::uint64_t>(most.memory_mb) * kMegabyte);
  options.life_seconds = most.timeout_seconds;
  return options;
}

sandboxer::SandboxerOptions sandboxer_options(const policy::Settings& settings) {
  const policy::SandboxerSettings& said = settings.sandboxer;
  sandboxer::SandboxerOptions options;
  options.open = settings.auth.open;
  options.vhost = settings.server.vhost.name;
  options.scheme = settings.server.vhost.scheme;
  options.port = settings.server.vhost.port;
  options.cpu = said.cpu;
  options.memory_bytes = static_cast<std::uint64_t>(said.memory_mb) * kMegabyte;
  options.disk_bytes = static_cast<std::uint64_t>(said.disk_mb) * kMegabyte;
  options.processes = static_cast<std::uint32_t>(said.processes);
  // Never more than the operator gives anybody.
  const policy::LimitsMaxSettings& most = settings.sandbox.limits_max;
  if (most.cpu > 0) options.cpu = std::min(options.cpu, most.cpu);
  if (most.memory_mb > 0)
    options.memory_bytes =
        std::min(options.memory_bytes, static_cast<std::uint64_t>(most.memory_mb) * kMegabyte);
  if (most.disk_mb > 0)
    options.disk_bytes =
        std::min(options.disk_bytes, static_cast<std::uint64_t>(most.disk_mb) * kMegabyte);
  if (most.processes > 0)
    options.processes = std::min(options.processes, static_cast<std::uint32_t>(most.processes));
  options.life_seconds = most.timeout_seconds;
  if (!said.profile.empty()) options.profile = said.profile;
  options.wait_for_port = milliseconds(said.port_wait_ms);
  options.rows_max = static_cast<std::size_t>(said.listings_max);
  return options;
}

mcp::McpOptions mcp_options(const policy::Settings& settings) {
  const policy::McpSettings& said = settings.mcp;
  mcp::McpOptions options;
  options.open = settings.auth.open;
  options.version = CAISSON_VERSION;
  options.profile = said.profile;
  options.life_seconds = said.life_seconds;
  options.idle_seconds = said.idle_seconds;
  // Never more than the operator gives anybody.
  const double most = settings.sandbox.limits_max.timeout_seconds;
  if (most > 0 && (options.life_seconds == 0 || options.life_seconds > most))
    options.life_seconds = most;
  options.sandboxes_per_token = static_cast<std::size_t>(said.sandboxes_per_token);
  options.one_sandbox_per_token = said.one_sandbox_per_token;
  return options;
}

preview::PreviewOptions preview_options(const policy::Settings& settings) {
  preview::PreviewOptions options;
  options.vhost = settings.server.vhost.name;
  options.scheme = settings.server.vhost.scheme;
  options.port = settings.server.vhost.port;
  return options;
}

console::ConsoleOptions console_options(const policy::Settings& settings) {
  return {settings.server.vhost.name, settings.server.vhost.scheme, settings.server.vhost.port};
}

Result<control::VaultPaths> vault_paths(const policy::Settings& settings) {
  const std::string own = settings.server.state_dir + "/server";
  const auto or_own = [&own](const std::string& said, const char* name) {
    return said.empty() ? own + name : said;
  };
  control::VaultPaths paths{or_own(settings.egress.secrets_file, "/secrets"),
                            or_own(settings.egress.secrets_key_file, "/secrets.key"),
                            own + "/authorities.key",
                            or_own(settings.egress.jwt_secret_file, "/proxy-tokens.key")};
  const policy::AgentboxSettings& agentbox = settings.agentbox;
  if (agentbox.proxy_host.empty()) return paths;  // nobody reads its tokens
  if (!agentbox.signing_key.empty()) paths.token_key_text = agentbox.signing_key;
  if (agentbox.signing_key.empty() && !agentbox.signing_key_file.empty())
    paths.token_key_text =
        TRY_IN("agentbox.signing_key_file", first_line(agentbox.signing_key_file));
  return paths;
}

store::StoreOptions store_options(const policy::Settings& settings) {
  const std::string own = settings.server.state_dir + "/server";
  store::StoreOptions options;
  options.path =
      settings.audit.database_path.empty() ? own + "/caisson.db" : settings.audit.database_path;
  options.anchor_path =
      settings.audit.anchor_path.empty() ? own + "/audit.anchors" : settings.audit.anchor_path;
  options.anchor_every = seconds(settings.audit.anchor_seconds);
  return options;
}

doors::HostRules host_rules(const policy::Settings& settings,
                            const std::vector<policy::ListenAddress>& bound) {
  doors::HostRules rules;
  rules.names = {"localhost", "127.0.0.1", "[::1]"};
  for (const policy::ListenAddress& address : bound) {
    if (address.family == policy::ListenAddress::Family::Unix) continue;
    if (is_any(address)) rules.any_address = true;
    rules.names.push_back(address.family == policy::ListenAddress::Family::Ip6
                              ? "[" + address.host + "]"
                              : address.host);
  }
  rules.names.insert(rules.names.end(), settings.server.hosts.begin(), settings.server.hosts.end());
  rules.origins = settings.server.origins;
  if (!settings.server.vhost.name.empty())
    rules.names.push_back(policy::authority_of(settings.server.vhost));
  return rules;
}

Result<policy::ListenAddress> bound_address(int socket) {
  sockaddr_storage name{};
  socklen_t size = sizeof(name);
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size) != 0)
    return sys_failure("--listen-fd", errno);
  policy::ListenAddress address;
  char text[INET6_ADDRSTRLEN] = {};
  if (name.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &name, sizeof(in));
    ::inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
    address = {policy::ListenAddress::Family::Ip4, text, ntohs(in.sin_port)};
  } else if (name.ss_family == AF_INET6) {
    sockaddr_in6 in{};
    std::memcpy(&in, &name, sizeof(in));
    ::inet_ntop(AF_INET6, &in.sin6_addr, text, sizeof(text));
    address = {policy::ListenAddress::Family::Ip6, text, ntohs(in.sin6_port)};
  } else if (name.ss_family == AF_UNIX) {
    sockaddr_un un{};
    std::memcpy(&un, &name, std::min<std::size_t>(size, sizeof(un)));
    un.sun_path[sizeof(un.sun_path) - 1] = '\0';
    address = {policy::ListenAddress::Family::Unix, un.sun_path, 0};
  } else {
    return failure(Errc::InvalidArgument, "--listen-fd: not a socket of a known family");
  }
  return address;
}

std::string url_of(const policy::ListenAddress& address, bool encrypted) {
  const std::string scheme = encrypted ? "https://" : "http://";
  switch (address.family) {
    case policy::ListenAddress::Family::Unix:
      return "unix:" + address.host;
    case policy::ListenAddress::Family::Ip6:
      return scheme + "[" + address.host + "]:" + std::to_string(address.port);
    case policy::ListenAddress::Family::Ip4:
      break;
  }
  return scheme + address.host + ":" + std::to_string(address.port);
}

std::string curl_target(const policy::ListenAddress& address) {
  if (address.family != policy::ListenAddress::Family::Unix) return url_of(address);
  std::string quoted = "'";
  for (const char letter : address.host)
    quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return "--unix-socket " + quoted + "' http://localhost";
}

}  // namespace caisson::server
