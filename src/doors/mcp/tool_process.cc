// start, poll, input, stop: a command that goes on by itself.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>

#include "control/tools.h"
#include "doors/mcp/output.h"
#include "doors/mcp/tool.h"
#include "doors/shared/text.h"

namespace caisson::mcp {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::int64_t kOffsetMax = 9'007'199'254'740'991;
constexpr double kWaitSecondsMax = 60;

// How a process is ended: asked, then killed.
struct Step {
  int signal;
  milliseconds patience;
};
constexpr std::array<Step, 2> kEnding{
    {{SIGTERM, milliseconds(3000)}, {SIGKILL, milliseconds(5000)}}};

constexpr std::size_t kHeldPerPoll = 6 * kOutputBytesMax;

Result<std::uint32_t> process_of(control::ToolArguments& read) {
  const std::int64_t id = TRY(read.whole("process", 0, 1, UINT32_MAX));
  if (id == 0)
    return bad_field("arguments.process",
                     "arguments.process: is missing: want the number that start gave");
  return static_cast<std::uint32_t>(id);
}

awaitable<void> pause(milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  boost::system::error_code cancelled;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
}

void put_end(json::object& out, const control::ProcessView& view) {
  out["running"] = view.running;
  out["exit_code"] = view.exit_code ? json::value(*view.exit_code) : json::value(nullptr);
  out["timed_out"] = view.timed_out;
  out["oom_killed"] = view.oom_killed;
}

// Output from two offsets on, up to the size that is shown.
struct Output {
  std::string bytes[2];
  std::uint64_t at[2] = {0, 0};
  std::uint64_t lost[2] = {0, 0};

  [[nodiscard]] bool full() const {
    return bytes[0].size() >= kOutputBytesMax || bytes[1].size() >= kOutputBytesMax;
  }
  void take(const control::OutputChunk& chunk) {
    const std::size_t which = chunk.error ? 1 : 0;
    const std::size_t room = kOutputBytesMax - bytes[which].size();
    const std::string_view taken = std::string_view(chunk.bytes).substr(0, room);
    bytes[which] += taken;
    lost[which] += chunk.lost;
    at[which] = chunk.offset + taken.size();
  }
};

struct PollWish {
  std::uint32_t process = 0;
  Output from;
  double wait_seconds = 0;
};

Result<PollWish> poll_wish(const json::object& arguments) {
  control::ToolArguments read(arguments);
  PollWish wish;
  wish.process = TRY(process_of(read));
  wish.from.at[0] = static_cast<std::uint64_t>(TRY(read.whole("stdout_offset", 0, 0, kOffsetMax)));
  wish.from.at[1] = static_cast<std::uint64_t>(TRY(read.whole("stderr_offset", 0, 0, kOffsetMax)));
  wish.wait_seconds = TRY(read.number("wait_seconds")).value_or(0);
  TRY(read.finish());
  if (wish.wait_seconds < 0 || wish.wait_seconds > kWaitSecondsMax)
    return bad_field("arguments.wait_seconds",
                     "arguments.wait_seconds: want 0 to 60 seconds; poll again to wait longer");
  return wish;
}

// What is there by now; the view is of the moment before.
awaitable<Result<void>> drain(ToolCall& call, const control::ProcessView& view, Output& output) {
  const auto behind = [&](int which) { return output.at[which] < view.end[which]; };
  if (!behind(0) && !behind(1)) co_return Result<void>();
  auto stream = co_await call.fleet().attach(call.caller(), call.sandbox, view.id, output.at[0],
                                             output.at[1]);
  if (!stream) co_return std::unexpected(stream.error());
  while ((behind(0) || behind(1)) && !output.full()) {
    auto item = co_await (*stream)->next();
    if (!item) co_return std::unexpected(item.error());
    const auto* chunk = std::get_if<control::OutputChunk>(&*item);
    if (chunk == nullptr) break;  // its end
    output.take(*chunk);
  }
  co_return Result<void>();
}

// Until it has written something new, or ended.
awaitable<void> wait_for_news(ToolCall& call, std::uint32_t process, Output from) {
  auto stream =
      co_await call.fleet().attach(call.caller(), call.sandbox, process, from.at[0], from.at[1]);
  if (stream) (void)co_await (*stream)->next();
}

ToolAnswer poll_answer(const control::ProcessView& view, const Output& output) {
  ToolAnswer answer;
  json::object& out = answer.structured;
  out["process"] = view.id;
  put_end(out, view);
  out["stdout"] = doors::lossy_utf8(output.bytes[0]);
  out["stderr"] = doors::lossy_utf8(output.bytes[1]);
  out["stdout_offset"] = output.at[0];
  out["stderr_offset"] = output.at[1];
  out["stdout_omitted_bytes"] = output.lost[0];
  out["stderr_omitted_bytes"] = output.lost[1];
  out["more"] = output.at[0] < view.end[0] || output.at[1] < view.end[1];
  return answer;
}

}  // namespace

