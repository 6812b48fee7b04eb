// Messages as lines, over a WebSocket: what `caisson mcp` carries between its own standard input
// and output and a server. Binary messages are pieces of the stream of bytes, cut anywhere; one of
// text says that no more will come.
//
// One reader takes lines and starts a coroutine for each request; one writer sends what they say.
// When the client leaves, what is under way is taken back and the connection's sandbox ends.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "doors/mcp/talk.h"
#include "engine/channel/wakeup.h"

namespace caisson::mcp {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::size_t kPieceBytes = 256UL * 1024;  // of one WebSocket message
constexpr std::uint16_t kCloseNormal = 1000;
constexpr milliseconds kLastWords{1000};

// What the coroutines of one connection share; each holds it.
struct Stream {
  Stream(Talk& the_talk, asio::any_io_executor the_executor)
      : talk(the_talk),
        executor(std::move(the_executor)),
        lines(executor),
        idle(executor),
        home(the_talk.services.homes.make()) {}

  Talk& talk;  // lives until the last of them has ended
  asio::any_io_executor executor;
  Lines lines;
  engine::Wakeup idle;
  std::shared_ptr<Home> home;  // of a client of the older era
  Underway underway;
  bool initialized = false;
  std::size_t running = 0;
};
using StreamPtr = std::shared_ptr<Stream>;

// Counts itself out, however it ends.
class Running {
 public:
  explicit Running(StreamPtr stream) : stream_(std::move(stream)) { ++stream_->running; }
  ~Running() {
    if (stream_ && --stream_->running == 0) stream_->idle.wake();
  }
  Running(Running&&) noexcept = default;
  Running& operator=(Running&&) = delete;

 private:
  StreamPtr stream_;
};

using Held = std::unique_ptr<doors::Budget::Hold>;

awaitable<void> answer_one(StreamPtr stream, Message message, Era era, Held held,
                           Underway::Ticket ticket, Running running) {
  using namespace asio::experimental::awaitable_operators;
  (void)running;
  Services& services = stream->talk.services;
  auto home = era == Era::Legacy ? stream->home : services.homes.of_token(stream->talk.caller);
  Call call{services,        stream->lines,      stream->talk.caller, era,
            std::move(home), std::move(message), std::move(held)};
  auto first = co_await (dispatch(call) || ticket.cancelled());
  if (first.index() != 0) co_return;  // taken back: nothing more is said of it
  const Answer& answer = std::get<0>(first);
  std::string text =
      answer ? result_text(call.message.id, *answer) : error_text(call.message.id, answer.error());
  call.held->force(text.size());
  stream->lines.answer(std::move(text), std::shared_ptr<void>(std::move(call.held)));
}

void answer_with(Stream& stream, const json::value& id, const RpcError& error) {
  stream.lines.answer(error_text(id, error));
}

void begin(Stream& stream, const Message& message) {
  const auto wanted = wanted_version(message);
  if (!wanted) return answer_with(stream, message.id, wanted.error());
  stream.initialized = true;
  stream.lines.answer(result_text(message.id, welcome(*wanted, stream.talk.services.options)));
}

void take_message(const StreamPtr& stream, Message message, Held held) {
  if (message.kind == Message::Kind::Response) return;
  if (message.kind == Message::Kind::Notification) {
    if (message.method != "notifications/cancelled") return;
    if (const json::value* id = message.params.if_contains("requestId"))
      stream->underway.cancel(*id);
    return;
  }
  const bool modern = says_version(message) || !stream->initialized;
  if (!says_version(message) && message.method == "initialize") return begin(*stream, message);
  if (modern) {
    if (const auto wrong = check_modern(message, nullptr))
      return answer_with(*stream, message.id, *wrong);
  }
  auto ticket = stream->underway.enter(message.id, stream->executor);
  if (!ticket)
    return answer_with(*stream, message.id, {kInvalidRequest, ticket.error().message, {}});
  asio::co_spawn(stream->executor,
                 answer_one(stream, std::move(message), modern ? Era::Modern : Era::Legacy,
                            std::move(held), *std::move(ticket), Running(stream)),
                 asio::detached);
}

// Bytes into lines. A line that is no message is told of, and the next one counts.
class LineReader {
 public:
  explicit LineReader(StreamPtr stream) : stream_(std::move(stream)), held_(open()) {}

