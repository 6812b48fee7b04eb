#include "policy/describe.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "policy/json_text.h"
#include "policy/wording.h"

namespace caisson::policy {

namespace {

namespace json = boost::json;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

json::array strings(const std::vector<std::string>& texts) {
  json::array out;
  for (const std::string& text : texts) out.emplace_back(view(text));
  return out;
}

json::array injections(const std::vector<HeaderInjection>& inject) {
  json::array out;
  for (const HeaderInjection& one : inject) {
    json::object item;
    item["header"] = view(one.header);
    item["secret"] = view(one.secret);
    if (!one.prefix.empty()) item["prefix"] = view(one.prefix);
    out.emplace_back(std::move(item));
  }
  return out;
}

json::object rule_value(const NetworkEgressRule& rule) {
  json::array ports;
  for (const std::uint16_t port : rule.ports) ports.emplace_back(port);
  json::object out;
  out["domain"] = view(rule.domain);
  out["ports"] = std::move(ports);
  out["rate_limit_per_min"] = rule.rate_limit_per_min;
  if (!rule.methods.empty()) out["methods"] = strings(rule.methods);
  if (!rule.path_prefixes.empty()) out["path_prefixes"] = strings(rule.path_prefixes);
  if (rule.max_bytes != 0) out["max_bytes"] = rule.max_bytes;
  if (!rule.granted_addresses.empty()) {
    out["granted_addresses"] = strings(rule.granted_addresses);
  }
  if (!rule.inject.empty()) out["inject"] = injections(rule.inject);
  if (rule.inspect) out["inspect"] = true;
  return out;
}

json::object limits_value(const ResourceLimits& limits) {
  json::object out;
  out["max_memory_mb"] = limits.max_memory_mb;
  out["max_cpu_seconds"] = limits.max_cpu_seconds;
  out["max_cost_usd"] = limits.max_cost_usd;
  out["max_tokens"] = limits.max_tokens;
  return out;
}

json::object capability_value(const CapabilityDeclaration& capability) {
  json::array rules;
  for (const auto& rule : capability.network_egress_rules) rules.emplace_back(rule_value(rule));
  json::object filesystem;
  filesystem["mode"] = view(to_string(capability.filesystem_config.mode));
  filesystem["writable_paths"] = strings(capability.filesystem_config.writable_paths);
  json::array permissions;
  for (const Permission permission : capability.permissions) {
    permissions.emplace_back(view(to_string(permission)));
  }
  json::object out;
  out["sandbox_tier"] = view(to_string(capability.sandbox_tier));
  out["network_egress_rules"] = std::move(rules);
  out["filesystem_config"] = std::move(filesystem);
  out["resource_limits"] = limits_value(capability.resource_limits);
  out["permissions"] = std::move(permissions);
  out["env_allowlist"] = nullptr;
  if (capability.env_allowlist) out["env_allowlist"] = strings(*capability.env_allowlist);
  return out;
}

}  // namespace

std::string describe_text(const CapabilityDeclaration& capability) {
  std::string permissions;
  for (const Permission permission : capability.permissions) {
    if (!permissions.empty()) permissions += ", ";
    permissions += to_string(permission);
  }
  if (permissions.empty()) permissions = "none";
  const ResourceLimits& limits = capability.resource_limits;
  std::string out = "VALID\n";
  const auto line = [&](std::string_view name, std::string_view value) {
    out += fmt::format("  {:<17}{}\n", fmt::format("{}:", name), value);
  };
  line("sandbox_tier", to_string(capability.sandbox_tier));
  line("filesystem_mode", to_string(capability.filesystem_config.mode));
  line("max_memory_mb", std::to_string(limits.max_memory_mb));
  line("max_cpu_seconds", decimal(limits.max_cpu_seconds, 1));
  line("max_cost_usd", decimal(limits.max_cost_usd, 2));
  line("max_tokens", std::to_string(limits.max_tokens));
  line("egress_rules", std::to_string(capability.network_egress_rules.size()));
  line("permissions", permissions);
  return out;
}

std::string capability_json(const CapabilityDeclaration& capability) {
  return json_text(capability_value(capability));
}

std::string describe_json(const CapabilityDeclaration& capability) {
  json::object out;
  out["valid"] = true;
  out["capability"] = capability_value(capability);
  return json_text(out);
}

std::string describe_invalid_json(std::string_view error) {
  json::object out;
  out["valid"] = false;
  out["error"] = view(error);
  return json_text(out);
}

}  // namespace caisson::policy
