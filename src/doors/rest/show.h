// doors/rest/show.h — one value of control as the answer, or its error.
#pragma once

#include "doors/rest/call.h"
#include "doors/rest/file_views.h"
#include "doors/rest/views.h"

namespace caisson::rest {

template <class View>
awaitable<Result<void>> show(Call& call, unsigned status, Result<View> view) {
  if (!view) co_return std::unexpected(view.error());
  const boost::json::object body = to_json(*view);
  co_return co_await answer(call, status, body);
}

// {"name": [view, …]}
template <class View>
awaitable<Result<void>> show_list(Call& call, std::string_view name, std::vector<View> views) {
  boost::json::array items;
  for (const View& view : views) items.emplace_back(to_json(view));
  boost::json::object body;
  body[name] = std::move(items);
  co_return co_await answer(call, 200, body);
}

}  // namespace caisson::rest
