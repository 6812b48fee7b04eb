#include "cli/client_users_import.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_text.h"

namespace caisson::cli {
namespace {

namespace json = boost::json;

constexpr std::string_view kNoLabel = "taken over from sandboxer";
constexpr std::size_t kNamesShown = 5;

// What the server has already.
struct Here {
  std::map<std::string, std::string> emails;  // of users with an entry, by tenant
  std::set<std::string> tenants;              // with or without one
  std::set<std::string> tokens;               // ids
};

Result<Here> look(const Session& session) {
  Here here;
  const json::value users = TRY(session.json("GET", "/api/v1/users"));
  for (const auto& one : list_at(users, "users")) {
    const std::string tenant = text_at(one, "tenant");
    here.tenants.insert(tenant);
    if (!text_at(one, "created_at").empty()) here.emails[tenant] = text_at(one, "email");
  }
  const json::value tokens = TRY(session.json("GET", "/api/v1/tokens"));
  for (const auto& one : list_at(tokens, "tokens")) here.tokens.insert(text_at(one, "id"));
  return here;
}

// Who has the tenant's name here must be the same person, or his sandboxes would get a stranger's
// tokens: the address says so.
void plan_user(const json::value& line, const Here& here, ImportPlan& plan) {
  const std::string tenant = text_at(line, "tenant");
  if (!here.tenants.contains(tenant)) {
    plan.users.push_back(line);
    return;
  }
  const auto known = here.emails.find(tenant);
  if (known != here.emails.end() && known->second == text_at(line, "email")) {
    ++plan.users_known;
  } else {
    plan.strangers.push_back(tenant);
  }
}

void plan_token(const json::value& line, const Here& here, ImportPlan& plan) {
  const std::string id = text_at(line, "token_id");
  if (text_at(line, "tenant").empty()) {
    ++plan.ownerless;
  } else if (id.empty()) {
    plan.unfit.push_back(
        fmt::format("a token of {} ({}) is too short or not printable: have a new "
                    "one made",
                    shown(text_at(line, "tenant")), shown(text_at(line, "description"))));
  } else if (here.tokens.contains(id)) {
    ++plan.tokens_known;
  } else {
    plan.tokens.push_back(line);
  }
}

// Items of one tenant, sent when one more would be too much.
class Batches {
 public:
  Batches(const Session& session, const char* list, ImportCount& count)
      : session_(session), list_(list), count_(count) {}

  Result<void> add(const std::string& tenant, json::object item) {
    item.erase("kind");
    item.erase("tenant");
    const std::size_t bytes = json::serialize(item).size() + 1;
    if (bytes > kImportBatchBytesMax) {
      return failure(Errc::TooLarge, fmt::format("one of the {} has {} bytes: at most {}", list_,
                                                 bytes, kImportBatchBytesMax));
    }
    const json::value* said = item.if_contains("logs");
    const std::size_t logs = said != nullptr && said->is_array() ? said->get_array().size() : 0;
    const bool full = items_.size() >= kImportBatchItemsMax ||
                      bytes_ + bytes > kImportBatchBytesMax || logs_ + logs > kImportBatchLogsMax;
    if (full || tenant != tenant_) TRY(send());
    tenant_ = tenant;
    bytes_ += bytes;
    logs_ += logs;
    items_.emplace_back(std::move(item));
    return {};
  }
  Result<void> send() {
    if (items_.empty()) return {};
    json::object body{
        {"tenant", tenant_}, {"sandboxes", json::array()}, {"executions", json::array()}};
    body[list_] = std::move(items_);
    items_ = json::array();
    bytes_ = logs_ = 0;
    const json::value done = TRY(session_.json("POST", "/api/v1/sandboxer/import", body));
    count_.sandboxes += count_at(done, "sandboxes");
    count_.executions += count_at(done, "executions");
    return {};
  }