  // False: there is no room for what it sends.
  awaitable<bool> feed(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t end = std::min(bytes.find('\n'), bytes.size());
      reader_.feed(bytes.substr(0, end));
      if (!held_->try_resize(reader_.held())) co_return false;
      if (end == bytes.size()) break;
      bytes.remove_prefix(end + 1);
      finish();
      // Whoever does not read what he is told is not listened to any more.
      co_await stream_->lines.room();
    }
    co_return true;
  }

 private:
  [[nodiscard]] Held open() const {
    return stream_->talk.services.budget.open(stream_->talk.caller.tenant);
  }
  void finish() {
    const bool empty = reader_.empty();
    auto message = reader_.finish();
    reader_ = MessageReader();
    Held held = std::exchange(held_, open());
    if (empty) return;
    if (message) return take_message(stream_, *std::move(message), std::move(held));
    answer_with(*stream_, message.error().id, {message.error().code, message.error().message, {}});
  }
  StreamPtr stream_;
  MessageReader reader_;
  Held held_;
};

// The client has closed its end: what is under way may still be answered, for a moment.
awaitable<void> say_last_words(StreamPtr stream) {
  const TimePoint until = Clock::now() + kLastWords;
  while (stream->running > 0) {
    if (co_await stream->idle.wait(until) != engine::Wake::Woken) co_return;
  }
  stream->lines.close();  // and the writer ends when the last of them is out
  engine::Wakeup never(stream->executor);
  (void)co_await never.wait(until);
}

awaitable<void> read_stream(StreamPtr stream, http::WebSocket& socket) {
  LineReader reader(stream);
  for (;;) {
    auto message = co_await socket.read();
    if (!message || !*message) co_return;
    if ((*message)->text) co_return co_await say_last_words(stream);
    if (!co_await reader.feed((*message)->bytes)) {
      answer_with(*stream, {}, {kInternalError, "there is no room for this message", {}});
      co_return co_await say_last_words(stream);
    }
  }
}

awaitable<void> write_stream(StreamPtr stream, http::WebSocket& socket) {
  while (auto line = co_await stream->lines.next()) {
    if (line->text.empty()) continue;
    line->text += '\n';
    std::string_view rest = line->text;
    while (!rest.empty()) {
      const std::string_view piece = rest.substr(0, kPieceBytes);
      if (auto sent = co_await socket.write(piece, false); !sent) co_return;
      rest.remove_prefix(piece.size());
    }
  }
}

}  // namespace

awaitable<void> talk_stream(Talk& talk) {
  using namespace asio::experimental::awaitable_operators;
  auto seat = talk.services.streams.take(talk.caller.actor);
  if (!seat) {
    co_await refuse(talk.exchange, 429, seat.error().message);
    co_return;
  }
  const auto offered = doors::offered_protocols(talk.exchange.request());
  const bool ours = std::ranges::find(offered, doors::kSocketProtocol) != offered.end();
  auto socket = co_await talk.exchange.accept_websocket(ours ? doors::kSocketProtocol : "");
  if (!socket) co_return;
  const auto stream = std::make_shared<Stream>(talk, co_await asio::this_coro::executor);
  (void)co_await (read_stream(stream, **socket) || write_stream(stream, **socket));
  stream->lines.close();
  stream->underway.cancel_all();
  while (stream->running > 0) (void)co_await stream->idle.wait();
  talk.services.homes.leave(stream->home);
  co_await (*socket)->close(kCloseNormal, "");
}

}  // namespace caisson::mcp
