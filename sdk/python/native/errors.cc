#include "native/errors.h"

namespace caisson::python {
namespace {

namespace py = pybind11;

[[noreturn]] void raise_as(const char* name, const Error& error) {
  const py::object type = py::module_::import("caisson.local.errors").attr(name);
  const std::string code(to_string(error.code));
  const py::object raised =
      type(error.message, py::arg("code") = code, py::arg("field") = error.field,
           py::arg("errno") = error.sys_errno);
  PyErr_SetObject(type.ptr(), raised.ptr());
  throw py::error_already_set();
}

}  // namespace

void raise_sandbox_error(const Error& error) { raise_as("SandboxError", error); }

void raise_parse_error(const Error& error) { raise_as("CapabilityParseError", error); }

void raise_value_error(const Error& error) { throw py::value_error(error.message); }

}  // namespace caisson::python
