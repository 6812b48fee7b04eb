// What a browser is sent, what it may keep, and what the page may do there.
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <utility>
#include <vector>

#include "doors/console/console.h"
#include "doors/console/gzip_test.h"

namespace caisson::console {
namespace {

namespace asio = boost::asio;
using http::Method;

class FakeExchange final : public http::Exchange {
 public:
  http::Request wanted;
  unsigned code = 0;
  std::string type;
  std::string body;
  std::vector<http::Field> fields;
  std::uint64_t promised = 0;
  std::size_t largest_piece = 0;
  bool was_cut = false;
  bool ended = false;

  [[nodiscard]] std::string field(std::string_view name) const {
    for (const auto& one : fields) {
      if (http::same_name(one.name, name)) return one.value;
    }
    return {};
  }
  [[nodiscard]] const http::Request& request() const noexcept override { return wanted; }
  void set(std::string_view name, std::string_view value) override {
    fields.push_back({std::string(name), std::string(value)});
  }
  awaitable<void> respond(unsigned status, std::string_view kind, std::string text) override {
    code = status;
    type = kind;
    body = std::move(text);
    ended = true;
    co_return;
  }
  awaitable<Result<void>> begin(unsigned status, std::string_view kind,
                                std::optional<std::uint64_t> length) override {
    code = status;
    type = kind;
    promised = length.value_or(0);
    co_return Result<void>{};
  }
  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    largest_piece = std::max(largest_piece, bytes.size());
    co_return Result<void>{};
  }
  awaitable<Result<void>> end() override {
    ended = true;
    co_return Result<void>{};
  }
  [[nodiscard]] bool begun() const noexcept override { return code != 0; }
  [[nodiscard]] unsigned status() const noexcept override { return code; }
  void close_after() override {}
  void cut() override { was_cut = true; }
  awaitable<void> wait_for_hangup() override { co_return; }
  awaitable<Result<std::size_t>> read_some(std::span<std::byte>) override {
    co_return std::size_t{0};
  }
  awaitable<Result<std::unique_ptr<http::WebSocket>>> accept_websocket(std::string_view) override {
    co_return failure(Errc::Unsupported, "not in this test");
  }
  awaitable<Result<std::size_t>> raw_read(std::span<std::byte>) override {
    co_return std::size_t{0};
  }
  awaitable<Result<void>> raw_write(std::span<const std::byte>) override {
    co_return Result<void>{};
  }
};

const std::string kPage = "<!doctype html><title>caisson</title>";
const std::string kScript = std::string(100'000, 'x') + "();";

std::string bundle_text() {
  std::string table = "caisson console 1\n";
  std::string bytes;
  const auto add = [&](std::string_view path, std::string_view type, std::string_view age,
                       std::string_view digest, const std::string& plain, std::string gzip) {
    table += std::string(path) + "\t" + std::string(type) + "\t" + std::string(age) + "\t" +
             std::string(digest) + "\t" + std::to_string(plain.size()) + "\t" +
             std::to_string(gzip.size()) + "\n";
    bytes += gzip;
  };
  add("/index.html", "text/html; charset=utf-8", "page", "aa", kPage, gzipped(kPage));
  add("/assets/a-12345678.js", "text/javascript", "hashed", "bb", kScript, gzipped(kScript));
  add("/assets/bad.js", "text/javascript", "page", "cc", kScript, "not gzip at all");
  add("/secret.txt", "text/plain", "page", "dd", kPage, gzipped(kPage));
  return table + "\n" + bytes;
}

struct House {
  std::string text = bundle_text();
  Door door;
  explicit House(const ConsoleOptions& options = {}) : door(options, text) {}

  FakeExchange ask(Method method, std::string path, std::vector<http::Field> fields = {}) {
    FakeExchange exchange;
    exchange.wanted.method = method;
    exchange.wanted.path = std::move(path);
    exchange.wanted.fields = std::move(fields);
    asio::io_context io;
    asio::co_spawn(io, door.handle(exchange), asio::detached);
    io.run();
    return exchange;
  }
  bool answers(std::string path) {
    http::Request request;
    request.path = std::move(path);
    return door.answers(request);
  }
};

const http::Field kGzip{"Accept-Encoding", "gzip, deflate, br"};

TEST(ConsoleDoor, AnswersItsOwnPathsOnly) {
  House house;
  for (const auto* path :
       {"/", "/index.html", "/favicon.svg", "/assets/", "/assets/x.js", "/assets/../x"}) {
    EXPECT_TRUE(house.answers(path)) << path;
  }
  for (const auto* path : {"", "/index", "/assets", "/api/v1/sandboxes", "/secret.txt",
                           "/sandboxes", "//", "/docs", "/index.html/"}) {
    EXPECT_FALSE(house.answers(path)) << path;
  }
}

TEST(ConsoleDoor, NothingButWholeNamesLeadsToAFile) {
  House house;
  for (const auto* path : {"/assets/", "/assets/none.js", "/assets/../index.html",
                           "/assets/%61-12345678.js", "/favicon.svg", "/assets/a-12345678.js/"}) {
    const auto answer = house.ask(Method::Get, path);
    EXPECT_EQ(answer.code, 404U) << path;
    EXPECT_EQ(answer.field("Cache-Control"), "no-store") << path;
    EXPECT_EQ(answer.field("X-Content-Type-Options"), "nosniff") << path;
  }
}

TEST(ConsoleDoor, OtherMethodsAreTold) {
  House house;
  for (const Method method :
       {Method::Post, Method::Put, Method::Delete, Method::Options, Method::Other}) {
    const auto answer = house.ask(method, "/");
    EXPECT_EQ(answer.code, 405U);
    EXPECT_EQ(answer.field("Allow"), "GET, HEAD");
  }
}

TEST(ConsoleDoor, ThePageIsAskedForEachTime) {
  House house;
  const auto answer = house.ask(Method::Get, "/", {kGzip});
  EXPECT_EQ(answer.code, 200U);
  EXPECT_EQ(answer.type, "text/html; charset=utf-8");
  EXPECT_EQ(answer.field("Cache-Control"), "no-cache");
  EXPECT_EQ(answer.field("Content-Encoding"), "gzip");
  EXPECT_EQ(answer.field("Vary"), "Accept-Encoding");
  EXPECT_EQ(answer.field("ETag"), "\"aa-gzip\"");
  EXPECT_EQ(answer.body, gzipped(kPage));
  EXPECT_EQ(answer.promised, answer.body.size());
  EXPECT_TRUE(answer.ended);
  EXPECT_EQ(house.ask(Method::Get, "/index.html", {kGzip}).body, answer.body);
}

TEST(ConsoleDoor, AHashedNameIsKeptForEver) {
  House house;
  const auto answer = house.ask(Method::Get, "/assets/a-12345678.js", {kGzip});
  EXPECT_EQ(answer.code, 200U);
  EXPECT_EQ(answer.field("Cache-Control"), "public, max-age=31536000, immutable");
  EXPECT_EQ(house.ask(Method::Get, "/assets/bad.js", {kGzip}).field("Cache-Control"), "no-cache");
}

TEST(ConsoleDoor, AClientWithoutGzipGetsThePlainBytesInPieces) {
  House house;
  const auto answer = house.ask(Method::Get, "/assets/a-12345678.js");
  EXPECT_EQ(answer.code, 200U);
  EXPECT_EQ(answer.field("Content-Encoding"), "");
  EXPECT_EQ(answer.field("ETag"), "\"bb\"");
  EXPECT_EQ(answer.promised, kScript.size());
  EXPECT_TRUE(answer.body == kScript);
  EXPECT_LE(answer.largest_piece, 16UL * 1024) << "nobody makes us hold a file for him";
}

TEST(ConsoleDoor, ADamagedFileEndsTheConnection) {
  House house;
  const auto answer = house.ask(Method::Get, "/assets/bad.js");
  EXPECT_TRUE(answer.was_cut);
  EXPECT_FALSE(answer.ended);
}

TEST(ConsoleDoor, HeadHasTheSameFieldsAndNoBody) {
  House house;
  for (const std::vector<http::Field>& fields :
       {std::vector<http::Field>{}, std::vector<http::Field>{kGzip}}) {
    const auto get = house.ask(Method::Get, "/", fields);
    const auto head = house.ask(Method::Head, "/", fields);
    EXPECT_EQ(head.code, 200U);
    EXPECT_EQ(head.promised, get.promised);
    EXPECT_EQ(head.field("ETag"), get.field("ETag"));
    EXPECT_EQ(head.body, "");
    EXPECT_TRUE(head.ended);
  }
}

TEST(ConsoleDoor, WhatTheClientHasIsNotSentAgain) {
  House house;
  const auto same = house.ask(Method::Get, "/", {kGzip, {"If-None-Match", "\"aa-gzip\""}});
  EXPECT_EQ(same.code, 304U);
  EXPECT_EQ(same.body, "");
  EXPECT_EQ(same.field("ETag"), "\"aa-gzip\"");
  EXPECT_EQ(same.field("Cache-Control"), "no-cache");
  EXPECT_EQ(house.ask(Method::Get, "/", {{"If-None-Match", "\"aa-gzip\""}}).code, 200U)
      << "the other form of the file is other bytes";
  EXPECT_EQ(house.ask(Method::Get, "/", {{"If-None-Match", "\"bb\", \"aa\""}}).code, 304U);
}

TEST(ConsoleDoor, EveryAnswerSaysWhatThePageMayDo) {
  House house;
  for (const auto& [method, path] : {std::pair{Method::Get, "/"}, std::pair{Method::Post, "/"},
                                     std::pair{Method::Get, "/assets/none"}}) {
    const auto answer = house.ask(method, path);
    const std::string policy = answer.field("Content-Security-Policy");
    EXPECT_TRUE(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'; "))
        << policy;
    EXPECT_EQ(policy.find("unsafe"), std::string::npos) << policy;
    EXPECT_EQ(policy.find("frame-src"), std::string::npos) << "no previews, no frames";
    EXPECT_NE(policy.find("frame-ancestors 'none'"), std::string::npos) << policy;
    EXPECT_EQ(answer.field("X-Frame-Options"), "DENY");
    EXPECT_EQ(answer.field("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer.field("Referrer-Policy"), "no-referrer");
    EXPECT_EQ(answer.field("Cross-Origin-Opener-Policy"), "same-origin");
    EXPECT_NE(answer.field("Permissions-Policy").find("camera=()"), std::string::npos);
    EXPECT_EQ(answer.field("Set-Cookie"), "");
  }
}

TEST(ConsoleDoor, PreviewsMayBeShownInAFrame) {
  House plain({.vhost = "box.example", .scheme = "https"});
  EXPECT_TRUE(plain.ask(Method::Get, "/")
                  .field("Content-Security-Policy")
                  .ends_with("; frame-src https://*.box.example"));
  House with_port({.vhost = "box.example", .scheme = "http", .port = 8080});
  EXPECT_TRUE(with_port.ask(Method::Get, "/")
                  .field("Content-Security-Policy")
                  .ends_with("; frame-src http://*.box.example:8080"));
}

}  // namespace
}  // namespace caisson::console
