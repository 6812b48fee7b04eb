// The way in: a ticket of one use, a cookie of this very host, and who gets the ticket.
#include <fmt/format.h>

#include "doors/preview/name.h"
#include "doors/preview/state.h"

namespace caisson::preview {
namespace {

constexpr std::string_view kEnterPath = "/.caisson/enter";

// A ticket stands in an address, where others may see it; it must not be good as a cookie.
std::string ticket_purpose(std::string_view host) { return fmt::format("ticket {}", host); }

using Query = std::vector<std::pair<std::string, std::string>>;

std::string value_of(const Query& query, std::string_view name) {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return {};
}

std::unexpected<Error> bad_ticket() {
  return failure(Errc::Denied,
                 "this link has been used or is too old: open the preview from the console again");
}

}  // namespace

std::string target_of(const http::Request& request) {
  std::string out = request.path;
  if (!request.query.empty() || request.target.ends_with('?')) out += '?' + request.query;
  return out;
}

std::string Door::State::cookie(std::string_view secret) const {
  return fmt::format("{}={}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{}", cookie_name(), secret,
                     control::kPreviewLife.count(), options.scheme == "https" ? "; Secure" : "");
}

std::string_view Door::State::cookie_name() const {
  return options.scheme == "https" ? kSecureCookie : kPlainCookie;
}

Result<std::string> Door::State::invite(const control::Caller& caller, const Name& name,
                                        std::string_view path) {
  TRY(may_visit(caller, look_up(name.sandbox)));
  const std::string host = make_host(name, options.vhost);
  const std::string ticket = TRY(logins.open(caller, ticket_purpose(host), control::kTicketLife));
  return fmt::format("{}{}?ticket={}&to={}", make_origin(host, options), kEnterPath, ticket,
                     percent_encode(is_local_path(path) ? path : "/"));
}

std::string Door::State::login_address(const Name& name, std::string_view target) const {
  return fmt::format("{}/preview/open?host={}&path={}", make_origin(options.vhost, options),
                     percent_encode(make_host(name, options.vhost)),
                     percent_encode(is_local_path(target) ? target : "/"));
}

awaitable<Result<void>> Door::State::enter(http::Exchange& exchange, const Name& name) {
  const auto query = http::parse_query(exchange.request().query);
  const std::string host = make_host(name, options.vhost);
  if (!query) co_return bad_ticket();
  const auto caller = logins.take(value_of(*query, "ticket"), ticket_purpose(host));
  if (!caller) co_return bad_ticket();
  if (auto good = may_visit(*caller, look_up(name.sandbox)); !good) co_return good;
  const auto secret = logins.open(*caller, host, control::kPreviewLife);
  if (!secret) co_return std::unexpected(secret.error());
  const std::string path = value_of(*query, "to");
  exchange.set("Set-Cookie", cookie(*secret));
  co_await answer_redirect(exchange, 303, is_local_path(path) ? path : "/");
  co_return Result<void>{};
}

// A link that a program looks at with HEAD is still good for the person who follows it.
awaitable<Result<void>> Door::State::serve_own(http::Exchange& exchange, const Name& name,
                                               std::string path) {
  if (path == kEnterPath && exchange.request().method == http::Method::Get) {
    co_return co_await enter(exchange, name);
  }
  co_return failure(Errc::NotFound, "there is no such page");
}

Result<std::string> Door::address(std::string_view sandbox,
                                  std::optional<std::uint16_t> port) const {
  if (state_->options.vhost.empty()) {
    return failure(Errc::Unsupported,
                   "this server has no previews: start it with --vhost and a domain for them");
  }
  const Name name{std::string(sandbox), port};
  return make_origin(make_host(name, state_->options.vhost), state_->options) + "/";
}

Result<std::string> Door::invitation(const control::Caller& caller, std::string_view sandbox,
                                     std::optional<std::uint16_t> port) const {
  TRY(address(sandbox, port));
  return state_->invite(caller, Name{std::string(sandbox), port}, "/");
}

awaitable<void> Door::open(http::Exchange& exchange, const control::Caller* caller) {
  const http::Request& request = exchange.request();
  if (caller == nullptr) {
    co_await answer_redirect(exchange, 303, "/#/login?next=" + percent_encode(target_of(request)));
    co_return;
  }
  const auto query = http::parse_query(request.query);
  const auto name =
      query ? parse_name(value_of(*query, "host"), state_->options.vhost) : std::nullopt;
  Result<std::string> link = failure(Errc::NotFound, "there is no such sandbox");
  if (name) link = state_->invite(*caller, *name, value_of(*query, "path"));
  if (!link) {
    co_await answer_refusal(exchange, refusal_of(link.error(), request.id));
    co_return;
  }
  co_await answer_redirect(exchange, 303, *link);
}

}  // namespace caisson::preview
