#include "cli/client_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cerrno>

#include "base/id.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_config.h"
#include "cli/client_json.h"
#include "cli/client_text.h"
#include "policy/wording.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kLineMax = 1000;

Errc code_of(unsigned status) noexcept {
  switch (status) {
    case 401:
      return Errc::Unauthenticated;
    case 403:
      return Errc::Denied;
    case 404:
      return Errc::NotFound;
    case 409:
      return Errc::Busy;
    case 410:
      return Errc::Gone;
    case 413:
      return Errc::TooLarge;
    case 429:
      return Errc::Exhausted;
    case 501:
      return Errc::Unsupported;
    case 503:
      return Errc::LauncherGone;
    case 504:
      return Errc::TimedOut;
    case 507:
      return Errc::StoreFull;
    default:
      return status >= 500 ? Errc::Internal : Errc::InvalidArgument;
  }
}

}  // namespace

Error error_of(const Answer& answer) {
  std::string message;
  std::string id = answer.request_id;
  if (const auto body = parse_json(answer.body)) {
    const auto& error = field_at(*body, "error");
    message = text_at(error, "message");
    if (id.empty()) id = text_at(error, "request_id");
  }
  if (message.empty()) message = fmt::format("the server answered with status {}", answer.status);
  if (answer.status == 401) message += "; give a token by --token, CAISSON_TOKEN or client.yaml";
  if (!id.empty()) message += fmt::format(" (request {})", shown(id, 40));
  return Error{code_of(answer.status), one_line(message), 0};
}

std::string one_line(std::string_view text) { return shown(text, kLineMax); }

int exit_status_of(const Error& error) noexcept {
  return error.code == Errc::LauncherGone && error.sys_errno != 0 ? kExitUnreachable : kExitFailed;
}

void add_client_options(CommandLine& line, ClientOptions& options, JsonFlag json) {
  line.text("--url", options.url, "URL", "the server (CAISSON_URL; default http://127.0.0.1:8080)");
  line.text("--token", options.token, "TOKEN", "who calls (better: CAISSON_TOKEN or client.yaml)");
  if (json == JsonFlag::Offered)
    line.flag("--json", options.json, "print the server's JSON as it is");
}

std::expected<Session, int> Session::open(const std::string& command,
                                          const ClientOptions& options) {
  EndpointSources sources = sources_of_caller();
  sources.flag_url = options.url;
  sources.flag_token = options.token;
  const auto endpoint = find_endpoint(sources);
  if (!endpoint) {
    complain(command, one_line(endpoint.error().message));
    return std::unexpected(kExitUsage);
  }
  auto remote = open_remote(*endpoint);
  if (!remote) {
    complain(command, one_line(remote.error().message));
    const int status = exit_status_of(remote.error());
    return std::unexpected(status == kExitFailed ? kExitUsage : status);
  }
  return Session(command, std::move(*remote));
}

Result<std::string> Session::text(std::string_view method, const std::string& target,
                                  const std::optional<boost::json::value>& body) const {
  std::optional<std::string> sent;
  if (body) sent = boost::json::serialize(*body);
  Answer answer = TRY(remote_->call(method, target, sent));
  if (!answer.ok()) return std::unexpected(error_of(answer));
  return std::move(answer.body);
}

Result<boost::json::value> Session::json(std::string_view method, const std::string& target,
                                         const std::optional<boost::json::value>& body) const {
  const std::string answer = TRY(text(method, target, body));
  if (answer.empty()) return boost::json::value();
  return parse_json(answer);
}

Result<std::string> Session::resolve(const std::string& word) const {
  if (SandboxId::parse(word)) return word;
  const auto listing = TRY(json("GET", "/api/v1/sandboxes"));
  return pick_sandbox(listing, word);
}

int Session::fail(const Error& error) const {
  std::string message = error.message;
  if (exit_status_of(error) == kExitUnreachable)
    message += "; start one with: caisson serve (or name another by --url)";
  complain(command_, one_line(message));
  return exit_status_of(error);
}

Result<std::string> pick_sandbox(const boost::json::value& listing, const std::string& word) {
  std::vector<std::string> begins;
  for (const auto& one : list_at(listing, "sandboxes")) {
    const std::string id = text_at(one, "id");
    if (!SandboxId::parse(id)) continue;  // it will stand in the address of a request
    if (!word.empty() && text_at(one, "name") == word) return id;
    if (word.size() >= kIdPrefixMin && id.starts_with(word)) begins.push_back(id);
  }
  if (begins.size() == 1) return begins.front();
  if (begins.size() > 1) {
    return failure(Errc::InvalidArgument,
                   fmt::format("{} sandboxes begin with {}; write more of the id", begins.size(),
                               policy::in_quotes(word)));
  }
  const std::string_view hint =
      word.size() < kIdPrefixMin ? " (of an id, 6 characters or more)" : "";
  return failure(Errc::NotFound,
                 fmt::format("no sandbox has the id or the name {}{}; see caisson ls",
                             policy::in_quotes(word), hint));
}

Result<void> print_out(std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(STDOUT_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return sys_failure("write to standard output", errno);
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace caisson::cli
