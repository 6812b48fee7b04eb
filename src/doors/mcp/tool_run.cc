// run and run_code: one command, to its end. What runs in an interpreter that waits for it is in
// tool_code.cc.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "control/tools.h"
#include "doors/mcp/output.h"
#include "doors/mcp/tool.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kWorkdirBytesMax = 4096;
// A string that grows has as much again in reserve, and JSON stands beside it, twice.
constexpr std::size_t kHeldPerCommand = 6UL * kCollectBytes;

struct Language {
  std::string_view name;
  std::string_view program;
  std::string_view flag;
};
// The code is an argument: so the audit has it, and the program's own input stays free.
constexpr std::array<Language, 5> kLanguages{{{"bash", "bash", "-c"},
                                              {"sh", "sh", "-c"},
                                              {"ruby", "ruby", "-e"},
                                              {"perl", "perl", "-e"},
                                              {"php", "php", "-r"}}};

Result<void> read_common(control::ToolArguments& read, control::ExecWish& wish) {
  wish.workdir = TRY(read.text_or_none("workdir", kWorkdirBytesMax));
  wish.environment = TRY(read.pairs("env"));
  wish.input = TRY(read.text_or_none("stdin", control::kToolInputBytesMax)).value_or("");
  wish.timeout_seconds = TRY(read.number("timeout_seconds"));
  return read.finish();
}

Result<control::ExecWish> run_wish(const json::object& arguments) {
  control::ToolArguments read(arguments);
  control::ExecWish wish;
  wish.command = TRY(read.text("command", control::kCommandBytesMax));
  TRY(read_common(read, wish));
  return wish;
}

Result<control::ExecWish> code_wish(const json::object& arguments) {
  control::ToolArguments read(arguments);
  control::ExecWish wish;
  const std::string name = TRY(read.text("language", 64));
  std::string code = TRY(read.text("code", control::kToolInputBytesMax));
  TRY(read_common(read, wish));
  const auto* const language = std::ranges::find(kLanguages, name, &Language::name);
  if (language == kLanguages.end())
    return bad_field("arguments.language",
                     "arguments.language: want python, javascript, bash, sh, ruby, perl or php");
  if (code.size() >= control::kCommandBytesMax)
    return std::unexpected(Error{Errc::TooLarge,
                                 "arguments.code: want less than 128 KiB; write it to a file, and "
                                 "run that",
                                 0, "arguments.code"});
  wish.argv = {std::string(language->program), std::string(language->flag), std::move(code)};
  return wish;
}

std::string ending(const control::ExecOutcome& outcome) {
  std::string out = fmt::format("exit code {}", outcome.exit_code);
  if (outcome.timed_out) out += ", ended because its time was over (timeout_seconds)";
  if (outcome.oom_killed) out += ", out of memory";
  return out;
}

ToolAnswer answer_of(const control::ExecOutcome& outcome) {
  Shown out = show_output(outcome.out, outcome.out_lost);
  Shown err = show_output(outcome.err, outcome.err_lost);
  ToolAnswer answer;
  answer.text = ending(outcome);
  if (!out.text.empty()) answer.text += "\nstdout:\n" + out.text;
  if (!err.text.empty()) answer.text += "\nstderr:\n" + err.text;
  answer.structured = {{"exit_code", outcome.exit_code},
                       {"stdout", std::move(out.text)},
                       {"stderr", std::move(err.text)},
                       {"stdout_omitted_bytes", out.omitted},
                       {"stderr_omitted_bytes", err.omitted},
                       {"timed_out", outcome.timed_out},
                       {"oom_killed", outcome.oom_killed},
                       {"duration_ms", static_cast<double>(outcome.wall.count()) / 1000}};
  return answer;
}

}  // namespace

awaitable<Result<ToolAnswer>> run_command(ToolCall& call, control::ExecWish wish,
                                          std::string what) {
  using namespace boost::asio::experimental::awaitable_operators;
  doors::Budget::Hold& held = *call.call.held;
  if (auto room = co_await held.resize(held.bytes() + kHeldPerCommand); !room)
    co_return std::unexpected(room.error());
  wish.output_bytes_max = kCollectBytes;
  // Control kills the tree of an exec that is cancelled.
  auto first = co_await (call.fleet().exec(call.caller(), call.sandbox, std::move(wish)) ||
                         tell_progress(call.call, std::move(what)));
  if (first.index() != 0) co_return failure(Errc::Gone, "the call was taken back");
  const auto& outcome = std::get<0>(first);
  if (!outcome) co_return std::unexpected(outcome.error());
  co_return answer_of(*outcome);
}

awaitable<Result<ToolAnswer>> run(ToolCall& call) {
  auto wish = run_wish(call.arguments);
  if (!wish) co_return std::unexpected(wish.error());
  co_return co_await run_command(call, *std::move(wish), "the command");
}

awaitable<Result<ToolAnswer>> run_code(ToolCall& call) {
  const json::value* name = call.arguments.if_contains("language");
  if (name != nullptr && name->is_string() &&
      (name->get_string() == "python" || name->get_string() == "javascript"))
    co_return co_await interpret(call);
  auto wish = code_wish(call.arguments);
  if (!wish) co_return std::unexpected(wish.error());
  const std::string program = wish->argv.front();
  auto answer = co_await run_command(call, *std::move(wish), "the code");
  if (!answer && answer.error().code == Errc::NotFound)
    co_return failure(Errc::NotFound, fmt::format("{} is not in this sandbox's image: use another "
                                                  "language, or an image that has it",
                                                  program));
  co_return answer;
}

}  // namespace caisson::mcp
