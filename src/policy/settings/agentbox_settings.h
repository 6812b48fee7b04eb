// policy/settings/agentbox_settings.h — the door for clients of agentbox, and the names under which
// an existing deployment of that service has configured it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/settings/listen_address.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

inline constexpr std::uint16_t kGrpcPort = 50051;
inline constexpr std::int64_t kAgentboxSecondsMax = 10LL * 365 * 24 * 3600;
inline constexpr std::int64_t kGrpcMessageBytesMin = 64LL * 1024;
inline constexpr std::int64_t kGrpcMessageBytesMax = 64LL * 1024 * 1024;
inline constexpr std::size_t kAllowedHostsMax = 256;
inline constexpr std::size_t kWebOriginsMax = 64;

struct AgentboxSettings {
  std::optional<ListenAddress> listen;  // gRPC and gRPC-Web; not said: see grpc_address()
  bool off = false;                     // no such port at all
  std::string tls_certificate_file;     // both or none
  std::string tls_key_file;
  std::vector<std::string> web_origins;                // pages of these may call by gRPC-Web
  std::int64_t message_bytes_max = 4LL * 1024 * 1024;  // of a request

  std::string image;                 // empty: the server's own default
  bool storage = false;              // tenants have files that outlive sessions
  std::int64_t storage_mb = 10'240;  // of each of their two volumes
  std::int64_t session_timeout_seconds = 1800;
  std::int64_t sweep_seconds = 60;
  std::int64_t max_sessions = 0;  // of one caller's tenant; 0: as many as it may have sandboxes
  std::vector<std::string> allowed_hosts;  // of a session that names none
  bool read_only_root = false;       // but for /workspace, /mnt/user-data/outputs, /tmp and /root
  bool keep_partial_output = false;  // of a command that timed out

  std::string proxy_host;  // as seen from inside; empty: no variables, the way out works without
  std::int64_t proxy_port = 15004;
  std::string signing_key_file;
  std::string signing_key;  // said by the environment; never printed

  std::string pip_index_url;  // empty: pip's own
  std::vector<std::string>
      pip_index_addresses;  // that its host may have though they are not public

  AgentboxSettings();
  friend bool operator==(const AgentboxSettings&, const AgentboxSettings&) = default;
};

// "off", an address, or nothing.
struct AgentboxListen {
  std::optional<ListenAddress> address;
  bool off = false;
};
[[nodiscard]] Result<AgentboxListen> read_grpc_listen(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::vector<std::string>> read_allowed_hosts(const YamlNode& node,
                                                                  std::string_view path);
[[nodiscard]] Result<std::vector<std::string>> read_web_origins(const YamlNode& node,
                                                                std::string_view path);
// A name, or 127.0.0.1; empty: none.
[[nodiscard]] Result<std::string> read_proxy_host(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::string> read_index_url(const YamlNode& node, std::string_view path);
[[nodiscard]] Result<std::vector<std::string>> read_index_addresses(const YamlNode& node,
                                                                    std::string_view path);

// <name> of agentbox's environment is this setting of ours.
struct AgentboxVariable {
  std::string_view name;
  std::string_view path;
};
[[nodiscard]] std::span<const AgentboxVariable> agentbox_variables() noexcept;

}  // namespace caisson::policy
