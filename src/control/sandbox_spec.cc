#include "control/sandbox_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/guest_path.h"
#include "control/local_spec.h"
#include "control/sandbox_limits.h"
#include "control/text.h"
#include "control/tools.h"
#include "control/volume_shelf.h"
#include "policy/way_out.h"

namespace caisson::control {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
}

Result<void> check_name(const std::string& name) {
  if (name.empty()) return {};
  if (name.size() <= kNameBytesMax && std::ranges::all_of(name, is_name_character)) return {};
  return bad_field("name", fmt::format("name is '{}': want 1 to 63 characters of a-z, 0-9 and '-'",
                                       cut_text(name, 80)));
}

Result<void> check_labels(const std::map<std::string, std::string>& labels) {
  if (labels.size() > kLabelsMax)
    return bad_field("labels", fmt::format("labels: {} are too many, want at most {}",
                                           labels.size(), kLabelsMax));
  for (const auto& [name, value] : labels) {
    const std::string field = "labels." + cut_text(name, 64);
    if (name.empty() || name.size() > kLabelNameBytesMax)
      return bad_field(field, field + ": want a name of 1 to 128 bytes");
    if (value.size() > kLabelBytesMax)
      return bad_field(field, field + ": want a value of at most 1024 bytes");
    if (!is_utf8(name) || !is_utf8(value)) return bad_field(field, field + ": want valid UTF-8");
  }
  return {};
}

// The caller's, the profile's, or the native one.
Result<policy::SandboxTier> choose_tier(const CreateWish& wish, const CreateWish& profile) {
  const auto& said = wish.tier ? wish.tier : profile.tier;
  if (!said) return policy::SandboxTier::Native;
  const auto tier = policy::parse_sandbox_tier(*said);
  if (tier) return *tier;
  return bad_field(
      "tier", fmt::format("tier is '{}': want native, gvisor or microvm", cut_text(*said, 64)));
}

Result<std::vector<std::string>> choose_tools(const CreateWish& wish, const CreateWish& profile,
                                              const FleetOptions& options) {
  if (wish.tools) {
    for (const std::string& tool : *wish.tools) TRY(check_tool_name(tool, "tools"));
  }
  std::vector<std::string> out;
  for (const std::string& tool : wish.tools      ? *wish.tools
                                 : profile.tools ? *profile.tools
                                                 : options.tools) {
    if (std::ranges::find(out, tool) == out.end()) out.push_back(tool);
  }
  return out;
}

Result<std::vector<std::pair<std::string, std::string>>> check_files(const CreateWish& wish) {
  if (wish.files.size() > kFilesMax)
    return bad_field("files", fmt::format("files: {} are too many, want at most {}",
                                          wish.files.size(), kFilesMax));
  std::vector<std::pair<std::string, std::string>> out;
  std::size_t bytes = 0;
  for (const auto& [path, content] : wish.files) {
    const std::string field = "files." + cut_text(path, 200);
    std::string absolute = TRY(guest_path(path, kWorkspace, field));
    if (absolute == kWorkspace)
      return bad_field(field, field + ": is the workspace itself, want a path below it");
    if (!engine::is_below(absolute, kWorkspace))
      return std::unexpected(
          Error{Errc::Denied, field + ": want a path below /workspace", 0, field});
    bytes += content.size();
    if (bytes > kFileTextBytesMax)
      return std::unexpected(Error{Errc::TooLarge,
                                   "files: together larger than 4 MiB; upload them with PUT "
                                   "…/files/{path} after the creation",
                                   0, "files"});
    out.emplace_back(std::move(absolute), content);
  }
  return out;
}

Result<const CreateWish*> find_profile(const CreateWish& wish, const FleetOptions& options) {
  static const CreateWish kNone;
  if (!wish.profile) return &kNone;
  const auto at = options.profiles.find(*wish.profile);
  if (at != options.profiles.end()) return &at->second;
  std::string known;
  for (const auto& [name, profile] : options.profiles) known += (known.empty() ? "" : ", ") + name;
  return bad_field(
      "profile", fmt::format("profile is '{}': {}", cut_text(*wish.profile, 128),
                             known.empty() ? "this server has none" : "this server has: " + known));
}

