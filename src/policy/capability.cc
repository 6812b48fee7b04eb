#include "policy/capability.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "policy/wording.h"

namespace caisson::policy {

namespace {

template <class T>
struct Word {
  std::string_view text;
  T value;
};

// The first word of a value is the one that is printed.
constexpr std::array kTierWords = {
    Word<SandboxTier>{"seccomp", SandboxTier::Native},
    Word<SandboxTier>{"gvisor", SandboxTier::Gvisor},
    Word<SandboxTier>{"firecracker", SandboxTier::Microvm},
    Word<SandboxTier>{"native", SandboxTier::Native},
    Word<SandboxTier>{"microvm", SandboxTier::Microvm},
};

constexpr std::array kModeWords = {
    Word<FilesystemMode>{"read_only", FilesystemMode::ReadOnly},
    Word<FilesystemMode>{"read_write", FilesystemMode::ReadWrite},
    Word<FilesystemMode>{"none", FilesystemMode::None},
};

constexpr std::array kPermissionWords = {
    Word<Permission>{"read_env", Permission::ReadEnv},
    Word<Permission>{"spawn_subprocess", Permission::SpawnSubprocess},
};

template <class Words, class T>
std::string_view word_of(const Words& words, T value) noexcept {
  const auto found = std::ranges::find(words, value, &Word<T>::value);
  return found != words.end() ? found->text : "unknown";
}

template <class T, std::size_t N>
Result<T> parse_word(std::string_view what, const std::array<Word<T>, N>& words,
                     std::string_view text) {
  std::string known;
  for (const Word<T>& word : words) {
    if (word.text == text) return word.value;
    if (!known.empty()) known += ", ";
    known += word.text;
  }
  return failure(Errc::InvalidArgument,
                 fmt::format("unknown {} {}; known: {}", what, in_quotes(text), known));
}

std::string list_of(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + in_quotes(text);
  return '[' + out + ']';
}

}  // namespace

std::string_view to_string(SandboxTier tier) noexcept { return word_of(kTierWords, tier); }
std::string_view to_string(FilesystemMode mode) noexcept { return word_of(kModeWords, mode); }
std::string_view to_string(Permission permission) noexcept {
  return word_of(kPermissionWords, permission);
}

Result<SandboxTier> parse_sandbox_tier(std::string_view text) {
  return parse_word("sandbox tier", kTierWords, text);
}

Result<FilesystemMode> parse_filesystem_mode(std::string_view text) {
  return parse_word("filesystem mode", kModeWords, text);
}

Result<Permission> parse_permission(std::string_view text) {
  return parse_word("permission", kPermissionWords, text);
}

std::string to_string(const HeaderInjection& injection) {
  std::string out = fmt::format("{{header: {}, secret: {}", in_quotes(injection.header),
                                in_quotes(injection.secret));
  if (!injection.prefix.empty()) out += ", prefix: " + in_quotes(injection.prefix);
  return out + "}";
}

std::string to_string(const NetworkEgressRule& rule) {
  std::string out =
      fmt::format("{{domain: {}, ports: [{}], rate_limit_per_min: {}{}", in_quotes(rule.domain),
                  fmt::join(rule.ports, ", "), rule.rate_limit_per_min,
                  rule.apex == Apex::Included ? ", apex: included" : "");
  if (!rule.methods.empty()) out += ", methods: " + list_of(rule.methods);
  if (!rule.path_prefixes.empty()) out += ", path_prefixes: " + list_of(rule.path_prefixes);
  if (rule.max_bytes != 0) out += fmt::format(", max_bytes: {}", rule.max_bytes);
  if (!rule.granted_addresses.empty()) {
    out += ", granted_addresses: " + list_of(rule.granted_addresses);
  }
  std::string inject;
  for (const HeaderInjection& one : rule.inject) {
    inject += (inject.empty() ? "" : ", ") + to_string(one);
  }
  if (!inject.empty()) out += ", inject: [" + inject + "]";
  if (rule.inspect) out += ", inspect: true";
  if (rule.otherwise) out += ", otherwise: true";
  return out + "}";
}

std::string to_string(const FilesystemConfig& config) {
  return fmt::format("{{mode: {}, writable_paths: {}}}", to_string(config.mode),
                     list_of(config.writable_paths));
}

std::string to_string(const ResourceLimits& limits) {
  return fmt::format("{{max_memory_mb: {}, max_cpu_seconds: {}, max_cost_usd: {}, max_tokens: {}}}",
                     limits.max_memory_mb, decimal(limits.max_cpu_seconds, 1),
                     decimal(limits.max_cost_usd, 1), limits.max_tokens);
}

std::string to_string(const CapabilityDeclaration& capability) {
  std::string rules;
  for (const NetworkEgressRule& rule : capability.network_egress_rules) {
    rules += (rules.empty() ? "" : ", ") + to_string(rule);
  }
  std::string permissions;
  for (const Permission permission : capability.permissions) {
    permissions += (permissions.empty() ? "" : ", ") + std::string(to_string(permission));
  }
  return fmt::format(
      "{{sandbox_tier: {}, network_egress_rules: [{}], filesystem_config: {}, resource_limits: {}, "
      "permissions: [{}], env_allowlist: {}}}",
      to_string(capability.sandbox_tier), rules, to_string(capability.filesystem_config),
      to_string(capability.resource_limits), permissions,
      capability.env_allowlist ? list_of(*capability.env_allowlist) : "null");
}

}  // namespace caisson::policy
