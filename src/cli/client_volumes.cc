// volume create|ls|rm and storage: files that outlive sandboxes, and where all files lie.
#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"
#include "policy/flags.h"
#include "policy/wording.h"

namespace caisson::cli {
namespace {

std::string volume_target(const std::string& name) { return "/api/v1/volumes/" + encode(name); }

int create(const Session& session, const std::string& name, const std::string& size, bool json) {
  const auto bytes = policy::parse_bytes(size);
  if (!bytes || !*bytes) {
    complain("volume", "--size: want a size such as 1g, got " + policy::in_quotes(size));
    return kExitUsage;
  }
  boost::json::object body;
  body["bytes"] = **bytes;
  const auto answer = session.text("PUT", volume_target(name), std::move(body));
  if (!answer) return session.fail(answer.error());
  if (json) return print_out(*answer + "\n") ? kExitOk : kExitFailed;
  return kExitOk;
}

int list(const Session& session, bool json) {
  const auto body = session.text("GET", "/api/v1/volumes");
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto listing = parse_json(*body);
  if (!listing) return session.fail(listing.error());
  Table table({"NAME", "USED", "SIZE", "AGE", "SANDBOXES"});
  const double now = wall_seconds();
  for (const auto& one : list_at(*listing, "volumes")) {
    const auto created = parse_time(text_at(one, "created_at"));
    std::string sandboxes;
    for (const auto& id : list_at(one, "sandboxes")) {
      if (const auto* text = id.if_string())
        sandboxes += (sandboxes.empty() ? "" : ",") + std::string(*text);
    }
    table.add({text_at(one, "name"), size_text(count_at(one, "bytes")),
               size_text(count_at(one, "bytes_max")), created ? age_text(now - *created) : "",
               sandboxes});
  }
  return print_out(table.text()) ? kExitOk : kExitFailed;
}

}  // namespace

int volume_command(std::span<char*> args) {
  CommandLine line("Volumes: files that outlive sandboxes, and that several may share.");
  ClientOptions options;
  std::string name;
  std::string size;
  CommandLine& create_it = line.command("create", "make one, or change how much it may hold");
  CommandLine& list_it = line.command("ls", "list them");
  CommandLine& remove_it = line.command("rm", "remove one and all that is in it");
  add_client_options(create_it, options, JsonFlag::Offered);
  add_client_options(list_it, options, JsonFlag::Offered);
  add_client_options(remove_it, options, JsonFlag::None);
  create_it.text("--size", size, "SIZE", "what it may hold, such as 1g");
  create_it.word("name", name, Need::Required, "NAME", "what create --volume calls it");
  remove_it.word("name", name, Need::Required, "NAME", "as volume ls shows it");
  if (const auto done = line.parse(args)) return *done;
  if (create_it.chosen() && size.empty()) {
    complain(args[0], "write --size SIZE, such as 1g");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  if (create_it.chosen()) return create(*session, name, size, options.json);
  if (list_it.chosen()) return list(*session, options.json);
  const auto gone = session->text("DELETE", volume_target(name));
  return gone ? kExitOk : session->fail(gone.error());
}

int storage_command(std::span<char*> args) {
  CommandLine line("Shows what the server's store of files can do; needs an admin's token.");
  ClientOptions options;
  add_client_options(line, options, JsonFlag::Offered);
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto body = session->text("GET", "/api/v1/storage");
  if (!body) return session->fail(body.error());
  if (options.json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto facts = parse_json(*body);
  if (!facts) return session->fail(facts.error());
  std::string out =
      fmt::format("{}: {} free of {}; limits {}, snapshots while processes run {}\n",
                  shown(text_at(*facts, "kind")), size_text(count_at(*facts, "free_bytes")),
                  size_text(count_at(*facts, "bytes")), truth_at(*facts, "limits") ? "yes" : "no",
                  truth_at(*facts, "live_snapshots") ? "yes" : "no");
  if (const std::string why = text_at(*facts, "why"); !why.empty())
    out += "missing for more: " + shown(why, 300) + "\n";
  return print_out(out) ? kExitOk : kExitFailed;
}

}  // namespace caisson::cli
