// read, write, edit, list, search: control's tools; read shows a window of lines.
#include <fmt/format.h>

#include <algorithm>

#include "control/tools.h"
#include "doors/mcp/output.h"
#include "doors/mcp/tool.h"
#include "doors/shared/text.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::int64_t kLinesDefault = 2000;
constexpr std::int64_t kLinesMax = 1'000'000;
constexpr std::size_t kEntriesMax = 1000;  // of a folder, as it is shown
// Before it is known how much there is: a whole file, twice.
constexpr std::size_t kHeldPerFile = 2 * control::kToolFileBytesMax;
constexpr std::size_t kHeldPerListing = 8UL * 1024 * 1024;

awaitable<Result<void>> take_room(ToolCall& call, std::size_t bytes) {
  doors::Budget::Hold& held = *call.call.held;
  co_return co_await held.resize(held.bytes() + bytes);
}

struct ReadWish {
  std::string path;
  std::uint64_t first = 1;
  std::uint64_t count = 0;
};

Result<ReadWish> read_wish(const json::object& arguments) {
  control::ToolArguments read(arguments);
  ReadWish wish;
  wish.path = TRY(read.text("path", 4096));
  wish.first = static_cast<std::uint64_t>(TRY(read.whole("first_line", 1, 1, kLinesMax)));
  wish.count = static_cast<std::uint64_t>(TRY(read.whole("lines", kLinesDefault, 1, kLinesMax)));
  TRY(read.finish());
  return wish;
}

// Lines [first, first + count) of a text, as far as there is room for them.
struct Window {
  std::string_view text;
  std::uint64_t lines = 0;      // of the whole text
  std::uint64_t last_line = 0;  // that is shown whole; 0: none
  bool cut = false;
};

Window window_of(std::string_view text, const ReadWish& wish) {
  Window out;
  std::size_t begin = text.size();
  std::size_t end = text.size();
  std::size_t at = 0;
  bool full = false;
  while (at < text.size()) {
    const std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    ++out.lines;
    if (out.lines == wish.first) {
      begin = at;
      end = at;
    }
    const bool wanted = out.lines >= wish.first && out.lines - wish.first < wish.count;
    if (wanted && !full) {
      full = next - begin > kOutputBytesMax;
      if (!full) {
        end = next;
        out.last_line = out.lines;
      }
    }
    at = next;
  }
  out.cut = full;
  if (full && end == begin) end = std::min(text.size(), begin + kOutputBytesMax);  // one long line
  out.text = doors::cut_utf8(text.substr(begin, end - begin), kOutputBytesMax);
  return out;
}

ToolAnswer binary_answer(json::object file) {
  ToolAnswer answer;
  const std::string_view content = file["content"].get_string();
  const bool small = content.size() <= kOutputBytesMax;
  answer.structured = {{"path", file["path"]},
                       {"size", file["size"]},
                       {"encoding", "base64"},
                       {"content", small ? std::string(content) : std::string()},
                       {"truncated", !small}};
  if (!small)
    answer.text = fmt::format(
        "{} is no text; it has {} bytes, too many to be shown. Look at it "
        "with a command such as file, od or strings.",
        std::string_view(file["path"].get_string()), file["size"].to_number<std::uint64_t>());
  return answer;
}

}  // namespace

awaitable<Result<ToolAnswer>> read(ToolCall& call) {
  const auto wish = read_wish(call.arguments);
  if (!wish) co_return std::unexpected(wish.error());
  if (auto room = co_await take_room(call, kHeldPerFile); !room)
    co_return std::unexpected(room.error());
  json::object arguments{{"path", wish->path}};
  auto file = co_await call.fleet().execute_tool(
      call.caller(), call.sandbox, std::string(control::kFileRead), std::move(arguments), {});
  if (!file) co_return std::unexpected(file.error());
  if (file->at("encoding") != "utf-8") co_return binary_answer(*std::move(file));
  const std::string_view text = file->at("content").get_string();
  const Window window = window_of(text, *wish);
  if (window.lines > 0 && wish->first > window.lines)
    co_return bad_field("arguments.first_line",
                        fmt::format("arguments.first_line: is {}, and the file has {} lines",
                                    wish->first, window.lines));
  const bool more = window.cut || (window.last_line > 0 && window.last_line < window.lines);
  ToolAnswer answer;
  answer.structured = {{"path", file->at("path")},    {"size", file->at("size")},
                       {"encoding", "utf-8"},         {"content", window.text},
                       {"first_line", wish->first},   {"last_line", window.last_line},
                       {"total_lines", window.lines}, {"truncated", more}};
  answer.text = window.text.empty() ? "(the file is empty)" : std::string(window.text);
  if (more && window.last_line == 0) {
    answer.text += "\n[line is longer than what is shown; cut it with a command]";
  } else if (more) {
    answer.text += fmt::format("\n[lines {} to {} of {}; go on with first_line {}]", wish->first,
                               window.last_line, window.lines, window.last_line + 1);
  }
  co_return answer;
}

awaitable<Result<ToolAnswer>> write(ToolCall& call) { return pass_on(call, control::kFileWrite); }

awaitable<Result<ToolAnswer>> edit(ToolCall& call) {
  if (auto room = co_await take_room(call, kHeldPerFile); !room)
    co_return std::unexpected(room.error());
  co_return co_await pass_on(call, control::kFileEdit);
}

awaitable<Result<ToolAnswer>> list(ToolCall& call) {
  if (auto room = co_await take_room(call, kHeldPerListing); !room)
    co_return std::unexpected(room.error());
  auto answer = co_await pass_on(call, control::kFileList);
  if (!answer) co_return answer;
  json::array& entries = answer->structured["entries"].as_array();
  std::ranges::sort(entries, {}, [](const json::value& entry) {
    return std::string_view(entry.at("path").as_string());
  });
  if (entries.size() > kEntriesMax) {
    entries.resize(kEntriesMax);
    answer->structured["truncated"] = true;
  }
  co_return answer;
}

awaitable<Result<ToolAnswer>> search(ToolCall& call) {
  if (auto room = co_await take_room(call, kHeldPerListing); !room)
    co_return std::unexpected(room.error());
  co_return co_await pass_on(call, control::kFileSearch);
}

}  // namespace caisson::mcp
