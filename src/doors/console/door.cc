// One file, one answer: the same bytes for everybody, and never a copy of them.
#include <array>
#include <string>

#include "doors/console/console.h"
#include "doors/console/encoding.h"
#include "doors/console/headers.h"

namespace caisson::console {

namespace {

constexpr std::size_t kPieceBytes = 16UL * 1024;
constexpr std::string_view kText = "text/plain; charset=utf-8";

Bundle read_or_die(std::string_view text) {
  auto bundle = Bundle::read(text);
  CAISSON_ASSERT(bundle.has_value());  // bytes of the program itself
  return *std::move(bundle);
}

awaitable<void> send_plain(http::Exchange& exchange, const Asset& asset) {
  const auto begun = co_await exchange.begin(200, asset.type, asset.plain_bytes);
  if (!begun) co_return;
  if (exchange.request().method != http::Method::Head) {
    Inflater inflater(asset.gzip);
    std::array<std::byte, kPieceBytes> piece;
    for (;;) {
      const auto made = inflater.next(piece);
      if (!made) {
        exchange.cut();  // half of the file is on the wire already
        co_return;
      }
      if (*made == 0) break;
      const auto sent = co_await exchange.write(std::span(piece).first(*made));
      if (!sent) co_return;
    }
  }
  (void)co_await exchange.end();  // a peer that left is an ordinary end
}

awaitable<void> send_gzip(http::Exchange& exchange, const Asset& asset) {
  exchange.set("Content-Encoding", "gzip");
  const auto begun = co_await exchange.begin(200, asset.type, asset.gzip.size());
  if (!begun) co_return;
  if (exchange.request().method != http::Method::Head) {
    const auto sent = co_await exchange.write(asset.gzip);
    if (!sent) co_return;
  }
  (void)co_await exchange.end();
}

// The two forms of a file are different bytes, so they have different names.
std::string etag_of(const Asset& asset, bool gzip) {
  return '"' + std::string(asset.digest) + (gzip ? "-gzip\"" : "\"");
}

}  // namespace

Door::Door(const ConsoleOptions& options, std::string_view bundle)
    : bundle_(read_or_die(bundle)), policy_(content_policy(options)) {}

bool Door::answers(const http::Request& request) const noexcept {
  return request.path == "/" || request.path == "/index.html" || request.path == "/favicon.svg" ||
         request.path.starts_with("/assets/");
}

awaitable<void> Door::handle(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  set_safe_headers(exchange, policy_);
  const Asset* asset = bundle_.find(request.path == "/" ? "/index.html" : request.path);
  if (asset == nullptr) {
    exchange.set("Cache-Control", "no-store");
    std::string text = "The console has no such file.\n";
    co_await exchange.respond(404, kText, std::move(text));
    co_return;
  }
  if (request.method != http::Method::Get && request.method != http::Method::Head) {
    exchange.set("Cache-Control", "no-store");
    exchange.set("Allow", "GET, HEAD");
    std::string text = "This is a file of the console: use GET.\n";
    co_await exchange.respond(405, kText, std::move(text));
    co_return;
  }
  const bool gzip = takes_gzip(request.field("Accept-Encoding"));
  const std::string etag = etag_of(*asset, gzip);
  exchange.set("ETag", etag);
  exchange.set("Vary", "Accept-Encoding");
  exchange.set("Cache-Control",
               asset->immutable ? "public, max-age=31536000, immutable" : "no-cache");
  if (has_etag(request.field("If-None-Match"), etag)) {
    std::string nothing;
    co_await exchange.respond(304, asset->type, std::move(nothing));
    co_return;
  }
  if (gzip) {
    co_await send_gzip(exchange, *asset);
  } else {
    co_await send_plain(exchange, *asset);
  }
}

}  // namespace caisson::console
