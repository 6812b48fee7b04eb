// main/server_options.h — the words that `caisson serve` hands to the server, and what they and the
// settings mean for each of its parts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "control/open_fleet.h"
#include "doors/console/console.h"
#include "doors/daiv/daiv.h"
#include "doors/grpc/grpc.h"
#include "doors/mcp/mcp.h"
#include "doors/preview/preview.h"
#include "doors/sandboxer/sandboxer.h"
#include "doors/shared/guard.h"
#include "policy/settings/settings.h"
#include "store/store.h"

namespace caisson::server {

struct ServerFlags {
  policy::SettingFlags settings;
  std::optional<std::string> config;
  std::vector<int> listeners;
  int lock = -1;
  std::string launcher_socket;
  std::vector<int> grpc_listeners;
  double drain_seconds = 0;
  bool new_admin_token = false;
};

// An exit status when there is nothing to do.
[[nodiscard]] std::optional<int> parse_flags(std::span<char*> args, ServerFlags& flags);

// The file, the environment, the flags.
[[nodiscard]] Result<policy::Settings> load_settings(const ServerFlags& flags);

[[nodiscard]] control::FleetOptions fleet_options(const policy::Settings& settings);
// And the language models: an address of a provider that cannot be is refused by name.
[[nodiscard]] Result<void> add_models(const policy::EgressSettings& settings,
                                      control::FleetOptions& options);
[[nodiscard]] Result<control::VaultPaths> vault_paths(const policy::Settings& settings);
// The door for clients of daiv-sandbox; its key comes from the environment or from its file.
[[nodiscard]] Result<daiv::DaivOptions> daiv_options(const policy::Settings& settings);
[[nodiscard]] grpc::GrpcOptions grpc_options(const policy::Settings& settings);
[[nodiscard]] sandboxer::SandboxerOptions sandboxer_options(const policy::Settings& settings);
[[nodiscard]] mcp::McpOptions mcp_options(const policy::Settings& settings);
[[nodiscard]] preview::PreviewOptions preview_options(const policy::Settings& settings);
[[nodiscard]] console::ConsoleOptions console_options(const policy::Settings& settings);
[[nodiscard]] store::StoreOptions store_options(const policy::Settings& settings);
// `bound` are the addresses of the listeners, as they are.
[[nodiscard]] doors::HostRules host_rules(const policy::Settings& settings,
                                          const std::vector<policy::ListenAddress>& bound);
// Where a listening socket listens; port 0 has become a number.
[[nodiscard]] Result<policy::ListenAddress> bound_address(int socket);
// "http://127.0.0.1:8080", "unix:/run/api.sock".
[[nodiscard]] std::string url_of(const policy::ListenAddress& address, bool encrypted = false);
// The same as words for curl, which takes a unix socket apart from the URL.
[[nodiscard]] std::string curl_target(const policy::ListenAddress& address);

}  // namespace caisson::server
