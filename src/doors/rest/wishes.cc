#include "doors/rest/wishes.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <limits>

#include "base/base64.h"
#include "control/sandbox_spec.h"
#include "doors/rest/call.h"
#include "doors/rest/file_wishes.h"
#include "doors/rest/json_reader.h"
#include "doors/rest/text.h"

namespace caisson::rest {

namespace json = boost::json;

namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kMebibytesMax = 16'777'216;  // 16 TiB
constexpr TextRule kPathRule{1, 4096, false};

std::optional<std::uint64_t> mebibytes(Fields& fields, std::string_view name, double min) {
  const auto value = fields.number(name, min, kMebibytesMax);
  if (!value) return std::nullopt;
  return static_cast<std::uint64_t>(*value * kMebibyte);
}

template <class T>
std::optional<T> as(std::optional<std::int64_t> value) {
  if (!value) return std::nullopt;
  return static_cast<T>(*value);
}

// Variables: a name with '=' in it would be two variables, or none.
Fields::Pairs environment(Fields& fields) {
  auto pairs = fields.pairs("env", control::kEnvironmentMax, {1, 256, false},
                            {0, control::kCommandBytesMax, false});
  for (const auto& [name, value] : pairs) {
    const bool digit_first = name.front() >= '0' && name.front() <= '9';
    constexpr std::string_view kLetters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    if (digit_first || name.find_first_not_of(kLetters) != std::string::npos) {
      fields.complain("env." + std::string(cut_utf8(name, 64)),
                      "is not a name: letters, digits and _ only, no digit first");
    }
  }
  return pairs;
}

void check_path(Fields& fields, std::string_view name, const std::string& value) {
  if (const auto good = guest_path(fields.path(name), value); !good) {
    fields.adopt(std::unexpected(good.error()));
  }
}

std::optional<std::string> workdir(Fields& fields) {
  auto path = fields.text("workdir", kPathRule);
  if (path) check_path(fields, "workdir", *path);
  return path;
}

void read_network(Fields& fields, control::CreateWish& wish) {
  const auto* network = fields.object("network");
  if (network == nullptr) return;
  auto inner = network_wish(*network, "network");
  if (inner) {
    wish.network = *std::move(inner);
  } else {
    fields.adopt(std::unexpected(inner.error()));
  }
}

void read_filesystem(Fields& fields, control::CreateWish& wish) {
  const auto* filesystem = fields.object("filesystem");
  if (filesystem == nullptr) return;
  Fields inner(*filesystem, "filesystem");
  if (const auto root = inner.choice("root", {"read_only", "writable"})) {
    wish.root = *root == "writable" ? engine::RootMode::Writable : engine::RootMode::ReadOnly;
  }
  fields.adopt(inner.finish());
}

void read_files(Fields& fields, control::CreateWish& wish) {
  wish.files =
      fields.pairs("files", control::kFilesMax, kPathRule, {0, control::kFileTextBytesMax, true});
  std::size_t bytes = 0;
  for (const auto& [path, content] : wish.files) {
    check_path(fields, "files." + std::string(cut_utf8(path, 128)), path);
    bytes += content.size();
  }
  if (bytes > control::kFileTextBytesMax) {
    fields.complain("files", fmt::format("have {} bytes together: at most {}", bytes,
                                         control::kFileTextBytesMax));
  }
}

void read_interpreter(Fields& fields, control::Language language,
                      control::InterpreterWishes& wishes) {
  const auto* said = fields.object(control::to_string(language));
  if (said == nullptr) return;
  Fields inner(*said, fields.path(control::to_string(language)));
  control::InterpreterWish& wish = wishes[language];
  wish.warm = inner.boolean("warm").value_or(true);
  wish.imports = inner.texts("imports", control::kImportsMax, {1, control::kImportBytesMax, false})
                     .value_or(std::vector<std::string>{});
  fields.adopt(inner.finish());
}

void read_interpreters(Fields& fields, control::CreateWish& wish) {
  const auto* interpreters = fields.object("interpreters");
  if (interpreters == nullptr) return;
  Fields inner(*interpreters, "interpreters");
  wish.interpreters.emplace();
  for (const auto language : {control::Language::Python, control::Language::JavaScript})
    read_interpreter(inner, language, *wish.interpreters);
  fields.adopt(inner.finish());
}

// What exec and processes share.
void read_command(Fields& fields, control::ExecWish& wish) {
  wish.command = fields.text("command", {1, control::kCommandBytesMax, false});
  const auto argv =
      fields.texts("argv", control::kArgumentsMax, {0, control::kCommandBytesMax, false});
  if (argv && (argv->empty() || argv->front().empty())) {
    fields.complain("argv", "names no program");
  }
  if (argv.has_value() == wish.command.has_value()) {
    fields.complain(argv ? "argv" : "command",
                    argv ? "and command are both there: give one of them"
                         : "is missing: give command, a line for the shell, or argv, a list");
  }
  if (argv) wish.argv = *argv;
  wish.environment = environment(fields);
  wish.workdir = workdir(fields);
  wish.timeout_seconds = fields.positive("timeout_seconds", kCommandSecondsMax);
  wish.merge_error = fields.boolean("merge_stderr").value_or(false);
}

void read_stdin(Fields& fields, control::ExecWish& wish) {
  auto input = fields.text("stdin", {0, kJsonBytesMax, true});
  const auto encoding = fields.choice("stdin_encoding", {"text", "base64"});
  if (!input) return;
  if (encoding == "base64") {
    auto bytes = from_base64(*input);
    if (!bytes) {
      fields.complain("stdin", "is not base64, as stdin_encoding says");
      return;
    }
    input = std::move(bytes);
  }
  wish.input = std::move(*input);
}

}  // namespace

