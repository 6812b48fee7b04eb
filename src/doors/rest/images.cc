// Images: pull, import, build, look, export, remove. Their bytes pass through here and are never
// looked at.
#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json/array.hpp>

#include "doors/rest/byte_stream.h"
#include "doors/rest/file_wishes.h"
#include "doors/rest/handlers.h"
#include "doors/rest/show.h"
#include "doors/rest/sse.h"
#include "doors/rest/states.h"
#include "doors/rest/upload.h"
#include "doors/shared/guard.h"

namespace caisson::rest {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

Result<std::string> reference_of(const Call& call) {
  const auto text = query_text(call, "reference");
  if (!text || text->empty()) {
    return bad_field("reference", "reference is missing: name an image, such as python:3.12");
  }
  if (text->size() > kReferenceBytesMax) {
    return bad_field("reference", "reference is longer than 512 bytes, and no image's is");
  }
  return std::string(*text);
}

// The document goes with the call; what it held must not stay behind in the heap.
void wipe_password(json::object& body) {
  json::value* value = body.if_contains("password");
  if (value != nullptr && value->is_string()) std::ranges::fill(value->get_string(), '\0');
}

awaitable<Result<control::ImageView>> last_of(control::PullStream& stream) {
  for (;;) {
    auto item = co_await stream.next();
    if (!item) co_return std::unexpected(item.error());
    if (auto* image = std::get_if<control::ImageView>(&*item)) co_return std::move(*image);
  }
}

awaitable<Result<void>> pump_pull(EventWriter& events, control::PullStream& stream) {
  for (;;) {
    auto item = co_await stream.next();
    if (!item) co_return std::unexpected(item.error());
    if (const auto* image = std::get_if<control::ImageView>(&*item)) {
      json::object data = to_json(*image);
      co_return co_await events.send("image", "", std::move(data));
    }
    json::object data = to_json(std::get<control::ImageProgress>(*item));
    auto sent = co_await events.send("progress", "", std::move(data));
    if (!sent) co_return sent;
  }
}

awaitable<Result<void>> pull_events(Call& call, control::PullWish wish) {
  auto ticket = call.services.streams.enter(call.caller.actor);
  if (!ticket) co_return std::unexpected(ticket.error());
  auto stream = co_await call.fleet().pull_image(call.caller, std::move(wish));
  if (!stream) co_return std::unexpected(stream.error());
  EventWriter events(call, co_await asio::this_coro::executor);
  if (auto begun = co_await events.begin(); !begun) co_return begun;
  (void)co_await run_stream(call, events, pump_pull(events, **stream));
  co_return Result<void>{};
}

awaitable<Result<void>> pull_collected(Call& call, control::PullWish wish) {
  using namespace asio::experimental::awaitable_operators;
  auto stream = co_await call.fleet().pull_image(call.caller, std::move(wish));
  if (!stream) co_return std::unexpected(stream.error());
  auto first = co_await (last_of(**stream) || call.exchange.wait_for_hangup());
  if (first.index() != 0) {
    call.exchange.close_after();
    co_return failure(Errc::Gone, "the caller hung up");
  }
  co_return co_await show(call, 200, std::move(std::get<0>(first)));
}

Result<bool> wants_events(const Call& call) {
  if (const auto stream = query_text(call, "stream")) {
    if (*stream == "sse" || *stream == "true") return true;
    return bad_field("stream", "stream is neither \"true\" nor \"sse\": there is no other");
  }
  return accepts_events(call);
}

}  // namespace

awaitable<Result<void>> pull_image(Call& call) {
  const auto events = wants_events(call);
  if (!events) co_return std::unexpected(events.error());
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = pull_wish(*body);
  wipe_password(*body);
  if (!wish) co_return std::unexpected(wish.error());
  if (*events) co_return co_await pull_events(call, std::move(*wish));
  co_return co_await pull_collected(call, std::move(*wish));
}

awaitable<Result<void>> list_images(Call& call) {
  co_return co_await show_list(call, "images", call.fleet().images(call.caller));
}

awaitable<Result<void>> get_image(Call& call) {
  const auto reference = reference_of(call);
  if (!reference) co_return std::unexpected(reference.error());
  co_return co_await show(call, 200, call.fleet().image(call.caller, *reference));
}

awaitable<Result<void>> remove_image(Call& call) {
  auto reference = reference_of(call);
  if (!reference) co_return std::unexpected(reference.error());
  auto gone = co_await call.fleet().remove_image(call.caller, std::move(*reference));
  if (!gone) co_return gone;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> import_image(Call& call) {
  control::ImportWish wish;
  auto reference = reference_of(call);
  if (!reference) co_return std::unexpected(reference.error());
  wish.reference = std::move(*reference);
  if (const auto pick = query_text(call, "pick")) {
    if (pick->empty() || pick->size() > kReferenceBytesMax) {
      co_return bad_field("pick", "pick is no name of an image: want 1 to 512 bytes");
    }
    wish.pick = std::string(*pick);
  }
  if (!call.request().has_body) {
    co_return failure(Errc::InvalidArgument, "the body is missing: want a tar archive");
  }
  auto upload = co_await call.fleet().import_image(call.caller, std::move(wish));
  if (!upload) co_return std::unexpected(upload.error());
  if (auto taken = co_await pour_body(call, **upload, 0); !taken) co_return taken;
  auto view = co_await (*upload)->finish();
  co_return co_await show(call, 201, std::move(view));
}

awaitable<Result<void>> export_image(Call& call) {
  const auto reference = reference_of(call);
  if (!reference) co_return std::unexpected(reference.error());
  if (auto room = co_await call.hold().resize(kTransferBytes); !room) co_return room;
  auto bytes = co_await call.fleet().export_image(call.caller, *reference);
  if (!bytes) co_return std::unexpected(bytes.error());
  co_return co_await stream_out(call, **bytes, "application/x-tar", *reference, ".tar");
}

awaitable<Result<void>> build_image(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = build_wish(*body);
  if (!wish) co_return std::unexpected(wish.error());
  wish->snapshot = snapshot_id(call, wish->snapshot);
  auto view = co_await call.fleet().build_image(call.caller, std::move(*wish));
  co_return co_await show(call, 201, std::move(view));
}

awaitable<Result<void>> collect_garbage(Call& call) {
  if (auto good = co_await want_nothing(call); !good) co_return good;
  auto view = co_await call.fleet().collect_garbage(call.caller);
  co_return co_await show(call, 200, std::move(view));
}

}  // namespace caisson::rest
