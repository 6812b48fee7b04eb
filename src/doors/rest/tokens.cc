// Tokens: made, listed, withdrawn. A secret is in the answer that makes it and nowhere else.
#include <boost/json/array.hpp>

#include "doors/rest/handlers.h"
#include "doors/rest/views.h"
#include "doors/rest/wishes.h"

namespace caisson::rest {

namespace json = boost::json;

awaitable<Result<void>> create_token(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto wish = token_wish(*body, call.caller.tenant);
  if (!wish) co_return std::unexpected(wish.error());
  const auto token = co_await call.services.access.create(call.caller, std::move(*wish));
  if (!token) co_return std::unexpected(token.error());
  json::object out = to_json(token->record);
  out["token"] = token->secret;
  co_return co_await answer(call, 201, out);
}

awaitable<Result<void>> list_tokens(Call& call) {
  json::array tokens;
  for (const auto& token : call.services.access.list(call.caller)) {
    tokens.emplace_back(to_json(token));
  }
  json::object body;
  body["tokens"] = std::move(tokens);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> revoke_token(Call& call) {
  auto done = co_await call.services.access.revoke(call.caller, call.id());
  if (!done) co_return done;
  co_return co_await answer_nothing(call);
}

}  // namespace caisson::rest
