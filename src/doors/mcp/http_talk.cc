// Streamable HTTP. Each message is a POST; its answer is JSON, or a stream of events when
// notifications come before it. Older clients have a session, by Mcp-Session-Id, a GET for messages
// that belong to no request, and a DELETE for its end.
#include <fmt/format.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <vector>

#include "doors/mcp/talk.h"

namespace caisson::mcp {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kEvents = "text/event-stream";
constexpr std::string_view kSessionField = "Mcp-Session-Id";
constexpr std::string_view kVersionField = "MCP-Protocol-Version";
constexpr std::size_t kReadBytes = 16UL * 1024;
constexpr unsigned kTooMany = 429;

bool accepts(const http::Request& request, std::string_view type) {
  const std::string_view kind = type.substr(0, type.find('/'));
  for (const auto item : doors::list_items(request.field("Accept"))) {
    const std::string_view one = http::trim(item.substr(0, item.find(';')));
    if (http::same_name(one, type) || one == "*/*") return true;
    if (one.ends_with("/*") && http::same_name(one.substr(0, one.size() - 2), kind)) return true;
  }
  return request.count("Accept") == 0;
}

std::string event_of(std::string_view line) {
  // It is JSON on one line, so nothing in it can end the event.
  return fmt::format("event: message\ndata: {}\n\n", line);
}

awaitable<Result<void>> write_text(http::Exchange& exchange, std::string text) {
  co_return co_await exchange.write(std::as_bytes(std::span(text)));
}

awaitable<Result<void>> begin_events(http::Exchange& exchange) {
  exchange.set("X-Accel-Buffering", "no");
  co_return co_await exchange.begin(200, kEvents, std::nullopt);
}

// Lines as events, and a comment now and then where there is none for long.
awaitable<void> comments(http::Exchange& exchange, Lines& lines, seconds every) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  boost::system::error_code cancelled;
  for (;;) {
    timer.expires_after(every);
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
    if (cancelled) co_return;
    if (exchange.begun()) lines.notify({});
  }
}

// The answer alone is JSON; with anything before it, a stream.
awaitable<void> write_lines(http::Exchange& exchange, Lines& lines, unsigned& status) {
  const bool events = accepts(exchange.request(), kEvents);
  while (auto line = co_await lines.next()) {
    if (!exchange.begun()) {
      if (line->answer) {
        co_await exchange.respond(status, kJson, std::move(line->text));
        co_return;
      }
      if (!events) continue;  // whoever takes no events hears the answer only
      if (auto begun = co_await begin_events(exchange); !begun) co_return;
    }
    std::string text = line->text.empty() ? std::string(":\n\n") : event_of(line->text);
    if (auto sent = co_await write_text(exchange, std::move(text)); !sent) co_return;
  }
  if (exchange.begun()) (void)co_await exchange.end();
}

awaitable<Answer> raced(Call& call, Talk& talk, const Underway::Ticket* ticket, bool& left) {
  using namespace asio::experimental::awaitable_operators;
  left = false;
  // In the newer era to hang up is to take a request back; in the older one a message says so.
  if (ticket == nullptr) {
    auto first = co_await (dispatch(call) || talk.exchange.wait_for_hangup());
    if (first.index() == 0) co_return std::get<0>(std::move(first));
  } else {
    auto first = co_await (dispatch(call) || ticket->cancelled());
    if (first.index() == 0) co_return std::get<0>(std::move(first));
  }
  left = true;
  co_return json::object();
}

awaitable<void> work(Call& call, Talk& talk, const Underway::Ticket* ticket, unsigned& status) {
  bool left = false;
  auto answer = co_await raced(call, talk, ticket, left);
  if (left) {
    // What has no answer any more still needs an end.
    if (ticket == nullptr) talk.exchange.close_after();
    if (ticket != nullptr && !talk.exchange.begun()) {
      status = 200;
      const RpcError taken{kInvalidRequest, "the request was taken back", {}};
      call.lines.answer(error_text(call.message.id, taken));
    }
  } else if (answer) {
    call.lines.answer(result_text(call.message.id, *answer));
  } else {
    if (call.era == Era::Modern) status = answer.error().status;
    call.lines.answer(error_text(call.message.id, answer.error()));
  }
  call.lines.close();
}

// Both to their end, whichever is first.
awaitable<void> answer_and_write(Call& call, Talk& talk, const Underway::Ticket* ticket) {
  using namespace asio::experimental::awaitable_operators;
  unsigned status = 200;
  co_await (work(call, talk, ticket, status) && write_lines(talk.exchange, call.lines, status));
}