 private:
  const Session& session_;
  const char* list_;
  ImportCount& count_;
  std::string tenant_;
  json::array items_;
  std::size_t bytes_ = 0;
  std::size_t logs_ = 0;
};

Result<void> put_user(const Session& session, const json::value& line) {
  const json::object body{{"name", text_at(line, "name")},
                          {"email", text_at(line, "email")},
                          {"login", text_at(line, "login")},
                          {"avatar_url", text_at(line, "avatar_url")}};
  TRY_IN("user " + shown(text_at(line, "tenant")),
         session.text("PUT", "/api/v1/users/" + encode(text_at(line, "tenant")), body));
  return {};
}

// True when it is new. Somebody else may have brought it a moment ago.
Result<bool> put_token(const Session& session, const json::value& line) {
  const std::string description = text_at(line, "description");
  const json::object body{{"tenant", text_at(line, "tenant")},
                          {"label", description.empty() ? std::string(kNoLabel) : description},
                          {"scopes", json::array{"read", "use", "create"}},
                          {"taken_over", text_at(line, "token")}};
  const auto made = session.text("POST", "/api/v1/tokens", body);
  if (made) return true;
  if (made.error().code == Errc::Busy) return false;  // 409
  return std::unexpected(made.error().within("a token of " + shown(text_at(line, "tenant"))));
}

std::string many(std::size_t count, std::string_view one, std::string_view more = "s") {
  return fmt::format("{} {}{}", count, one, count == 1 ? std::string_view() : more);
}

}  // namespace

Result<ImportPlan> plan_import(const Session& session, const ImportSource& source) {
  const Here here = TRY(look(session));
  ImportPlan plan;
  bool ended = false;
  TRY(source([&](const json::value& line) -> Result<void> {
    const std::string kind = text_at(line, "kind");
    if (kind == "user") plan_user(line, here, plan);
    if (kind == "token") plan_token(line, here, plan);
    if (kind == "sandbox") {
      if (text_at(line, "tenant").empty()) {
        ++plan.ownerless;
      } else {
        plan.sandboxes.push_back(line);
      }
    }
    if (kind == "execution" && !text_at(line, "tenant").empty()) ++plan.executions;
    if (kind == "end") {
      ended = true;
      plan.left_out = count_at(line, "sandboxes_left_out") + count_at(line, "executions_left_out") +
                      count_at(line, "logs_left_out");
    }
    return {};
  }));
  if (!ended) return failure(Errc::Protocol, "the reader of the database ended in the middle");
  return plan;
}

Result<ImportCount> carry_out(const Session& session, const ImportPlan& plan,
                              const ImportSource& source) {
  ImportCount count;
  for (const json::value& line : plan.users) {
    TRY(put_user(session, line));
    ++count.users;
  }
  for (const json::value& line : plan.tokens) {
    const bool made = TRY(put_token(session, line));
    if (made) ++count.tokens;
  }
  Batches sandboxes(session, "sandboxes", count);
  for (const json::value& line : plan.sandboxes)
    TRY(sandboxes.add(text_at(line, "tenant"), line.get_object()));
  TRY(sandboxes.send());
  if (plan.executions == 0) return count;
  Batches executions(session, "executions", count);
  TRY(source([&](const json::value& line) -> Result<void> {
    const std::string tenant = text_at(line, "tenant");
    if (text_at(line, "kind") != "execution" || tenant.empty()) return {};
    return executions.add(tenant, line.get_object());
  }));
  TRY(executions.send());
  return count;
}

std::string describe(const ImportPlan& plan) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "users:      {} to make, {} here already\n", plan.users.size(),
                 plan.users_known);
  for (const json::value& one : plan.users) {
    fmt::format_to(out, "  tenant {}  {} <{}>\n", shown(text_at(one, "tenant"), 64),
                   shown(text_at(one, "name")), shown(text_at(one, "email")));
  }
  fmt::format_to(out, "tokens:     {} to take over, {} here already\n", plan.tokens.size(),
                 plan.tokens_known);
  for (const std::string& line : plan.unfit) fmt::format_to(out, "  {}\n", line);
  fmt::format_to(out, "sandboxes:  {}, as ended ones, with {}; those that are here already stay\n",
                 plan.sandboxes.size(), many(plan.executions, "execution"));
  if (plan.ownerless > 0)
    fmt::format_to(out, "left out:   {} that belongs to nobody\n", many(plan.ownerless, "row"));
  if (plan.left_out > 0)
    fmt::format_to(
        out, "left out:   {} of sandboxes, executions and logs, the oldest beyond the limits\n",
        many(plan.left_out, "row"));
  std::size_t told = 0;
  for (const std::string& tenant : plan.strangers) {
    if (++told > kNamesShown) break;
    fmt::format_to(out,
                   "conflict:   tenant {} is here already and has another e-mail address; if it is "
                   "the same person: caisson user rename {} --email …\n",
                   shown(tenant, 64), shown(tenant, 64));
  }
  return text;
}

std::string describe(const ImportCount& count) {
  if (count.nothing()) return "nothing has changed: all of it was here already\n";
  return fmt::format("imported: {}, {}, {}, {}\n", many(count.users, "user"),
                     many(count.tokens, "token"), many(count.sandboxes, "sandbox", "es"),
                     many(count.executions, "execution"));
}

}  // namespace caisson::cli
