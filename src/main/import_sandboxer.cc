#include "main/import_sandboxer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "control/access_token.h"
#include "control/people.h"
#include "control/text.h"
#include "main/sandboxer_file.h"
#include "store/digest.h"

namespace caisson::server {
namespace {

namespace json = boost::json;

constexpr std::size_t kHashLetters = 8;
constexpr std::size_t kBufferBytes = 256UL * 1024;

json::value or_null(const std::optional<double>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}
json::value or_null(const std::optional<std::int64_t>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}
json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

// Lines, many at a time.
class Lines {
 public:
  Result<void> put(const json::object& line) { return put_text(json::serialize(line)); }
  Result<void> put_text(std::string_view line) {
    buffer_ += line;
    buffer_.push_back('\n');
    return buffer_.size() < kBufferBytes ? Result<void>() : flush();
  }
  Result<void> flush() {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
      const ssize_t put = ::write(STDOUT_FILENO, rest.data(), rest.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return sys_failure("write", errno);
      rest.remove_prefix(static_cast<std::size_t>(put));
    }
    buffer_.clear();
    return {};
  }

 private:
  std::string buffer_;
};

// From the end, at most so many bytes of JSON; each is a whole piece.
std::vector<json::object> newest_that_fit(std::vector<json::object> pieces, bool& cut) {
  std::size_t bytes = 0;
  std::size_t from = pieces.size();
  while (from > 0) {
    bytes += json::serialize(pieces[from - 1]).size() + 1;
    if (bytes > kImportLogJsonBytesMax || pieces.size() - from >= kImportPiecesMax) break;
    --from;
  }
  cut = from > 0;
  pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(from));
  return pieces;
}

struct Sandbox {
  std::string tenant;
  std::string id;
  std::string line;
  std::size_t row = 0;  // in the table: parents come before their forks
};

class Reader {
 public:
  explicit Reader(SandboxerFile file) : file_(std::move(file)) {}
  Result<void> run() {
    TRY(users());
    TRY(networks());
    TRY(tokens());
    TRY(sandboxes());
    TRY(executions());
    TRY(lines_.put({{"kind", "end"},
                    {"sandboxes_left_out", sandboxes_left_out_},
                    {"executions_left_out", executions_left_out_},
                    {"logs_left_out", logs_left_out_}}));
    return lines_.flush();
  }

 private:
  struct Execution {
    std::int64_t rowid = 0;
    std::vector<std::int64_t> logs;  // rows, the newest first
  };

  Result<void> users();
  Result<void> networks();
  Result<void> tokens();
  Result<void> sandboxes();
  Result<void> executions();
  void leave_out_oldest();
  Result<void> find_executions();
  Result<void> find_logs();
  Result<void> tell_executions(const Sandbox& sandbox, std::vector<std::size_t> which);
  Result<std::vector<json::object>> logs_of(const Execution& execution);

  [[nodiscard]] std::string tenant_by(const std::map<std::string, std::string>& of,
                                      const std::string& key) const {
    const auto found = of.find(key);
    return found == of.end() ? std::string() : found->second;
  }