Result<void> choose_user(const CreateWish& wish, const CreateWish& profile, const SandboxBase& base,
                         engine::LaunchRequest& request) {
  const auto said = wish.uid ? wish.uid : profile.uid;
  const std::uint32_t image_uid = base.defaults ? base.defaults->uid : kUidDefault;
  const std::uint32_t uid = said.value_or(image_uid);
  if (uid >= engine::kInitId)
    return bad_field("user", fmt::format("user is {}: want 0 to 65534", uid));
  request.uid = uid;
  request.gid = wish.gid.value_or(!said && base.defaults ? base.defaults->gid : uid);
  if (request.gid >= engine::kInitId)
    return bad_field("gid", fmt::format("gid is {}: want 0 to 65534", request.gid));
  const auto capabilities =
      wish.root_capabilities ? wish.root_capabilities : profile.root_capabilities;
  if (capabilities.value_or(false) && uid != 0)
    return bad_field("root_capabilities",
                     fmt::format("root_capabilities is true: only user 0 can have them, and the "
                                 "user is {}; leave it out, or say user: 0",
                                 uid));
  request.root_capabilities = capabilities.value_or(uid == 0 && base.defaults.has_value());
  return {};
}

// What a call may need of its disk: a wish that another wish makes impossible is refused.
Result<void> choose_storage(const CreateWish& wish, const CreateWish& profile, SandboxPlan& plan) {
  plan.persistent = wish.persistent.value_or(profile.persistent.value_or(false));
  plan.checkpoint = wish.checkpoint.value_or(profile.checkpoint.value_or(Checkpoints::None));
  const bool needs_disk = plan.persistent || plan.checkpoint == Checkpoints::EachCall;
  const auto said = wish.storage ? wish.storage : profile.storage;
  if (needs_disk && said == engine::Storage::Memory)
    return bad_field("storage", fmt::format("storage is 'memory': {} needs 'disk'; leave storage "
                                            "out",
                                            plan.persistent ? "persistent" : "checkpoint"));
  plan.spec.request.storage =
      said.value_or(needs_disk ? engine::Storage::Disk : engine::Storage::Memory);
  return {};
}

// The image's own folder, unless somebody names another one.
Result<void> choose_workdir(const CreateWish& wish, const CreateWish& profile,
                            const SandboxBase& base, SandboxPlan& plan) {
  const auto& said = wish.workdir ? wish.workdir : profile.workdir;
  const bool of_image = !said && base.defaults && !base.defaults->workdir.empty();
  plan.workdir = TRY(guest_path(of_image ? base.defaults->workdir : said.value_or("/workspace"),
                                kWorkspace, "workdir"));
  plan.make_workdir = of_image && plan.workdir != kWorkspace && plan.workdir != "/";
  return {};
}

// The image's variables lie below those of the profile and the caller. Its user's home is no other
// user's.
void add_image_environment(const SandboxBase& base, SandboxPlan& plan) {
  if (!base.defaults) return;
  std::vector<std::string> own;
  for (const std::string& one : base.defaults->environment) {
    if (plan.spec.request.uid == base.defaults->uid || !one.starts_with("HOME="))
      own.push_back(one);
  }
  set_variables(plan.environment, own);
}

}  // namespace

Result<std::vector<std::string>> environment_of(
    const std::vector<std::pair<std::string, std::string>>& pairs, std::string_view field) {
  if (pairs.size() > kEnvironmentMax)
    return bad_field(std::string(field), fmt::format("{}: {} variables are too many, want at most "
                                                     "{}",
                                                     field, pairs.size(), kEnvironmentMax));
  std::vector<std::string> out;
  std::size_t bytes = 0;
  for (const auto& [name, value] : pairs) {
    const std::string where = std::string(field) + "." + cut_text(name, 64);
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    if (name.empty() || name.size() > 256 || !std::ranges::all_of(name, fits) ||
        (name.front() >= '0' && name.front() <= '9'))
      return bad_field(where, where + ": want a name of letters, digits and '_'");
    if (value.find('\0') != std::string::npos || !is_utf8(value))
      return bad_field(where, where + ": want a value of valid UTF-8 without NUL");
    bytes += name.size() + value.size() + 2;
    if (bytes > kEnvironmentBytesMax)
      return bad_field(std::string(field), fmt::format("{}: together larger than 64 KiB", field));
    out.push_back(fmt::format("{}={}", name, value));
  }
  return out;
}

