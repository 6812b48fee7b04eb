#include "control/people.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <map>
#include <set>
#include <utility>

#include "control/access_token.h"
#include "control/await_store.h"
#include "control/record_members.h"
#include "control/text.h"

namespace caisson::control {
namespace {

using store::Outcome;

constexpr int kRecordDepthMax = 4;

store::FileKey key_of(const std::string& tenant) {
  return {store::FileKind::Person, tenant, tenant};
}

std::string spec_of(const Person& person) {
  return json::serialize(json::object{{"name", person.name},
                                      {"email", person.email},
                                      {"login", person.login},
                                      {"avatar_url", person.avatar_url}});
}

Result<Person> read_person(const store::FileRecord& record) {
  boost::system::error_code wrong;
  json::parse_options options;
  options.max_depth = kRecordDepthMax;
  const json::value value = json::parse(record.spec, wrong, {}, options);
  const auto broken = [&record] {
    return failure(Errc::Internal,
                   fmt::format("the record of user '{}' cannot be read", record.key.tenant));
  };
  if (wrong || !value.is_object()) return broken();
  Members members(value.get_object());
  Person person;
  person.tenant = record.key.tenant;
  person.name = members.text("name");
  person.email = members.text("email");
  person.login = members.text("login");
  person.avatar_url = members.text("avatar_url");
  person.created = record.created;
  if (!members.wrong().empty()) return broken();
  return person;
}

bool is_control(char letter) { return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F; }

Result<void> check_text(const char* field, const std::string& text) {
  if (text.size() > kPersonTextBytesMax) {
    return bad_field(field, fmt::format("{}: {} bytes are too long: at most {}", field, text.size(),
                                        kPersonTextBytesMax));
  }
  if (!is_utf8(text) || std::ranges::any_of(text, is_control))
    return bad_field(field, fmt::format("{}: want printable text in UTF-8", field));
  return {};
}

Result<void> check_avatar(const std::string& url) {
  if (url.empty()) return {};
  if (url.size() > kAvatarBytesMax) {
    return bad_field("avatar_url", fmt::format("avatar_url: {} bytes are too long: at most {}",
                                               url.size(), kAvatarBytesMax));
  }
  const auto is_printable = [](char letter) { return letter > ' ' && letter < 0x7F; };
  if (!url.starts_with("https://") || !std::ranges::all_of(url, is_printable))
    return bad_field("avatar_url",
                     "avatar_url: want an address that begins with https://, without blanks, or "
                     "none");
  return {};
}

Result<void> check_person(const Person& person) {
  TRY(check_tenant(person.tenant));
  TRY(check_text("name", person.name));
  TRY(check_text("email", person.email));
  TRY(check_text("login", person.login));
  return check_avatar(person.avatar_url);
}

store::AuditEvent event_of(const Caller& who, const char* action, const std::string& tenant,
                           Outcome outcome) {
  store::AuditEvent event;
  event.tenant = who.tenant;
  event.actor = who.actor;
  event.action = action;
  event.object = tenant;
  event.outcome = outcome;
  event.request_id = who.request_id;
  return event;
}

class StoredPeople final : public People {
 public:
  explicit StoredPeople(store::Store& store) : store_(store) {}
  [[nodiscard]] Result<void> load();

  [[nodiscard]] std::optional<Person> find(std::string_view tenant) const override;
  [[nodiscard]] std::vector<Person> list(const Caller& caller) const override;
  awaitable<Result<Person>> put(const Caller& caller, Person person) override;
  awaitable<Result<void>> remove(const Caller& caller, std::string tenant, Access& access) override;

 private:
  awaitable<Result<void>> deny(const Caller& caller, const char* action, std::string tenant);
  [[nodiscard]] Result<void> check_room(const std::string& tenant) const;