awaitable<Result<ToolAnswer>> start(ToolCall& call) {
  const auto wish = [&]() -> Result<control::ProcessWish> {
    control::ToolArguments read(call.arguments);
    control::ProcessWish out;
    out.exec.command = TRY(read.text("command", control::kCommandBytesMax));
    out.exec.workdir = TRY(read.text_or_none("workdir", 4096));
    out.exec.environment = TRY(read.pairs("env"));
    out.exec.timeout_seconds = TRY(read.number("timeout_seconds"));
    TRY(read.finish());
    return out;
  }();
  if (!wish) co_return std::unexpected(wish.error());
  auto view = co_await call.fleet().start(call.caller(), call.sandbox, *wish);
  if (!view && view.error().code == Errc::Exhausted) {
    // Ended ones whose output is still kept have taken all the places.
    const auto all = co_await call.fleet().processes(call.caller(), call.sandbox);
    for (const control::ProcessView& one : all ? *all : std::vector<control::ProcessView>()) {
      if (!one.running) (void)co_await call.fleet().forget(call.caller(), call.sandbox, one.id);
    }
    view = co_await call.fleet().start(call.caller(), call.sandbox, *wish);
  }
  if (!view) co_return std::unexpected(view.error());
  ToolAnswer answer;
  answer.structured = {{"process", view->id}, {"pid", view->pid}};
  co_return answer;
}

awaitable<Result<ToolAnswer>> poll(ToolCall& call) {
  using namespace asio::experimental::awaitable_operators;
  auto wish = poll_wish(call.arguments);
  if (!wish) co_return std::unexpected(wish.error());
  doors::Budget::Hold& held = *call.call.held;
  if (auto room = co_await held.resize(held.bytes() + kHeldPerPoll); !room)
    co_return std::unexpected(room.error());
  auto view = co_await call.fleet().process(call.caller(), call.sandbox, wish->process);
  if (!view) co_return std::unexpected(view.error());
  Output& output = wish->from;
  for (int which = 0; which < 2; ++which)
    output.at[which] = std::min(output.at[which], view->end[which]);
  const bool news = output.at[0] < view->end[0] || output.at[1] < view->end[1];
  if (!news && view->running && wish->wait_seconds > 0) {
    const milliseconds time(static_cast<std::int64_t>(wish->wait_seconds * 1000));
    (void)co_await (wait_for_news(call, wish->process, output) || pause(time) ||
                    tell_progress(call.call, "the process"));
    view = co_await call.fleet().process(call.caller(), call.sandbox, wish->process);
    if (!view) co_return std::unexpected(view.error());
  }
  auto done = co_await drain(call, *view, output);
  if (!done) co_return std::unexpected(done.error());
  co_return poll_answer(*view, output);
}

awaitable<Result<ToolAnswer>> input(ToolCall& call) {
  struct InputWish {
    std::uint32_t process = 0;
    std::string text;
    bool close = false;
  };
  auto wish = [&]() -> Result<InputWish> {
    control::ToolArguments read(call.arguments);
    InputWish out;
    out.process = TRY(process_of(read));
    out.text = TRY(read.text_or_none("text", control::kToolInputBytesMax)).value_or("");
    out.close = TRY(read.flag("close"));
    TRY(read.finish());
    return out;
  }();
  if (!wish) co_return std::unexpected(wish.error());
  const std::size_t size = wish->text.size();
  auto taken = co_await call.fleet().write_input(call.caller(), call.sandbox, wish->process,
                                                 std::move(wish->text), wish->close);
  if (!taken) co_return std::unexpected(taken.error());
  ToolAnswer answer;
  answer.structured = {{"process", wish->process}, {"written_bytes", size}};
  co_return answer;
}

awaitable<Result<ToolAnswer>> stop(ToolCall& call) {
  const auto process = [&]() -> Result<std::uint32_t> {
    control::ToolArguments read(call.arguments);
    const std::uint32_t out = TRY(process_of(read));
    TRY(read.finish());
    return out;
  }();
  if (!process) co_return std::unexpected(process.error());
  control::Fleet& fleet = call.fleet();
  auto view = co_await fleet.process(call.caller(), call.sandbox, *process);
  if (!view) co_return std::unexpected(view.error());
  for (const Step& step : kEnding) {
    if (!view->running) break;
    // It may have ended just now, and take no signal any more.
    (void)co_await fleet.signal(call.caller(), call.sandbox, *process, step.signal, true);
    auto ended = co_await fleet.wait(call.caller(), call.sandbox, *process, step.patience);
    if (!ended && ended.error().code != Errc::TimedOut) co_return std::unexpected(ended.error());
    if (ended) view = std::move(ended);
  }
  ToolAnswer answer;
  answer.structured["process"] = *process;
  put_end(answer.structured, *view);
  co_return answer;
}

}  // namespace caisson::mcp
