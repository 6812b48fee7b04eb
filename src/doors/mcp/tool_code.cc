// run_code in python and javascript: in an interpreter that waits for it, by itself or in a
// context.
#include <fmt/format.h>

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "control/tools.h"
#include "doors/mcp/output.h"
#include "doors/mcp/tool.h"
#include "doors/shared/json_text.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kPathBytesMax = 4096;
constexpr std::size_t kContextBytesMax = 64;
constexpr std::size_t kPictureBytesMax = 2UL * 1024 * 1024;  // of all in one answer, as base64
constexpr std::size_t kShownBytesMax = 256UL * 1024;         // of the other outputs, as JSON
constexpr std::size_t kHeldPerRun = 6UL * kCollectBytes + 3 * control::kCodeResultBytesMax;
constexpr std::string_view kNewContext = "new";
constexpr std::array<std::string_view, 2> kPictures = {"image/png", "image/jpeg"};

struct Wish {
  control::CodeWish code;
  control::ContextWish context;
  bool fresh = false;
};

Result<Wish> wish_of(const json::object& arguments) {
  control::ToolArguments read(arguments);
  Wish wish;
  const std::string language = TRY(read.text("language", 64));
  wish.code.language = TRY(control::parse_language(language, "arguments.language"));
  wish.code.code = TRY(read.text("code", control::kCodeBytesMax));
  wish.code.context = TRY(read.text_or_none("context", kContextBytesMax));
  wish.code.workdir = TRY(read.text_or_none("workdir", kPathBytesMax));
  wish.code.environment = TRY(read.pairs("env"));
  wish.code.input = TRY(read.text_or_none("stdin", control::kToolInputBytesMax));
  wish.code.timeout_seconds = TRY(read.number("timeout_seconds"));
  wish.code.output_bytes_max = kCollectBytes;
  TRY(read.finish());
  wish.fresh = wish.code.context == kNewContext;
  if (wish.fresh) {
    wish.context.language = wish.code.language;
    wish.context.workdir = std::exchange(wish.code.workdir, std::nullopt);
    wish.context.environment = std::exchange(wish.code.environment, {});
  }
  return wish;
}

// A model sees pictures in the content; what else was shown is JSON.
void show_outputs(control::CodeOutcome& outcome, ToolAnswer& answer) {
  std::size_t pictures = 0;
  std::size_t shown = 0;
  std::uint64_t omitted = 0;
  json::array list;
  for (control::CodeOutput& one : outcome.outputs) {
    for (const std::string_view mime : kPictures) {
      const json::value* data = one.data.if_contains(mime);
      if (data == nullptr || !data->is_string()) continue;
      pictures += data->get_string().size();
      if (pictures <= kPictureBytesMax) {
        answer.pictures.push_back(
            json::object{{"type", "image"}, {"data", data->get_string()}, {"mimeType", mime}});
      } else {
        ++omitted;
      }
      one.data.erase(mime);
    }
    // The value as text alone is said already.
    if (one.data.empty() || (one.main && one.data.size() == 1)) continue;
    shown += doors::json_text(one.data).size();
    if (shown > kShownBytesMax) {
      ++omitted;
    } else {
      list.push_back(std::move(one.data));
    }
  }
  answer.structured["outputs"] = std::move(list);
  if (omitted > 0 || outcome.outputs_truncated)
    answer.text += "\nSome of what was shown is too large, and left out.";
}

void show_error(const control::CodeError& error, ToolAnswer& answer) {
  const Shown traceback = show_output(error.traceback, 0);
  answer.text += "\nerror:\n" + traceback.text;
  answer.structured["error"] = json::object{{"name", show_output(error.name, 0).text},
                                            {"value", show_output(error.value, 0).text},
                                            {"traceback", traceback.text}};
}

ToolAnswer answer_of(control::CodeOutcome outcome) {
  const Shown out = show_output(outcome.out, outcome.out_lost);
  const Shown err = show_output(outcome.err, outcome.err_lost);
  ToolAnswer answer;
  answer.text = fmt::format("exit code {}", outcome.exit_code);
  if (outcome.timed_out) answer.text += ", ended because its time was over (timeout_seconds)";
  if (outcome.context_ended) answer.text += "; the context has ended, its variables are gone";
  answer.structured = {{"exit_code", outcome.exit_code},
                       {"timed_out", outcome.timed_out},
                       {"duration_ms", static_cast<double>(outcome.wall.count()) / 1000}};
  if (outcome.value) {
    const Shown value = show_output(*outcome.value, 0);
    answer.text += "\nvalue: " + value.text;
    answer.structured["value"] = value.text;
  }
  if (!out.text.empty()) answer.text += "\nstdout:\n" + out.text;
  if (!err.text.empty()) answer.text += "\nstderr:\n" + err.text;
  if (outcome.error) show_error(*outcome.error, answer);
  show_outputs(outcome, answer);
  if (outcome.context_ended) answer.structured["context_ended"] = true;
  answer.structured["stdout"] = out.text;
  answer.structured["stderr"] = err.text;
  answer.structured["stdout_omitted_bytes"] = out.omitted;
  answer.structured["stderr_omitted_bytes"] = err.omitted;
  return answer;
}

}  // namespace

awaitable<Result<ToolAnswer>> interpret(ToolCall& call) {
  using namespace boost::asio::experimental::awaitable_operators;
  auto wish = wish_of(call.arguments);
  if (!wish) co_return std::unexpected(wish.error());
  doors::Budget::Hold& held = *call.call.held;
  if (auto room = co_await held.resize(held.bytes() + kHeldPerRun); !room)
    co_return std::unexpected(room.error());
  if (wish->fresh) {
    auto made =
        co_await call.fleet().create_context(call.caller(), call.sandbox, std::move(wish->context));
    if (!made) co_return std::unexpected(made.error());
    wish->code.context = made->id;
  }
  const auto context = wish->code.context;
  auto first =
      co_await (call.fleet().run_code(call.caller(), call.sandbox, std::move(wish->code)) ||
                tell_progress(call.call, "the code"));
  if (first.index() != 0) co_return failure(Errc::Gone, "the call was taken back");
  auto& outcome = std::get<0>(first);
  if (!outcome) co_return std::unexpected(outcome.error());
  ToolAnswer answer = answer_of(*std::move(outcome));
  if (context) answer.structured["context"] = *context;
  co_return answer;
}

}  // namespace caisson::mcp
