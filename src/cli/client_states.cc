#include "cli/client_states.h"

#include <fmt/format.h>

#include "base/id.h"
#include "cli/client_json.h"
#include "cli/client_text.h"

namespace caisson::cli {
namespace {

constexpr std::size_t kPathShownMax = 4096;
constexpr std::string_view kSandbox = "sandbox:";

}  // namespace

Result<std::string> state_of(const Session& session, const std::string& word) {
  if (word.starts_with("snapshot:") || word.starts_with("image:")) return word;
  if (word.starts_with(kSandbox)) {
    const std::string id = TRY(session.resolve(word.substr(kSandbox.size())));
    return std::string(kSandbox) + id;
  }
  // Sandboxes and snapshots have ids of one form: the server knows which it is.
  if (SandboxId::parse(word)) return word;
  const auto id = session.resolve(word);
  if (id) return std::string(kSandbox) + *id;
  if (id.error().code != Errc::NotFound) return std::unexpected(id.error());
  return "snapshot:" + word;
}

std::string changes_text(const boost::json::array& changes) {
  std::string out;
  for (const auto& one : changes) {
    out += fmt::format("{:<12}  {}\n", shown(text_at(one, "kind")),
                       shown(text_at(one, "path"), kPathShownMax));
  }
  return out;
}

std::string conflicts_text(const Answer& answer) {
  const auto body = parse_json(answer.body);
  if (answer.status != 409 || !body) return "";
  const auto& error = field_at(*body, "error");
  if (text_at(error, "code") != "Conflict") return "";
  const auto& details = field_at(error, "details");
  std::string out;
  const auto& paths = list_at(details, "conflicts");
  for (const auto& path : paths) {
    if (const auto* text = path.if_string())
      out += fmt::format("{:<12}  {}\n", "conflict", shown(std::string(*text), kPathShownMax));
  }
  const std::uint64_t total = count_at(details, "conflicts_total");
  if (total > paths.size()) out += fmt::format("and {} more\n", total - paths.size());
  return out;
}

}  // namespace caisson::cli
