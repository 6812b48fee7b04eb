#include "doors/rest/sse.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/serialize.hpp>

#include "doors/rest/errors.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::string_view kRetry = "retry: 2000\n\n";
constexpr std::string_view kComment = ": still here\n\n";

// Names and ids are ours, but a line feed in one of them would be an event of somebody else's.
void line(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  for (const char c : value) {
    if (c != '\n' && c != '\r' && c != '\0') out += c;
  }
  out += '\n';
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

bool accepts_events(const Call& call) {
  for (const auto item : doors::list_items(call.request().field("Accept"))) {
    if (http::same_name(item.substr(0, item.find(';')), kEventStream)) return true;
  }
  return false;
}

std::string event_text(std::string_view event, std::string_view id, const json::object& data) {
  std::string out;
  if (!id.empty()) line(out, "id: ", id);
  line(out, "event: ", event);
  out += "data: ";
  out += json::serialize(data);  // escapes every control character
  out += "\n\n";
  return out;
}

EventWriter::EventWriter(Call& call, const asio::any_io_executor& executor)
    : call_(call), pause_(executor), turn_(executor, asio::steady_timer::time_point::max()) {}

awaitable<Result<void>> EventWriter::begin() {
  call_.exchange.set("Cache-Control", "no-store");
  call_.exchange.set("X-Accel-Buffering", "no");
  auto begun = co_await call_.exchange.begin(200, kEventStream, std::nullopt);
  if (!begun) co_return begun;
  co_return co_await write(std::string(kRetry));
}

awaitable<Result<void>> EventWriter::write(std::string text) {
  boost::system::error_code ec;
  while (writing_) co_await turn_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  struct Turn {
    EventWriter& writer;
    explicit Turn(EventWriter& own) : writer(own) { writer.writing_ = true; }
    ~Turn() {
      writer.writing_ = false;
      writer.turn_.cancel();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
  };
  const Turn turn(*this);
  co_return co_await call_.exchange.write(bytes_of(text));
}

awaitable<Result<void>> EventWriter::send(std::string_view event, std::string id,
                                          json::object data) {
  std::string text = event_text(event, id, data);
  co_return co_await write(std::move(text));
}

awaitable<Result<void>> EventWriter::send_error(Error error) {
  const std::string& id = call_.request().id;
  if (error.code == Errc::Internal) call_.services.log.failed(id, error);
  std::string text = "event: error\ndata: ";
  text += error_text(to_string(error.code), error, id);
  text += "\n\n";
  co_return co_await write(std::move(text));
}

awaitable<void> EventWriter::keep_alive() {
  boost::system::error_code ec;
  for (;;) {
    pause_.expires_after(call_.services.options.keep_alive);
    co_await pause_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
    if (ec) co_return;
    const auto sent = co_await write(std::string(kComment));
    if (!sent) co_return;
  }
}

awaitable<Result<bool>> run_stream(Call& call, EventWriter& events, awaitable<Result<void>> pump) {
  using namespace asio::experimental::awaitable_operators;
  const auto first =
      co_await (std::move(pump) || events.keep_alive() || call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    call.exchange.close_after();
    co_return false;
  }
  const Result<void>& pumped = std::get<0>(first);
  if (!pumped) {
    const auto told = co_await events.send_error(pumped.error());
    if (!told) co_return false;
  }
  const auto ended = co_await call.exchange.end();
  if (!ended) co_return false;
  co_return true;
}

}  // namespace caisson::rest
