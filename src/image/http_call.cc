#include "image/http_call.h"

#include <fmt/core.h>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>

namespace caisson::image {

namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

constexpr std::size_t kReadBytes = 128UL * 1024;

std::string head_text(const CallRequest& request) {
  std::string out =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: caisson/{}\r\n", request.method,
                  request.url.target, request.url.authority(), CAISSON_VERSION);
  for (const auto& [name, value] : request.fields) {
    // Values were checked where they came in; a line break here would be a second request.
    CAISSON_ASSERT(value.find_first_of("\r\n") == value.npos);
    out += fmt::format("{}: {}\r\n", name, value);
  }
  if (!request.body.empty()) out += fmt::format("Content-Length: {}\r\n", request.body.size());
  return out + "Connection: close\r\n\r\n" + request.body;
}

}  // namespace

struct HttpCall::State {
  State(std::unique_ptr<Link> over, Url to) : link(std::move(over)), url(std::move(to)) {
    parser.header_limit(static_cast<std::uint32_t>(kAnswerHeadBytesMax));
    parser.body_limit(boost::none);
  }
  std::unique_ptr<Link> link;
  Url url;
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;

  [[nodiscard]] std::unexpected<Error> bad(const beast::error_code& ec) const {
    return failure(Errc::Protocol,
                   fmt::format("{}: its answer is not HTTP: {}", url.authority(), ec.message()));
  }
  // Waits for more bytes. False at the end of the connection.
  awaitable<Result<bool>> fill() {
    const auto space = buffer.prepare(kReadBytes);
    const std::span out(static_cast<std::byte*>(space.data()), space.size());
    const auto got = co_await link->read_some(out);
    if (!got) co_return std::unexpected(got.error());
    buffer.commit(*got);
    co_return *got > 0;
  }
};

HttpCall::HttpCall(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpCall::~HttpCall() = default;

awaitable<Result<std::unique_ptr<HttpCall>>> HttpCall::send(std::unique_ptr<Link> link,
                                                            CallRequest request) {
  const std::string text = head_text(request);
  const auto sent = co_await link->write(text);
  if (!sent) co_return std::unexpected(sent.error());
  std::unique_ptr<HttpCall> call(
      new HttpCall(std::make_unique<State>(std::move(link), request.url)));
  if (request.method == "HEAD") call->state_->parser.skip(true);
  const auto read = co_await call->read_head();
  if (!read) co_return std::unexpected(read.error());
  co_return call;
}

awaitable<Result<void>> HttpCall::read_head() {
  State& s = *state_;
  while (!s.parser.is_header_done()) {
    if (s.buffer.size() > kAnswerHeadBytesMax + kReadBytes) {
      co_return failure(Errc::Protocol, "the head of an answer is too long");
    }
    const auto more = co_await s.fill();
    if (!more) co_return std::unexpected(more.error());
    if (!*more) {
      co_return failure(Errc::Gone, fmt::format("{} hung up without an answer", s.url.authority()));
    }
    beast::error_code ec;
    const std::size_t used = s.parser.put(s.buffer.data(), ec);
    s.buffer.consume(used);
    if (ec && ec != http::error::need_more && ec != http::error::need_buffer) co_return s.bad(ec);
  }
  co_return Result<void>();
}

unsigned HttpCall::status() const noexcept { return state_->parser.get().result_int(); }

std::string HttpCall::field(std::string_view name) const {
  const auto value = state_->parser.get()[beast::string_view(name.data(), name.size())];
  return {value.data(), value.size()};
}

std::vector<std::string> HttpCall::fields(std::string_view name) const {
  std::vector<std::string> out;
  const auto range = state_->parser.get().equal_range(beast::string_view(name.data(), name.size()));
  for (auto at = range.first; at != range.second; ++at) {
    out.emplace_back(at->value().data(), at->value().size());
  }
  return out;
}

std::optional<std::uint64_t> HttpCall::length() const {
  const auto length = state_->parser.content_length();
  if (!length) return std::nullopt;
  return *length;
}

awaitable<Result<std::size_t>> HttpCall::read(std::span<std::byte> out) {
  State& s = *state_;
  for (;;) {
    if (s.parser.is_done()) co_return 0;
    auto& body = s.parser.get().body();
    body.data = out.data();
    body.size = out.size();
    body.more = true;
    beast::error_code ec;
    std::size_t used = 0;
    if (s.buffer.size() > 0) {
      used = s.parser.put(s.buffer.data(), ec);
      s.buffer.consume(used);
      if (ec && ec != http::error::need_buffer && ec != http::error::need_more) co_return s.bad(ec);
      const std::size_t made = out.size() - body.size;
      if (made > 0) co_return made;
      if (s.parser.is_done() || (used > 0 && ec != http::error::need_more)) continue;
    }
    const auto more = co_await s.fill();
    if (!more) co_return std::unexpected(more.error());
    if (*more) continue;
    ec = {};
    if (s.buffer.size() == 0) s.parser.put_eof(ec);
    if (ec || s.buffer.size() > 0) {
      co_return failure(Errc::Gone,
                        fmt::format("{} hung up in the middle of an answer", s.url.authority()));
    }
  }
}

awaitable<Result<std::string>> HttpCall::read_all(std::size_t bytes_max) {
  const auto announced = length();
  const auto too_large = [&] {
    return failure(Errc::TooLarge, fmt::format("{}: an answer has more than {} bytes",
                                               state_->url.authority(), bytes_max));
  };
  if (announced && *announced > bytes_max) co_return too_large();
  std::string out;
  std::vector<std::byte> piece(16UL * 1024);
  for (;;) {
    const auto got = co_await read(piece);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) co_return out;
    if (*got > bytes_max - out.size()) co_return too_large();
    out.append(reinterpret_cast<const char*>(piece.data()), *got);
  }
}

}  // namespace caisson::image
