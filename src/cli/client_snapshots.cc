// snapshot create|ls|inspect|rm, fork, undo, promote: the files of sandboxes through time.
#include <fmt/format.h>

#include <cstdio>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"
#include "policy/wording.h"

namespace caisson::cli {
namespace {

constexpr std::uint64_t kUndoCallsMax = 32;

struct Words {
  std::string sandbox, name, hostname;
  std::vector<std::string> labels, snapshots;
  bool all = false;
  bool quiet = false;
  bool memory = false;
};

std::string snapshot_target(const std::string& word) { return "/api/v1/snapshots/" + encode(word); }

Result<boost::json::object> labels_of(const std::vector<std::string>& words) {
  boost::json::object labels;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      return bad_field("--label", "--label: want NAME=value, got " + policy::in_quotes(word));
    labels[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return labels;
}

Result<boost::json::object> body_of(const Words& words) {
  boost::json::object body;
  if (!words.name.empty()) body["name"] = words.name;
  if (!words.hostname.empty()) body["hostname"] = words.hostname;
  boost::json::object labels = TRY(labels_of(words.labels));
  if (!labels.empty()) body["labels"] = std::move(labels);
  if (words.memory) body["memory"] = true;
  return body;
}

// A POST below a sandbox; the id of what it made.
int make(const Session& session, const std::string& command, const Words& words,
         std::string_view verb, bool json) {
  auto body = body_of(words);
  if (!body) {
    complain(command, one_line(body.error().message));
    return kExitUsage;
  }
  const auto id = session.resolve(words.sandbox);
  if (!id) return session.fail(id.error());
  const auto answer = session.text("POST", sandbox_target(*id, verb), std::move(*body));
  if (!answer) return session.fail(answer.error());
  if (json) return print_out(*answer + "\n") ? kExitOk : kExitFailed;
  const auto made = parse_json(*answer);
  if (!made) return session.fail(made.error());
  return print_out(shown(text_at(*made, "id")) + "\n") ? kExitOk : kExitFailed;
}

std::string table_of(const boost::json::value& listing, const Words& words) {
  Table table({"ID", "NAME", "SANDBOX", "KIND", "SIZE", "LAYERS", "DURABLE", "AGE", "PARENT"});
  std::string ids;
  const double now = wall_seconds();
  for (const auto& one : list_at(listing, "snapshots")) {
    if (truth_at(one, "checkpoint") && !words.all) continue;
    const auto created = parse_time(text_at(one, "created_at"));
    ids += shown(text_at(one, "id")) + "\n";
    table.add({text_at(one, "id"), text_at(one, "name"), text_at(one, "sandbox"),
               text_at(one, "kind"), size_text(count_at(one, "bytes")),
               fmt::to_string(count_at(one, "layers")), truth_at(one, "durable") ? "yes" : "no",
               created ? age_text(now - *created) : "", text_at(one, "parent")});
  }
  return words.quiet ? ids : table.text();
}

int list(const Session& session, const Words& words, bool json) {
  std::string target = "/api/v1/snapshots";
  if (!words.sandbox.empty()) {
    const auto id = session.resolve(words.sandbox);
    if (!id) return session.fail(id.error());
    target = sandbox_target(*id, "snapshots");
  }
  const auto body = session.text("GET", target);
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto listing = parse_json(*body);
  if (!listing) return session.fail(listing.error());
  return print_out(table_of(*listing, words)) ? kExitOk : kExitFailed;
}

int inspect(const Session& session, const std::string& word, bool json) {
  const auto body = session.text("GET", snapshot_target(word));
  if (!body) return session.fail(body.error());
  if (json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto snapshot = parse_json(*body);
  if (!snapshot) return session.fail(snapshot.error());
  return print_out(pretty(*snapshot)) ? kExitOk : kExitFailed;
}

int remove(const Session& session, const std::vector<std::string>& words) {
  int status = kExitOk;
  for (const std::string& word : words) {
    const auto gone = session.text("DELETE", snapshot_target(word));
    if (!gone) status = session.fail(gone.error().within(one_line(word)));
    if (status == kExitUnreachable) return status;
  }
  return status;
}

}  // namespace

int snapshot_command(std::span<char*> args) {
  CommandLine line("Keeps the files of sandboxes as they are at a moment.");
  ClientOptions options;
  Words words;
  std::string snapshot;
  CommandLine& create_it = line.command("create", "take one and print its id");
  CommandLine& list_it = line.command("ls", "list them");
  CommandLine& inspect_it = line.command("inspect", "show one, as JSON");
  CommandLine& remove_it = line.command("rm", "remove some; what was made on them stays");
  add_client_options(create_it, options, JsonFlag::Offered);
  add_client_options(list_it, options, JsonFlag::Offered);
  add_client_options(inspect_it, options, JsonFlag::Offered);
  add_client_options(remove_it, options, JsonFlag::None);
  create_it.text("--name", words.name, "NAME", "a name for it, unique among yours");
  create_it.texts("--label", words.labels, "NAME=VALUE", "a label; repeat it");
  create_it.flag("--processes", words.memory, "its processes, too, as they stand");
  create_it.word("sandbox", words.sandbox, Need::Required, "SANDBOX", "id or name");
  list_it.flag("--all", words.all, "also those that were taken before each call, for undo");
  list_it.flag("-q,--quiet", words.quiet, "ids only");
  list_it.word("sandbox", words.sandbox, Need::Optional, "SANDBOX", "only of this one");
  inspect_it.word("snapshot", snapshot, Need::Required, "SNAPSHOT", "id or name");
  remove_it.words("snapshot", words.snapshots, Need::Required, "SNAPSHOT…", "ids or names");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  if (create_it.chosen()) return make(*session, args[0], words, "snapshots", options.json);
  if (list_it.chosen()) return list(*session, words, options.json);
  if (inspect_it.chosen()) return inspect(*session, snapshot, options.json);
  return remove(*session, words.snapshots);
}

int fork_command(std::span<char*> args) {
  CommandLine line("Makes a second sandbox on the files of one, and prints its id.");
  ClientOptions options;
  Words words;
  add_client_options(line, options, JsonFlag::Offered);
  line.text("--name", words.name, "NAME", "a name for people; unique while it lives");
  line.text("--hostname", words.hostname, "NAME", "its host name inside");
  line.texts("--label", words.labels, "NAME=VALUE", "a label; repeat it");
  line.flag("--processes", words.memory, "with its processes, as they stand");
  line.word("sandbox", words.sandbox, Need::Required, "SANDBOX", "id or name");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  return make(*session, args[0], words, "fork", options.json);
}

int undo_command(std::span<char*> args) {
  CommandLine line("Takes the files of a sandbox back: over the last calls, or to a snapshot.");
  ClientOptions options;
  std::string sandbox;
  std::string snapshot;
  std::uint64_t calls = 1;
  bool end_processes = false;
  add_client_options(line, options, JsonFlag::Offered);
  line.whole("--calls", calls, kUndoCallsMax, "N",
             "back over so many calls (default 1); needs --checkpoint each-call");
  line.text("--to", snapshot, "SNAPSHOT", "back to this one");
  line.flag("--end-processes", end_processes, "end what runs in it first");
  line.word("sandbox", sandbox, Need::Required, "SANDBOX", "id or name");
  if (const auto done = line.parse(args)) return *done;
  if ((!snapshot.empty() && line.given("--calls")) || calls == 0) {
    complain(args[0], "write --calls N, from 1, or --to SNAPSHOT");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto id = session->resolve(sandbox);
  if (!id) return session->fail(id.error());
  boost::json::object body;
  if (snapshot.empty()) {
    body["calls"] = calls;
  } else {
    body["snapshot"] = snapshot;
  }
  if (end_processes) body["end_processes"] = true;
  const auto answer = session->text("POST", sandbox_target(*id, "undo"), std::move(body));
  if (!answer) return session->fail(answer.error());
  if (options.json) return print_out(*answer + "\n") ? kExitOk : kExitFailed;
  const auto view = parse_json(*answer);
  if (!view) return session->fail(view.error());
  fmt::print(stderr, "undid {}; {} more can be undone\n", count_at(*view, "calls"),
             count_at(*view, "left"));
  return print_out(shown(text_at(*view, "snapshot")) + "\n") ? kExitOk : kExitFailed;
}

int promote_command(std::span<char*> args) {
  CommandLine line("Moves a sandbox into a stronger tier, with its files. Its processes end.");
  ClientOptions options;
  std::string sandbox;
  std::string tier;
  bool end_processes = false;
  add_client_options(line, options, JsonFlag::Offered);
  line.flag("--end-processes", end_processes, "end what runs in it first");
  line.word("sandbox", sandbox, Need::Required, "SANDBOX", "id or name");
  line.word("tier", tier, Need::Required, "TIER", "gvisor or microvm");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto id = session->resolve(sandbox);
  if (!id) return session->fail(id.error());
  boost::json::object body{{"tier", tier}};
  if (end_processes) body["end_processes"] = true;
  const auto answer = session->text("POST", sandbox_target(*id, "promote"), std::move(body));
  if (!answer) return session->fail(answer.error());
  if (options.json) return print_out(*answer + "\n") ? kExitOk : kExitFailed;
  const auto view = parse_json(*answer);
  if (!view) return session->fail(view.error());
  return print_out(shown(text_at(*view, "id")) + "\n") ? kExitOk : kExitFailed;
}

}  // namespace caisson::cli
