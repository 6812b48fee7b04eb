#include "doors/rest/errors.h"

#include <boost/json/object.hpp>

#include "doors/rest/rest.h"
#include "doors/rest/text.h"
#include "policy/json_text.h"

namespace caisson::rest {

namespace json = boost::json;

unsigned http_status(Errc code) noexcept {
  switch (code) {
    case Errc::InvalidArgument:
      return 400;
    case Errc::Unauthenticated:
      return 401;
    case Errc::Denied:
      return 403;
    case Errc::NotFound:
      return 404;
    case Errc::AlreadyExists:
    case Errc::Busy:
      return 409;
    case Errc::Gone:
      return 410;
    case Errc::TooLarge:
      return 413;
    case Errc::Exhausted:
      return 429;
    case Errc::Internal:
      return 500;
    case Errc::Unsupported:
      return 501;
    case Errc::Protocol:
      return 502;
    case Errc::LauncherGone:
      return 503;
    case Errc::TimedOut:
      return 504;
    case Errc::StoreFull:
      return 507;
  }
  return 500;
}

std::string error_text(std::string_view code, const Error& error, std::string_view request_id,
                       json::object details) {
  std::string message = error.code == Errc::Internal
                            ? "something failed in the server; its log has it under request " +
                                  std::string(request_id)
                            : valid_utf8(cut_utf8(error.message, kErrorMessageBytesMax));
  if (!error.field.empty()) details["field"] = valid_utf8(cut_utf8(error.field, 256));
  json::object inner{{"code", code},
                     {"message", std::move(message)},
                     {"details", std::move(details)},
                     {"request_id", request_id}};
  json::object outer;
  outer["error"] = std::move(inner);
  return policy::json_text(outer);
}

std::string error_body(unsigned status, const Error& error, std::string_view id) {
  // The parser's own refusals have statuses that no code of ours stands for.
  std::string_view code = to_string(error.code);
  if (status == 405 || status == 501) code = "MethodNotAllowed";
  if (status == 414 || status == 431) code = "TooLarge";
  if (status == 408) code = "TimedOut";
  return error_text(code, error, id);
}

}  // namespace caisson::rest
