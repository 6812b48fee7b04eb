#include "doors/daiv/call.h"

#include "doors/daiv/json_text.h"
#include "doors/daiv/python_text.h"
#include "doors/daiv/schema.h"

namespace caisson::daiv {

namespace json = boost::json;

std::string detail_body(std::string_view text) {
  return json_text(json::object{{"detail", lossy_utf8(text)}});
}

std::unexpected<Error> refuse(Call& call, unsigned status, std::string_view detail) {
  call.refusal = Call::Refusal{status, detail_body(detail)};
  return failure(Errc::InvalidArgument, std::string(detail));
}

std::unexpected<Error> refuse(Call& call, const Problems& problems) {
  call.refusal = Call::Refusal{422, problems.body()};
  return failure(Errc::InvalidArgument, "the body does not fit its schema");
}

// Its clients take 5xx for a passing trouble and try again; what will not change is 4xx.
Call::Refusal refusal_of(const Error& error) {
  const auto with = [&](unsigned status) {
    return Call::Refusal{status, detail_body(error.message)};
  };
  switch (error.code) {
    case Errc::InvalidArgument:
    case Errc::NotFound:
    case Errc::AlreadyExists:
    case Errc::Denied:
    case Errc::Unsupported:
    case Errc::Protocol:
      return with(400);
    case Errc::Unauthenticated:
      return with(403);
    case Errc::TooLarge:
      return with(413);
    case Errc::Busy:
      return with(409);
    case Errc::Exhausted:
    case Errc::TimedOut:
    case Errc::Gone:
    case Errc::LauncherGone:
    case Errc::StoreFull:
      return with(503);
    case Errc::Internal:
      break;
  }
  return {500, {}};  // told to whoever runs the server only
}

awaitable<Result<void>> answer(Call& call, const json::object& body) {
  co_await call.exchange.respond(200, kJson, json_text(body));
  co_return Result<void>{};
}

awaitable<Result<void>> answer_nothing(Call& call) {
  co_await call.exchange.respond(204, "", "");
  co_return Result<void>{};
}

}  // namespace caisson::daiv
