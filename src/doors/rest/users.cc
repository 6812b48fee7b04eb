// Who the tenants are, for admins; and what another server's tenants had.
#include <algorithm>
#include <boost/json/array.hpp>
#include <map>
#include <set>

#include "doors/rest/handlers.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

std::unexpected<Error> nobody_kept() {
  return failure(Errc::Unsupported, "this server keeps no users");
}

// Good tokens of each tenant, in one walk: there may be thousands of both.
using TokenCounts = std::map<std::string, std::int64_t, std::less<>>;

TokenCounts count_tokens(const std::vector<store::TokenRecord>& tokens) {
  TokenCounts counts;
  for (const store::TokenRecord& token : tokens) counts[token.tenant] += token.revoked ? 0 : 1;
  return counts;
}

json::object to_json(Call& call, const control::Person& person, const TokenCounts& tokens) {
  const auto found = tokens.find(person.tenant);
  const std::int64_t valid = found == tokens.end() ? 0 : found->second;
  return json::object{
      {"tenant", valid_utf8(person.tenant)},
      {"name", valid_utf8(person.name)},
      {"email", valid_utf8(person.email)},
      {"login", valid_utf8(person.login)},
      {"avatar_url", person.avatar_url},
      {"created_at",
       person.created == 0 ? json::value(nullptr) : json::value(store::to_rfc3339(person.created))},
      {"tokens", valid},
      {"sandboxes", call.fleet().living_of(person.tenant)}};
}

Result<control::Person> person_of(const json::object& body, const std::string& tenant) {
  Fields fields(body);
  control::Person person;
  person.tenant = tenant;
  const TextRule rule{0, control::kPersonTextBytesMax, false};
  person.name = fields.text("name", rule).value_or("");
  person.email = fields.text("email", rule).value_or("");
  person.login = fields.text("login", rule).value_or("");
  person.avatar_url = fields.text("avatar_url", {0, control::kAvatarBytesMax, false}).value_or("");
  TRY(fields.finish());
  return person;
}

}  // namespace

// A tenant that has tokens and no entry is one, too.
awaitable<Result<void>> list_users(Call& call) {
  control::People* people = call.services.options.people;
  if (people == nullptr) co_return nobody_kept();
  const TokenCounts tokens = count_tokens(call.services.access.list(call.caller));
  std::vector<control::Person> all = people->list(call.caller);
  std::set<std::string> known;
  for (const control::Person& person : all) known.insert(person.tenant);
  for (const auto& [tenant, count] : tokens) {
    if (!known.insert(tenant).second) continue;
    control::Person unnamed;
    unnamed.tenant = tenant;
    all.push_back(std::move(unnamed));
  }
  std::ranges::sort(all, {}, &control::Person::tenant);
  json::array users;
  for (const control::Person& person : all) users.emplace_back(to_json(call, person, tokens));
  json::object body;
  body["users"] = std::move(users);
  co_return co_await answer(call, 200, body);
}

awaitable<Result<void>> put_user(Call& call) {
  control::People* people = call.services.options.people;
  if (people == nullptr) co_return nobody_kept();
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  auto person = person_of(*body, call.id());
  if (!person) co_return std::unexpected(person.error());
  const auto kept = co_await people->put(call.caller, std::move(*person));
  if (!kept) co_return std::unexpected(kept.error());
  const TokenCounts tokens = count_tokens(call.services.access.list(call.caller));
  const json::object out = to_json(call, *kept, tokens);
  co_return co_await answer(call, 200, out);
}

awaitable<Result<void>> remove_user(Call& call) {
  control::People* people = call.services.options.people;
  if (people == nullptr) co_return nobody_kept();
  auto gone = co_await people->remove(call.caller, call.id(), call.services.access);
  if (!gone) co_return gone;
  co_return co_await answer_nothing(call);
}

awaitable<Result<void>> import_listings(Call& call) {
  auto body = co_await read_json(call, Body::Required);
  if (!body) co_return std::unexpected(body.error());
  if (!call.services.options.import_listings) {
    co_return failure(Errc::Unsupported, "this server keeps no list of ended sandboxes");
  }
  const auto done = co_await call.services.options.import_listings(call.caller, std::move(*body));
  if (!done) co_return std::unexpected(done.error());
  co_return co_await answer(call, 200, *done);
}

}  // namespace caisson::rest
