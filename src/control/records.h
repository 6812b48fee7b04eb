// control/records.h — what a new server must know of a sandbox that an older one made, as the JSON
// of its record. Limits and walls are the launcher's to tell; this is the rest.
#pragma once

#include <string>
#include <string_view>

#include "control/file_records.h"
#include "control/sandbox_spec.h"

namespace caisson::control {

// The authority that a sandbox trusts: its key is sealed, because a record is no place for one.
struct KeptAuthority {
  std::string certificate;
  std::string sealed_key;
  std::vector<std::string> domains;

  friend bool operator==(const KeptAuthority&, const KeptAuthority&) = default;
};

struct KeptBudget {
  std::optional<std::int64_t> max_tokens;
  std::optional<std::int64_t> max_cost_nano_usd;
  bool stop = false;
  std::int64_t used_tokens = 0;
  std::int64_t used_nano_usd = 0;

  friend bool operator==(const KeptBudget&, const KeptBudget&) = default;
};

// A token that was given to the sandbox's programs, by its digest: the record is no place for it.
struct KeptToken {
  std::string digest;
  std::int64_t expires = 0;  // seconds since 1970

  friend bool operator==(const KeptToken&, const KeptToken&) = default;
};

struct KeptSpec {
  std::string name;
  std::string profile;
  std::string image = "host";
  std::vector<std::string> tools;
  std::map<std::string, std::string> labels;
  std::vector<std::string> environment;
  std::string workdir;
  std::optional<double> idle_seconds;
  std::optional<double> rest_seconds{};
  engine::RootMode root = engine::RootMode::ReadOnly;
  std::uint32_t uid = kUidDefault;
  EgressRules network{};
  std::optional<KeptAuthority> authority{};
  KeptBudget budget{};
  bool models = false;
  bool token = false;
  ProxyManner proxy{};
  std::vector<KeptToken> proxy_tokens{};  // with proxy.words
  // --- file state
  std::uint32_t gid = kUidDefault;
  bool root_capabilities = false;
  std::string hostname = "caisson";
  std::vector<std::string> folders{};
  std::vector<engine::Alias> aliases{};
  policy::SandboxTier tier = policy::SandboxTier::Native;
  engine::Storage storage = engine::Storage::Memory;
  bool persistent = false;
  Checkpoints checkpoint = Checkpoints::None;
  std::vector<VolumeUse> volumes{};
  std::string parent{};  // the sandbox or snapshot whose files it started with
  std::string head{};    // the snapshot that its files come from now
  std::string payer{};   // of a fork: the sandbox on whose budget it draws
  engine::LayerStack stack{};
  std::size_t base_layers = 0;             // of the stack, at its lower end: the image's
  ImageDefaults defaults{};                // of the image
  std::optional<engine::Limits> limits{};  // of a persistent one, for its next start
  // Before it moved into the tier it has; the launcher counts from that start on.
  std::uint64_t lived_us = 0;
  std::uint64_t cpu_used_us = 0;
  bool paused = false;          // by a call; a copy of its files stops it, too
  std::string hibernated{};     // stopped: the snapshot that has its processes
  store::WallTime expires = 0;  // hibernated: when its time to live ends; 0: never
  InterpreterWishes interpreters{};
  // Of one behind another kernel that has a way out: the ports at which its init listens for it.
  std::optional<std::vector<std::uint16_t>> ports_inside{};
  // Of the server that wrote this: another one cannot speak to them.
  std::vector<std::uint32_t> interpreter_processes{};

  // Somebody inside may ask for something outside, or hear that he may not.
  [[nodiscard]] bool has_gate() const noexcept { return !network.empty() || models || proxy.place; }

  friend bool operator==(const KeptSpec&, const KeptSpec&) = default;
};

[[nodiscard]] std::string to_json(const KeptSpec& spec);
[[nodiscard]] std::string limits_text(const engine::Limits& limits);
[[nodiscard]] Result<engine::Limits> parse_limits(std::string_view text);
[[nodiscard]] Result<KeptSpec> parse_kept_spec(std::string_view text);

}  // namespace caisson::control
