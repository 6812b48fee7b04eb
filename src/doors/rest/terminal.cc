// A terminal over a WebSocket. It outlives its caller, who may come back to it.
#include "doors/rest/handlers.h"
#include "doors/rest/socket_talk.h"
#include "doors/rest/views.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr std::string_view kLoginShell =
    "if [ -x /bin/bash ]; then exec /bin/bash -l; fi; exec /bin/sh -l";

struct TerminalWish {
  std::optional<std::uint32_t> process;  // of one that is there already
  control::ProcessWish fresh;
};

Result<TerminalWish> read_wish(const Call& call) {
  TerminalWish wish;
  wish.fresh.terminal = true;
  const auto rows = TRY(query_integer(call, "rows", 1, kTerminalSideMax));
  const auto columns = TRY(query_integer(call, "cols", 1, kTerminalSideMax));
  wish.fresh.rows = static_cast<std::uint16_t>(rows.value_or(24));
  wish.fresh.columns = static_cast<std::uint16_t>(columns.value_or(80));
  const auto process = TRY(query_integer(call, "process", 1, UINT32_MAX));
  const auto command = query_text(call, "command");
  const auto term = query_text(call, "term").value_or("xterm-256color");
  constexpr std::string_view kTermLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-";
  if (term.empty() || term.size() > 64 ||
      term.find_first_not_of(kTermLetters) != std::string_view::npos) {
    return bad_field("term", "term is not the name of a terminal, such as xterm-256color");
  }
  if (process && command) {
    return bad_field("command", "command and process are both there: the process has its own");
  }
  if (command && command->empty()) return bad_field("command", "command is empty");
  if (process) wish.process = static_cast<std::uint32_t>(*process);
  wish.fresh.exec.command = std::string(command.value_or(kLoginShell));
  wish.fresh.exec.environment.emplace_back("TERM", term);
  return wish;
}

awaitable<Result<RunningCommand>> attach_again(Call& call, std::uint32_t process, SizeWish size) {
  auto view = co_await call.fleet().process(call.caller, call.id(), process);
  if (!view) co_return std::unexpected(view.error());
  if (!view->terminal) {
    co_return bad_field("process", "the process has no terminal: read its output instead");
  }
  // What is still held is shown again, so that the new screen is not empty.
  auto output = co_await call.fleet().attach(call.caller, call.id(), process, 0, 0);
  if (!output) co_return std::unexpected(output.error());
  if (query_text(call, "rows") || query_text(call, "cols")) {
    (void)co_await call.fleet().resize(call.caller, call.id(), process, size.rows, size.columns);
  }
  RunningCommand running{std::move(*view), std::move(*output)};
  co_return running;
}

}  // namespace

awaitable<Result<void>> open_terminal(Call& call) {
  if (auto good = want_websocket(call); !good) co_return good;
  auto wish = read_wish(call);
  if (!wish) co_return std::unexpected(wish.error());
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  Result<RunningCommand> command;
  if (wish->process) {
    const SizeWish size{wish->fresh.rows, wish->fresh.columns};
    command = co_await attach_again(call, *wish->process, size);
  } else {
    command = co_await start_attached(call, std::move(wish->fresh));
  }
  if (!command) co_return std::unexpected(command.error());
  auto socket = co_await call.exchange.accept_websocket(chosen_protocol(call));
  if (!socket) {
    if (!wish->process) co_await end_command(call, command->view.id);
    co_return std::unexpected(socket.error());
  }
  json::object start;
  start["process"] = command->view.id;
  start["pid"] = command->view.pid;
  if (auto told = co_await tell(**socket, "start", std::move(start)); !told) {
    co_return Result<void>{};
  }
  const auto ended = co_await talk(call, **socket, SocketKind::Terminal, *command);
  command->output.reset();
  // Somebody saw the end: nobody will come back for it.
  if (ended && *ended) {
    (void)co_await call.fleet().forget(call.caller, call.id(), command->view.id);
  }
  co_return Result<void>{};
}

}  // namespace caisson::rest
