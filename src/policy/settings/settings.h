// policy/settings/settings.h — how a server is configured, as one value.
//
// Three layers, the later wins: the file (parse_settings), the environment (apply_environment), the
// flags (apply_flags). Each value is judged where it is read, by the same function in all three;
// what only makes sense together is judged once at the end, by check_settings(). settings_keys.h is
// the one table of what can be said. Pure: whoever starts the server reads the file and passes the
// text and the environment in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/settings/agentbox_settings.h"
#include "policy/settings/daiv_settings.h"
#include "policy/settings/egress_settings.h"
#include "policy/settings/image_settings.h"
#include "policy/settings/listen_address.h"
#include "policy/settings/mcp_settings.h"
#include "policy/settings/sandboxer_settings.h"
#include "policy/settings/tier_settings.h"

namespace caisson::policy {

inline constexpr std::size_t kListenMax = 16;
inline constexpr std::size_t kHostsMax = 64;
inline constexpr std::size_t kBlocklistMax = 128;
inline constexpr std::size_t kPatternBytesMax = 1024;
inline constexpr std::size_t kToolsMax = 32;
inline constexpr std::size_t kProfileNameBytesMax = 64;
inline constexpr std::size_t kDomainsMax = 256;
inline constexpr std::size_t kImageBytesMax = 255;
inline constexpr std::size_t kEnvValueBytesMax = 4096;
inline constexpr std::size_t kUserBytesMax = 32;
inline constexpr std::size_t kImportsMax = 64;
inline constexpr std::size_t kImportBytesMax = 256;
inline constexpr std::int64_t kConcurrentMax = 100'000;
inline constexpr std::int64_t kProcessesMax = 4'000'000;
inline constexpr std::int64_t kMegabytesMax = std::int64_t{1} << 24U;
inline constexpr double kCoresMax = 4096;
inline constexpr double kCoresMin = 0.01;
inline constexpr double kLifeSecondsMax = 10.0 * 365 * 24 * 3600;
inline constexpr double kExecSecondsMax = 3600;
inline constexpr std::int64_t kAnchorSecondsMax = 24L * 3600;

// The tools a sandbox can be given.
[[nodiscard]] std::span<const std::string_view> known_tools() noexcept;

struct ServerSettings {
  std::vector<ListenAddress> listen{ListenAddress{}};
  std::string state_dir = "/var/lib/caisson";
  std::vector<std::string> hosts;    // further names a Host header may carry
  std::vector<std::string> origins;  // pages whose scripts may call
  bool behind_tls_proxy = false;     // somebody in front speaks TLS: listening on others is meant
  std::string user = "caisson";      // whom the server becomes
  Vhost vhost;                       // sandboxes are web sites below it

  friend bool operator==(const ServerSettings&, const ServerSettings&) = default;
};

// What is not said is the next layer's: a profile's, then the server's.
struct LimitSettings {
  std::optional<double> cpu;  // cores
  std::optional<std::int64_t> memory_mb;
  std::optional<std::int64_t> processes;
  std::optional<std::int64_t> disk_mb;
  std::optional<double> timeout_seconds;  // life of the sandbox; 0: no end
  std::optional<double> rest_seconds{};   // at rest when nothing was asked for so long; 0: never

  friend bool operator==(const LimitSettings&, const LimitSettings&) = default;
};

// The most that a caller or a profile may ask for; 0: no bound but the launcher's.
struct LimitsMaxSettings {
  double cpu = 0;
  std::int64_t memory_mb = 0;
  std::int64_t processes = 0;
  std::int64_t disk_mb = 0;
  double timeout_seconds = 0;

  friend bool operator==(const LimitsMaxSettings&, const LimitsMaxSettings&) = default;
};

enum class NetworkMode : std::uint8_t { None, Allowlist };
enum class RootChoice : std::uint8_t { ReadOnly, Writable };

struct NetworkSettings {
  NetworkMode mode = NetworkMode::None;
  std::vector<std::string> domain_allowlist;  // canonical

  friend bool operator==(const NetworkSettings&, const NetworkSettings&) = default;
};

// An interpreter of a profile's sandboxes, by its language.
struct InterpreterSettings {
  bool warm = true;  // it is started with the sandbox
  std::vector<std::string> imports;

  friend bool operator==(const InterpreterSettings&, const InterpreterSettings&) = default;
};

struct ProfileSettings {
  std::optional<std::string> base_image;
  std::optional<std::vector<std::string>> tools;
  LimitSettings limits;
  std::optional<NetworkSettings> network;
  std::optional<RootChoice> root;  // filesystem.root
  std::optional<SandboxTier> tier;
  std::optional<SandboxTier> minimum_tier;
  std::map<std::string, std::string> env;
  std::map<std::string, InterpreterSettings> interpreters;

