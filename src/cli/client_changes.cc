// diff and merge: what is different between two states of files, and how one gets into another.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cstdio>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_new_file.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_states.h"
#include "cli/client_text.h"

namespace caisson::cli {
namespace {

// A patch holds whatever a guest wrote. A file or a program gets it as it is; a terminal gets its
// lines without what would act on it.
class PatchPrinter {
 public:
  explicit PatchPrinter(bool terminal) : terminal_(terminal) {}
  Result<void> take(std::span<const std::byte> bytes) {
    if (!terminal_) return write_all(STDOUT_FILENO, bytes);
    line_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    std::string out;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
      out += shown(std::string_view(line_).substr(begin, end - begin), line_.size()) + "\n";
    line_.erase(0, begin);
    return print_out(out);
  }
  Result<void> finish() { return print_out(shown(line_, line_.size())); }

 private:
  bool terminal_;
  std::string line_;
};

struct DiffWords {
  std::string from, to, path;
  bool patch = false;
};

Result<std::string> diff_target(const Session& session, const DiffWords& words) {
  const std::string from = TRY(state_of(session, words.from));
  const std::string to = TRY(state_of(session, words.to));
  std::string target = fmt::format("/api/v1/diff?from={}&to={}", encode(from), encode(to));
  if (!words.path.empty()) target += "&path=" + encode(words.path);
  if (words.patch) target += "&format=patch";
  return target;
}

Result<void> print_patch(const Session& session, const std::string& target) {
  PatchPrinter printer(::isatty(STDOUT_FILENO) == 1);
  const Answer answer = TRY(session.remote().download(
      target, [](std::uint64_t) {},
      [&](std::span<const std::byte> bytes) { return printer.take(bytes); }));
  if (!answer.ok()) return std::unexpected(error_of(answer));
  return printer.finish();
}

Result<void> print_changes(const Session& session, const std::string& target, bool json) {
  const std::string body = TRY(session.text("GET", target));
  if (json) return print_out(body + "\n");
  const auto value = TRY(parse_json(body));
  if (truth_at(value, "truncated"))
    fmt::print(stderr, "caisson diff: there are more changes than these; see --path\n");
  return print_out(changes_text(list_at(value, "changes")));
}

struct MergeWords {
  std::string from, into;
  bool end_processes = false;
};

Result<Answer> ask_merge(const Session& session, const MergeWords& words) {
  const std::string id = TRY(session.resolve(words.into));
  boost::json::object body;
  body["from"] = TRY(state_of(session, words.from));
  if (words.end_processes) body["end_processes"] = true;
  return session.remote().call("POST", sandbox_target(id, "merge"), boost::json::serialize(body));
}

}  // namespace

int diff_command(std::span<char*> args) {
  CommandLine line("Shows what is different between two states of files.");
  ClientOptions options;
  DiffWords words;
  add_client_options(line, options, JsonFlag::Offered);
  line.text("--path", words.path, "PATH", "only what lies below this absolute path");
  line.flag("--patch", words.patch, "as a patch for git apply");
  line.word("from", words.from, Need::Required, "FROM",
            "a sandbox or a snapshot; or snapshot:NAME, image:REF");
  line.word("to", words.to, Need::Required, "TO", "the same");
  if (const auto done = line.parse(args)) return *done;
  if (options.json && words.patch) {
    complain(args[0], "a patch is no JSON: write --json or --patch");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto target = diff_target(*session, words);
  if (!target) return session->fail(target.error());
  const auto printed =
      words.patch ? print_patch(*session, *target) : print_changes(*session, *target, options.json);
  return printed ? kExitOk : session->fail(printed.error());
}

int merge_command(std::span<char*> args) {
  CommandLine line(
      "Brings the changes of a state into a sandbox. A file that was changed on both sides is a "
      "conflict, and then nothing is applied.");
  ClientOptions options;
  MergeWords words;
  add_client_options(line, options, JsonFlag::Offered);
  line.text("--into", words.into, "SANDBOX", "the sandbox that gets them: id or name");
  line.flag("--end-processes", words.end_processes, "end what runs in it first");
  line.word("from", words.from, Need::Required, "FROM",
            "a fork or a snapshot; or sandbox:NAME, snapshot:NAME");
  if (const auto done = line.parse(args)) return *done;
  if (words.into.empty()) {
    complain(args[0], "write --into SANDBOX");
    return kExitUsage;
  }
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  const auto answer = ask_merge(*session, words);
  if (!answer) return session->fail(answer.error());
  if (!answer->ok()) {
    if (!print_out(options.json ? answer->body + "\n" : conflicts_text(*answer)))
      return kExitFailed;
    return session->fail(error_of(*answer));
  }
  if (options.json) return print_out(answer->body + "\n") ? kExitOk : kExitFailed;
  const auto merged = parse_json(answer->body);
  if (!merged) return session->fail(merged.error());
  return print_out(changes_text(list_at(*merged, "applied"))) ? kExitOk : kExitFailed;
}

}  // namespace caisson::cli
