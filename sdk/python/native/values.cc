#include "native/values.h"

#include <pybind11/stl.h>

#include <string>

#include "native/errors.h"

namespace caisson::python {
namespace {

namespace py = pybind11;

// The attribute as a T; `wanted` is the word for it in the message.
template <class T>
T attribute(const py::handle& from, const char* name, const char* wanted) {
  const py::object value = from.attr(name);
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    const std::string found = py::repr(value).cast<std::string>();
    throw py::value_error(std::string(name) + ": must be " + wanted + ", found " + found);
  }
}

std::string text(const py::handle& from, const char* name) {
  return attribute<std::string>(from, name, "a string");
}

std::int64_t whole(const py::handle& from, const char* name) {
  return attribute<std::int64_t>(from, name, "a whole number");
}

double fraction(const py::handle& from, const char* name) {
  return attribute<double>(from, name, "a number");
}

std::vector<std::string> texts(const py::handle& from, const char* name) {
  return attribute<std::vector<std::string>>(from, name, "a list of strings");
}

std::vector<policy::HeaderInjection> read_injections(const py::handle& from) {
  std::vector<policy::HeaderInjection> all;
  for (const auto& one : attribute<py::list>(from, "inject", "a list of HeaderInjection"))
    all.push_back({text(one, "header"), text(one, "secret"), text(one, "prefix")});
  return all;
}

py::dict arguments_of(const policy::NetworkEgressRule& rule) {
  py::list injections;
  for (const policy::HeaderInjection& one : rule.inject) {
    injections.append(py::dict(py::arg("header") = one.header, py::arg("secret") = one.secret,
                               py::arg("prefix") = one.prefix));
  }
  return py::dict(py::arg("domain") = rule.domain, py::arg("ports") = rule.ports,
                  py::arg("rate_limit_per_min") = rule.rate_limit_per_min,
                  py::arg("methods") = rule.methods, py::arg("path_prefixes") = rule.path_prefixes,
                  py::arg("max_bytes") = rule.max_bytes,
                  py::arg("granted_addresses") = rule.granted_addresses,
                  py::arg("inject") = injections, py::arg("inspect") = rule.inspect);
}

}  // namespace

policy::ResourceLimits read_limits(const py::handle& from) {
  policy::ResourceLimits limits;
  limits.max_memory_mb = whole(from, "max_memory_mb");
  limits.max_cpu_seconds = fraction(from, "max_cpu_seconds");
  limits.max_cost_usd = fraction(from, "max_cost_usd");
  limits.max_tokens = whole(from, "max_tokens");
  return limits;
}

policy::FilesystemConfig read_filesystem(const py::handle& from) {
  policy::FilesystemConfig config;
  config.mode = value_of(policy::parse_filesystem_mode(text(from, "mode")), raise_value_error);
  config.writable_paths = texts(from, "writable_paths");
  return config;
}

policy::NetworkEgressRule read_rule(const py::handle& from) {
  policy::NetworkEgressRule rule;
  rule.domain = text(from, "domain");
  rule.ports =
      attribute<std::vector<std::uint16_t>>(from, "ports", "a list of whole numbers up to 65535");
  rule.rate_limit_per_min = whole(from, "rate_limit_per_min");
  rule.methods = texts(from, "methods");
  rule.path_prefixes = texts(from, "path_prefixes");
  rule.max_bytes = whole(from, "max_bytes");
  rule.granted_addresses = texts(from, "granted_addresses");
  rule.inject = read_injections(from);
  rule.inspect = attribute<bool>(from, "inspect", "True or False");
  return rule;
}

std::vector<policy::NetworkEgressRule> read_rules(const py::handle& from) {
  std::vector<policy::NetworkEgressRule> rules;
  for (const py::handle& one : from) rules.push_back(read_rule(one));
  return rules;
}

policy::CapabilityDeclaration read_capability(const py::handle& from) {
  policy::CapabilityDeclaration out;
  out.sandbox_tier =
      value_of(policy::parse_sandbox_tier(text(from, "sandbox_tier")), raise_value_error);
  out.network_egress_rules =
      read_rules(attribute<py::list>(from, "network_egress_rules", "a list"));
  out.filesystem_config = read_filesystem(from.attr("filesystem_config"));
  out.resource_limits = read_limits(from.attr("resource_limits"));
  for (const std::string& word : texts(from, "permissions"))
    out.permissions.insert(value_of(policy::parse_permission(word), raise_value_error));
  out.env_allowlist = attribute<std::optional<std::vector<std::string>>>(
      from, "env_allowlist", "a list of strings, or None");
  return out;
}

py::dict arguments_of(const policy::CapabilityDeclaration& capability) {
  py::list rules;
  for (const policy::NetworkEgressRule& rule : capability.network_egress_rules)
    rules.append(arguments_of(rule));
  py::list permissions;
  for (const policy::Permission one : capability.permissions)
    permissions.append(std::string(policy::to_string(one)));
  const policy::FilesystemConfig& files = capability.filesystem_config;
  const policy::ResourceLimits& limits = capability.resource_limits;
  return py::dict(
      py::arg("sandbox_tier") = std::string(policy::to_string(capability.sandbox_tier)),
      py::arg("network_egress_rules") = rules,
      py::arg("filesystem_config") =
          py::dict(py::arg("mode") = std::string(policy::to_string(files.mode)),
                   py::arg("writable_paths") = files.writable_paths),
      py::arg("resource_limits") = py::dict(py::arg("max_memory_mb") = limits.max_memory_mb,
                                            py::arg("max_cpu_seconds") = limits.max_cpu_seconds,
                                            py::arg("max_cost_usd") = limits.max_cost_usd,
                                            py::arg("max_tokens") = limits.max_tokens),
      py::arg("permissions") = permissions, py::arg("env_allowlist") = capability.env_allowlist);
}

}  // namespace caisson::python
