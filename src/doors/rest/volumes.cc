// Volumes of a tenant, and the store that they and all layers lie in.
#include <boost/json/array.hpp>

#include "doors/rest/file_wishes.h"
#include "doors/rest/handlers.h"
#include "doors/rest/show.h"

namespace caisson::rest {

awaitable<Result<void>> list_volumes(Call& call) {
  auto views = co_await call.fleet().volumes(call.caller);
  if (!views) co_return std::unexpected(views.error());
  co_return co_await show_list(call, "volumes", std::move(*views));
}

awaitable<Result<void>> put_volume(Call& call) {
  if (call.id().size() > kVolumeNameMax) {
    co_return bad_field("id", "the volume's name is longer than 40 bytes");
  }
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  const auto bytes = volume_bytes(*body);
  if (!bytes) co_return std::unexpected(bytes.error());
  auto view = co_await call.fleet().set_volume(call.caller, call.id(), *bytes);
  co_return co_await show(call, 200, std::move(view));
}

awaitable<Result<void>> remove_volume(Call& call) {
  auto gone = co_await call.fleet().remove_volume(call.caller, call.id());
  if (!gone) co_return gone;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> get_storage(Call& call) {
  auto facts = co_await call.fleet().storage(call.caller);
  co_return co_await show(call, 200, std::move(facts));
}

}  // namespace caisson::rest
