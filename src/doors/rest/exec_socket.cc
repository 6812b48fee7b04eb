// A command over a WebSocket: the wish first, then streams both ways. It dies with its caller.
#include "doors/rest/handlers.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/socket_talk.h"
#include "doors/rest/views.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

awaitable<Result<control::ProcessWish>> first_message(http::WebSocket& socket) {
  auto message = co_await socket.read();
  if (!message) co_return std::unexpected(message.error());
  if (!*message) co_return failure(Errc::Gone, "the caller hung up");
  if (!(*message)->text) {
    co_return failure(Errc::InvalidArgument, "the first message is a text: the command as JSON");
  }
  auto body = parse_json_object((*message)->bytes);
  if (!body) co_return std::unexpected(body.error());
  auto exec = exec_wish(*body, Input::Live);
  if (!exec) co_return std::unexpected(exec.error());
  control::ProcessWish wish;
  wish.exec = std::move(exec->wish);
  co_return wish;
}

}  // namespace

awaitable<Result<void>> exec_socket(Call& call) {
  if (auto good = want_websocket(call); !good) co_return good;
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  // An unknown sandbox is a 404, not an open socket.
  if (auto known = call.fleet().get(call.caller, call.id()); !known) {
    co_return std::unexpected(known.error());
  }
  auto socket = co_await call.exchange.accept_websocket(chosen_protocol(call));
  if (!socket) co_return std::unexpected(socket.error());
  auto wish = co_await first_message(**socket);
  if (!wish) {
    co_await tell_error(call, **socket, wish.error());
    co_return Result<void>{};
  }
  auto command = co_await start_attached(call, std::move(*wish));
  if (!command) {
    co_await tell_error(call, **socket, command.error());
    co_return Result<void>{};
  }
  json::object start;
  start["process"] = command->view.id;
  start["pid"] = command->view.pid;
  if (auto told = co_await tell(**socket, "start", std::move(start)); told) {
    (void)co_await talk(call, **socket, SocketKind::Streams, *command);
  }
  command->output.reset();
  co_await end_command(call, command->view.id);
  co_return Result<void>{};
}

}  // namespace caisson::rest
