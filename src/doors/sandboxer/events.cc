// What happens to the sandboxes of a tenant, as it happens.
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "doors/sandboxer/patient.h"

namespace caisson::sandboxer {

namespace {

constexpr std::string_view kEventType = "text/event-stream; charset=utf-8";
constexpr std::string_view kComment = ": still here\n\n";

awaitable<Result<void>> pump(PatientAnswer& out, Mailbox& events) {
  for (;;) {
    auto text = co_await events.next();
    if (!text) co_return Result<void>{};
    if (auto sent = co_await out.write(*std::move(text)); !sent) co_return sent;
  }
}

}  // namespace

awaitable<Result<void>> stream_events(Call& call) {
  using namespace boost::asio::experimental::awaitable_operators;
  auto ticket = call.services().streams.enter(call.caller.tenant);
  if (!ticket) co_return std::unexpected(ticket.error());
  const auto events = call.services().hub.listen(call.caller.tenant);
  call.exchange.set("Cache-Control", "no-cache");
  call.exchange.set("X-Accel-Buffering", "no");
  PatientAnswer out(call, kEventType, kComment, call.options().keep_alive);
  if (auto begun = co_await out.write(""); !begun) co_return begun;
  auto first = co_await (pump(out, *events) || out.keep_alive() || call.exchange.wait_for_hangup());
  if (first.index() != 0 || !std::get<0>(first)) {
    call.exchange.close_after();
    co_return Result<void>{};
  }
  co_return co_await out.finish("");
}

}  // namespace caisson::sandboxer
