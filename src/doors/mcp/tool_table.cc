// What tools there are, and what a model is told of each. The texts are part of the interface: a
// model chooses by them.
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>

#include "doors/mcp/tool.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

using store::Scope;

constexpr std::array<Tool, 16> kTools{{{"run", Scope::Use, true, run},
                                       {"run_code", Scope::Use, true, run_code},
                                       {"start", Scope::Use, true, start},
                                       {"poll", Scope::Read, false, poll},
                                       {"input", Scope::Use, false, input},
                                       {"stop", Scope::Use, false, stop},
                                       {"read", Scope::Use, false, read},
                                       {"write", Scope::Use, true, write},
                                       {"edit", Scope::Use, false, edit},
                                       {"list", Scope::Use, false, list},
                                       {"search", Scope::Use, false, search},
                                       {"fork", Scope::Create, false, fork},
                                       {"checkpoint", Scope::Use, false, checkpoint},
                                       {"rollback", Scope::Use, false, rollback},
                                       {"expose", Scope::Use, false, expose},
                                       {"request_access", Scope::Use, false, request_access}}};

// Added to each: "sandbox" among the arguments, and "sandbox" and "note" in the answer.
constexpr std::string_view kSandboxArgument =
    R"({"type": "string", "description": "The sandbox to use, by its id, as an earlier answer named it."})";
constexpr std::string_view kSandboxAnswer =
    R"({"type": "string", "description": "Where it was done. Pass it on in later calls."})";
constexpr std::string_view kNoteAnswer =
    R"({"type": "string", "description": "Something about the sandbox that is worth knowing."})";

