// secret set|list|rm: what rules may put into requests. A value comes from standard input, so that
// it stands neither in a command line nor in a shell's history.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_secret_input.h"
#include "cli/client_session.h"
#include "cli/client_text.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kValueBytesMax = 4096;

int set(const Session& session, const std::string& name) {
  auto value = read_secret("the value", kValueBytesMax);
  if (!value) {
    complain("secret", value.error().message);
    return kExitUsage;
  }
  boost::json::object body;
  body["value"] = *value;
  std::ranges::fill(*value, '\0');
  const auto put = session.text("PUT", "/api/v1/secrets/" + encode(name), std::move(body));
  return put ? kExitOk : session.fail(put.error());
}

int list(const Session& session, bool json) {
  const auto body = session.text("GET", "/api/v1/secrets");
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto listing = parse_json(*body);
  if (!listing) return session.fail(listing.error());
  Table table({"NAME"});
  for (const auto& one : list_at(*listing, "secrets")) table.add({text_at(one, "name")});
  return print_out(table.text()) ? kExitOk : kExitFailed;
}

}  // namespace

int secret_command(std::span<char*> args) {
  CommandLine line("Secrets that rules put into requests. A guest never sees one.");
  ClientOptions options;
  std::string name;
  CommandLine& set_it = line.command("set", "read a value from standard input and keep it");
  CommandLine& list_it = line.command("list", "show their names");
  CommandLine& remove_it = line.command("rm", "remove one");
  add_client_options(set_it, options, JsonFlag::None);
  add_client_options(list_it, options, JsonFlag::Offered);
  add_client_options(remove_it, options, JsonFlag::None);
  set_it.word("name", name, Need::Required, "NAME", "what rules call it");
  remove_it.word("name", name, Need::Required, "NAME", "as secret list shows it");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  if (set_it.chosen()) return set(*session, name);
  if (list_it.chosen()) return list(*session, options.json);
  const auto gone = session->text("DELETE", "/api/v1/secrets/" + encode(name));
  return gone ? kExitOk : session->fail(gone.error());
}

}  // namespace caisson::cli
