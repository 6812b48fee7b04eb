#include "base/result.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace caisson {

std::string_view to_string(Errc code) noexcept {
  switch (code) {
    case Errc::InvalidArgument:
      return "InvalidArgument";
    case Errc::NotFound:
      return "NotFound";
    case Errc::AlreadyExists:
      return "AlreadyExists";
    case Errc::Denied:
      return "Denied";
    case Errc::Unauthenticated:
      return "Unauthenticated";
    case Errc::Unsupported:
      return "Unsupported";
    case Errc::Exhausted:
      return "Exhausted";
    case Errc::TooLarge:
      return "TooLarge";
    case Errc::TimedOut:
      return "TimedOut";
    case Errc::Busy:
      return "Busy";
    case Errc::Gone:
      return "Gone";
    case Errc::LauncherGone:
      return "LauncherGone";
    case Errc::StoreFull:
      return "StoreFull";
    case Errc::Protocol:
      return "Protocol";
    case Errc::Internal:
      return "Internal";
  }
  return "Internal";
}

Error Error::within(std::string_view outer) const {
  return Error{code, std::string(outer) + ": " + message, sys_errno, field};
}

std::unexpected<Error> failure(Errc code, std::string message) {
  return std::unexpected(Error{code, std::move(message), 0});
}

std::unexpected<Error> bad_field(std::string field, std::string message) {
  return std::unexpected(Error{Errc::InvalidArgument, std::move(message), 0, std::move(field)});
}

namespace {

Errc code_of(int sys_errno) noexcept {
  switch (sys_errno) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
      return Errc::NotFound;
    case EEXIST:
      return Errc::AlreadyExists;
    case EPERM:
    case EACCES:
    case EROFS:
      return Errc::Denied;
    case ENOSYS:
    case EOPNOTSUPP:
      return Errc::Unsupported;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
    case EUSERS:
      return Errc::Exhausted;
    case ETIMEDOUT:
      return Errc::TimedOut;
    case EBUSY:
    case ETXTBSY:
      return Errc::Busy;
    case EPIPE:
    case ECONNRESET:
      return Errc::Gone;
    default:
      return Errc::Internal;
  }
}

}  // namespace

std::string errno_text(int sys_errno) {
  const char* text = ::strerrordesc_np(sys_errno);
  return text != nullptr ? std::string(text) : "errno " + std::to_string(sys_errno);
}

std::unexpected<Error> sys_failure(std::string_view what, int sys_errno) {
  return std::unexpected(
      Error{code_of(sys_errno), std::string(what) + ": " + errno_text(sys_errno), sys_errno});
}

void assert_failed(const char* condition, const char* file, int line) noexcept {
  (void)std::fprintf(stderr, "caisson: bug: %s does not hold at %s:%d\n", condition, file, line);
  std::abort();
}

}  // namespace caisson
