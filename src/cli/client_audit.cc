#include "cli/client_audit.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_text.h"
#include "policy/json_text.h"

namespace caisson::cli {
namespace {

constexpr int kFollowEveryMs = 1000;

// A fixed layout, not a table: rows come page by page, and their columns must not jump.
std::string line_of(const boost::json::value& row) {
  const std::string detail = policy::json_text(field_at(row, "detail"));
  std::string line =
      fmt::format("{:>6} {:<19.19} {:<7} {:<12} {:<26} {:<20} {}", count_at(row, "sequence"),
                  shown(text_at(row, "time")), shown(text_at(row, "outcome")),
                  shown(text_at(row, "actor")), shown(text_at(row, "sandbox")),
                  shown(text_at(row, "action")), shown(text_at(row, "object"), 200));
  if (detail != "{}" && detail != "null") line += " " + shown(detail, 200);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

Result<void> print_row(const boost::json::value& row, bool json) {
  return print_out(json ? policy::json_text(row) + "\n" : line_of(row));
}

// The sequence of the newest row is asked for even when none is to be shown: following starts
// there.
Result<std::uint64_t> show_newest(const Session& session, const AuditRequest& request) {
  const std::uint64_t count = std::min(*request.last, kAuditPage);
  const auto page =
      TRY(session.json("GET", fmt::format("/api/v1/audit?before={}&limit={}{}", kSequenceMax,
                                          std::max<std::uint64_t>(count, 1), request.filter)));
  const auto& rows = list_at(page, "rows");
  for (std::size_t i = std::min<std::size_t>(rows.size(), count); i > 0; --i)
    TRY(print_row(rows[i - 1], request.json));
  return rows.empty() ? 0 : count_at(rows[0], "sequence");
}

// All rows behind `after`; the sequence of the last one.
Result<std::uint64_t> show_from(const Session& session, const AuditRequest& request,
                                std::uint64_t after) {
  for (;;) {
    const auto page = TRY(session.json("GET", fmt::format("/api/v1/audit?after={}&limit={}{}",
                                                          after, kAuditPage, request.filter)));
    const auto& rows = list_at(page, "rows");
    const std::uint64_t before = after;
    for (const auto& row : rows) {
      TRY(print_row(row, request.json));
      after = std::max(after, count_at(row, "sequence"));
    }
    // A page without a newer row is the last one, whatever its size.
    if (rows.size() < kAuditPage || after == before) return after;
  }
}

int verify(const Session& session, bool json) {
  const auto body = session.text("GET", "/api/v1/audit/verify");
  if (!body) return session.fail(body.error());
  const auto verdict = parse_json(*body);
  if (!verdict) return session.fail(verdict.error());
  const bool intact = truth_at(*verdict, "intact");
  const std::string head = shown(text_at(*verdict, "head"), 64);
  std::string out;
  if (json) {
    out = *body + "\n";
  } else if (intact) {
    out = fmt::format("intact: {} rows, head {}\n", count_at(*verdict, "rows"), head);
  } else {
    out = fmt::format("NOT INTACT: {}\n", one_line(text_at(*verdict, "reason")));
  }
  if (!print_out(out)) return kExitFailed;
  return intact ? kExitOk : kExitFailed;
}

}  // namespace

Result<void> show_audit(const Session& session, const AuditRequest& request) {
  std::uint64_t at =
      request.last ? TRY(show_newest(session, request)) : TRY(show_from(session, request, 0));
  while (request.follow) {
    ::poll(nullptr, 0, kFollowEveryMs);
    at = TRY(show_from(session, request, at));
  }
  return {};
}

int audit_command(std::span<char*> args) {
  CommandLine line("The record of what was done, allowed or denied.");
  ClientOptions options;
  AuditRequest request;
  std::string sandbox;
  std::string action;
  std::string outcome;
  std::uint64_t last = 20;
  CommandLine& tail = line.command("tail", "the newest rows");
  CommandLine& verify_it = line.command("verify", "check the chain; status 1 when it is broken");
  CommandLine& export_it = line.command("export", "every row, oldest first, one JSON line each");
  add_client_options(tail, options, JsonFlag::Offered);
  add_client_options(verify_it, options, JsonFlag::Offered);
  add_client_options(export_it, options, JsonFlag::None);
  tail.whole("-n,--rows", last, kAuditPage, "N", "how many (default 20)");
  tail.flag("-f,--follow", request.follow, "go on with what comes");
  for (CommandLine* one : {&tail, &export_it}) {
    one->text("--sandbox", sandbox, "ID", "of one sandbox, by its id");
    one->text("--action", action, "ACTION", "of one action, or a prefix such as tool.");
    one->choice("--outcome", outcome, {"allowed", "denied", "failed"}, "how it was decided");
  }
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  if (verify_it.chosen()) return verify(*session, options.json);
  if (!sandbox.empty()) request.filter += "&sandbox=" + encode(sandbox);
  if (!action.empty()) request.filter += "&action=" + encode(action);
  if (!outcome.empty()) request.filter += "&outcome=" + encode(outcome);
  request.json = options.json || export_it.chosen();
  if (tail.chosen()) request.last = last;
  const auto done = show_audit(*session, request);
  return done ? kExitOk : session->fail(done.error());
}

}  // namespace caisson::cli
