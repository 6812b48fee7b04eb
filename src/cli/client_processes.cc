// ps, kill, logs: what runs in a sandbox and what it said.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/base64.h"
#include "base/id.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_audit.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"

namespace caisson::cli {
namespace {

std::string state_of(const boost::json::value& process) {
  if (truth_at(process, "running")) return "running";
  if (truth_at(process, "timed_out")) return "timed out";
  if (truth_at(process, "oom_killed")) return "out of memory";
  return fmt::format("exit {}", count_at(process, "exit_code"));
}

std::string table_of(const boost::json::value& listing) {
  Table table({"ID", "PID", "STATE", "AGE", "TTY", "STDOUT", "STDERR", "COMMAND"});
  for (const auto& one : list_at(listing, "processes")) {
    table.add({fmt::to_string(count_at(one, "id")), fmt::to_string(count_at(one, "pid")),
               state_of(one), age_text(number_at(one, "age_seconds")),
               truth_at(one, "terminal") ? "yes" : "no",
               size_text(count_at(field_at(one, "stdout"), "end")),
               size_text(count_at(field_at(one, "stderr"), "end")), text_at(one, "command")});
  }
  return table.text();
}

Result<std::uint32_t> process_of(const std::string& word) {
  std::uint32_t id = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (code != std::errc() || end != word.data() + word.size() || id == 0)
    return failure(Errc::InvalidArgument, "want the number of a process, as caisson ps shows it");
  return id;
}

std::string process_target(const std::string& id, std::uint32_t process, std::string_view below) {
  return sandbox_target(id,
                        fmt::format("processes/{}{}{}", process, below.empty() ? "" : "/", below));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

// How far each stream goes that is to be shown; without an end, as long as the process runs.
struct Reach {
  bool bounded = false;
  std::uint64_t end[2] = {0, 0};
  std::uint64_t seen[2] = {0, 0};

  [[nodiscard]] bool reached() const { return bounded && seen[0] >= end[0] && seen[1] >= end[1]; }
};

// False when there is nothing more to wait for.
bool show_output(const ServerEvent& event, Reach& reach, Result<void>& trouble) {
  if (event.name == "exit") return false;
  const bool error = event.name == "stderr";
  if (!error && event.name != "stdout") return true;
  const auto data = parse_json(event.data);
  const auto bytes = data ? from_base64(text_at(*data, "data")) : std::nullopt;
  if (!bytes) {
    trouble = failure(Errc::Protocol, "the server sent output that cannot be read");
    return false;
  }
  if (const std::uint64_t lost = count_at(*data, "lost"); lost > 0)
    fmt::print(stderr, "[{} bytes of earlier output are gone]\n", lost);
  reach.seen[error ? 1 : 0] = count_at(*data, "offset") + bytes->size();
  return write_all(error ? STDERR_FILENO : STDOUT_FILENO, *bytes) && !reach.reached();
}

Result<void> show_process(const Session& session, const std::string& id, const std::string& word,
                          bool follow) {
  const std::uint32_t process = TRY(process_of(word));
  const auto now = TRY(session.json("GET", process_target(id, process, "")));
  Reach reach;
  reach.bounded = !follow;
  reach.end[0] = count_at(field_at(now, "stdout"), "end");
  reach.end[1] = count_at(field_at(now, "stderr"), "end");
  if (reach.reached()) return {};
  Result<void> trouble;
  const Answer answer = TRY(session.remote().events(
      process_target(id, process, "output"), std::nullopt,
      [&](const ServerEvent& event) { return show_output(event, reach, trouble); }));
  if (!answer.ok()) return std::unexpected(error_of(answer));
  return trouble;
}

}  // namespace

int ps_command(std::span<char*> args) {
  CommandLine line("Lists the processes that were started in a sandbox.");
  ClientOptions options;
  std::string word;
  add_client_options(line, options, JsonFlag::Offered);
  line.word("sandbox", word, Need::Required, "SANDBOX", "id or name");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto id = session->resolve(word);
  if (!id) return session->fail(id.error());
  const auto body = session->text("GET", sandbox_target(*id, "processes"));
  if (!body) return session->fail(body.error());
  if (options.json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto listing = parse_json(*body);
  if (!listing) return session->fail(listing.error());
  return print_out(table_of(*listing)) ? kExitOk : kExitFailed;
}

int kill_command(std::span<char*> args) {
  CommandLine line("Sends a signal to a process of a sandbox and all it started.");
  ClientOptions options;
  std::string word;
  std::string process;
  std::string signal = "TERM";
  bool alone = false;
  add_client_options(line, options, JsonFlag::None);
  line.text("-s,--signal", signal, "SIGNAL", "its name or number (default TERM)");
  line.flag("--alone", alone, "the process itself, not what it started");
  line.word("sandbox", word, Need::Required, "SANDBOX", "id or name");
  line.word("process", process, Need::Required, "PROCESS", "as caisson ps shows it");
  if (const auto done = line.parse(args)) return *done;
  const auto number = process_of(process);
  if (!number) {
    complain(args[0], number.error().message);
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto id = session->resolve(word);
  if (!id) return session->fail(id.error());
  boost::json::object body{{"signal", signal}, {"tree", !alone}};
  int by_number = 0;
  const auto [end, code] = std::from_chars(signal.data(), signal.data() + signal.size(), by_number);
  if (code == std::errc() && end == signal.data() + signal.size()) body["signal"] = by_number;
  const auto sent = session->text("POST", process_target(*id, *number, "signal"), std::move(body));
  return sent ? kExitOk : session->fail(sent.error());
}

int logs_command(std::span<char*> args) {
  CommandLine line(
      "Shows what was done with a sandbox, from the audit; or, with a process, what that printed.");
  ClientOptions options;
  std::string word;
  std::string process;
  bool follow = false;
  add_client_options(line, options, JsonFlag::Offered);
  line.flag("-f,--follow", follow, "go on with what comes");
  line.word("sandbox", word, Need::Required, "SANDBOX", "id or name");
  line.word("process", process, Need::Optional, "PROCESS", "as caisson ps shows it");
  if (const auto done = line.parse(args)) return *done;
  if (!process.empty() && !process_of(process)) {
    complain(args[0], process_of(process).error().message);
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto id = session->resolve(word);
  if (!id) return session->fail(id.error());
  if (!process.empty()) {
    const auto said = show_process(*session, *id, process, follow);
    return said ? kExitOk : session->fail(said.error());
  }
  AuditRequest request;
  request.filter = "&sandbox=" + encode(*id);
  request.follow = follow;
  request.json = options.json;
  const auto shown_rows = show_audit(*session, request);
  return shown_rows ? kExitOk : session->fail(shown_rows.error());
}

}  // namespace caisson::cli
