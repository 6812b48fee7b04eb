// doors/grpc/status.h — how a call ends, in gRPC's words.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "base/result.h"

namespace caisson::grpc {

enum class Code : std::uint8_t {
  Ok = 0,
  Cancelled = 1,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  Unauthenticated = 16,
};
[[nodiscard]] std::string_view to_string(Code code) noexcept;  // "INVALID_ARGUMENT"

struct Status {
  Code code = Code::Ok;
  std::string message;

  [[nodiscard]] bool ok() const noexcept { return code == Code::Ok; }
};

template <class T>
using Outcome = std::expected<T, Status>;

// What an error of control becomes, where a method knows nothing better. Those that are ours alone
// have no text for the client.
[[nodiscard]] Status status_of(const Error& error);

}  // namespace caisson::grpc