awaitable<void> answer_request(Talk& talk, Message message, std::shared_ptr<Session> session,
                               std::unique_ptr<doors::Budget::Hold> held) {
  using namespace asio::experimental::awaitable_operators;
  const auto executor = co_await asio::this_coro::executor;
  Lines lines(executor);
  std::optional<Underway::Ticket> ticket;
  if (session) {
    auto entered = session->underway.enter(message.id, executor);
    if (!entered) {
      const RpcError refused{kInvalidRequest, entered.error().message, {}};
      co_await talk.exchange.respond(200, kJson, error_text(message.id, refused));
      co_return;
    }
    ticket.emplace(*std::move(entered));
  }
  auto home = session ? session->home : talk.services.homes.of_token(talk.caller);
  Call call{talk.services,   lines,
            talk.caller,     session ? Era::Legacy : Era::Modern,
            std::move(home), std::move(message),
            std::move(held)};
  (void)co_await (answer_and_write(call, talk, ticket ? &*ticket : nullptr) ||
                  comments(talk.exchange, lines, talk.services.options.keep_alive));
}

awaitable<void> begin_session(Talk& talk, Message message) {
  const auto respond = [&](const RpcError& error) {
    return talk.exchange.respond(200, kJson, error_text(message.id, error));
  };
  const auto wanted = wanted_version(message);
  if (!wanted) {
    co_await respond(wanted.error());
    co_return;
  }
  auto session = talk.services.sessions.open(talk.caller, negotiate(*wanted));
  if (!session) {
    co_await refuse(talk.exchange, kTooMany, session.error().message);
    co_return;
  }
  talk.exchange.set(kSessionField, (*session)->id);
  const json::object result = welcome(*wanted, talk.services.options);
  co_await talk.exchange.respond(200, kJson, result_text(message.id, result));
}

// The body as a message; nothing when it was refused already.
awaitable<std::optional<Message>> read_body(Talk& talk, doors::Budget::Hold& held) {
  const http::Request& request = talk.exchange.request();
  const std::string_view type = request.field("Content-Type");
  if (!http::same_name(type.substr(0, type.find_first_of("; \t")), kJson)) {
    co_await refuse(talk.exchange, 415, "send Content-Type: application/json");
    co_return std::nullopt;
  }
  if (!accepts(request, kJson)) {
    co_await refuse(talk.exchange, 406, "accept application/json and text/event-stream");
    co_return std::nullopt;
  }
  if (request.content_length.value_or(0) > kTextBytesMax + kOtherBytesMax) {
    co_await refuse(talk.exchange, 413, "the message is too large: write a large file in parts");
    co_return std::nullopt;
  }
  if (auto room = co_await held.resize(request.content_length.value_or(kReadBytes)); !room) {
    co_await refuse(talk.exchange, kTooMany, room.error().message);
    co_return std::nullopt;
  }
  MessageReader reader;
  std::vector<std::byte> buffer(kReadBytes);
  for (;;) {
    const auto got = co_await talk.exchange.read_some(buffer);
    if (!got) {
      talk.exchange.close_after();
      co_return std::nullopt;
    }
    if (*got == 0) break;
    reader.feed({reinterpret_cast<const char*>(buffer.data()), *got});
    if (reader.held() > held.bytes() && !held.try_resize(reader.held())) {
      co_await refuse(talk.exchange, kTooMany, "there is no room for this message: try again");
      co_return std::nullopt;
    }
  }
  auto message = reader.finish();
  if (message) co_return *std::move(message);
  const RpcError error{message.error().code, message.error().message, {}};
  co_await talk.exchange.respond(400, kJson, error_text(message.error().id, error));
  co_return std::nullopt;
}

// The session that the request names. Nothing, and the answer is given, when there is none.
awaitable<std::shared_ptr<Session>> named_session(Talk& talk) {
  const http::Request& request = talk.exchange.request();
  if (request.count(kSessionField) != 1) {
    co_await refuse(
        talk.exchange, 400,
        fmt::format("send Mcp-Session-Id, or speak {}: initialize gives one", kModernVersion));
    co_return nullptr;
  }
  auto session = talk.services.sessions.find(talk.caller, request.field(kSessionField));
  if (!session) {
    co_await refuse(talk.exchange, 404, "there is no such session: initialize anew");
    co_return nullptr;
  }
  const std::string_view version = request.field(kVersionField);
  if (!version.empty() && !is_legacy(version)) {
    co_await refuse(talk.exchange, 400,
                    fmt::format("MCP-Protocol-Version is none that a session can have; this one "
                                "has {}",
                                session->version));
    co_return nullptr;
  }
  co_return session;
}

