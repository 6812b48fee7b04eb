// policy/settings/sandboxer_settings.h — the door for clients of sandboxer, the name under which
// previews are, and how an existing deployment of that service has configured both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "policy/yaml_tree.h"

namespace caisson::policy {

inline constexpr std::int64_t kListingsMax = 1'000'000;
inline constexpr std::int64_t kPortWaitMsMax = 60'000;

// Sandboxes are web sites below this name, as browsers reach it: "sandbox.example.com" by https,
// or "http://localhost:8080".
struct Vhost {
  std::string name;  // lower case; empty: there are no previews
  std::string scheme = "https";
  std::uint16_t port = 0;  // 0: the scheme's own

  friend bool operator==(const Vhost&, const Vhost&) = default;
};
[[nodiscard]] Result<Vhost> parse_vhost(std::string_view text);
[[nodiscard]] std::string to_string(const Vhost& vhost);
// "sandbox.example.com", "localhost:8080": what a Host field says.
[[nodiscard]] std::string authority_of(const Vhost& vhost);

// Of the sandboxes that this door makes.
struct SandboxerSettings {
  std::string profile;  // of which they are; empty: none
  double cpu = 0.5;
  std::int64_t memory_mb = 512;
  std::int64_t disk_mb = 5120;
  std::int64_t processes = 1024;
  std::int64_t port_wait_ms = 2000;    // for the port that an image exposes, before create answers
  std::int64_t listings_max = 10'000;  // of one tenant, ended ones included

  friend bool operator==(const SandboxerSettings&, const SandboxerSettings&) = default;
};

[[nodiscard]] Result<Vhost> read_vhost(const YamlNode& node, std::string_view path);

// That service's names of ours. A size is "512m" or "5g" there.
struct SandboxerVariable {
  std::string_view name;
  std::string_view path;
  bool size = false;
};
[[nodiscard]] std::span<const SandboxerVariable> sandboxer_variables() noexcept;
// "512m" → "512"; nothing when it is no size of whole mebibytes.
[[nodiscard]] Result<std::string> megabytes_of(std::string_view text);

}  // namespace caisson::policy
