#include "doors/preview/page.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "doors/shared/text.h"
#include "http/response_head.h"
#include "policy/json_text.h"

namespace caisson::preview {
namespace {

constexpr std::size_t kMessageBytesMax = 512;
constexpr unsigned kReloadSeconds = 2;

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
        // clang-format off
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
        // clang-format on
    }
  }
  return out;
}

bool wants_html(const http::Request& request) {
  return request.field("Accept").find("text/html") != std::string_view::npos;
}

std::string page_of(const Refusal& refusal) {
  const std::string reload =
      refusal.reloads ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">", kReloadSeconds)
                      : std::string();
  return fmt::format(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\">{}<title>{}</title></head>"
      "<body><h1>{}</h1><p>{}</p></body></html>\n",
      reload, http::reason_of(refusal.status), http::reason_of(refusal.status),
      escaped(refusal.message));
}

std::string json_of(const Refusal& refusal, std::string_view request_id) {
  boost::json::object inner{{"code", refusal.code},
                            {"message", refusal.message},
                            {"details", boost::json::object()},
                            {"request_id", request_id}};
  boost::json::object outer;
  outer["error"] = std::move(inner);
  return policy::json_text(outer) + "\n";
}

unsigned status_of(Errc code) {
  switch (code) {
    case Errc::InvalidArgument:
      return 400;
    case Errc::Unauthenticated:
      return 401;
    case Errc::Denied:
      return 403;
    case Errc::NotFound:
    case Errc::Gone:
      return 404;
    case Errc::TooLarge:
      return 413;
    case Errc::Protocol:
      return 502;
    case Errc::Busy:
    case Errc::Exhausted:
    case Errc::LauncherGone:
      return 503;
    case Errc::TimedOut:
      return 504;
    case Errc::StoreFull:
      return 507;
    case Errc::AlreadyExists:
    case Errc::Unsupported:
    case Errc::Internal:
      return 500;
  }
  return 500;
}

}  // namespace

Refusal refusal_of(const Error& error, std::string_view request_id) {
  Refusal out{status_of(error.code), std::string(to_string(error.code)), error.message};
  if (out.status == 503) out.retry_seconds = 1;
  if (error.code == Errc::Internal) {
    out.message =
        fmt::format("something failed in the server; its log has it under request {}", request_id);
  }
  return out;
}

bool is_navigation(const http::Request& request) {
  if (request.method != http::Method::Get || request.wants_websocket) return false;
  const std::string_view mode = request.field("Sec-Fetch-Mode");
  return mode.empty() ? wants_html(request) : mode == "navigate";
}

// None of them may be kept: what is refused now may be allowed in a moment.
awaitable<void> answer_refusal(http::Exchange& exchange, Refusal refusal) {
  const http::Request& request = exchange.request();
  refusal.message = doors::lossy_utf8(doors::cut_utf8(refusal.message, kMessageBytesMax));
  exchange.set("Cache-Control", "no-store");
  if (refusal.retry_seconds > 0) {
    exchange.set("Retry-After", std::to_string(refusal.retry_seconds));
  }
  if (refusal.status == 401) exchange.set("WWW-Authenticate", R"(Bearer realm="caisson")");
  if (!wants_html(request)) {
    co_await exchange.respond(refusal.status, "application/json", json_of(refusal, request.id));
    co_return;
  }
  exchange.set("Content-Security-Policy", "default-src 'none'");
  co_await exchange.respond(refusal.status, "text/html; charset=utf-8", page_of(refusal));
}

awaitable<void> answer_redirect(http::Exchange& exchange, unsigned status, std::string location) {
  exchange.set("Cache-Control", "no-store");
  exchange.set("Referrer-Policy", "no-referrer");
  exchange.set("Location", location);
  co_await exchange.respond(status, "", "");
}

}  // namespace caisson::preview
