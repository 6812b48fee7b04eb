// caisson._native — the library for Python, without a server. Start at caisson/local/__init__.py:
// people use the classes there, which are written in Python and call what is bound here. The
// judgement is the library's alone: this folder translates values, errors and waiting, and decides
// nothing.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <limits>

#include "control/local_spec.h"
#include "native/errors.h"
#include "native/manager.h"
#include "native/values.h"
#include "policy/capability_parser.h"
#include "policy/egress.h"
#include "policy/filesystem.h"
#include "policy/host_name.h"

namespace caisson::python {
namespace {

namespace py = pybind11;
using policy::CapabilityDeclaration;
using policy::EgressFilter;
using policy::FilesystemPolicy;
using policy::ResourceMonitor;

// ------------------------------------------------------------------------------ the declaration

// A part of a declaration is judged as a declaration that says nothing else.
void check(const CapabilityDeclaration& declared) {
  (void)value_of(policy::validate(declared), raise_value_error);
}

void bind_declaration(py::module_& module) {
  module.def("parse", [](const std::string& text) {
    return arguments_of(value_of(policy::CapabilityParser::from_string(text), raise_parse_error));
  });
  module.def("parse_file", [](const std::string& path) {
    return arguments_of(value_of(policy::CapabilityParser::from_file(path), raise_parse_error));
  });
  module.def("check_limits", [](const py::handle& limits) {
    CapabilityDeclaration declared;
    declared.resource_limits = read_limits(limits);
    check(declared);
  });
  module.def("check_filesystem", [](const py::handle& config) {
    CapabilityDeclaration declared;
    declared.filesystem_config = read_filesystem(config);
    check(declared);
  });
  module.def("check_rule", [](const py::handle& rule) {
    CapabilityDeclaration declared;
    declared.network_egress_rules.push_back(read_rule(rule));
    check(declared);
  });
  module.def("check_capability", [](const py::handle& all) { check(read_capability(all)); });
}

// ------------------------------------------------------------------------------- its questions

py::dict arguments_of(const policy::EgressDecision& decision) {
  return py::dict(py::arg("allowed") = decision.allowed, py::arg("reason") = decision.reason,
                  py::arg("rule_index") = decision.rule_index,
                  py::arg("host") = decision.target.host, py::arg("port") = decision.target.port);
}

// Places in the list of the rules that name this host, whatever their ports are.
std::vector<std::size_t> rules_for(const EgressFilter& filter, const std::string& host) {
  std::vector<std::size_t> places;
  const Result<std::string> name = policy::canonical_host(host);
  if (!name) return places;
  for (std::size_t i = 0; i < filter.rules().size(); ++i)
    if (policy::matches_name(filter.rules()[i], *name)) places.push_back(i);
  return places;
}

policy::PathOp operation(const std::string& word) {
  return value_of(policy::parse_path_op(word), raise_value_error);
}

void bind_questions(py::module_& module) {
  py::class_<EgressFilter>(module, "EgressFilter")
      .def(py::init([](const py::handle& rules) { return EgressFilter(read_rules(rules)); }))
      .def("check", [](const EgressFilter& filter,
                       const std::string& url) { return arguments_of(filter.check(url)); })
      .def("rules_for", rules_for);
  py::class_<FilesystemPolicy>(module, "FilesystemPolicy")
      .def(py::init([](const py::handle& config, const std::string& workdir) {
        return FilesystemPolicy(read_filesystem(config), workdir);
      }))
      .def("deny_reason",
           [](const FilesystemPolicy& policy, const std::string& path, const std::string& mode) {
             return policy.deny_reason(path, operation(mode));
           });
}

// --------------------------------------------------------------------------------- the account

constexpr double kBytesPerMb = 1024.0 * 1024.0;

std::uint64_t bytes_of(double memory_mb) {
  if (!std::isfinite(memory_mb) || memory_mb < 0)
    throw py::value_error("memory_mb: must be a finite number, not negative");
  const double bytes = memory_mb * kBytesPerMb;
  const auto most = std::numeric_limits<std::uint64_t>::max();
  return bytes < static_cast<double>(most) ? static_cast<std::uint64_t>(bytes) : most;
}

py::dict arguments_of(const policy::ResourceUsage& usage) {
  const std::chrono::duration<double> elapsed = usage.duration;
  return py::dict(py::arg("cpu_seconds") = usage.cpu_seconds,
                  py::arg("peak_memory_mb") = usage.peak_memory_mb,
                  py::arg("tokens_used") = usage.tokens_used, py::arg("cost_usd") = usage.cost_usd,
                  py::arg("elapsed_seconds") = elapsed.count());
}

void bind_account(py::module_& module) {
  py::class_<ResourceMonitor, std::shared_ptr<ResourceMonitor>>(module, "ResourceMonitor")
      .def(py::init([](const py::handle& limits) {
        return std::make_shared<ResourceMonitor>(read_limits(limits));
      }))
      .def("start", [](ResourceMonitor& monitor) { value_of(monitor.start(Clock::now())); })
      .def("stop", [](ResourceMonitor& monitor) { value_of(monitor.stop(Clock::now())); })
      .def("running", [](const ResourceMonitor& monitor) { return monitor.snapshot().running; })
      .def("record_tokens",
           [](ResourceMonitor& monitor, std::int64_t count) {
             value_of(monitor.record_tokens(count), raise_value_error);
           })
      .def("record_cost", [](ResourceMonitor& monitor,
                             double usd) { value_of(monitor.record_cost(usd), raise_value_error); })
      .def("record_usage",
           [](ResourceMonitor& monitor, double cpu_seconds, double memory_mb) {
             value_of(monitor.record_usage(cpu_seconds, bytes_of(memory_mb)), raise_value_error);
           })
      .def("snapshot",
           [](const ResourceMonitor& monitor) {
             return arguments_of(monitor.snapshot(Clock::now()));
           })
      .def("check_limits", &ResourceMonitor::check_limits);
}

// ----------------------------------------------------------------------------- the sandboxes

void bind_manager(py::module_& module) {
  py::class_<Manager>(module, "Manager")
      .def(py::init<std::string, std::string, std::optional<std::string>>())
      .def("close", &Manager::close)
      .def("create_sandbox", &Manager::create_sandbox)
      .def("execute", &Manager::execute, py::arg("id"), py::arg("argv"), py::arg("timeout_ms"),
           py::arg("env"), py::arg("input"), py::arg("workdir"), py::arg("output_bytes_max"))
      .def("destroy", &Manager::destroy)
      .def("status", &Manager::status)
      .def("list", &Manager::list)
      .def("monitor", &Manager::monitor)
      .def("launcher_pid", &Manager::launcher_pid);
  // Why this folder of the host would not be shown in a sandbox, or None.
  module.def("refusal", &control::refusal);
  module.def("default_state_dir", &control::default_state_dir);
}

}  // namespace
}  // namespace caisson::python

PYBIND11_MODULE(_native, module) {
  module.attr("__version__") = CAISSON_VERSION;
  caisson::python::bind_declaration(module);
  caisson::python::bind_questions(module);
  caisson::python::bind_account(module);
  caisson::python::bind_manager(module);
}
