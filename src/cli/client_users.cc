// user list|show|add|rename|remove|import: who the tenants are.
#include "cli/client_users.h"

#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"
#include "cli/client_users_import.h"
#include "cli/client_users_source.h"

namespace caisson::cli {
namespace {

namespace json = boost::json;

constexpr const char* kUsers = "/api/v1/users";

int print(const std::string& text) { return print_out(text) ? kExitOk : kExitFailed; }

std::string target_of(const std::string& tenant) {
  return std::string(kUsers) + "/" + encode(tenant);
}

std::string table_of(const json::value& listing) {
  Table table({"TENANT", "NAME", "EMAIL", "TOKENS", "SANDBOXES", "CREATED"});
  for (const auto& one : list_at(listing, "users")) {
    table.add({text_at(one, "tenant"), text_at(one, "name"), text_at(one, "email"),
               std::to_string(count_at(one, "tokens")), std::to_string(count_at(one, "sandboxes")),
               text_at(one, "created_at").substr(0, 16)});
  }
  return table.text();
}

// One of all; null when there is none.
Result<json::value> find(const Session& session, const std::string& tenant) {
  const json::value listing = TRY(session.json("GET", kUsers));
  for (const auto& one : list_at(listing, "users"))
    if (text_at(one, "tenant") == tenant) return one;
  return json::value();
}

std::unexpected<Error> unknown(const std::string& tenant) {
  return failure(Errc::NotFound,
                 fmt::format("no user has the tenant '{}'; see caisson user list", shown(tenant)));
}

bool has_entry(const json::value& user) {
  return user.is_object() && !text_at(user, "created_at").empty();
}

json::object body_of(const UserWords& words, const json::value& before) {
  const auto field = [&](const std::optional<std::string>& said, const char* name) {
    return said ? *said : text_at(before, name);
  };
  return {{"name", field(words.name, "name")},
          {"email", field(words.email, "email")},
          {"login", field(words.login, "login")},
          {"avatar_url", field(words.avatar_url, "avatar_url")}};
}

Result<json::value> new_token(const Session& session, const std::string& tenant) {
  const json::object body{{"tenant", tenant},
                          {"label", "made with the user"},
                          {"scopes", json::array{"read", "use", "create"}}};
  return session.json("POST", "/api/v1/tokens", body);
}

std::string details(const json::value& user) {
  std::string text;
  const auto line = [&text](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{:<10} {}\n", name, shown(value, 200));
  };
  line("tenant", text_at(user, "tenant"));
  line("name", text_at(user, "name"));
  line("email", text_at(user, "email"));
  line("login", text_at(user, "login"));
  line("avatar", text_at(user, "avatar_url"));
  line("created", text_at(user, "created_at"));
  line("tokens", std::to_string(count_at(user, "tokens")));
  line("sandboxes", std::to_string(count_at(user, "sandboxes")));
  return text;
}

}  // namespace

Result<std::string> list_users(const Session& session, bool as_json) {
  std::string body = TRY(session.text("GET", kUsers));
  if (as_json) return body + "\n";
  const json::value listing = TRY(parse_json(body));
  return table_of(listing);
}

Result<std::string> show_user(const Session& session, const std::string& tenant, bool as_json) {
  const json::value user = TRY(find(session, tenant));
  if (user.is_null()) return unknown(tenant);
  return as_json ? pretty(user) + "\n" : details(user);
}

Result<AddedUser> add_user(const Session& session, const UserWords& words) {
  const json::value before = TRY(find(session, words.tenant));
  if (has_entry(before)) {
    return failure(Errc::AlreadyExists,
                   fmt::format("the user '{}' is there already; change it by: caisson user rename",
                               shown(words.tenant)));
  }
  AddedUser added;
  added.user = TRY(session.json("PUT", target_of(words.tenant), body_of(words, {})));
  if (words.new_token) {
    added.token =
        TRY_IN("the user is made, but his token is not", new_token(session, words.tenant));
  }
  return added;
}

Result<json::value> rename_user(const Session& session, const UserWords& words) {
  const json::value before = TRY(find(session, words.tenant));
  if (before.is_null()) return unknown(words.tenant);
  return session.json("PUT", target_of(words.tenant), body_of(words, before));
}

namespace {

int add(const Session& session, const UserWords& words, bool as_json) {
  const auto added = add_user(session, words);
  if (!added) return session.fail(added.error());
  if (as_json) {
    json::object out{{"user", added->user}};
    if (words.new_token) out["token"] = added->token;
    return print(pretty(out) + "\n");
  }
  fmt::print(stderr, "user {} is made\n", shown(words.tenant, 64));
  if (!words.new_token) return kExitOk;
  // The token alone on standard output, so that it can be kept in a variable and seen nowhere else.
  fmt::print(stderr, "token {}; it is shown once:\n", shown(text_at(added->token, "id")));
  return print(shown(text_at(added->token, "token"), 200) + "\n");
}

int rename(const Session& session, const UserWords& words) {
  if (!words.name && !words.email && !words.login && !words.avatar_url) {
    complain("user", "rename: say what is new: --name, --email, --login or --avatar-url");
    return kExitUsage;
  }
  const auto renamed = rename_user(session, words);
  return renamed ? kExitOk : session.fail(renamed.error());
}

int import_users(const Session& session, const std::string& file, bool dry_run) {
  const ImportSource source = sandboxer_file(file);
  const auto plan = plan_import(session, source);
  if (!plan) return session.fail(plan.error());
  if (const int status = print(describe(*plan)); status != kExitOk) return status;
  if (!plan->strangers.empty()) {
    complain("user", "nothing was imported: see the conflicts above");
    return kExitFailed;
  }
  if (dry_run) return print("nothing was imported: --dry-run\n");
  const auto count = carry_out(session, *plan, source);
  if (!count) {
    return session.fail(
        count.error().within("the import stopped; what is there stays, and the next one goes on"));
  }
  return print(describe(*count));
}

// What stands behind a flag, when it was given: an empty text takes a name away.
std::optional<std::string> said(const CommandLine& line, const char* flag,
                                const std::string& value) {
  return line.given(flag) ? std::optional(value) : std::nullopt;
}

}  // namespace

int user_command(std::span<char*> args) {
  CommandLine line("Who the tenants are: people's names, and what an old installation had.");
  ClientOptions options;
  UserWords words;
  std::string name, email, login, avatar, file;
  bool dry_run = false;
  CommandLine& list_it = line.command("list", "show all of them");
  CommandLine& show_it = line.command("show", "show one");
  CommandLine& add_it = line.command("add", "name a tenant");
  CommandLine& rename_it = line.command("rename", "change what is known of one");
  CommandLine& remove_it = line.command("remove", "forget one and withdraw all his tokens");
  CommandLine& import_it = line.command("import", "bring users of a sandboxer database here");
  for (CommandLine* one : {&list_it, &show_it, &add_it})
    add_client_options(*one, options, JsonFlag::Offered);
  for (CommandLine* one : {&rename_it, &remove_it, &import_it})
    add_client_options(*one, options, JsonFlag::None);
  for (CommandLine* one : {&show_it, &add_it, &rename_it, &remove_it})
    one->word("tenant", words.tenant, Need::Required, "TENANT", "as user list shows it");
  for (CommandLine* one : {&add_it, &rename_it}) {
    one->text("--name", name, "TEXT", "what people call him");
    one->text("--email", email, "TEXT", "his address");
    one->text("--login", login, "TEXT", "his name elsewhere");
    one->text("--avatar-url", avatar, "URL", "his picture: https://…");
  }
  add_it.flag("--new-token", words.new_token, "make a token for him, too, and print it, once");
  import_it.word("file", file, Need::Required, "FILE", "sandboxer's database");
  import_it.flag("--dry-run", dry_run, "only say what would be done");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const CommandLine& chosen = add_it.chosen() ? add_it : rename_it;
  words.name = said(chosen, "--name", name);
  words.email = said(chosen, "--email", email);
  words.login = said(chosen, "--login", login);
  words.avatar_url = said(chosen, "--avatar-url", avatar);
  if (add_it.chosen()) return add(*session, words, options.json);
  if (rename_it.chosen()) return rename(*session, words);
  if (import_it.chosen()) return import_users(*session, file, dry_run);
  if (remove_it.chosen()) {
    const auto gone = session->text("DELETE", target_of(words.tenant));
    return gone ? kExitOk : session->fail(gone.error());
  }
  const auto text = list_it.chosen() ? list_users(*session, options.json)
                                     : show_user(*session, words.tenant, options.json);
  return text ? print(*text) : session->fail(text.error());
}

}  // namespace caisson::cli