Result<control::LimitWish> limit_wish(const json::object& body, std::string prefix) {
  Fields fields(body, std::move(prefix));
  control::LimitWish wish;
  wish.cpu = fields.number("cpu", 0.01, 4096);
  wish.memory_bytes = mebibytes(fields, "memory_mb", 1);
  wish.processes = as<std::uint32_t>(fields.integer("processes", 1, 4'194'304));
  wish.disk_bytes = mebibytes(fields, "disk_mb", 0.25);
  wish.disk_files = as<std::uint64_t>(fields.integer("disk_files", 16, 1'000'000'000));
  wish.open_files = as<std::uint32_t>(fields.integer("open_files", 16, 1'048'576));
  wish.cpu_seconds = fields.positive("cpu_seconds", kSecondsMax);
  wish.timeout_seconds = fields.positive("timeout_seconds", kSecondsMax);
  wish.idle_seconds = fields.positive("idle_seconds", kSecondsMax);
  wish.rest_seconds = fields.number("rest_seconds", 0, kSecondsMax);  // 0: never
  TRY(fields.finish());
  return wish;
}

Result<control::NetworkWish> network_wish(const json::object& body, std::string prefix) {
  Fields fields(body, std::move(prefix));
  control::NetworkWish wish;
  wish.mode = fields.choice("mode", {"none", "allowlist"});
  wish.domain_allowlist =
      fields.texts("domain_allowlist", 1024, {1, 253, false}).value_or(std::vector<std::string>{});
  if (const json::value* rules = fields.any("rules"); rules != nullptr && !rules->is_null()) {
    auto read = control::read_rules(*rules, fields.path("rules"));
    if (read) {
      wish.rules = *std::move(read);
    } else {
      fields.adopt(std::unexpected(read.error()));
    }
  }
  wish.token = fields.boolean("token");
  TRY(fields.finish());
  return wish;
}

namespace {

Result<control::BudgetWish> budget_wish(const json::object& body) {
  Fields fields(body, "budget");
  control::BudgetWish wish;
  wish.max_tokens = fields.integer("max_tokens", 0, std::numeric_limits<std::int64_t>::max());
  wish.max_cost_usd = fields.number("max_cost_usd", 0, control::kBudgetUsdMax);
  if (const auto choice = fields.choice("on_exceed", {"refuse", "stop"}))
    wish.stop = *choice == "stop";
  TRY(fields.finish());
  return wish;
}

}  // namespace

Result<control::UsageWish> usage_wish(const json::object& body) {
  Fields fields(body);
  control::UsageWish wish;
  wish.tokens = fields.integer("tokens", 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
  wish.cost_usd = fields.number("cost_usd", 0, control::kBudgetUsdMax).value_or(0);
  TRY(fields.finish());
  return wish;
}

Result<control::CreateWish> create_wish(const json::object& body) {
  Fields fields(body);
  control::CreateWish wish;
  wish.profile = fields.text("profile", {1, 128, false});
  wish.name = fields.text("name", {0, 128, false}).value_or("");
  read_file_state(fields, wish);
  wish.tier = fields.text("tier", {1, 64, false});
  wish.tools = fields.texts("tools", kToolsMax, {1, 128, false});
  read_files(fields, wish);
  read_network(fields, wish);
  read_filesystem(fields, wish);
  wish.environment = environment(fields);
  wish.workdir = workdir(fields);
  wish.uid = as<std::uint32_t>(fields.integer("user", 0, 65534));
  wish.root_capabilities = fields.boolean("root_capabilities");
  wish.hostname = fields.text("hostname", {1, 63, false});
  wish.labels = read_labels(fields);
  read_interpreters(fields, wish);
  if (const auto* budget = fields.object("budget")) {
    auto inner = budget_wish(*budget);
    if (inner) {
      wish.budget = *inner;
    } else {
      fields.adopt(std::unexpected(inner.error()));
    }
  }
  if (const auto* limits = fields.object("resource_limits")) {
    auto inner = limit_wish(*limits, "resource_limits");
    if (inner) {
      wish.limits = *inner;
    } else {
      fields.adopt(std::unexpected(inner.error()));
    }
  }
  TRY(fields.finish());
  return wish;
}

namespace {

ExecBody read_exec(Fields& fields, Input input) {
  ExecBody exec;
  read_command(fields, exec.wish);
  if (input == Input::InBody) read_stdin(fields, exec.wish);
  if (const auto max =
          fields.integer("output_bytes_max", control::kOutputBytesMin, control::kOutputBytesMax)) {
    exec.wish.output_bytes_max = static_cast<std::uint32_t>(*max);
  }
  exec.base64 = fields.choice("encoding", {"text", "base64"}) == "base64";
  return exec;
}

}  // namespace

Result<ExecBody> exec_wish(const json::object& body, Input input) {
  Fields fields(body);
  ExecBody exec = read_exec(fields, input);
  TRY(fields.finish());
  return exec;
}

Result<RunBody> run_wish(const json::object& body) {
  Fields fields(body);
  RunBody run;
  run.exec = read_exec(fields, Input::InBody);
  if (const auto* sandbox = fields.object("sandbox")) {
    auto inner = create_wish(*sandbox);
    if (inner) {
      run.sandbox = *std::move(inner);
    } else {
      Error error = inner.error().within("sandbox");
      error.field = error.field.empty() ? "sandbox" : "sandbox." + error.field;
      fields.adopt(std::unexpected(std::move(error)));
    }
  }
  TRY(fields.finish());
  return run;
}

Result<control::ProcessWish> process_wish(const json::object& body) {
  Fields fields(body);
  control::ProcessWish wish;
  read_command(fields, wish.exec);
  wish.terminal = fields.boolean("terminal").value_or(false);
  wish.input = fields.boolean("input").value_or(true);
  if (const auto rows = fields.integer("rows", 1, kTerminalSideMax)) {
    wish.rows = static_cast<std::uint16_t>(*rows);
  }
  if (const auto columns = fields.integer("cols", 1, kTerminalSideMax)) {
    wish.columns = static_cast<std::uint16_t>(*columns);
  }
  TRY(fields.finish());
  return wish;
}

namespace {

constexpr TextRule kImportRule{1, control::kImportBytesMax, false};

control::Language language(Fields& fields) {
  const auto said = fields.choice("language", {"python", "javascript"});
  return said == "javascript" ? control::Language::JavaScript : control::Language::Python;
}

}  // namespace

Result<control::CodeWish> code_wish(const json::object& body) {
  Fields fields(body);
  control::CodeWish wish;
  fields.require("code");
  wish.code = fields.text("code", {0, control::kCodeBytesMax, true}).value_or("");
  wish.language = language(fields);
  wish.context = fields.text("context", {1, 64, false});
  wish.environment = environment(fields);
  wish.workdir = workdir(fields);
  wish.input = fields.text("stdin", {0, kJsonBytesMax, true});
  wish.timeout_seconds = fields.positive("timeout_seconds", kCommandSecondsMax);
  if (const auto max =
          fields.integer("output_bytes_max", control::kOutputBytesMin, control::kOutputBytesMax)) {
    wish.output_bytes_max = static_cast<std::uint32_t>(*max);
  }
  TRY(fields.finish());
  return wish;
}

Result<control::ContextWish> context_wish(const json::object& body) {
  Fields fields(body);
  control::ContextWish wish;
  wish.language = language(fields);
  wish.imports = fields.texts("imports", control::kImportsMax, kImportRule)
                     .value_or(std::vector<std::string>{});
  wish.environment = environment(fields);
  wish.workdir = workdir(fields);
  TRY(fields.finish());
  return wish;
}

std::optional<int> signal_number(std::string_view name) {
  if (name.starts_with("SIG")) name.remove_prefix(3);
  for (int number = 1; number < 32; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && name == known) return number;
  }
  return std::nullopt;
}

Result<SignalWish> signal_wish(const json::object& body) {
  Fields fields(body);
  SignalWish wish;
  fields.require("signal");
  const auto* signal = fields.any("signal");
  if (signal != nullptr && signal->is_string()) {
    const auto name = fields.text("signal", {1, 16, false});
    const auto number = name ? signal_number(*name) : std::nullopt;
    if (name && !number) {
      fields.complain("signal", "is \"" + *name + "\": want a name such as TERM, or a number");
    }
    wish.number = number.value_or(0);
  } else {
    wish.number = static_cast<int>(fields.integer("signal", 1, 64).value_or(0));
  }
  wish.tree = fields.boolean("tree").value_or(false);
  TRY(fields.finish());
  return wish;
}

Result<SizeWish> size_wish(const json::object& body) {
  Fields fields(body);
  fields.require("rows");
  fields.require("cols");
  SizeWish wish;
  wish.rows = static_cast<std::uint16_t>(fields.integer("rows", 1, kTerminalSideMax).value_or(0));
  wish.columns =
      static_cast<std::uint16_t>(fields.integer("cols", 1, kTerminalSideMax).value_or(0));
  TRY(fields.finish());
  return wish;
}

Result<control::TokenWish> token_wish(const json::object& body, const std::string& own_tenant) {
  Fields fields(body);
  control::TokenWish wish;
  wish.tenant = fields.text("tenant", {1, 128, false}).value_or(own_tenant);
  wish.label = fields.text("label", {0, 256, false}).value_or("");
  fields.require("scopes");
  const auto scopes =
      fields.texts("scopes", 4, {1, 16, false}).value_or(std::vector<std::string>{});
  if (scopes.empty()) fields.complain("scopes", "is empty: want some of read, use, create, admin");
  for (const auto& scope : scopes) {
    const auto bit = control::parse_scopes(scope);
    if (!bit) {
      fields.complain("scopes", "has \"" + scope + "\": want read, use, create or admin");
      break;
    }
    if ((wish.scopes & *bit) != 0) fields.complain("scopes", "names \"" + scope + "\" twice");
    wish.scopes |= *bit;
  }
  wish.expires_seconds = fields.positive("expires_seconds", kSecondsMax);
  wish.max_sandboxes = fields.integer("max_sandboxes", 0, 1'000'000).value_or(0);
  wish.taken_over =
      fields.text("taken_over", {control::kTakenOverBytesMin, control::kCredentialBytesMax, false})
          .value_or("");
  TRY(fields.finish());
  return wish;
}

}  // namespace caisson::rest
