// sdk/python/native/values.h — the values of a declaration, between Python's dataclasses
// (caisson.local.models) and policy's. Python's are read by attribute; what has another type than
// it should is a ValueError that names the field. Everything here needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "policy/capability.h"

namespace caisson::python {

[[nodiscard]] policy::ResourceLimits read_limits(const pybind11::handle& from);
[[nodiscard]] policy::FilesystemConfig read_filesystem(const pybind11::handle& from);
[[nodiscard]] policy::NetworkEgressRule read_rule(const pybind11::handle& from);
[[nodiscard]] std::vector<policy::NetworkEgressRule> read_rules(const pybind11::handle& from);
[[nodiscard]] policy::CapabilityDeclaration read_capability(const pybind11::handle& from);

// The arguments of the dataclass, by name; nested ones as dictionaries, too.
[[nodiscard]] pybind11::dict arguments_of(const policy::CapabilityDeclaration& capability);

}  // namespace caisson::python
