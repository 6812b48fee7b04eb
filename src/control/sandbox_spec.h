// control/sandbox_spec.h — what a caller wishes, laid over his profile, laid over the server's
// defaults, and judged. Pure: nothing is started here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "control/open_fleet.h"
#include "engine/plan.h"

namespace caisson::control {

inline constexpr std::size_t kNameBytesMax = 63;
inline constexpr std::size_t kLabelNameBytesMax = 128;
inline constexpr std::size_t kLabelBytesMax = 1024;
inline constexpr std::size_t kEnvironmentBytesMax = 64UL * 1024;  // names and values together
inline constexpr double kBudgetUsdMax = 1e9;
inline constexpr std::uint32_t kUidDefault = 65534;

// What a sandbox's files begin with.
struct SandboxBase {
  std::string image = "host";
  engine::LayerStack stack;
  std::size_t base_layers = 0;            // of the stack: the image's
  std::optional<ImageDefaults> defaults;  // none: those of the host image
  std::string parent;                     // the sandbox or snapshot it comes from
  std::string head;                       // the snapshot
};

// Everything that is decided before a launch. What of it outlives a server is in records.h.
struct SandboxPlan {
  engine::SandboxSpec spec;
  std::string name;
  std::string profile;
  std::string image = "host";
  std::vector<std::string> tools;
  std::map<std::string, std::string> labels;
  std::vector<std::string> environment;  // NAME=value, complete
  std::string workdir;
  std::optional<double> idle_seconds;
  std::optional<double> rest_seconds;
  std::vector<std::pair<std::string, std::string>> files;  // absolute path, content
  BudgetWish budget;
  bool models = false;  // language models can be reached
  bool token = false;   // proxy clients must show one
  bool authority_for_every_name = false;
  ProxyManner proxy;
  SandboxBase base;
  bool persistent = false;
  Checkpoints checkpoint = Checkpoints::None;
  std::vector<VolumeUse> volumes;
  InterpreterWishes interpreters;
  bool make_workdir = false;                      // the image names it, and may not have it
  std::string payer;                              // of a fork: on whose budget it draws
  std::map<std::uint32_t, std::string> commands;  // with spec.request.memory: of its processes
};

// The image that a wish comes to: its own, its profile's, or the server's.
[[nodiscard]] Result<std::string> image_of(const CreateWish& wish, const FleetOptions& options);

[[nodiscard]] Result<SandboxPlan> plan_sandbox(const CreateWish& wish, const FleetOptions& options,
                                               Trust trust = Trust::Caller,
                                               const SandboxBase& base = {});

// As of a sandbox, so of a snapshot.
[[nodiscard]] Result<void> check_name_and_labels(const std::string& name,
                                                 const std::map<std::string, std::string>& labels);

[[nodiscard]] Result<void> check_hostname(const std::string& name);

// The limits of a living sandbox, changed; a field that cannot change is Unsupported.
struct ChangedLimits {
  engine::Limits limits;
  std::optional<double> idle_seconds;
  std::optional<double> rest_seconds{};
};
[[nodiscard]] Result<ChangedLimits> change_limits(const ChangedLimits& now, const LimitWish& wish,
                                                  const LimitWish& most = {});

// NAME=value each; judged and bounded.
[[nodiscard]] Result<std::vector<std::string>> environment_of(
    const std::vector<std::pair<std::string, std::string>>& pairs, std::string_view field);

// Where programs inside find the language models, and keys that are none.
[[nodiscard]] std::vector<std::string> model_environment(
    const std::vector<egress::GatewayProvider>& models);

// A profile of the configuration, judged at the start and not first when somebody uses it.
[[nodiscard]] Result<void> check_options(const FleetOptions& options);

}  // namespace caisson::control