// A caller's words replace the profile's, whole: two lists in one would allow what neither meant.
Result<EgressRules> choose_network(const CreateWish& wish, const CreateWish& profile, Trust trust) {
  if (wish.network.said()) return rules_of(wish.network, trust);
  return rules_of(profile.network, Trust::Operator);
}

Result<BudgetWish> choose_budget(const BudgetWish& wish, const BudgetWish& profile) {
  BudgetWish out = wish;
  if (!out.max_tokens) out.max_tokens = profile.max_tokens;
  if (!out.max_cost_usd) out.max_cost_usd = profile.max_cost_usd;
  if (!out.stop) out.stop = profile.stop;
  if (out.max_tokens && *out.max_tokens < 0)
    return bad_field("budget.max_tokens", "budget.max_tokens: want 0 or more");
  if (out.max_cost_usd && !(*out.max_cost_usd >= 0 && *out.max_cost_usd <= kBudgetUsdMax))
    return bad_field("budget.max_cost_usd", "budget.max_cost_usd: want 0 to 1000000000");
  return out;
}

Result<void> check_hostname(const std::string& name) {
  const auto fits = [](char c) { return is_name_character(c) || c == '.'; };
  if (!name.empty() && name.size() <= engine::kHostnameMax && std::ranges::all_of(name, fits))
    return {};
  return bad_field("hostname",
                   fmt::format("hostname is '{}': want 1 to 63 characters of a-z, 0-9, '-' and '.'",
                               cut_text(name, 80)));
}

Result<void> check_name_and_labels(const std::string& name,
                                   const std::map<std::string, std::string>& labels) {
  TRY(check_name(name));
  return check_labels(labels);
}

Result<std::string> image_of(const CreateWish& wish, const FleetOptions& options) {
  const CreateWish* profile = TRY(find_profile(wish, options));
  return wish.image.value_or(profile->image.value_or(options.image));
}

