#include "control/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>

#include "control/open_fleet.h"
#include "control/text.h"
#include "control/tool_arguments.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

constexpr std::array kTools{kShellExec,   kFileRead, kFileWrite,  kFileList,
                            kHttpRequest, kFileEdit, kFileSearch, kRequestAccess};

void put_text(json::object& out, std::string_view name, const std::string& bytes) {
  if (is_utf8(bytes)) {
    out[name] = bytes;
    return;
  }
  out[name] = to_utf8(bytes);
  out[std::string(name) + "_base64"] = to_base64(bytes);
}

constexpr std::string_view kSchemas = R"json([
{"name": "shell_exec",
 "description": "Runs a command line with /bin/sh and returns its output. What it leaves running in the background ends with it.",
 "arguments": {"type": "object", "additionalProperties": false, "required": ["command"], "properties": {
  "command": {"type": "string", "minLength": 1, "description": "A line for /bin/sh -c."},
  "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600},
  "workdir": {"type": "string", "description": "Relative to the sandbox's own working folder, or absolute."},
  "env": {"type": "object", "additionalProperties": {"type": "string"}},
  "stdin": {"type": "string", "description": "All of standard input."}}}},
{"name": "file_read",
 "description": "Reads one file of at most 8 MiB. Text that is not UTF-8 comes as base64.",
 "arguments": {"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
  "path": {"type": "string", "minLength": 1, "description": "Relative to /workspace, or absolute."}}}},
{"name": "file_write",
 "description": "Writes one file and the folders above it. Readers see the old content or the new one.",
 "arguments": {"type": "object", "additionalProperties": false, "required": ["path", "content"], "properties": {
  "path": {"type": "string", "minLength": 1},
  "content": {"type": "string"},
  "encoding": {"type": "string", "enum": ["utf-8", "base64"], "default": "utf-8"}}}},
{"name": "file_list",
 "description": "Lists a folder.",
 "arguments": {"type": "object", "additionalProperties": false, "properties": {
  "path": {"type": "string", "default": "/workspace"},
  "recursive": {"type": "boolean", "default": false}}}},
{"name": "http_request",
 "description": "Fetches a URL where the sandbox's network rules allow it. Redirects are not followed; the answer's body is at most 1 MiB.",
 "arguments": {"type": "object", "additionalProperties": false, "required": ["url"], "properties": {
  "method": {"type": "string", "default": "GET"},
  "url": {"type": "string", "minLength": 1},
  "headers": {"type": "object", "additionalProperties": {"type": "string"}},
  "body": {"type": "string"},
  "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 600}}}},
{"name": "file_edit",
 "description": "Puts one text in the place of another in a file of at most 8 MiB of UTF-8. The old text must stand there exactly once, unless replace_all is true.",
 "arguments": {"type": "object", "additionalProperties": false, "required": ["path", "old_text", "new_text"], "properties": {
  "path": {"type": "string", "minLength": 1},
  "old_text": {"type": "string", "minLength": 1},
  "new_text": {"type": "string"},
  "replace_all": {"type": "boolean", "default": false}}}},
{"name": "file_search",
 "description": "Searches below a folder: lines that match a regular expression, or, without one, paths that match a glob.",
 "arguments": {"type": "object", "additionalProperties": false, "properties": {
  "pattern": {"type": "string", "description": "POSIX, extended. Needed without glob."},
  "glob": {"type": "string", "description": "With pattern: of a file's own name. Without: of the path below the folder, where ** spans folders."},
  "path": {"type": "string", "default": "/workspace", "description": "A folder, or one file."},
  "exclude": {"type": "array", "items": {"type": "string"}, "description": "Names of folders that nobody looks into. Default: .git, .hg, .svn, .venv, __pycache__, node_modules."},
  "max_results": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 200}}}},
{"name": "request_access",
 "description": "Asks those who run the server to let this sandbox reach a host. Nothing is granted: the wish is recorded where an operator sees it.",
 "arguments": {"type": "object", "additionalProperties": false, "required": ["host"], "properties": {
  "host": {"type": "string", "minLength": 1},
  "port": {"type": "integer", "minimum": 1, "maximum": 65535, "default": 443},
  "reason": {"type": "string", "description": "For the person who decides."}}}}
])json";

}  // namespace

std::vector<std::string> all_tools() { return {kTools.begin(), kTools.end()}; }

Result<void> check_tool_name(std::string_view tool, std::string_view field) {
  if (std::ranges::find(kTools, tool) != kTools.end()) return {};
  return bad_field(std::string(field),
                   fmt::format("{}: there is no tool '{}'; there are: {}", field,
                               cut_text(tool, 64), fmt::join(kTools, ", ")));
}

json::array tool_schemas() { return json::parse(kSchemas).get_array(); }

std::string_view to_string(wire::EntryType type) noexcept {
  switch (type) {
    case wire::EntryType::File:
      return "file";
    case wire::EntryType::Folder:
      return "folder";
    case wire::EntryType::Link:
      return "link";
    case wire::EntryType::Fifo:
      return "fifo";
    case wire::EntryType::Socket:
      return "socket";
    case wire::EntryType::Device:
      return "device";
    default:
      return "other";
  }
}

