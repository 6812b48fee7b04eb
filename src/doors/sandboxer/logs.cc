// What the main process said: so far, or for as long as it goes on. Also after its end.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <limits>

#include "doors/sandboxer/call.h"
#include "doors/sandboxer/main_process.h"
#include "doors/sandboxer/words.h"

namespace caisson::sandboxer {

namespace {

constexpr std::string_view kTextType = "text/plain; charset=utf-8";
constexpr std::string_view kStreamType = "text/event-stream; charset=utf-8";
constexpr std::string_view kNothingLeft = "<container terminated>";
constexpr std::size_t kWholeBytesMax = 256UL * 1024;  // a shorter log is sent with its length
// What one who reads holds at most: a page, what is left of the one before, and what is being sent.
constexpr std::size_t kReaderBytes = 1024UL * 1024;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The next page, when there is room for it.
awaitable<Result<std::string>> read_on(Call& call, LogReader& reader) {
  if (auto room = co_await call.hold().resize(kReaderBytes); !room)
    co_return std::unexpected(room.error());
  const auto turn = co_await call.services().questions.ask(call.caller.tenant);
  if (!turn) co_return std::unexpected(turn.error());
  co_return co_await reader.next();
}

// All of it up to `end`, trimmed, at the client's pace. A program that talks for ever is not
// followed.
awaitable<Result<void>> send_whole(Call& call, LogReader& reader, bool living, std::int64_t end) {
  Trimmer trimmer;
  std::string text;
  bool any = false;
  while (!any || reader.offset() < end) {
    auto more = co_await read_on(call, reader);
    if (!more) co_return std::unexpected(more.error());
    if (more->empty()) break;
    any = true;
    trimmer.feed(*more, text);
    if (text.size() < kWholeBytesMax) continue;
    if (!call.exchange.begun()) {
      auto begun = co_await call.exchange.begin(200, kTextType, std::nullopt);
      if (!begun) co_return begun;
    }
    if (auto sent = co_await call.exchange.write(bytes_of(text)); !sent) co_return sent;
    text.clear();
  }
  if (!call.exchange.begun()) {
    if (!any && !living) {
      // Nobody knows any more what an imported one said.
      const auto run = co_await call.services().history.run(reader.run());
      if (run && !*run) text = kNothingLeft;
    }
    co_await call.exchange.respond(200, kTextType, std::move(text));
    co_return Result<void>{};
  }
  if (!text.empty()) {
    if (auto sent = co_await call.exchange.write(bytes_of(text)); !sent) co_return sent;
  }
  co_return co_await call.exchange.end();
}

// Whole lines; a very long one in parts.
awaitable<Result<void>> send_lines(Call& call, LogReader& reader, std::shared_ptr<Log> log) {
  std::string line;
  for (;;) {
    // Looked at before the reading: what comes behind it would be missed otherwise.
    const bool last = !log || log->ended();
    auto more = co_await read_on(call, reader);
    if (!more) co_return std::unexpected(more.error());
    line += *more;
    std::size_t whole = line.rfind('\n');
    whole = whole == std::string::npos ? 0 : whole + 1;
    if (line.size() - whole > kLineBytesMax) whole = line.size();
    if (whole > 0) {
      const std::string text = line.substr(0, whole);
      line.erase(0, whole);
      if (auto sent = co_await call.exchange.write(bytes_of(text)); !sent) co_return sent;
    }
    if (!more->empty()) continue;
    if (last) break;
    call.hold().force(line.size());  // nothing comes for a while
    if (!log->ended() && !co_await log->wait()) co_return failure(Errc::Gone, "cancelled");
  }
  if (!line.empty()) {
    line += '\n';
    if (auto sent = co_await call.exchange.write(bytes_of(line)); !sent) co_return sent;
  }
  co_return Result<void>{};
}

awaitable<void> until_closing(Services& services) {
  while (!services.closed) {
    if (!co_await services.closing.wait()) co_return;
  }
}

awaitable<Result<void>> stream_lines(Call& call, LogReader& reader, std::shared_ptr<Log> log) {
  using namespace boost::asio::experimental::awaitable_operators;
  auto ticket = call.services().streams.enter(call.caller.tenant);
  if (!ticket) co_return std::unexpected(ticket.error());
  std::optional<Log::Follower> follower;
  if (log) follower.emplace(log);
  call.exchange.set("Cache-Control", "no-cache");
  call.exchange.set("X-Accel-Buffering", "no");
  auto begun = co_await call.exchange.begin(200, kStreamType, std::nullopt);
  if (!begun) co_return begun;
  auto first = co_await (send_lines(call, reader, log) || call.exchange.wait_for_hangup() ||
                         until_closing(call.services()));
  if (first.index() == 1) {
    call.exchange.close_after();
    co_return Result<void>{};
  }
  if (first.index() == 0 && !std::get<0>(first)) co_return std::get<0>(first);
  co_return co_await call.exchange.end();
}

}  // namespace

awaitable<Result<void>> show_logs(Call& call) {
  doors::Problems problems;
  const bool stream = query_flag(call, "stream", problems);
  if (!problems.empty()) co_return refuse(call, problems);
  const auto found = any_row(call);
  if (!found) co_return std::unexpected(found.error());
  const RowPtr row = *found;
  if (row->interactive)
    co_return refuse(call, 400, "Cannot stream logs from interactive sandboxes");
  if (row->living()) row->last_active = call.services().now();
  const std::shared_ptr<Log> log = row->main ? row->main->log() : nullptr;
  if (log) co_await log->flush();
  constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
  const std::int64_t end = log ? static_cast<std::int64_t>(log->settled()) : kAll;
  LogReader reader(call.services().history, std::string(kMainRun) + row->name);
  if (stream) co_return co_await stream_lines(call, reader, log);
  co_return co_await send_whole(call, reader, row->living(), end);
}

}  // namespace caisson::sandboxer