constexpr std::string_view kListing = R"json([
{"name": "run", "title": "Run a command",
 "description": "Runs one shell command line in the sandbox, waits for its end and returns exit code, stdout and stderr. The working folder is /workspace. What it leaves in the background is ended with it: use start for servers and long jobs. Of each stream at most 64 KiB are returned, its head and its tail; how much is left out is told.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["command"], "properties": {
  "command": {"type": "string", "minLength": 1, "description": "A line for /bin/sh -c, for example: pytest -q tests 2>&1 | tail -40"},
  "workdir": {"type": "string", "description": "Relative to /workspace, or absolute."},
  "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "More environment variables."},
  "stdin": {"type": "string", "description": "All of standard input."},
  "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600, "description": "The command is ended after it. Default: the server's, 60 seconds unless it was changed."}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "exit_code", "stdout", "stderr", "timed_out"], "properties": {
  "exit_code": {"type": "integer", "description": "128 + N when signal N ended it."},
  "stdout": {"type": "string"}, "stderr": {"type": "string"},
  "stdout_omitted_bytes": {"type": "integer"}, "stderr_omitted_bytes": {"type": "integer"},
  "timed_out": {"type": "boolean"}, "oom_killed": {"type": "boolean"}, "duration_ms": {"type": "number"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}},
{"name": "run_code", "title": "Run code",
 "description": "Runs a piece of code with an interpreter in the sandbox and returns exit code, stdout and stderr. Of python and javascript also the value of the last expression, tables and plots (matplotlib), and an error with its traceback; the interpreter waits for the code, so a call takes milliseconds. Without context each call is a new process: variables do not last, files in /workspace do. With context: \"new\" the variables stay; pass the context of the answer in later calls to go on.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["language", "code"], "properties": {
  "language": {"type": "string", "enum": ["python", "javascript", "bash", "sh", "ruby", "perl", "php"]},
  "code": {"type": "string", "description": "Less than 1 MiB in python and javascript, less than 128 KiB in others."},
  "context": {"type": "string", "description": "python and javascript only: \"new\", or the context of an earlier answer. workdir and env count when it is new."},
  "workdir": {"type": "string", "description": "Relative to /workspace, or absolute."},
  "env": {"type": "object", "additionalProperties": {"type": "string"}},
  "stdin": {"type": "string"},
  "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 3600}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "exit_code", "stdout", "stderr", "timed_out"], "properties": {
  "exit_code": {"type": "integer"}, "stdout": {"type": "string"}, "stderr": {"type": "string"},
  "value": {"type": ["string", "null"], "description": "Of the last expression, as text."},
  "outputs": {"type": "array", "items": {"type": "object", "additionalProperties": true}, "description": "What was shown, by media type; pictures are in the content instead."},
  "error": {"type": ["object", "null"], "properties": {"name": {"type": "string"}, "value": {"type": "string"}, "traceback": {"type": "string"}}},
  "context": {"type": "string", "description": "Pass it on to go on with the same variables."},
  "context_ended": {"type": "boolean", "description": "Its variables are gone."},
  "stdout_omitted_bytes": {"type": "integer"}, "stderr_omitted_bytes": {"type": "integer"},
  "timed_out": {"type": "boolean"}, "oom_killed": {"type": "boolean"}, "duration_ms": {"type": "number"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}},
{"name": "start", "title": "Start a process",
 "description": "Starts a command that goes on by itself, such as a server or a long build, and returns at once with the number of the process. Follow it with poll, write to it with input, end it with stop.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["command"], "properties": {
  "command": {"type": "string", "minLength": 1, "description": "A line for /bin/sh -c."},
  "workdir": {"type": "string"},
  "env": {"type": "object", "additionalProperties": {"type": "string"}},
  "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "description": "It is ended after it. Default: never."}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "process"], "properties": {
  "process": {"type": "integer"}, "pid": {"type": "integer"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true}},
{"name": "poll", "title": "Read a process's output",
 "description": "Returns what a started process has written since the given offsets, and whether it still runs. Pass the returned offsets in the next call. With wait_seconds it waits so long for something new.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["process"], "properties": {
  "process": {"type": "integer", "minimum": 1, "description": "As start gave it."},
  "stdout_offset": {"type": "integer", "minimum": 0, "default": 0},
  "stderr_offset": {"type": "integer", "minimum": 0, "default": 0},
  "wait_seconds": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "process", "running", "stdout", "stderr", "stdout_offset", "stderr_offset", "more"], "properties": {
  "process": {"type": "integer"}, "running": {"type": "boolean"}, "exit_code": {"type": ["integer", "null"]},
  "timed_out": {"type": "boolean"}, "oom_killed": {"type": "boolean"},
  "stdout": {"type": "string"}, "stderr": {"type": "string"},
  "stdout_offset": {"type": "integer", "description": "Where to go on."}, "stderr_offset": {"type": "integer"},
  "stdout_omitted_bytes": {"type": "integer", "description": "Output that was dropped because nobody read it in time."}, "stderr_omitted_bytes": {"type": "integer"},
  "more": {"type": "boolean", "description": "There is more to read right now."}}},
 "annotations": {"readOnlyHint": true, "openWorldHint": false}},
{"name": "input", "title": "Write to a process",
 "description": "Writes text to the standard input of a started process; close ends its input.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["process"], "properties": {
  "process": {"type": "integer", "minimum": 1},
  "text": {"type": "string", "description": "As it is: end a line with a line feed."},
  "close": {"type": "boolean", "default": false}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "process", "written_bytes"], "properties": {
  "process": {"type": "integer"}, "written_bytes": {"type": "integer"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true}},
{"name": "stop", "title": "Stop a process",
 "description": "Ends a started process and everything it started: asked first, killed after three seconds.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["process"], "properties": {
  "process": {"type": "integer", "minimum": 1}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "process", "running"], "properties": {
  "process": {"type": "integer"}, "running": {"type": "boolean"}, "exit_code": {"type": ["integer", "null"]},
  "timed_out": {"type": "boolean"}, "oom_killed": {"type": "boolean"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false}},
{"name": "read", "title": "Read a file",
 "description": "Returns lines of a text file, at most 64 KiB at a time; first_line and lines choose which. A small file that is no text comes as base64.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
  "path": {"type": "string", "minLength": 1, "description": "Relative to /workspace, or absolute."},
  "first_line": {"type": "integer", "minimum": 1, "default": 1},
  "lines": {"type": "integer", "minimum": 1, "default": 2000}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "path", "content", "encoding", "size", "truncated"], "properties": {
  "path": {"type": "string"}, "content": {"type": "string"}, "encoding": {"type": "string", "enum": ["utf-8", "base64"]},
  "size": {"type": "integer"}, "first_line": {"type": "integer"}, "last_line": {"type": "integer"},
  "total_lines": {"type": "integer"}, "truncated": {"type": "boolean"}}},
 "annotations": {"readOnlyHint": true, "openWorldHint": false}},
{"name": "write", "title": "Write a file",
 "description": "Writes a whole file, and makes the folders above it. An existing file is replaced: use edit to change a part of it.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["path", "content"], "properties": {
  "path": {"type": "string", "minLength": 1, "description": "Relative to /workspace, or absolute."},
  "content": {"type": "string"},
  "encoding": {"type": "string", "enum": ["utf-8", "base64"], "default": "utf-8"}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "path", "bytes_written"], "properties": {
  "path": {"type": "string"}, "bytes_written": {"type": "integer"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false}},
{"name": "edit", "title": "Edit a file",
 "description": "Replaces a piece of text in a file by another. old_text must be in the file exactly as given, spaces included, and only once; with replace_all every one is replaced. Read the file first.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["path", "old_text", "new_text"], "properties": {
  "path": {"type": "string", "minLength": 1},
  "old_text": {"type": "string", "minLength": 1, "description": "Enough lines around the change that it is the only one."},
  "new_text": {"type": "string"},
  "replace_all": {"type": "boolean", "default": false}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "path", "replaced", "size"], "properties": {
  "path": {"type": "string"}, "replaced": {"type": "integer"}, "size": {"type": "integer"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false}},
{"name": "list", "title": "List a folder",
 "description": "Lists a folder: names, types, sizes. At most 1000 entries are shown.",
 "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
  "path": {"type": "string", "default": "/workspace"},
  "recursive": {"type": "boolean", "default": false}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "path", "entries", "truncated"], "properties": {
  "path": {"type": "string"}, "truncated": {"type": "boolean"},
  "entries": {"type": "array", "items": {"type": "object", "properties": {
   "name": {"type": "string"}, "path": {"type": "string"}, "type": {"type": "string"}, "size": {"type": "integer"},
   "mode": {"type": "string"}, "modified_at": {"type": "string"}, "target": {"type": "string"}}}}}},
 "annotations": {"readOnlyHint": true, "openWorldHint": false}},
{"name": "search", "title": "Search files",
 "description": "With pattern: lines below a folder that match a regular expression (POSIX, extended: a|b, [[:space:]], no \\d), as path, line number and text; glob then limits the files by name, such as *.py. Without pattern: paths that match glob, such as **/*.py. .git, node_modules, __pycache__ and their like are left out.",
 "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
  "pattern": {"type": "string", "minLength": 1},
  "glob": {"type": "string", "minLength": 1},
  "path": {"type": "string", "default": "/workspace", "description": "A folder, or one file."},
  "exclude": {"type": "array", "items": {"type": "string"}, "description": "Names of folders to leave out, instead of the usual ones."},
  "max_results": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 200}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "path", "truncated"], "properties": {
  "path": {"type": "string"}, "truncated": {"type": "boolean"}, "unreadable": {"type": "integer"},
  "matches": {"type": "array", "items": {"type": "object", "properties": {
   "path": {"type": "string"}, "line": {"type": "integer"}, "text": {"type": "string"}}}},
  "files": {"type": "array", "items": {"type": "object", "properties": {
   "path": {"type": "string"}, "type": {"type": "string"}, "size": {"type": "integer"}}}}}},
 "annotations": {"readOnlyHint": true, "openWorldHint": false}},
{"name": "fork", "title": "Fork the sandbox",
 "description": "Makes a second sandbox with the same files, to try something without touching the first. Processes are not taken along. Use the id in fork as sandbox of later calls. It ends when nothing is asked of it for some time.",
 "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
  "name": {"type": "string", "description": "For people."}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "fork", "parent"], "properties": {
  "fork": {"type": "string", "description": "The new sandbox."}, "parent": {"type": "string"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false}},
{"name": "checkpoint", "title": "Keep the state of all files",
 "description": "Keeps the state of all files of the sandbox, to come back to it with rollback. Do it before something that may have to be undone.",
 "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
  "name": {"type": "string", "description": "A name of your own for it."}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "checkpoint"], "properties": {
  "checkpoint": {"type": "string", "description": "Its id, for rollback."}, "name": {"type": "string"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false}},
{"name": "rollback", "title": "Go back to a checkpoint",
 "description": "Puts all files of the sandbox back to a checkpoint. What was changed since is lost, and its processes are ended.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["checkpoint"], "properties": {
  "checkpoint": {"type": "string", "minLength": 1, "description": "The id that checkpoint gave, or its name."}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "checkpoint"], "properties": {
  "checkpoint": {"type": "string"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false}},
{"name": "expose", "title": "Show a web server of the sandbox",
 "description": "Returns the address at which a port of the sandbox can be opened in a browser, for a person. invitation lets its reader in once, within a minute. Start the server with start first; it must listen on 127.0.0.1 or on all addresses.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["port"], "properties": {
  "port": {"type": "integer", "minimum": 1, "maximum": 65535}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "port", "url", "listening"], "properties": {
  "port": {"type": "integer"}, "url": {"type": "string"}, "invitation": {"type": "string"},
  "listening": {"type": "boolean", "description": "Whether somebody listens there now."}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true}},
{"name": "request_access", "title": "Ask for a host",
 "description": "A sandbox reaches only the hosts that its policy names. This asks the people who run the server to allow one more. It grants nothing by itself: go on, and try again later.",
 "inputSchema": {"type": "object", "additionalProperties": false, "required": ["host"], "properties": {
  "host": {"type": "string", "minLength": 1, "description": "A name such as pypi.org, without a scheme or path."},
  "port": {"type": "integer", "minimum": 1, "maximum": 65535, "default": 443},
  "reason": {"type": "string", "description": "What it is needed for, for the person who decides."}}},
 "outputSchema": {"type": "object", "required": ["sandbox", "host", "port", "allowed", "status"], "properties": {
  "host": {"type": "string"}, "port": {"type": "integer"}, "allowed": {"type": "boolean"}, "status": {"type": "string"}}},
 "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}}
])json";

json::array whole_listing() {
  json::array out = json::parse(kListing).as_array();
  for (json::value& one : out) {
    json::object& tool = one.as_object();
    tool["inputSchema"].as_object()["properties"].as_object()["sandbox"] =
        json::parse(kSandboxArgument);
    json::object& answer = tool["outputSchema"].as_object()["properties"].as_object();
    answer["sandbox"] = json::parse(kSandboxAnswer);
    answer["note"] = json::parse(kNoteAnswer);
  }
  return out;
}

}  // namespace

std::span<const Tool> tools() noexcept { return kTools; }

const json::array& tool_listing() {
  static const json::array listing = whole_listing();
  return listing;
}

}  // namespace caisson::mcp
