// token create|list|revoke: who may call the server.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"
#include "policy/flags.h"

namespace caisson::cli {
namespace {

constexpr std::uint64_t kSandboxesMax = 1'000'000;

struct Words {
  std::string label, tenant, expires;
  std::string scopes = "read,use,create";
  std::uint64_t max_sandboxes = 0;
};

Result<boost::json::object> body_of(const Words& words) {
  boost::json::object body;
  boost::json::array scopes;
  std::string_view rest = words.scopes;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    scopes.emplace_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  body["scopes"] = std::move(scopes);
  if (!words.label.empty()) body["label"] = words.label;
  if (!words.tenant.empty()) body["tenant"] = words.tenant;
  if (words.max_sandboxes > 0) body["max_sandboxes"] = words.max_sandboxes;
  if (!words.expires.empty()) {
    const nanoseconds time = TRY_IN("--expires", policy::parse_duration(words.expires));
    body["expires_seconds"] = std::chrono::duration<double>(time).count();
  }
  return body;
}

std::string day_of(const boost::json::value& token, std::string_view field) {
  return text_at(token, field).substr(0, 16);  // to the minute
}

std::string table_of(const boost::json::value& listing) {
  Table table({"ID", "TENANT", "LABEL", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "STATE"});
  const double now = wall_seconds();
  for (const auto& one : list_at(listing, "tokens")) {
    std::string scopes;
    for (const auto& scope : list_at(one, "scopes")) {
      if (const auto* text = scope.if_string())
        scopes += (scopes.empty() ? "" : ",") + std::string(*text);
    }
    const auto expires = parse_time(text_at(one, "expires_at"));
    const bool revoked = !text_at(one, "revoked_at").empty();
    table.add({text_at(one, "id"), text_at(one, "tenant"), text_at(one, "label"), scopes,
               day_of(one, "created_at"), day_of(one, "expires_at"), day_of(one, "last_used_at"),
               revoked                      ? "revoked"
               : expires && *expires <= now ? "expired"
                                            : "valid"});
  }
  return table.text();
}

// The token alone on standard output, so that it can be kept in a variable and seen nowhere else.
int create(const Session& session, const Words& words, bool json) {
  auto body = body_of(words);
  if (!body) {
    complain("token", one_line(body.error().message));
    return kExitUsage;
  }
  const auto answer = session.text("POST", "/api/v1/tokens", std::move(*body));
  if (!answer) return session.fail(answer.error());
  if (json) return print_out(*answer + "\n") ? kExitOk : kExitFailed;
  const auto token = parse_json(*answer);
  if (!token) return session.fail(token.error());
  fmt::print(stderr, "token {} of tenant {}; it is shown once:\n", shown(text_at(*token, "id")),
             shown(text_at(*token, "tenant")));
  return print_out(shown(text_at(*token, "token"), 200) + "\n") ? kExitOk : kExitFailed;
}

int list(const Session& session, bool json) {
  const auto body = session.text("GET", "/api/v1/tokens");
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto listing = parse_json(*body);
  if (!listing) return session.fail(listing.error());
  return print_out(table_of(*listing)) ? kExitOk : kExitFailed;
}

}  // namespace

int token_command(std::span<char*> args) {
  CommandLine line("Makes, lists and withdraws tokens.");
  ClientOptions options;
  Words words;
  std::string id;
  CommandLine& create_it = line.command("create", "make one and print it, once");
  CommandLine& list_it = line.command("list", "show them, without their secrets");
  CommandLine& revoke_it = line.command("revoke", "withdraw one");
  add_client_options(create_it, options, JsonFlag::Offered);
  add_client_options(list_it, options, JsonFlag::Offered);
  add_client_options(revoke_it, options, JsonFlag::None);
  create_it.text("--label", words.label, "TEXT", "what it is for");
  create_it.text("--tenant", words.tenant, "TENANT", "for whom (default: your own)");
  create_it.text("--scopes", words.scopes, "SCOPE,…",
                 "read, use, create, admin (default all but admin)");
  create_it.text("--expires", words.expires, "TIME", "after this time, such as 30d");
  create_it.whole("--max-sandboxes", words.max_sandboxes, kSandboxesMax, "N",
                  "alive at once (0: the server's)");
  revoke_it.word("id", id, Need::Required, "TOKEN-ID", "as token list shows it");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  if (create_it.chosen()) return create(*session, words, options.json);
  if (list_it.chosen()) return list(*session, options.json);
  const auto gone = session->text("DELETE", "/api/v1/tokens/" + encode(id));
  return gone ? kExitOk : session->fail(gone.error());
}

}  // namespace caisson::cli
