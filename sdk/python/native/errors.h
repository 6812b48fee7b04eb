// sdk/python/native/errors.h — a failure of the library becomes an exception of Python. The classes
// are Python's own (caisson.local.errors), so that they can be pickled, subclassed and read.
// Everything here needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace caisson::python {

// caisson.local.errors.SandboxError, with the code, the field and the errno of the error.
[[noreturn]] void raise_sandbox_error(const Error& error);
// caisson.local.errors.CapabilityParseError.
[[noreturn]] void raise_parse_error(const Error& error);
// ValueError: what was written into a declaration cannot be.
[[noreturn]] void raise_value_error(const Error& error);

// What the call gave, or its error raised by `raise`.
template <class T>
T value_of(Result<T> result, void (*raise)(const Error&) = raise_sandbox_error) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace caisson::python