Result<SandboxPlan> plan_sandbox(const CreateWish& wish, const FleetOptions& options, Trust trust,
                                 const SandboxBase& base) {
  const CreateWish* profile = TRY(find_profile(wish, options));
  TRY(check_name(wish.name));
  TRY(check_labels(wish.labels));
  TRY(check_limits(wish.limits));
  SandboxPlan plan;
  plan.name = wish.name;
  plan.base = base;
  plan.image = base.image;
  plan.profile = wish.profile.value_or("");
  plan.labels = profile->labels;
  for (const auto& [name, value] : wish.labels) plan.labels[name] = value;
  plan.spec.tier = TRY(choose_tier(wish, *profile));
  plan.tools = TRY(choose_tools(wish, *profile, options));
  plan.files = TRY(check_files(wish));
  plan.spec.egress = TRY(choose_network(wish, *profile, trust));
  const NetworkWish& network = wish.network.said() ? wish.network : profile->network;
  plan.budget = TRY(choose_budget(wish.budget, profile->budget));
  plan.authority_for_every_name = network.authority_for_every_name;
  plan.token = wish.network.token.value_or(profile->network.token.value_or(false));
  plan.proxy = TRY(proxy_manner_of(wish.network, profile->network));
  // Who says "none" means it; who says nothing has what the server has.
  plan.models = !options.models.empty() && network.mode != "none";
  plan.spec.gateway = plan.models || plan.proxy.place;
  LimitWish limits = overlay(wish.limits, profile->limits, options.limits);
  TRY(apply_most(limits, options.limits_max));
  plan.idle_seconds = limits.idle_seconds;
  if (plan.idle_seconds && *plan.idle_seconds <= 0) plan.idle_seconds.reset();
  plan.rest_seconds = limits.rest_seconds;
  if (plan.rest_seconds && *plan.rest_seconds <= 0) plan.rest_seconds.reset();

  engine::LaunchRequest& request = plan.spec.request;
  request.limits = limits_of(limits);
  request.stack = base.stack;
  if (plan.proxy.place) request.gate_proxy = plan.proxy.place->port;
  request.root = wish.root.value_or(profile->root.value_or(
      base.defaults ? engine::RootMode::Writable : engine::RootMode::ReadOnly));
  plan.interpreters =
      wish.interpreters.value_or(profile->interpreters.value_or(InterpreterWishes()));
  TRY(check_interpreters(plan.interpreters));
  TRY(choose_storage(wish, *profile, plan));
  plan.volumes = TRY(check_volumes(wish.volumes.empty() ? profile->volumes : wish.volumes));
  request.hostname = wish.hostname.value_or(profile->hostname.value_or("caisson"));
  TRY(check_hostname(request.hostname));
  TRY(choose_user(wish, *profile, base, request));
  request.writable = wish.folders;
  request.aliases = wish.aliases;
  // What somebody asked for must hold; what is the server's habit may be left out, and the record
  // says so.
  plan.spec.declared.memory = wish.limits.memory_bytes || profile->limits.memory_bytes;
  plan.spec.declared.cpu = wish.limits.cpu || profile->limits.cpu;
  plan.spec.declared.cpu_time = wish.limits.cpu_seconds || profile->limits.cpu_seconds;
  plan.spec.declared.root_capabilities =
      wish.root_capabilities.value_or(profile->root_capabilities.value_or(false));
  TRY(choose_workdir(wish, *profile, base, plan));
  plan.environment = base_environment(request, plan.workdir);
  add_image_environment(base, plan);
  set_variables(plan.environment, TRY(environment_of(profile->environment, "env")));
  set_variables(plan.environment, TRY(environment_of(wish.environment, "env")));
  return plan;
}

std::vector<std::string> model_environment(const std::vector<egress::GatewayProvider>& models) {
  std::vector<std::string> out;
  for (const egress::GatewayProvider& one : models) {
    const bool openai = one.provider == egress::Provider::OpenAi;
    const std::string name = openai ? "OPENAI" : "ANTHROPIC";
    out.push_back(fmt::format("{}_BASE_URL=http://127.0.0.1:{}/{}", name, policy::kProxyPort,
                              openai ? "openai" : "anthropic"));
    out.push_back(name + "_API_KEY=kept-outside");
  }
  return out;
}

Result<void> check_options(const FleetOptions& options) {
  for (const std::string& tool : options.tools) TRY(check_tool_name(tool, "sandbox.tools"));
  LimitWish limits = options.limits;
  if (limits.timeout_seconds && *limits.timeout_seconds == 0) limits.timeout_seconds.reset();
  if (limits.idle_seconds && *limits.idle_seconds == 0) limits.idle_seconds.reset();
  TRY_IN("sandbox", check_limits(limits));
  if (!(options.exec_timeout_seconds > 0) || options.exec_timeout_seconds > kExecSecondsMax)
    return bad_field("sandbox.exec_timeout_seconds",
                     "sandbox.exec_timeout_seconds: want more than 0 and at most 3600 seconds");
  TRY_IN("sandbox", apply_most(limits, options.limits_max));
  for (const auto& [name, profile] : options.profiles) {
    CreateWish probe;
    probe.profile = name;
    if (profile.tools) {
      for (const std::string& tool : *profile.tools)
        TRY_IN("profiles." + name, check_tool_name(tool, "tools"));
    }
    LimitWish own = profile.limits;
    if (own.timeout_seconds && *own.timeout_seconds == 0) own.timeout_seconds.reset();
    TRY_IN("profiles." + name, check_limits(own));
    // A profile that needs what is not there yet is refused to whoever names it, by name.
    const auto planned = plan_sandbox(probe, options);
    if (!planned && planned.error().code != Errc::Unsupported)
      return std::unexpected(planned.error().within("profiles." + name));
  }
  return {};
}

}  // namespace caisson::control
