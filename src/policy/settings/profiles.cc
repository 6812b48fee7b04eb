#include "policy/settings/profiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "policy/capability.h"
#include "policy/host_name.h"
#include "policy/settings/setting_fields.h"
#include "policy/settings/setting_value.h"
#include "policy/wording.h"

namespace caisson::policy {
namespace {

using namespace setting;  // NOLINT(google-build-using-namespace): the words of this file

constexpr std::array<std::string_view, 2> kModes = {"none", "allowlist"};
constexpr std::array<std::string_view, 2> kRoots = {"read_only", "writable"};
constexpr std::array<std::string_view, 2> kLanguages = {"python", "javascript"};

// --- network ---

Result<void> read_mode(const YamlNode& node, std::string_view path, NetworkSettings& out) {
  out.mode = TRY(read_word(node, path, kModes)) == 0 ? NetworkMode::None : NetworkMode::Allowlist;
  return {};
}

Result<void> read_domains(const YamlNode& node, std::string_view path, NetworkSettings& out) {
  TRY(require_list(node, path, kDomainsMax));
  for (const YamlNode& item : node.items) {
    const std::string text = TRY(read_text(item, path, kHostBytesMax + 2));
    out.domain_allowlist.push_back(TRY(placed(item, path, canonical_rule_domain(text))));
  }
  return {};
}

constexpr std::array<Field<NetworkSettings>, 2> kNetworkFields = {{
    {"mode", read_mode},
    {"domain_allowlist", read_domains},
}};

// --- resource_limits ---

constexpr std::array<Field<LimitSettings>, 6> kLimitFields = {{
    {"cpu",
     [](const YamlNode& node, std::string_view path, LimitSettings& out) -> Result<void> {
       out.cpu = TRY(read_cpu(node, path));
       return {};
     }},
    {"memory_mb",
     [](const YamlNode& node, std::string_view path, LimitSettings& out) -> Result<void> {
       out.memory_mb = TRY(read_megabytes(node, path));
       return {};
     }},
    {"processes",
     [](const YamlNode& node, std::string_view path, LimitSettings& out) -> Result<void> {
       out.processes = TRY(read_processes(node, path));
       return {};
     }},
    {"disk_mb",
     [](const YamlNode& node, std::string_view path, LimitSettings& out) -> Result<void> {
       out.disk_mb = TRY(read_megabytes(node, path));
       return {};
     }},
    {"timeout_seconds",
     [](const YamlNode& node, std::string_view path, LimitSettings& out) -> Result<void> {
       out.timeout_seconds = TRY(read_life(node, path));
       return {};
     }},
    {"rest_seconds",
     [](const YamlNode& node, std::string_view path, LimitSettings& out) -> Result<void> {
       out.rest_seconds = TRY(read_life(node, path));
       return {};
     }},
}};

// --- a profile ---

Result<void> read_network(const YamlNode& node, std::string_view path, ProfileSettings& out) {
  NetworkSettings network;
  TRY(read_fields(node, path, kNetworkFields, network));
  if (network.mode == NetworkMode::None && !network.domain_allowlist.empty())
    return wrong(node, path, "a domain_allowlist counts with mode: allowlist only");
  out.network = std::move(network);
  return {};
}

Result<void> read_root(const YamlNode& node, std::string_view path, ProfileSettings& out) {
  const bool writable = TRY(read_word(node, path, kRoots)) == 1;
  out.root = writable ? RootChoice::Writable : RootChoice::ReadOnly;
  return {};
}

constexpr std::array<Field<ProfileSettings>, 1> kFilesystemFields = {{{"root", read_root}}};

Result<void> read_env(const YamlNode& node, std::string_view path, ProfileSettings& out) {
  if (node.kind != YamlNode::Kind::Mapping) return wrong_type(node, path, "a mapping");
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    YamlNode name;
    name.at = node.keys[i].at;
    const std::string checked = TRY(placed(name, path, check_env_name(node.keys[i].name)));
    const std::string full = fmt::format("{}.{}", path, checked);
    out.env[checked] = TRY(read_text(node.items[i], full, kEnvValueBytesMax));
  }
  return {};
}

constexpr std::array<Field<InterpreterSettings>, 2> kInterpreterFields = {{
    {"warm",
     [](const YamlNode& node, std::string_view path, InterpreterSettings& out) -> Result<void> {
       out.warm = TRY(read_truth(node, path));
       return {};
     }},
    {"imports",
     [](const YamlNode& node, std::string_view path, InterpreterSettings& out) -> Result<void> {
       TRY(require_list(node, path, kImportsMax));
       for (const YamlNode& item : node.items)
         out.imports.push_back(TRY(read_text(item, path, kImportBytesMax)));
       return {};
     }},
}};

template <std::size_t kWhich>
Result<void> read_interpreter(const YamlNode& node, std::string_view path, ProfileSettings& out) {
  InterpreterSettings interpreter;
  TRY(read_fields(node, path, kInterpreterFields, interpreter));
  out.interpreters[std::string(kLanguages[kWhich])] = std::move(interpreter);
  return {};
}

constexpr std::array<Field<ProfileSettings>, 2> kInterpretersFields = {{
    {kLanguages[0], read_interpreter<0>},
    {kLanguages[1], read_interpreter<1>},
}};

constexpr std::array<Field<ProfileSettings>, 9> kProfileFields = {{
    {"base_image",
     [](const YamlNode& node, std::string_view path, ProfileSettings& out) -> Result<void> {
       out.base_image = TRY(read_image(node, path));
       return {};
     }},
    {"tools",
     [](const YamlNode& node, std::string_view path, ProfileSettings& out) -> Result<void> {
       out.tools = TRY(read_tools(node, path));
       return {};
     }},
    {"resource_limits",
     [](const YamlNode& node, std::string_view path, ProfileSettings& out) -> Result<void> {
       return read_fields(node, path, kLimitFields, out.limits);
     }},
    {"network", read_network},
    {"filesystem",
     [](const YamlNode& node, std::string_view path, ProfileSettings& out) -> Result<void> {
       return read_fields(node, path, kFilesystemFields, out);
     }},
    {"env", read_env},
    {"tier",
     [](const YamlNode& node, std::string_view path, ProfileSettings& out) -> Result<void> {
       out.tier = TRY(read_tier(node, path));
       return {};
     }},
    {"minimum_tier",
     [](const YamlNode& node, std::string_view path, ProfileSettings& out) -> Result<void> {
       out.minimum_tier = TRY(read_tier(node, path));
       return {};
     }},
    {"interpreters",
     [](const YamlNode& node, std::string_view path, ProfileSettings& out) -> Result<void> {
       return read_fields(node, path, kInterpretersFields, out);
     }},
}};

bool is_profile_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= kProfileNameBytesMax && fits(name[0]) && name[0] != '-' &&
         name[0] != '_' && std::ranges::all_of(name, fits);
}

