#include "doors/grpc/status.h"

namespace caisson::grpc {

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::Ok:
      return "OK";
    case Code::Cancelled:
      return "CANCELLED";
    case Code::Unknown:
      return "UNKNOWN";
    case Code::InvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::DeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::NotFound:
      return "NOT_FOUND";
    case Code::AlreadyExists:
      return "ALREADY_EXISTS";
    case Code::PermissionDenied:
      return "PERMISSION_DENIED";
    case Code::ResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::FailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::Unimplemented:
      return "UNIMPLEMENTED";
    case Code::Internal:
      return "INTERNAL";
    case Code::Unavailable:
      return "UNAVAILABLE";
    case Code::Unauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

Status status_of(const Error& error) {
  const auto with = [&](Code code) { return Status{code, error.message}; };
  switch (error.code) {
    case Errc::InvalidArgument:
    case Errc::Protocol:
      return with(Code::InvalidArgument);
    case Errc::NotFound:
      return with(Code::NotFound);
    case Errc::AlreadyExists:
      return with(Code::AlreadyExists);
    case Errc::Denied:
      return with(Code::PermissionDenied);
    case Errc::Unauthenticated:
      return with(Code::Unauthenticated);
    case Errc::Unsupported:
      return with(Code::FailedPrecondition);
    case Errc::Exhausted:
    case Errc::TooLarge:
      return with(Code::ResourceExhausted);
    case Errc::TimedOut:
      return with(Code::DeadlineExceeded);
    case Errc::Busy:
    case Errc::Gone:
    case Errc::LauncherGone:
    case Errc::StoreFull:
      return with(Code::Unavailable);
    case Errc::Internal:
      break;
  }
  return {Code::Internal, "an error of the server's own; its log has the reason"};
}

}  // namespace caisson::grpc
