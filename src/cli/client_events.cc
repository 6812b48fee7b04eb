// events: what happens to sandboxes, as it happens.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_path.h"
#include "cli/client_session.h"
#include "cli/client_text.h"
#include "policy/json_text.h"

namespace caisson::cli {
namespace {

// The stream does not say where the past ends. Whatever the server has kept comes at once; so a
// short silence is the end of it.
constexpr milliseconds kSilence{400};

Result<void> print_event(const ServerEvent& event, bool json) {
  if (json) return print_out(event.data + "\n");
  const auto value = parse_json(event.data);
  if (!value) return {};
  std::string line = fmt::format("{:<19.19} {:<20} {:<26}", shown(text_at(*value, "time")),
                                 shown(text_at(*value, "type")), shown(text_at(*value, "sandbox")));
  const std::string data = policy::json_text(field_at(*value, "data"));
  if (data != "{}" && data != "null") line += " " + shown(data, 300);
  line.erase(line.find_last_not_of(' ') + 1);
  return print_out(line + "\n");
}

}  // namespace

int events_command(std::span<char*> args) {
  CommandLine line("Shows what happened to your sandboxes, as far as the server has kept it.");
  ClientOptions options;
  bool follow = false;
  std::string word;
  add_client_options(line, options, JsonFlag::Offered);
  line.flag("-f,--follow", follow, "go on with what comes");
  line.word("sandbox", word, Need::Optional, "SANDBOX", "only of this one");
  if (const auto done = line.parse(args)) return *done;
  const auto session = Session::open(args[0], options);
  if (!session) return session.error();
  std::string target = "/api/v1/events";
  if (!word.empty()) {
    const auto id = session->resolve(word);
    if (!id) return session->fail(id.error());
    target += "?sandbox=" + encode(*id);
  }
  Result<void> printed;
  const auto answer = session->remote().events(
      target, follow ? std::nullopt : std::optional(kSilence), [&](const ServerEvent& event) {
        printed = print_event(event, options.json);
        return printed.has_value();
      });
  if (!answer) return session->fail(answer.error());
  if (!answer->ok()) return session->fail(error_of(*answer));
  if (!printed) return session->fail(printed.error());
  if (follow) return session->fail(Error{Errc::Gone, "the server ended the stream", 0});
  return kExitOk;
}

}  // namespace caisson::cli
