// Logging in by a token, and out; who one is.
#include <fmt/format.h>

#include "doors/sandboxer/call.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {
constexpr std::string_view kAvatar = "https://github.com/identicons/github.png";
}  // namespace

awaitable<Result<void>> log_in(Call& call) {
  if (auto body = need_body(call); !body) co_return body;
  doors::Problems problems;
  doors::Fields fields(call.body, json::array{"body"}, problems);
  const std::string token = fields.text("token");
  if (!problems.empty()) co_return refuse(call, problems);
  const http::Request& request = call.request();
  auto caller = call.services().access.authenticate(token, request.peer.address);
  if (!caller && caller.error().code == Errc::Exhausted) {
    call.exchange.set("Retry-After", "60");
    co_return refuse(call, 429, "Too many failed logins: try again later");
  }
  if (!caller) co_return refuse(call, 401, "Invalid token");
  call.caller = *std::move(caller);
  auto secret = call.services().logins.open(call.caller, std::string(control::kConsolePurpose),
                                            call.options().cookie_life);
  if (!secret) co_return std::unexpected(secret.error());
  call.exchange.set("Set-Cookie",
                    doors::login_cookie(request, *secret, call.options().cookie_life));
  const json::object body{{"status", "ok"}};
  co_return co_await answer(call, body);
}

awaitable<Result<void>> log_out(Call& call) {
  const http::Request& request = call.request();
  // Nobody else's page may end a login.
  const std::string_view site = request.field("Sec-Fetch-Site");
  if (site == "cross-site" || site == "same-site")
    co_return refuse(call, 403, "Other web pages may not call this server");
  const auto name = doors::is_secure(request) ? doors::kSecureLoginCookie : doors::kLoginCookie;
  if (const auto secret = doors::cookie_of(request, name)) call.services().logins.close(*secret);
  call.exchange.set("Set-Cookie", doors::logout_cookie(request));
  call.exchange.set("Location", "/");
  co_await call.exchange.respond(303, "", "");
  co_return Result<void>{};
}

awaitable<Result<void>> show_me(Call& call) {
  const std::string& tenant = call.caller.tenant;
  const auto person = call.services().people.find(tenant);
  const auto or_else = [](const std::string& text, std::string otherwise) {
    return text.empty() ? std::move(otherwise) : text;
  };
  const json::object body{
      {"id", tenant},
      {"email", or_else(person ? person->email : "", fmt::format("{}@localhost", tenant))},
      {"name", or_else(person ? person->name : "", tenant)},
      {"avatar_url", or_else(person ? person->avatar_url : "", std::string(kAvatar))}};
  co_return co_await answer(call, body);
}

awaitable<Result<void>> refuse_github(Call& call) {
  co_return refuse(call, 403, "GitHub authentication is not enabled");
}

}  // namespace caisson::sandboxer
