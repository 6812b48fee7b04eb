// exec and shell: a command in a sandbox of the server, as if it ran here.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstdlib>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_stream.h"
#include "cli/client_text.h"
#include "cli/relay.h"
#include "cli/terminal.h"
#include "policy/flags.h"
#include "policy/wording.h"

namespace caisson::cli {
namespace {

struct ExecWords {
  ClientOptions client;
  std::string sandbox;
  std::vector<std::string> command;
  std::vector<std::string> env;
  std::string workdir;
  std::string timeout;
};

Result<boost::json::object> body_of(const ExecWords& words) {
  boost::json::object body;
  boost::json::array argv;
  for (const std::string& word : words.command) argv.emplace_back(word);
  body["argv"] = std::move(argv);
  boost::json::object env;
  for (const std::string& word : words.env) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      return bad_field("--env", "--env: want NAME=value, got " + policy::in_quotes(word));
    env[word.substr(0, equals)] = word.substr(equals + 1);
  }
  if (!env.empty()) body["env"] = std::move(env);
  if (!words.workdir.empty()) body["workdir"] = words.workdir;
  if (!words.timeout.empty()) {
    const nanoseconds time = TRY_IN("--timeout", policy::parse_duration(words.timeout));
    body["timeout_seconds"] = std::chrono::duration<double>(time).count();
  }
  return body;
}

int report(const Session& session, const Result<StreamEnd>& end, std::string_view hint) {
  if (!end) return session.fail(end.error());
  if (end->how == StreamEnd::How::Failed && end->error) (void)session.fail(*end->error);
  if (end->how == StreamEnd::How::Lost) {
    (void)session.fail(
        Error{Errc::Gone,
              fmt::format("the connection to the server ended before the command{}", hint), 0});
  }
  if (end->how == StreamEnd::How::Exited && end->timed_out)
    (void)session.fail(Error{Errc::TimedOut, "the command was ended: its time was over", 0});
  if (end->how == StreamEnd::How::Exited && end->oom_killed)
    (void)session.fail(Error{Errc::Exhausted, "out of memory: a process was killed", 0});
  return exit_status_of(*end);
}

Result<StreamEnd> run_exec(const Session& session, const std::string& word,
                           const boost::json::object& body) {
  const std::string id = TRY(session.resolve(word));
  // Before the command exists, so that no signal is lost between.
  const UniqueFd signals = TRY(watch_signals());
  const auto socket = TRY(session.remote().socket(sandbox_target(id, "exec")));
  TRY(socket->send(boost::json::serialize(body), true));
  StreamDescriptors descriptors;
  descriptors.signals = signals.get();
  return relay_socket(*socket, Framing::Exec, descriptors);
}

// The server takes no other letters, and a terminal of no known kind is no reason to fail.
std::string terminal_kind() {
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
  const std::string kind = term != nullptr ? term : "";
  const auto fits = [](char c) {
    return policy::is_letter(c) || policy::is_digit(c) ||
           std::string_view("._+-").find(c) != std::string_view::npos;
  };
  if (kind.empty() || kind.size() > 64 || !std::ranges::all_of(kind, fits)) return "xterm-256color";
  return kind;
}

struct ShellWords {
  ClientOptions client;
  std::string sandbox;
  std::vector<std::string> command;
  std::uint64_t process = 0;
};

std::string terminal_target(const std::string& id, const ShellWords& words) {
  const WindowSize size = window_size(STDIN_FILENO);
  std::string target = sandbox_target(
      id, fmt::format("terminal?rows={}&cols={}&term={}", std::min<int>(size.rows, 1000),
                      std::min<int>(size.columns, 1000), encode(terminal_kind())));
  if (!words.command.empty()) target += "&command=" + encode(shell_line(words.command));
  if (words.process != 0) target += fmt::format("&process={}", words.process);
  return target;
}

Result<StreamEnd> run_shell(const Session& session, const ShellWords& words) {
  const std::string id = TRY(session.resolve(words.sandbox));
  const UniqueFd signals = TRY(watch_signals());
  const auto socket = TRY(session.remote().socket(terminal_target(id, words)));
  StreamDescriptors descriptors;
  descriptors.signals = signals.get();
  // The old settings are back before anything is said about the end.
  const RawTerminal raw(STDIN_FILENO);
  return relay_socket(*socket, Framing::Terminal, descriptors);
}

}  // namespace

int exec_command(std::span<char*> args) {
  CommandLine line(
      "Runs a command in a sandbox of the server: input, output and exit status are its own.");
  ExecWords words;
  add_client_options(line, words.client, JsonFlag::None);
  line.texts("--env", words.env, "NAME=VALUE", "set a variable; repeat it");
  line.text("--workdir", words.workdir, "PATH", "working folder inside");
  line.text("--timeout", words.timeout, "TIME", "end it after this time");
  line.word("sandbox", words.sandbox, Need::Required, "SANDBOX", "id or name");
  line.words("command", words.command, Need::Required, "COMMAND…", "behind --");
  if (const auto done = line.parse(args)) return *done;
  const auto body = body_of(words);
  if (!body) {
    complain(args[0], one_line(body.error().message));
    return kExitUsage;
  }
  const auto session = Session::open(args[0], words.client);
  if (!session) return session.error();
  return report(*session, run_exec(*session, words.sandbox, *body), "");
}

int shell_command(std::span<char*> args) {
  CommandLine line("Opens a terminal in a sandbox of the server.");
  ShellWords words;
  add_client_options(line, words.client, JsonFlag::None);
  line.whole("--process", words.process, 4294967295, "PROCESS", "take up a terminal that was left");
  line.word("sandbox", words.sandbox, Need::Required, "SANDBOX", "id or name");
  line.words("command", words.command, Need::Optional, "COMMAND…",
             "instead of a login shell, behind --");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], words.client);
  if (!session) return session.error();
  const auto end = run_shell(*session, words);
  std::string hint;
  if (end && end->process != 0) {
    hint = fmt::format("; it goes on: caisson shell --process {} {}", end->process,
                       shown(words.sandbox));
  }
  return report(*session, end, hint);
}

}  // namespace caisson::cli
