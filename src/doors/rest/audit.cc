// The audit, page by page, and its proof. The store waits for the disk, so it is asked elsewhere.
#include <boost/json/array.hpp>

#include "base/id.h"
#include "control/await_store.h"
#include "doors/rest/handlers.h"
#include "doors/rest/text.h"
#include "doors/rest/views.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr std::uint64_t kSequenceMax = 9'007'199'254'740'991;
constexpr std::size_t kActionBytesMax = 128;

// One more question to the store, as long as it is waited for.
class Reading {
 public:
  explicit Reading(const Services& services) : reading_(services.reading) { ++*reading_; }
  ~Reading() { --*reading_; }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  std::shared_ptr<std::size_t> reading_;
};

Result<void> room_to_read(const Services& services) {
  if (*services.reading < kReadersMax) return {};
  return failure(Errc::Exhausted, "too many questions to the audit at once: ask again");
}

Result<void> read_page(const Call& call, store::AuditQuery& query) {
  const auto after = TRY(query_integer(call, "after", 0, kSequenceMax));
  const auto limit = TRY(query_integer(call, "limit", 1, store::kPageRowsMax));
  query.after = static_cast<std::int64_t>(after.value_or(0));
  query.limit = limit.value_or(100);
  return {};
}

Result<store::AuditQuery> read_query(const Call& call) {
  store::AuditQuery query;
  TRY(read_page(call, query));
  const auto before = TRY(query_integer(call, "before", 1, kSequenceMax));
  if (before && query_text(call, "after")) {
    return bad_field("before", "before and after are both there: give one of them");
  }
  if (before) query.before = static_cast<std::int64_t>(*before);
  if (const auto sandbox = query_text(call, "sandbox")) {
    if (!SandboxId::parse(*sandbox)) {
      return bad_field("sandbox", "sandbox is not an id: want 26 characters of a-z and 2-7");
    }
    query.sandbox = std::string(*sandbox);
  }
  if (const auto action = query_text(call, "action")) {
    if (action->empty() || action->size() > kActionBytesMax) {
      return bad_field("action", "action is empty or too long");
    }
    query.action = std::string(*action);
  }
  if (const auto outcome = query_text(call, "outcome")) {
    if (*outcome == "allowed") query.outcome = store::Outcome::Allowed;
    if (*outcome == "denied") query.outcome = store::Outcome::Denied;
    if (*outcome == "failed") query.outcome = store::Outcome::Failed;
    if (!query.outcome) {
      return bad_field("outcome", "outcome is \"" + std::string(cut_utf8(*outcome, 32)) +
                                      "\": want allowed, denied or failed");
    }
  }
  const auto tenant = query_text(call, "tenant");
  const bool admin = call.caller.may(store::Scope::Admin);
  if (tenant && !admin && *tenant != call.caller.tenant) {
    return failure(Errc::Denied, "only an admin may ask for another tenant");
  }
  if (tenant) query.tenant = std::string(*tenant);
  if (!tenant && !admin) query.tenant = call.caller.tenant;
  return query;
}

// A tenant who waits for room of his own has no place among the questions meanwhile.
awaitable<Result<std::vector<store::AuditRow>>> read_rows(Call& call, store::AuditQuery query) {
  if (auto room = room_to_read(call.services); !room) co_return std::unexpected(room.error());
  const Reading reading(call.services);
  auto work = [&store = call.services.store, query = std::move(query)] {
    return store.audit(query);
  };
  co_return co_await on_worker(call.services.readers, std::move(work));
}

awaitable<Result<void>> show_page(Call& call, store::AuditQuery query) {
  // About what a page takes, before it is there.
  constexpr std::size_t kRowBytes = 4096;
  if (auto room = co_await call.hold().resize(query.limit * kRowBytes); !room) co_return room;
  const std::int64_t start = query.before.value_or(query.after);
  auto rows = co_await read_rows(call, std::move(query));
  if (!rows) co_return std::unexpected(rows.error());
  json::array list;
  list.reserve(rows->size());
  for (const auto& row : *rows) list.emplace_back(to_json(row));
  json::object body;
  body["rows"] = std::move(list);
  body["next_after"] = rows->empty() ? start : rows->back().sequence;
  *rows = {};            // they are in the answer now
  call.hold().force(0);  // which counts itself
  co_return co_await answer(call, 200, body);
}

}  // namespace

awaitable<Result<void>> sandbox_logs(Call& call) {
  const auto view = call.fleet().get(call.caller, call.id());
  if (!view) co_return std::unexpected(view.error());
  store::AuditQuery query;
  if (auto good = read_page(call, query); !good) co_return good;
  query.tenant = view->tenant;
  query.sandbox = view->id;
  co_return co_await show_page(call, std::move(query));
}

awaitable<Result<void>> query_audit(Call& call) {
  auto query = read_query(call);
  if (!query) co_return std::unexpected(query.error());
  co_return co_await show_page(call, std::move(*query));
}

awaitable<Result<void>> verify_audit(Call& call) {
  if (auto room = room_to_read(call.services); !room) co_return room;
  const Reading reading(call.services);
  auto work = [&store = call.services.store] { return store.verify(); };
  const auto verdict = co_await on_worker(call.services.readers, std::move(work));
  if (!verdict) co_return std::unexpected(verdict.error());
  const json::object body = to_json(*verdict);
  co_return co_await answer(call, 200, body);
}

}  // namespace caisson::rest
