// Processes in the background.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json/array.hpp>
#include <charconv>
#include <csignal>

#include "doors/rest/handlers.h"
#include "doors/rest/running.h"
#include "doors/rest/views.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr std::size_t kInputBytesMax = 16UL * 1024 * 1024;  // of one call
constexpr std::size_t kInputPieceBytes = 64UL * 1024;
constexpr double kWaitSecondsMax = 3600;
constexpr double kWaitSecondsDefault = 60;

Result<milliseconds> wait_time(const Call& call) {
  const auto text = query_text(call, "timeout_seconds");
  double value = kWaitSecondsDefault;
  if (text) {
    const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (ec != std::errc{} || end != text->data() + text->size() ||
        !(value >= 0 && value <= kWaitSecondsMax)) {
      return bad_field("timeout_seconds", "timeout_seconds is \"" + std::string(*text) +
                                              "\": want a number from 0 to 3600");
    }
  }
  return milliseconds(static_cast<std::int64_t>(value * 1000));
}

awaitable<Result<void>> show(Call& call, unsigned status, Result<control::ProcessView> view) {
  if (!view) co_return std::unexpected(view.error());
  const json::object body = to_json(*view);
  co_return co_await answer(call, status, body);
}

}  // namespace

awaitable<Result<void>> start_process(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = process_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().start(call.caller, call.id(), std::move(*wish));
  if (view) {
    call.exchange.set("Location",
                      "/api/v1/sandboxes/" + call.id() + "/processes/" + std::to_string(view->id));
  }
  co_return co_await show(call, 201, std::move(view));
}

awaitable<Result<void>> list_processes(Call& call) {
  auto views = co_await call.fleet().processes(call.caller, call.id());
  if (!views) co_return std::unexpected(views.error());
  json::array list;
  for (const auto& view : *views) list.emplace_back(to_json(view));
  json::object body;
  body["processes"] = std::move(list);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> get_process(Call& call) {
  const auto process = process_of(call);
  if (!process) co_return std::unexpected(process.error());
  auto view = co_await call.fleet().process(call.caller, call.id(), *process);
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> remove_process(Call& call) {
  const auto process = process_of(call);
  if (!process) co_return std::unexpected(process.error());
  const auto view = co_await call.fleet().process(call.caller, call.id(), *process);
  if (!view) co_return std::unexpected(view.error());
  if (view->running) {
    auto sent = co_await call.fleet().signal(call.caller, call.id(), *process, SIGKILL, true);
    // It may have ended in between, which is what was wanted.
    if (!sent && sent.error().code != Errc::NotFound) co_return sent;
    constexpr milliseconds kEndTimeout{5000};
    const auto ended = co_await call.fleet().wait(call.caller, call.id(), *process, kEndTimeout);
    if (!ended) co_return std::unexpected(ended.error());
  }
  auto forgotten = co_await call.fleet().forget(call.caller, call.id(), *process);
  if (!forgotten) co_return forgotten;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> write_input(Call& call) {
  const auto process = process_of(call);
  if (!process) co_return std::unexpected(process.error());
  const auto close = query_flag(call, "close", false);
  if (!close) co_return std::unexpected(close.error());
  // Not a type that a form of a web page can send.
  const std::string_view type = call.request().field("Content-Type");
  if (!type.empty() &&
      !http::same_name(type.substr(0, type.find_first_of("; \t")), "application/octet-stream")) {
    co_return refuse(call, 415, "UnsupportedMediaType",
                     "send Content-Type: application/octet-stream");
  }
  if (call.request().content_length.value_or(0) > kInputBytesMax) {
    co_return failure(Errc::TooLarge, "at most 16 MiB of input in one call");
  }
  std::string piece(kInputPieceBytes, '\0');
  std::size_t total = 0;
  for (;;) {
    const auto got = co_await call.exchange.read_some(std::as_writable_bytes(std::span(piece)));
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) break;
    total += *got;
    if (total > kInputBytesMax) {
      co_return failure(Errc::TooLarge, "at most 16 MiB of input in one call");
    }
    std::string bytes = piece.substr(0, *got);
    auto taken = co_await call.fleet().write_input(call.caller, call.id(), *process,
                                                   std::move(bytes), false);
    if (!taken) co_return taken;
  }
  if (total == 0 || *close) {
    auto closed = co_await call.fleet().write_input(call.caller, call.id(), *process, "", *close);
    if (!closed) co_return closed;
  }
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> signal_process(Call& call) {
  const auto process = process_of(call);
  if (!process) co_return std::unexpected(process.error());
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  const auto wish = signal_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto sent =
      co_await call.fleet().signal(call.caller, call.id(), *process, wish->number, wish->tree);
  if (!sent) co_return sent;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> resize_process(Call& call) {
  const auto process = process_of(call);
  if (!process) co_return std::unexpected(process.error());
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  const auto wish = size_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  auto done =
      co_await call.fleet().resize(call.caller, call.id(), *process, wish->rows, wish->columns);
  if (!done) co_return done;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> wait_process(Call& call) {
  using namespace boost::asio::experimental::awaitable_operators;
  const auto process = process_of(call);
  if (!process) co_return std::unexpected(process.error());
  const auto timeout = wait_time(call);
  if (!timeout) co_return std::unexpected(timeout.error());
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  auto first = co_await (call.fleet().wait(call.caller, call.id(), *process, *timeout) ||
                         call.exchange.wait_for_hangup());
  if (first.index() != 0) co_return failure(Errc::Gone, "the caller hung up");
  auto view = std::move(std::get<0>(first));
  if (!view && view.error().code == Errc::TimedOut) {
    view = co_await call.fleet().process(call.caller, call.id(), *process);
  }
  co_return co_await show(call, 200, std::move(view));
}

}  // namespace caisson::rest