void print_limits(std::string& out, const LimitSettings& limits) {
  std::string lines;
  const auto add = [&lines](std::string_view name, const auto& value) {
    if (value) lines += fmt::format("\n      {}: {}", name, *value);
  };
  add("cpu", limits.cpu);
  add("memory_mb", limits.memory_mb);
  add("processes", limits.processes);
  add("disk_mb", limits.disk_mb);
  add("timeout_seconds", limits.timeout_seconds);
  add("rest_seconds", limits.rest_seconds);
  if (!lines.empty()) out += "\n    resource_limits:" + lines;
}

void print_network(std::string& out, const NetworkSettings& network) {
  out += fmt::format("\n    network:\n      mode: {}",
                     kModes[network.mode == NetworkMode::None ? 0 : 1]);
  if (network.domain_allowlist.empty()) return;
  out += "\n      domain_allowlist:" + print_list(network.domain_allowlist, 8);
}

std::string print_profile(const ProfileSettings& profile) {
  std::string out;
  if (profile.base_image)
    out += fmt::format("\n    base_image: {}", print_text(*profile.base_image));
  if (profile.tools) {
    out += "\n    tools:";
    out += (profile.tools->empty() ? " " : "") + print_list(*profile.tools, 6);
  }
  print_limits(out, profile.limits);
  if (profile.network) print_network(out, *profile.network);
  if (profile.root)
    out += fmt::format("\n    filesystem:\n      root: {}",
                       kRoots[*profile.root == RootChoice::Writable ? 1 : 0]);
  if (profile.tier) out += fmt::format("\n    tier: {}", tier_word(*profile.tier));
  if (profile.minimum_tier)
    out += fmt::format("\n    minimum_tier: {}", tier_word(*profile.minimum_tier));
  if (!profile.env.empty()) out += "\n    env:";
  for (const auto& [name, value] : profile.env)
    out += fmt::format("\n      {}: {}", print_text(name), print_text(value));
  if (!profile.interpreters.empty()) out += "\n    interpreters:";
  for (const auto& [language, one] : profile.interpreters) {
    out += fmt::format("\n      {}:\n        warm: {}", language, one.warm);
    if (!one.imports.empty()) out += "\n        imports:" + print_list(one.imports, 10);
  }
  return out.empty() ? " {}" : out;
}

}  // namespace

Result<double> read_cpu(const YamlNode& node, std::string_view path) {
  return read_fraction(node, path, kCoresMin, kCoresMax);
}

Result<std::int64_t> read_megabytes(const YamlNode& node, std::string_view path) {
  return read_whole(node, path, 1, kMegabytesMax);
}

Result<std::int64_t> read_processes(const YamlNode& node, std::string_view path) {
  return read_whole(node, path, 1, kProcessesMax);
}

Result<double> read_life(const YamlNode& node, std::string_view path) {
  return read_fraction(node, path, 0, kLifeSecondsMax);
}

Result<Profiles> read_profiles(const YamlNode& node, std::string_view path) {
  Profiles profiles;
  if (node.kind == YamlNode::Kind::Null) return profiles;
  if (node.kind != YamlNode::Kind::Mapping) return wrong_type(node, path, "a mapping");
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& name = node.keys[i].name;
    if (!is_profile_name(name)) {
      YamlNode at;
      at.at = node.keys[i].at;
      return wrong(at, path,
                   fmt::format("{} is no name for a profile: want lower-case letters, digits, '-' "
                               "and '_', at most {}, a letter or digit first",
                               in_quotes(name), kProfileNameBytesMax));
    }
    const std::string full = fmt::format("{}.{}", path, name);
    TRY(read_fields(node.items[i], full, kProfileFields, profiles[name]));
  }
  return profiles;
}

std::string print_profiles(const Profiles& profiles) {
  if (profiles.empty()) return "{}";
  std::string out;
  for (const auto& [name, profile] : profiles)
    out += fmt::format("\n  \"{}\":{}", name, print_profile(profile));
  return out;
}

}  // namespace caisson::policy
