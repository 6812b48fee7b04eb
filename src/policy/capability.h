// policy/capability.h — what a sandbox may do, as plain values. Defaults are those of an empty
// capability file. Values from CapabilityParser are valid; a declaration built by hand becomes so
// by validate(). All of them copy, compare, and print by to_string().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace caisson::policy {

inline constexpr std::size_t kEgressRulesMax = 1024;
inline constexpr std::size_t kPortsPerRuleMax = 256;
inline constexpr std::size_t kMethodsPerRuleMax = 32;
inline constexpr std::size_t kMethodBytesMax = 32;
inline constexpr std::size_t kPathPrefixesPerRuleMax = 64;
inline constexpr std::size_t kPathPrefixBytesMax = 1024;
inline constexpr std::size_t kGrantedAddressesPerRuleMax = 16;
inline constexpr std::size_t kInjectionsPerRuleMax = 8;
inline constexpr std::size_t kHeaderNameBytesMax = 64;
inline constexpr std::size_t kHeaderPrefixBytesMax = 64;
inline constexpr std::size_t kSecretNameBytesMax = 64;
inline constexpr std::size_t kWritablePathsMax = 64;
inline constexpr std::size_t kPermissionsMax = 16;
inline constexpr std::size_t kEnvAllowlistMax = 256;
inline constexpr std::size_t kEnvNameBytesMax = 255;

inline constexpr std::int64_t kRateLimitPerMinMax = 1'000'000;
inline constexpr std::int64_t kEgressBytesMax = std::int64_t{1} << 50;
inline constexpr std::int64_t kMemoryMbMax = std::int64_t{1} << 24;  // 16 TiB
inline constexpr std::int64_t kTokensMax = 1'000'000'000'000'000;
inline constexpr double kCpuSecondsMax = 1e9;  // as nanoseconds it still fits 64 bits
inline constexpr double kCostUsdMax = 1e9;     // as nano-dollars, too
// A smaller limit would be zero in nanoseconds or nano-dollars, and zero is not what was written.
inline constexpr double kFractionMin = 1e-9;

enum class SandboxTier : std::uint8_t {
  Native,   // "seccomp", and our own word "native"
  Gvisor,   // "gvisor"
  Microvm,  // "firecracker", and our own word "microvm"
};

enum class FilesystemMode : std::uint8_t {
  ReadOnly,   // reads everything in the sandbox's view, writes nothing, /tmp included
  ReadWrite,  // writes under writable_paths only, or everywhere when there are none
  None,       // neither; only what executing the command needs is there
};

enum class Permission : std::uint8_t {
  ReadEnv,          // variables of the host's environment may pass
  SpawnSubprocess,  // the command may start further processes
};

// Does `*.example.com` also match `example.com`? Not in a capability file; one wire dialect wants
// it.
enum class Apex : std::uint8_t { Excluded, Included };

// A header that is added to a request, or replaced in it, outside of the guest and over verified
// TLS only. The rule holds the secret's name; its value is in no policy.
struct HeaderInjection {
  std::string header;    // "Authorization"
  std::string secret;    // the name it is kept under
  std::string prefix{};  // "Bearer "

  friend bool operator==(const HeaderInjection&, const HeaderInjection&) = default;
};

// How a rule for every name shows its domain.
inline constexpr std::string_view kEveryName = "*";

struct NetworkEgressRule {
  std::string domain;                // canonical: an exact name, or "*." and a name
  std::vector<std::uint16_t> ports;  // empty: every port
  std::int64_t rate_limit_per_min = 60;
  Apex apex = Apex::Excluded;
  // Where HTTP is seen; a connection that cannot be looked into is then refused. Empty: all.
  std::vector<std::string> methods{};        // "GET"
  std::vector<std::string> path_prefixes{};  // "/v1/": whole segments, no dot segments
  std::int64_t max_bytes = 0;                // both ways, for the sandbox's life; 0: no limit
  // Addresses that are not public and that this name, an exact one, may nevertheless have.
  std::vector<std::string> granted_addresses{};
  // Either of them makes us the TLS server that the guest talks to, with an authority of its own
  // sandbox: then methods and paths count inside TLS, too.
  std::vector<HeaderInjection> inject{};
  bool inspect = false;
  // Every name, and the domain is kEveryName. Only rules of a server's own API can say so: other
  // dialects that we read have no such word. Addresses are no names, and what lies inside stays
  // closed.
  bool every_name = false;
  // Such a rule is a default: it is for the names that no rule before it names. Who limits the
  // methods of one host then has them limited, though every other host is open.
  bool otherwise = false;

  [[nodiscard]] bool intercepts() const noexcept { return inspect || !inject.empty(); }

  friend bool operator==(const NetworkEgressRule&, const NetworkEgressRule&) = default;
};

struct FilesystemConfig {
  FilesystemMode mode = FilesystemMode::ReadOnly;
  // Absolute, or relative to the sandbox's working folder; they count in read_write only.
  std::vector<std::string> writable_paths;

  friend bool operator==(const FilesystemConfig&, const FilesystemConfig&) = default;
};

struct ResourceLimits {
  std::int64_t max_memory_mb = 512;  // units of 2^20 bytes
  double max_cpu_seconds = 30.0;     // user + system, of the whole process tree
  double max_cost_usd = 0.10;
  std::int64_t max_tokens = 100'000;

  friend bool operator==(const ResourceLimits&, const ResourceLimits&) = default;
};

struct CapabilityDeclaration {
  SandboxTier sandbox_tier = SandboxTier::Native;
  std::vector<NetworkEgressRule> network_egress_rules;  // empty: nothing leaves
  FilesystemConfig filesystem_config;
  ResourceLimits resource_limits;
  std::set<Permission> permissions;
  std::optional<std::vector<std::string>> env_allowlist;  // counts with read_env only

  [[nodiscard]] bool has(Permission permission) const { return permissions.contains(permission); }

  friend bool operator==(const CapabilityDeclaration&, const CapabilityDeclaration&) = default;
};

// The contract's words. Parsing also takes our own words for the tiers.
[[nodiscard]] std::string_view to_string(SandboxTier tier) noexcept;
[[nodiscard]] std::string_view to_string(FilesystemMode mode) noexcept;
[[nodiscard]] std::string_view to_string(Permission permission) noexcept;
[[nodiscard]] std::string to_string(const HeaderInjection& injection);
[[nodiscard]] std::string to_string(const NetworkEgressRule& rule);
[[nodiscard]] std::string to_string(const FilesystemConfig& config);
[[nodiscard]] std::string to_string(const ResourceLimits& limits);
[[nodiscard]] std::string to_string(const CapabilityDeclaration& capability);

[[nodiscard]] Result<SandboxTier> parse_sandbox_tier(std::string_view text);
[[nodiscard]] Result<FilesystemMode> parse_filesystem_mode(std::string_view text);
[[nodiscard]] Result<Permission> parse_permission(std::string_view text);

// One value each; the message does not name the field.
[[nodiscard]] Result<std::int64_t> check_whole(std::int64_t value, std::int64_t min,
                                               std::int64_t max);
[[nodiscard]] Result<double> check_fraction(double value, double max);
[[nodiscard]] Result<std::string> check_env_name(std::string_view name);

// A declaration built by hand, checked as the parser checks a file: the result is canonical, or the
// error names the field that is wrong.
[[nodiscard]] Result<CapabilityDeclaration> validate(CapabilityDeclaration capability);

}  // namespace caisson::policy