  SandboxerFile file_;
  Lines lines_;
  std::map<std::string, std::string> tenant_of_user_;
  std::map<std::string, std::string> tenant_of_network_;
  std::vector<Sandbox> sandboxes_;
  std::vector<Execution> executions_;  // the newest first
  std::unordered_map<std::string, std::vector<std::size_t>> of_sandbox_;
  std::unordered_map<std::string, std::size_t> execution_by_id_;
  std::int64_t sandboxes_left_out_ = 0;
  std::int64_t executions_left_out_ = 0;
  std::int64_t logs_left_out_ = 0;
  store::Statement execution_, log_;
};

Result<void> Reader::users() {
  Result<void> told;
  TRY(file_.each(
      "users", "id, email, name, login, avatar_url, created_at", kImportUsersMax, [&](OldRow& row) {
        const std::string id = row.id(0, "id");
        const std::string tenant = tenant_of_user(id);
        std::string avatar = row.text(4, "avatar_url", control::kAvatarBytesMax);
        const auto is_printable = [](char letter) { return letter > ' ' && letter < 0x7F; };
        if (!avatar.starts_with("https://") || !std::ranges::all_of(avatar, is_printable))
          avatar.clear();
        json::object line{{"kind", "user"},
                          {"tenant", tenant},
                          {"id", id},
                          {"email", row.text(1, "email", control::kPersonTextBytesMax)},
                          {"name", row.text(2, "name", control::kPersonTextBytesMax)},
                          {"login", row.text(3, "login", control::kPersonTextBytesMax)},
                          {"avatar_url", avatar},
                          {"created_at", or_null(row.time(5, "created_at"))}};
        tenant_of_user_.emplace(id, tenant);
        if (row.verdict() && told) told = lines_.put(line);
      }));
  return told;
}

Result<void> Reader::networks() {
  Result<void> told;
  TRY(file_.each("networks", "name, user_id", kImportNetworksMax, [&](OldRow& row) {
    const std::string name = row.id(0, "name");
    const std::string tenant = tenant_by(tenant_of_user_, row.maybe_id(1, "user_id"));
    tenant_of_network_.emplace(name, tenant);
    if (row.verdict() && told)
      told = lines_.put({{"kind", "network"}, {"name", name}, {"tenant", tenant}});
  }));
  return told;
}

Result<void> Reader::tokens() {
  Result<void> told;
  TRY(file_.each("static_auth_tokens", "token, user_id, description", kImportTokensMax,
                 [&](OldRow& row) {
                   const std::string token = row.content(0, "token");
                   // One that is too short or has blanks in it is not taken over, and not sent
                   // anywhere.
                   const std::string id = control::taken_over_id(token).value_or("");
                   json::object line{
                       {"kind", "token"},
                       {"tenant", tenant_by(tenant_of_user_, row.maybe_id(1, "user_id"))},
                       {"token", id.empty() ? std::string() : token},
                       {"token_id", id},
                       {"description", row.text(2, "description", control::kTokenLabelBytesMax)}};
                   if (row.verdict() && told) told = lines_.put(line);
                 }));
  return told;
}

Result<void> Reader::sandboxes() {
  TRY(file_.each(
      "sandboxes",
      "id, name, label, image, network, parent_id, last_active_at, deleted_at, delete_reason, "
      "is_public",
      kImportSandboxesMax, [&](OldRow& row) {
        Sandbox sandbox;
        sandbox.id = row.container_id(0, "id");
        sandbox.tenant = tenant_by(tenant_of_network_, row.maybe_id(4, "network"));
        const json::object line{
            {"kind", "sandbox"},
            {"tenant", sandbox.tenant},
            {"id", sandbox.id},
            {"name", row.host_label(1, "name")},
            {"label", row.text(2, "label", kImportTextBytesMax)},
            {"image", row.text(3, "image", kImportTextBytesMax)},
            {"parent_id", or_null(row.maybe_id(5, "parent_id"))},
            {"last_active_at", or_null(row.time(6, "last_active_at"))},
            {"deleted_at", or_null(row.time(7, "deleted_at"))},
            {"delete_reason", or_null(row.text(8, "delete_reason", kImportTextBytesMax))},
            {"is_public", row.flag(9, "is_public")}};
        sandbox.line = json::serialize(line);
        sandbox.row = sandboxes_.size();
        sandboxes_.push_back(std::move(sandbox));
      }));
  std::ranges::sort(sandboxes_, {}, [](const Sandbox& one) {
    return std::pair<std::string_view, std::size_t>(one.tenant, one.row);
  });
  leave_out_oldest();
  for (const Sandbox& sandbox : sandboxes_) TRY(lines_.put_text(sandbox.line));
  return {};
}

// The server keeps so many for a tenant and no more: the oldest would only push each other out.
void Reader::leave_out_oldest() {
  std::map<std::string, std::size_t> seen;
  std::vector<Sandbox> kept;
  for (auto at = sandboxes_.rbegin(); at != sandboxes_.rend(); ++at) {
    if (++seen[at->tenant] <= kImportSandboxesOfTenantMax)
      kept.push_back(std::move(*at));
    else
      ++sandboxes_left_out_;
  }
  std::ranges::reverse(kept);
  sandboxes_ = std::move(kept);
}

// The tables have no index of their own for either question; so each is walked once, from its end,
// and only numbers are kept.
Result<void> Reader::find_executions() {
  for (const Sandbox& sandbox : sandboxes_) of_sandbox_[sandbox.id];
  std::int64_t kept = 0;
  TRY(file_.newest("command_executions", "rowid, id, sandbox_id", kImportExecutionsMax,
                   [&](OldRow& row) {
                     const auto rowid = row.whole(0, "rowid");
                     const std::string id = row.id(1, "id");
                     const auto of = of_sandbox_.find(row.maybe_id(2, "sandbox_id"));
                     if (of == of_sandbox_.end() || !row.verdict()) return;
                     if (of->second.size() >= kImportExecutionsOfSandboxMax) return;
                     if (!execution_by_id_.emplace(id, executions_.size()).second) return;
                     of->second.push_back(executions_.size());
                     executions_.push_back({.rowid = rowid.value_or(0), .logs = {}});
                     ++kept;
                   }));
  const std::int64_t all = TRY(file_.count("command_executions"));
  executions_left_out_ = all - kept;
  return {};
}

Result<void> Reader::find_logs() {
  std::int64_t kept = 0;
  TRY(file_.newest("command_execution_logs", "rowid, execution_id", kImportLogRowsMax,
                   [&](OldRow& row) {
                     const auto rowid = row.whole(0, "rowid");
                     const auto of = execution_by_id_.find(row.maybe_id(1, "execution_id"));
                     if (of == execution_by_id_.end() || !row.verdict()) return;
                     executions_[of->second].logs.push_back(rowid.value_or(0));
                     ++kept;
                   }));
  const std::int64_t all = TRY(file_.count("command_execution_logs"));
  logs_left_out_ = all - kept;
  return {};
}

Result<std::vector<json::object>> Reader::logs_of(const Execution& execution) {
  std::vector<std::vector<json::object>> rows;  // the newest first
  std::size_t bytes = 0;
  for (const std::int64_t rowid : execution.logs) {
    if (bytes > kImportLogJsonBytesMax) {
      ++logs_left_out_;
      continue;
    }
    std::vector<json::object>& pieces = rows.emplace_back();
    TRY(file_.one(log_, "command_execution_logs", rowid, [&](OldRow& row) {
      const auto fd = row.whole(0, "fd").value_or(1);
      const std::string content = row.content(1, "content");
      const auto created = row.time(2, "created_at");
      for (std::string_view rest = content; !rest.empty();) {
        std::string piece = control::cut_text(rest, kImportPieceBytesMax);
        rest.remove_prefix(piece.size());
        bytes += piece.size();
        pieces.push_back({{"fd", fd == 2 ? 2 : 1},
                          {"content", std::move(piece)},
                          {"created_at", or_null(created)}});
      }
    }));
  }
  std::vector<json::object> all;
  for (auto at = rows.rbegin(); at != rows.rend(); ++at)
    for (json::object& piece : *at) all.push_back(std::move(piece));
  bool cut = false;
  all = newest_that_fit(std::move(all), cut);
  if (cut) ++logs_left_out_;
  return all;
}

Result<void> Reader::tell_executions(const Sandbox& sandbox, std::vector<std::size_t> which) {
  std::ranges::reverse(which);  // the oldest first
  for (const std::size_t index : which) {
    const Execution& execution = executions_[index];
    json::object line{{"kind", "execution"}, {"tenant", sandbox.tenant}};
    TRY(file_.one(execution_, "command_executions", execution.rowid, [&](OldRow& row) {
      line["id"] = row.id(0, "id");
      line["sandbox_id"] = sandbox.id;
      line["command"] = control::cut_text(row.content(1, "command"), store::kRunCommandBytesMax);
      line["exit_code"] = or_null(row.exit_code(2, "exit_code"));
      line["executed_at"] = or_null(row.time(3, "executed_at"));
    }));
    json::array logs;
    for (json::object& piece : TRY(logs_of(execution))) logs.emplace_back(std::move(piece));
    line["logs"] = std::move(logs);
    TRY(lines_.put(line));
  }
  return {};
}

Result<void> Reader::executions() {
  TRY(find_executions());
  TRY(find_logs());
  execution_ = TRY(file_.by_rowid("command_executions", "id, command, exit_code, executed_at"));
  log_ = TRY(file_.by_rowid("command_execution_logs", "fd, content, created_at"));
  for (const Sandbox& sandbox : sandboxes_) TRY(tell_executions(sandbox, of_sandbox_[sandbox.id]));
  return {};
}

Result<void> read_file(const std::string& path) {
  Reader reader(TRY(SandboxerFile::open(path)));
  TRY_IN(path, reader.run());
  return {};
}

}  // namespace

std::string tenant_of_user(const std::string& id) {
  if (control::check_tenant(id)) return id;
  const store::Digest digest = store::sha256(id);
  const std::string hash = control::base32(std::as_bytes(std::span(digest)), kHashLetters);
  std::string tenant;
  for (const char letter : id.substr(0, control::kTenantBytesMax - kHashLetters - 1)) {
    const char small = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    tenant.push_back(control::check_tenant(std::string_view(&small, 1)) ? small : '-');
  }
  return tenant + "-" + hash;
}

int read_sandboxer(const std::string& path) {
  const auto read = read_file(path);
  if (read) return 0;
  std::string message = read.error().message;
  for (char& letter : message)
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7F) letter = '?';
  fmt::print(stderr, "{}\n", message);
  return 1;
}

}  // namespace caisson::server