Result<ExecWish> shell_exec_arguments(const json::object& arguments) {
  ToolArguments read(arguments);
  ExecWish wish;
  wish.command = TRY(read.text("command", kCommandBytesMax));
  wish.timeout_seconds = TRY(read.number("timeout_seconds"));
  wish.workdir = TRY(read.text_or_none("workdir", 4096));
  wish.environment = TRY(read.pairs("env"));
  wish.input = TRY(read.text_or_none("stdin", kToolInputBytesMax)).value_or("");
  TRY(read.finish());
  return wish;
}

Result<FileReadArguments> file_read_arguments(const json::object& arguments) {
  ToolArguments read(arguments);
  FileReadArguments out;
  out.path = TRY(read.text("path", 4096));
  TRY(read.finish());
  return out;
}

Result<FileWriteArguments> file_write_arguments(const json::object& arguments) {
  ToolArguments read(arguments);
  FileWriteArguments out;
  out.path = TRY(read.text("path", 4096));
  out.content = TRY(read.text("content", kToolFileBytesMax * 4 / 3 + 4));
  const std::string encoding = TRY(read.text_or_none("encoding", 64)).value_or("utf-8");
  TRY(read.finish());
  if (encoding == "base64") {
    auto bytes = from_base64(out.content);
    if (!bytes)
      return bad_field("arguments.content", "arguments.content: " + bytes.error().message);
    out.content = *std::move(bytes);
  } else if (encoding != "utf-8") {
    return bad_field("arguments.encoding",
                     fmt::format("arguments.encoding: is '{}', want 'utf-8' or 'base64'",
                                 cut_text(encoding, 64)));
  }
  return out;
}

Result<FileListArguments> file_list_arguments(const json::object& arguments) {
  ToolArguments read(arguments);
  FileListArguments out;
  out.path = TRY(read.text_or_none("path", 4096)).value_or(std::string(kWorkspace));
  out.recursive = TRY(read.flag("recursive"));
  TRY(read.finish());
  return out;
}

Result<egress::ToolRequest> http_request_arguments(const json::object& arguments) {
  constexpr double kSecondsMax = 600;
  ToolArguments read(arguments);
  egress::ToolRequest out;
  out.url = TRY(read.text("url", 8192));
  out.method = TRY(read.text_or_none("method", 32)).value_or("GET");
  for (auto& [name, value] : TRY(read.pairs("headers")))
    out.fields.push_back({std::move(name), std::move(value)});
  out.body = TRY(read.text_or_none("body", egress::kToolBodyBytesMax)).value_or("");
  if (const auto seconds = TRY(read.number("timeout_seconds"))) {
    if (*seconds <= 0 || *seconds > kSecondsMax)
      return bad_field("arguments.timeout_seconds",
                       fmt::format("arguments.timeout_seconds: is {}, want more than 0 and at most "
                                   "{}",
                                   *seconds, kSecondsMax));
    out.limit = milliseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1000)));
  }
  TRY(read.finish());
  return out;
}

json::object http_request_answer(const egress::ToolAnswer& answer) {
  json::object headers;
  for (const http::Field& field : answer.fields) {
    const std::string name = to_utf8(field.name);
    const json::value* before = headers.if_contains(name);
    const std::string value = to_utf8(field.value);
    headers[name] = before == nullptr ? value : std::string(before->get_string()) + ", " + value;
  }
  json::object out{{"status", answer.status}, {"headers", std::move(headers)}};
  put_text(out, "body", answer.body);
  out["truncated"] = answer.truncated;
  return out;
}

json::object shell_exec_answer(const ExecOutcome& outcome) {
  json::object out;
  put_text(out, "stdout", outcome.out);
  put_text(out, "stderr", outcome.err);
  out["exit_code"] = outcome.exit_code;
  if (outcome.signal != 0) out["signal"] = outcome.signal;
  out["duration_ms"] = static_cast<double>(outcome.wall.count()) / 1000;
  out["timed_out"] = outcome.timed_out;
  out["oom_killed"] = outcome.oom_killed;
  out["stdout_truncated"] = outcome.out_lost != 0;
  out["stderr_truncated"] = outcome.err_lost != 0;
  return out;
}

json::object file_read_answer(std::string_view path, std::string_view content) {
  const bool text = is_utf8(content);
  return json::object{{"path", to_utf8(path)},
                      {"content", text ? std::string(content) : to_base64(content)},
                      {"size", content.size()},
                      {"encoding", text ? "utf-8" : "base64"}};
}

json::object file_list_answer(std::string_view path, const engine::Listing& listing) {
  json::array entries;
  for (const engine::FileEntry& entry : listing.entries) {
    if (entries.size() >= kToolEntriesMax) break;
    const std::string name = to_utf8(entry.name);
    std::string whole = path == "/" ? "" : to_utf8(path);
    whole.append("/").append(name);
    json::object one{{"name", name},
                     {"path", std::move(whole)},
                     {"type", to_string(entry.type)},
                     {"size", entry.size},
                     {"mode", fmt::format("{:04o}", entry.mode)},
                     {"modified_at", store::to_rfc3339(entry.mtime_ns / 1000)}};
    if (!entry.target.empty()) one["target"] = to_utf8(entry.target);
    entries.push_back(std::move(one));
  }
  const bool truncated = listing.truncated || listing.entries.size() > kToolEntriesMax;
  return json::object{
      {"path", to_utf8(path)}, {"entries", std::move(entries)}, {"truncated", truncated}};
}

}  // namespace caisson::control