  store::Store& store_;
  std::map<std::string, Person, std::less<>> people_;
  std::multiset<std::string, std::less<>> coming_;  // not yet durable
};

Result<void> StoredPeople::load() {
  const auto records = TRY(store_.files(store::FileKind::Person));
  for (const store::FileRecord& record : records) {
    Person person = TRY(read_person(record));
    people_.emplace(record.key.tenant, std::move(person));
  }
  return {};
}

std::optional<Person> StoredPeople::find(std::string_view tenant) const {
  const auto found = people_.find(tenant);
  if (found == people_.end()) return std::nullopt;
  return found->second;
}

std::vector<Person> StoredPeople::list(const Caller& caller) const {
  std::vector<Person> all;
  if (!caller.may(store::Scope::Admin)) return all;
  for (const auto& [tenant, person] : people_) all.push_back(person);
  return all;
}

awaitable<Result<void>> StoredPeople::deny(const Caller& caller, const char* action,
                                           std::string tenant) {
  store::Store::Batch batch;
  batch.audit.push_back(event_of(caller, action, tenant, Outcome::Denied));
  const Result<void> written = co_await commit(store_, std::move(batch));
  if (!written) co_return std::unexpected(written.error());
  co_return failure(Errc::Denied, std::string(action) + ": this token has not the scope 'admin'");
}

Result<void> StoredPeople::check_room(const std::string& tenant) const {
  if (people_.contains(tenant) || people_.size() + coming_.size() < kPeopleMax) return {};
  return failure(Errc::Exhausted,
                 fmt::format("there are {} users already: remove some first", kPeopleMax));
}

awaitable<Result<Person>> StoredPeople::put(const Caller& caller, Person person) {
  if (!caller.may(store::Scope::Admin)) {
    const Result<void> denied = co_await deny(caller, "user.put", person.tenant);
    co_return std::unexpected(denied.error());
  }
  if (const auto good = check_person(person); !good) co_return std::unexpected(good.error());
  if (const auto room = check_room(person.tenant); !room) co_return std::unexpected(room.error());
  const auto known = people_.find(person.tenant);
  if (known != people_.end()) person.created = known->second.created;
  if (person.created <= 0) person.created = store::wall_now();
  store::Store::Batch batch;
  // Names and addresses of people are not in the audit, which forgets nothing.
  batch.audit.push_back(event_of(caller, "user.put", person.tenant, Outcome::Allowed));
  batch.audit.back().detail = known == people_.end() ? R"({"new":true})" : R"({"new":false})";
  batch.files.push_back({key_of(person.tenant), person.created, spec_of(person)});
  const auto place = coming_.insert(person.tenant);
  const Result<void> written = co_await commit(store_, std::move(batch));
  coming_.erase(place);
  if (!written) co_return std::unexpected(written.error());
  people_.insert_or_assign(person.tenant, person);
  co_return person;
}

awaitable<Result<void>> StoredPeople::remove(const Caller& caller, std::string tenant,
                                             Access& access) {
  if (!caller.may(store::Scope::Admin)) co_return co_await deny(caller, "user.remove", tenant);
  if (tenant == caller.tenant) {
    co_return bad_field("tenant",
                        "tenant: it is your own, and its tokens would be withdrawn, this one too; "
                        "ask as an admin of another tenant");
  }
  std::vector<std::string> tokens;
  for (const store::TokenRecord& token : access.list(caller))
    if (token.tenant == tenant && !token.revoked) tokens.push_back(token.id);
  if (!people_.contains(tenant) && tokens.empty()) {
    co_return failure(Errc::NotFound,
                      fmt::format("user '{}' does not exist", cut_text(tenant, kTenantBytesMax)));
  }
  // First the tokens: when something fails between, nobody is left who can act and is not listed.
  for (const std::string& token : tokens) {
    const Result<void> revoked = co_await access.revoke(caller, token);
    if (!revoked) co_return std::unexpected(revoked.error());
  }
  store::Store::Batch batch;
  batch.audit.push_back(event_of(caller, "user.remove", tenant, Outcome::Allowed));
  batch.audit.back().detail = fmt::format(R"({{"tokens":{}}})", tokens.size());
  batch.forgotten_files.push_back(key_of(tenant));
  const Result<void> written = co_await commit(store_, std::move(batch));
  if (!written) co_return std::unexpected(written.error());
  people_.erase(tenant);
  co_return Result<void>();
}

}  // namespace

Result<std::unique_ptr<People>> People::make(store::Store& store) {
  auto people = std::make_unique<StoredPeople>(store);
  TRY(people->load());
  return people;
}

}  // namespace caisson::control
