// The terminal of the main process: all who look at it see the same and type into the same. Leaving
// leaves no trace.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json/parse.hpp>

#include "doors/sandboxer/call.h"
#include "doors/sandboxer/main_process.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::uint16_t kCloseNormal = 1000;
constexpr std::uint16_t kCloseSlow = 1013;
constexpr std::uint16_t kCloseFailed = 4007;
constexpr std::int64_t kSideMax = 4096;  // rows and columns
constexpr std::size_t kControlBytesMax = 1024;

struct Size {
  std::uint16_t rows = 0;
  std::uint16_t columns = 0;
};

// {"type":"resize","cols":C,"rows":R}; anything else says nothing.
std::optional<Size> size_of(std::string_view text) {
  if (text.size() > kControlBytesMax) return std::nullopt;
  json::error_code ec;
  const json::value read = json::parse(text, ec);
  if (ec || !read.is_object()) return std::nullopt;
  const json::object& message = read.get_object();
  const auto side = [&message](std::string_view name) -> std::uint16_t {
    const json::value* at = message.if_contains(name);
    if (at == nullptr || !at->is_int64() || at->get_int64() < 1 || at->get_int64() > kSideMax)
      return 0;
    return static_cast<std::uint16_t>(at->get_int64());
  };
  const json::value* type = message.if_contains("type");
  if (type == nullptr || !type->is_string() || type->get_string() != "resize") return std::nullopt;
  const Size size{side("rows"), side("cols")};
  if (size.rows == 0 || size.columns == 0) return std::nullopt;
  return size;
}

// The end is told from in here, while the other half still reads: a read that is cancelled takes
// the whole WebSocket with it.
awaitable<void> show(http::WebSocket& socket, Mailbox& viewer, bool& closing) {
  for (;;) {
    auto bytes = co_await viewer.next();
    if (!bytes) {
      closing = true;
      co_await socket.close(viewer.lost() ? kCloseSlow : kCloseNormal, "");
      co_return;
    }
    if (auto sent = co_await socket.write(*bytes, false); !sent) co_return;
  }
}

awaitable<void> wait_for_ever() {
  boost::asio::steady_timer never(co_await boost::asio::this_coro::executor,
                                  boost::asio::steady_timer::time_point::max());
  boost::system::error_code ec;
  co_await never.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ec));
}

awaitable<void> type(Call& call, RowPtr row, http::WebSocket& socket, const bool& closing) {
  for (;;) {
    auto message = co_await socket.read();
    if (closing) co_await wait_for_ever();
    if (!message || !*message) co_return;
    std::string bytes = std::move((*message)->bytes);
    row->last_active = call.services().now();
    Result<void> done;
    if ((*message)->text) {
      const auto size = size_of(bytes);
      if (!size) continue;
      done = co_await call.fleet().resize(call.caller, row->name, row->process, size->rows,
                                          size->columns);
    } else if (!bytes.empty()) {
      done = co_await call.fleet().write_input(call.caller, row->name, row->process,
                                               std::move(bytes), false);
    }
    // What cannot be recorded is not done, and the person must see that it was not.
    if (!done && (done.error().code == Errc::StoreFull || done.error().code == Errc::Exhausted)) {
      co_await socket.close(kCloseFailed, "");
      co_return;
    }
  }
}

}  // namespace

awaitable<Result<void>> attach_terminal(Call& call) {
  using namespace boost::asio::experimental::awaitable_operators;
  const RowPtr row = call.services().rows.by_id(call.match.id);
  // Before the handshake every no is a 403.
  if (!row || row->tenant != call.caller.tenant || !row->living() || row->ending || !row->main)
    co_return refuse(call, 403, kNoSandbox);
  if (!row->interactive) co_return refuse(call, 403, "Sandbox is not interactive");
  auto ticket = call.services().streams.enter(call.caller.tenant);
  if (!ticket) co_return refuse(call, 403, ticket.error().message);
  const auto viewer = row->main->look_on();
  if (!viewer) co_return refuse(call, 403, "Too many are attached");
  row->last_active = call.services().now();
  auto socket = co_await call.exchange.accept_websocket("");
  if (!socket) co_return std::unexpected(socket.error());
  bool closing = false;
  auto first = co_await (show(**socket, *viewer, closing) || type(call, row, **socket, closing));
  if (first.index() == 1) co_await (*socket)->close(kCloseNormal, "");
  co_return Result<void>{};
}

}  // namespace caisson::sandboxer