void take_back(Session& session, const Message& message) {
  if (message.method != "notifications/cancelled") return;
  if (const json::value* id = message.params.if_contains("requestId")) session.underway.cancel(*id);
}

// A request that names its own revision, or none that anybody knows of.
bool is_modern(const http::Request& request, const Message& message) {
  if (says_version(message)) return true;
  if (request.count(kSessionField) > 0) return false;
  return !is_legacy(request.field(kVersionField));
}

}  // namespace

awaitable<void> refuse(http::Exchange& exchange, unsigned status, std::string message) {
  const RpcError error{kInvalidRequest, std::move(message), {}};
  co_await exchange.respond(status, kJson, error_text({}, error));
}

awaitable<void> talk_post(Talk& talk) {
  auto held = talk.services.budget.open(talk.caller.tenant);
  auto message = co_await read_body(talk, *held);
  if (!message) co_return;
  const bool request = message->kind == Message::Kind::Request;
  const bool modern = is_modern(talk.exchange.request(), *message);
  if (request && message->method == "initialize" && !says_version(*message)) {
    co_await begin_session(talk, *std::move(message));
    co_return;
  }
  if (modern && request) {
    if (const auto wrong = check_modern(*message, &talk.exchange.request())) {
      co_await talk.exchange.respond(wrong->status, kJson, error_text(message->id, *wrong));
      co_return;
    }
    co_await answer_request(talk, *std::move(message), nullptr, std::move(held));
    co_return;
  }
  if (modern) {  // nothing that is not a request means anything there
    co_await talk.exchange.respond(message->kind == Message::Kind::Response ? 400 : 202, "", "");
    co_return;
  }
  const auto session = co_await named_session(talk);
  if (!session) co_return;
  if (request) {
    co_await answer_request(talk, *std::move(message), session, std::move(held));
    co_return;
  }
  take_back(*session, *message);
  co_await talk.exchange.respond(202, "", "");
}

namespace {

awaitable<void> tell_changes(Call& call) {
  const Interest all{.resources_list = true, .policies = {}};
  co_await listen(call, all);
  call.lines.close();
}

awaitable<void> tell_and_write(Talk& talk, Call& call) {
  using namespace asio::experimental::awaitable_operators;
  unsigned status = 200;
  call.lines.notify({});  // a comment: the client sees that it is open
  co_await (tell_changes(call) && write_lines(talk.exchange, call.lines, status));
}

awaitable<void> pump_events(Talk& talk, Call& call) {
  using namespace asio::experimental::awaitable_operators;
  if (auto begun = co_await begin_events(talk.exchange); !begun) co_return;
  const auto first =
      co_await (tell_and_write(talk, call) ||
                comments(talk.exchange, call.lines, talk.services.options.keep_alive) ||
                talk.exchange.wait_for_hangup());
  if (first.index() != 0) talk.exchange.close_after();  // perhaps in the middle of an event
}

// A session that somebody listens to is in use.
class Listening {
 public:
  explicit Listening(std::shared_ptr<Session> session) : session_(std::move(session)) {
    ++session_->streams;
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() { --session_->streams; }

 private:
  std::shared_ptr<Session> session_;
};

}  // namespace

awaitable<void> talk_get(Talk& talk) {
  if (!accepts(talk.exchange.request(), kEvents)) {
    co_await refuse(talk.exchange, 406, "accept text/event-stream");
    co_return;
  }
  const auto session = co_await named_session(talk);
  if (!session) co_return;
  auto seat = talk.services.streams.take(talk.caller.actor);
  if (!seat) {
    co_await refuse(talk.exchange, kTooMany, seat.error().message);
    co_return;
  }
  Lines lines(co_await asio::this_coro::executor);
  Call call{talk.services, lines, talk.caller, Era::Legacy, session->home, {}, nullptr};
  const Listening listening(session);
  co_await pump_events(talk, call);
}

awaitable<void> talk_delete(Talk& talk) {
  const auto session = co_await named_session(talk);
  if (!session) co_return;
  talk.services.sessions.close(session);
  co_await talk.exchange.respond(204, "", "");
}

}  // namespace caisson::mcp