  friend bool operator==(const ProfileSettings&, const ProfileSettings&) = default;
};

struct SandboxSettings {
  std::string default_image = "host";
  std::int64_t max_concurrent = 64;
  std::int64_t max_per_tenant = 0;  // 0: no limit beside max_concurrent
  double idle_seconds = 0;          // ended when nothing was asked of it for so long; 0: never
  double exec_timeout_seconds = 60;
  // Complete here. `sandbox.timeout_seconds` is the same setting as its timeout_seconds.
  LimitSettings limits{1.0, 512, 256, 256, 600.0, 0.0};
  LimitsMaxSettings limits_max;
  std::vector<std::string> tools;              // all that are known
  std::vector<std::string> command_blocklist;  // patterns, in RE2's language

  SandboxSettings();
  friend bool operator==(const SandboxSettings&, const SandboxSettings&) = default;
};

struct AuditSettings {
  std::string database_path;  // empty: in the state directory
  std::string anchor_path;    // empty: beside the database
  std::int64_t anchor_seconds = 60;
  std::int64_t tenant_mb_per_minute = 128;  // of rows that one tenant may cause; 0: no limit

  friend bool operator==(const AuditSettings&, const AuditSettings&) = default;
};

enum class LogLevel : std::uint8_t { Trace, Debug, Info, Warning, Error };
enum class LogFormat : std::uint8_t { Text, Json };
[[nodiscard]] std::string_view to_string(LogLevel level) noexcept;
[[nodiscard]] std::string_view to_string(LogFormat format) noexcept;

struct LoggingSettings {
  LogLevel level = LogLevel::Info;
  LogFormat format = LogFormat::Text;

  friend bool operator==(const LoggingSettings&, const LoggingSettings&) = default;
};

struct AuthSettings {
  bool open = false;  // nobody needs a token; on this machine only

  friend bool operator==(const AuthSettings&, const AuthSettings&) = default;
};

struct Settings {
  ServerSettings server;
  SandboxSettings sandbox;
  std::map<std::string, ProfileSettings> profiles;
  AuditSettings audit;
  LoggingSettings logging;
  AuthSettings auth;
  EgressSettings egress;
  ImageSettings images;
  DaivSettings daiv;
  AgentboxSettings agentbox;
  SandboxerSettings sandboxer;
  McpSettings mcp;
  TierSettings tiers;

  friend bool operator==(const Settings&, const Settings&) = default;
};

// Where gRPC is answered: what was said, or the usual place beside a server that listens in its own
// usual place. None: nowhere.
[[nodiscard]] std::optional<ListenAddress> grpc_address(const Settings& settings);

// `file_name` is for messages: "caisson.yaml: line 4, column 3: sandbox.max_concurrent: …". An
// empty text is the settings with all defaults.
[[nodiscard]] Result<Settings> parse_settings(std::string_view text, std::string_view file_name);

// `environ` holds "NAME=value". CAISSON_SERVER_STATE_DIR is server.state_dir, and so on; a list is
// separated by commas (command_blocklist by newlines, as a pattern may hold a comma). CAGEBOX_…
// counts where the same CAISSON_… is not set, and so do DAIV_SANDBOX_… and the few names of
// agentbox and sandboxer where they mean one of ours. A CAISSON_ name below one of our sections
// that names no setting is an error; others are not ours to judge.
[[nodiscard]] Result<void> apply_environment(Settings& settings,
                                             std::span<const std::string> environ);

// As they were typed; what was not typed changes nothing.
struct SettingFlags {
  std::vector<std::string> listen;
  std::optional<std::string> grpc_listen;
  std::optional<std::string> vhost;
  std::optional<std::string> state_dir;
  std::optional<std::string> log_level;
  std::optional<std::string> log_format;
  bool open = false;
  bool behind_tls_proxy = false;
};
[[nodiscard]] Result<void> apply_flags(Settings& settings, const SettingFlags& flags);

// What must hold between settings, once all layers are applied: an address that others can reach
// needs a proxy that speaks TLS, and never goes together with open mode.
[[nodiscard]] Result<void> check_settings(const Settings& settings);

// The whole of it, as a file that parse_settings() reads back to the same value.
[[nodiscard]] std::string to_yaml(const Settings& settings);

// Names of the settings that differ: those a running server takes over, and those that need a new
// one.
struct SettingsDifference {
  std::vector<std::string> reloaded;
  std::vector<std::string> need_restart;

  friend bool operator==(const SettingsDifference&, const SettingsDifference&) = default;
};
[[nodiscard]] SettingsDifference reloadable_difference(const Settings& before,
                                                       const Settings& after);

}  // namespace caisson::policy
