#include "doors/rest/socket_talk.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "doors/rest/errors.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/views.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::uint16_t kCloseNormal = 1000;
constexpr std::uint16_t kCloseRefused = 1008;
constexpr std::uint16_t kCloseFailed = 1011;

// The end is told from in here, while the other half still reads: a read that is cancelled takes
// the whole WebSocket with it, so nothing could be said afterwards.
awaitable<Result<void>> pump_out(Call& call, http::WebSocket& socket, SocketKind kind,
                                 control::OutputStream& output, bool& closing) {
  for (;;) {
    auto item = co_await output.next();
    if (!item) {
      closing = true;
      co_await tell_error(call, socket, item.error());
      co_return std::unexpected(item.error());
    }
    if (const auto* end = std::get_if<control::ProcessView>(&*item)) {
      closing = true;
      json::object exit = exit_json(*end);
      (void)co_await tell(socket, "exit", std::move(exit));
      co_await socket.close(kCloseNormal, "");
      co_return Result<void>{};
    }
    auto& chunk = std::get<control::OutputChunk>(*item);
    if (kind == SocketKind::Streams) chunk.bytes.insert(0, 1, chunk.error ? '\2' : '\1');
    auto sent = co_await socket.write(chunk.bytes, false);
    if (!sent) co_return sent;
  }
}

// {"type": "close_stdin" | "signal" | "resize", …}
awaitable<Result<void>> obey(Call& call, std::uint32_t process, std::string text) {
  auto message = parse_json_object(text);
  if (!message) co_return std::unexpected(message.error());
  const auto* type = message->if_contains("type");
  const std::string kind =
      type != nullptr && type->is_string() ? std::string(type->get_string()) : std::string();
  message->erase("type");
  if (kind == "close_stdin" && message->empty()) {
    co_return co_await call.fleet().write_input(call.caller, call.id(), process, "", true);
  }
  if (kind == "signal") {
    const auto wish = signal_wish(*message);
    if (!wish) co_return std::unexpected(wish.error());
    co_return co_await call.fleet().signal(call.caller, call.id(), process, wish->number,
                                           wish->tree);
  }
  if (kind == "resize") {
    const auto wish = size_wish(*message);
    if (!wish) co_return std::unexpected(wish.error());
    co_return co_await call.fleet().resize(call.caller, call.id(), process, wish->rows,
                                           wish->columns);
  }
  co_return bad_field("type", "a text message's type is close_stdin, signal or resize");
}

// The audit has no room for it, so it was not done: the client must hear of it.
bool unrecorded(const Error& error) {
  return error.code == Errc::StoreFull || error.code == Errc::Exhausted;
}

// Until the client leaves (a good end) or says something that cannot be obeyed. When it leaves
// because we have begun to close, the other half has the last word.
awaitable<Result<void>> pump_in(Call& call, http::WebSocket& socket, SocketKind kind,
                                std::uint32_t process, const bool& closing) {
  for (;;) {
    auto message = co_await socket.read();
    if (closing) co_await wait_for_ever();
    if (!message || !*message) co_return Result<void>{};
    std::string bytes = std::move((*message)->bytes);
    if ((*message)->text) {
      auto obeyed = co_await obey(call, process, std::move(bytes));
      // A process that has just ended takes no signal: its end is on the way.
      if (!obeyed && (obeyed.error().code == Errc::InvalidArgument || unrecorded(obeyed.error())))
        co_return obeyed;
      continue;
    }
    if (kind == SocketKind::Streams) {
      if (bytes.empty() || bytes.front() != '\0') {
        co_return failure(Errc::InvalidArgument,
                          "a binary message begins with the byte 0, for standard input");
      }
      bytes.erase(0, 1);
    }
    // A process need not read: what it does not take is its own affair.
    if (!bytes.empty()) {
      auto taken = co_await call.fleet().write_input(call.caller, call.id(), process,
                                                     std::move(bytes), false);
      if (!taken && unrecorded(taken.error())) co_return taken;
    }
  }
}

}  // namespace

awaitable<Result<void>> tell(http::WebSocket& socket, std::string_view type, json::object data) {
  json::object message;
  message["type"] = type;
  for (auto& member : data) message[member.key()] = std::move(member.value());
  const std::string text = json::serialize(message);
  co_return co_await socket.write(text, true);
}

awaitable<void> tell_error(Call& call, http::WebSocket& socket, Error error) {
  const std::string& id = call.request().id;
  if (error.code == Errc::Internal) call.services.log.failed(id, error);
  json::error_code ec;
  json::object data = json::parse(error_text(to_string(error.code), error, id), ec).as_object();
  (void)co_await tell(socket, "error", std::move(data));
  co_await socket.close(error.code == Errc::InvalidArgument ? kCloseRefused : kCloseFailed,
                        to_string(error.code));
}

awaitable<Result<bool>> talk(Call& call, http::WebSocket& socket, SocketKind kind,
                             RunningCommand& command) {
  using namespace asio::experimental::awaitable_operators;
  bool closing = false;
  auto first = co_await (pump_out(call, socket, kind, *command.output, closing) ||
                         pump_in(call, socket, kind, command.view.id, closing));
  if (first.index() == 0) {
    const auto& out = std::get<0>(first);
    if (!out) co_return std::unexpected(out.error());
    co_return true;
  }
  const auto& in = std::get<1>(first);
  if (!in) {
    co_await tell_error(call, socket, in.error());
    co_return std::unexpected(in.error());
  }
  co_await socket.close(kCloseNormal, "");
  co_return false;
}

}  // namespace caisson::rest
