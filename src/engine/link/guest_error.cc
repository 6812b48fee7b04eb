#include <cerrno>

#include "engine/link/guest_link.h"

namespace caisson::engine {
namespace {

// Errors of files and programs are the caller's to act on; base's table would call most of them
// Internal.
Errc code_of(int sys_errno, wire::Step step) {
  if (step == wire::Step::Limit) return Errc::Exhausted;
  switch (sys_errno) {
    case EINVAL:
    case EISDIR:
    case ENOTEMPTY:
    case ELOOP:
    case ENAMETOOLONG:
    case ENOEXEC:
    case E2BIG:
    case ENOTTY:
    case ENXIO:  // a socket, or a device that nobody drives, was to be opened as a file
    case ENODEV:
      return Errc::InvalidArgument;
    case EFBIG:
    case ENOBUFS:
    case EOVERFLOW:
      return Errc::Exhausted;
    case EXDEV:
      return Errc::Unsupported;
    case ECANCELED:
      return Errc::TimedOut;
    default:
      return sys_failure("", sys_errno).error().code;
  }
}

}  // namespace

Error error_of(const wire::FailedView& failed) {
  const auto step = static_cast<wire::Step>(failed.body.step);
  std::string message = wire::step_name(step);
  if (failed.text.size != 0) {
    // Text from inside may name a file: quoted, and without what a terminal or a log would obey.
    message += " '";
    for (std::size_t i = 0; i < failed.text.size; ++i) {
      const char byte = static_cast<char>(failed.text.data[i]);
      message += byte >= ' ' && byte != 0x7f && byte != '\'' ? byte : '?';
    }
    message += "'";
  }
  message += ": " + errno_text(failed.body.sys_errno);
  return Error{code_of(failed.body.sys_errno, step), std::move(message), failed.body.sys_errno};
}

}  // namespace caisson::engine
