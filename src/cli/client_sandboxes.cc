// ls, rm, pause, resume, hibernate, stop, start: sandboxes as a whole.
#include <fmt/format.h>

#include <cstdio>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"

namespace caisson::cli {
namespace {

std::string left_text(const boost::json::value& sandbox, double now) {
  const auto expires = parse_time(text_at(sandbox, "expires_at"));
  return expires ? age_text(*expires - now) : "";
}

std::string memory_text(const boost::json::value& sandbox) {
  const auto& limits = field_at(sandbox, "resource_limits");
  const std::uint64_t megabytes = count_at(limits, "memory_mb");
  return megabytes == 0 ? "" : size_text(megabytes << 20U);
}

std::string state_text(const boost::json::value& sandbox) {
  const auto& resting = field_at(sandbox, "resting");
  return resting.is_bool() && resting.get_bool() ? "resting" : text_at(sandbox, "state");
}

std::string table_of(const boost::json::value& listing) {
  Table table({"ID", "NAME", "STATE", "IMAGE", "AGE", "LEFT", "MEMORY"});
  const double now = wall_seconds();
  for (const auto& one : list_at(listing, "sandboxes")) {
    const auto created = parse_time(text_at(one, "created_at"));
    table.add({text_at(one, "id"), text_at(one, "name"), state_text(one), text_at(one, "image"),
               created ? age_text(now - *created) : "", left_text(one, now), memory_text(one)});
  }
  return table.text();
}

// One call for each word; every failure is said, and the last one counts.
template <class Act>
int for_each_sandbox(const Session& session, const std::vector<std::string>& words, Act act) {
  int status = kExitOk;
  for (const std::string& word : words) {
    auto id = session.resolve(word);
    if (!id) {
      status = session.fail(id.error());
    } else if (const auto done = act(*id); !done) {
      status = session.fail(done.error().within(one_line(word)));
    }
    if (status == kExitUnreachable) return status;
  }
  return status;
}

int change_state(std::span<char*> args, const char* help, const char* verb) {
  CommandLine line(help);
  ClientOptions options;
  std::vector<std::string> words;
  add_client_options(line, options, JsonFlag::None);
  line.words("sandbox", words, Need::Required, "SANDBOX…", "ids or names");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  return for_each_sandbox(*session, words, [&](const std::string& id) -> Result<void> {
    TRY(session->text("POST", sandbox_target(id, verb)));
    return {};
  });
}

}  // namespace

int ls_command(std::span<char*> args) {
  CommandLine line("Lists the living sandboxes of a server.");
  ClientOptions options;
  bool quiet = false;
  add_client_options(line, options, JsonFlag::Offered);
  line.flag("-q,--quiet", quiet, "ids only");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto body = session->text("GET", "/api/v1/sandboxes");
  if (!body) return session->fail(body.error());
  if (options.json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto listing = parse_json(*body);
  if (!listing) return session->fail(listing.error());
  std::string out;
  if (quiet) {
    for (const auto& one : list_at(*listing, "sandboxes")) out += shown(text_at(one, "id")) + "\n";
  } else {
    out = table_of(*listing);
  }
  return print_out(out) ? kExitOk : kExitFailed;
}

int rm_command(std::span<char*> args) {
  CommandLine line(
      "Destroys sandboxes: every process in them is killed, all they wrote is removed.");
  ClientOptions options;
  std::vector<std::string> words;
  bool all = false;
  add_client_options(line, options, JsonFlag::None);
  line.flag("--all", all, "every living sandbox of yours");
  line.words("sandbox", words, Need::Optional, "SANDBOX…", "ids or names");
  if (const auto done = line.parse(args)) return *done;
  if (words.empty() != all) {
    complain(args[0], "write ids or names, or --all");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  if (all) {
    const auto listing = session->json("GET", "/api/v1/sandboxes");
    if (!listing) return session->fail(listing.error());
    for (const auto& one : list_at(*listing, "sandboxes")) words.push_back(text_at(one, "id"));
  }
  return for_each_sandbox(*session, words, [&](const std::string& id) -> Result<void> {
    const auto gone = session->text("DELETE", sandbox_target(id));
    // One that ended by itself meanwhile is what --all asked for.
    if (!gone && !(all && gone.error().code == Errc::NotFound))
      return std::unexpected(gone.error());
    return {};
  });
}

int pause_command(std::span<char*> args) {
  return change_state(args, "Freezes every process of a sandbox; memory stays.", "pause");
}

int resume_command(std::span<char*> args) {
  return change_state(args, "Lets a paused or hibernated sandbox go on.", "resume");
}

int hibernate_command(std::span<char*> args) {
  return change_state(args,
                      "Keeps the processes of a sandbox on disk and frees its memory; the next use "
                      "wakes it.",
                      "hibernate");
}

int stop_command(std::span<char*> args) {
  return change_state(args, "Ends the processes of a persistent sandbox; its files stay.", "stop");
}

int start_command(std::span<char*> args) {
  return change_state(args, "Starts a stopped sandbox on the files that it had.", "start");
}

}  // namespace caisson::cli
