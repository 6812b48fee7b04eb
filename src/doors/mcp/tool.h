// doors/mcp/tool.h — what a tool is, and what its handlers share.
//
// What goes wrong inside a sandbox, or with a tool's arguments, is a result with isError and the
// remedy: a model can act on that. Only an unknown tool is an error of the protocol.
#pragma once

#include <boost/json/object.hpp>
#include <span>
#include <string>
#include <string_view>

#include "control/tool_arguments.h"
#include "doors/mcp/call.h"

namespace caisson::mcp {

struct ToolAnswer {
  boost::json::object structured;
  std::string text;               // empty: the structured content as JSON
  boost::json::array pictures{};  // further content, as the protocol has it
};

// One call of a tool; it lives as long as its handler runs.
struct ToolCall {
  Call& call;
  std::string sandbox;
  boost::json::object arguments;  // without `sandbox`

  [[nodiscard]] control::Fleet& fleet() const noexcept { return call.services.fleet; }
  [[nodiscard]] const control::Caller& caller() const noexcept { return call.caller; }
};

struct Tool {
  std::string_view name;
  store::Scope need;
  bool makes_sandbox;  // when none is named
  awaitable<Result<ToolAnswer>> (*run)(ToolCall& call);
};

// tool_table.cc
[[nodiscard]] std::span<const Tool> tools() noexcept;
// As tools/list shows them, in the order of the table.
[[nodiscard]] const boost::json::array& tool_listing();

// tool_call.cc
awaitable<Answer> call_tool(Call& call);
// One of control's tools with the same arguments; its answer as it is.
awaitable<Result<ToolAnswer>> pass_on(ToolCall& call, std::string_view tool);
// What is being done, told now and then while it lasts, to a client that asked for it.
awaitable<void> tell_progress(Call& call, std::string what);
// Runs a command to its end, and tells its progress meanwhile.
awaitable<Result<ToolAnswer>> run_command(ToolCall& call, control::ExecWish wish, std::string what);

// tool_run.cc
awaitable<Result<ToolAnswer>> run(ToolCall& call);
awaitable<Result<ToolAnswer>> run_code(ToolCall& call);
// tool_code.cc
awaitable<Result<ToolAnswer>> interpret(ToolCall& call);
// tool_process.cc
awaitable<Result<ToolAnswer>> start(ToolCall& call);
awaitable<Result<ToolAnswer>> poll(ToolCall& call);
awaitable<Result<ToolAnswer>> input(ToolCall& call);
awaitable<Result<ToolAnswer>> stop(ToolCall& call);
// tool_files.cc
awaitable<Result<ToolAnswer>> read(ToolCall& call);
awaitable<Result<ToolAnswer>> write(ToolCall& call);
awaitable<Result<ToolAnswer>> edit(ToolCall& call);
awaitable<Result<ToolAnswer>> list(ToolCall& call);
awaitable<Result<ToolAnswer>> search(ToolCall& call);
// tool_state.cc
awaitable<Result<ToolAnswer>> fork(ToolCall& call);
awaitable<Result<ToolAnswer>> checkpoint(ToolCall& call);
awaitable<Result<ToolAnswer>> rollback(ToolCall& call);
// tool_network.cc
awaitable<Result<ToolAnswer>> expose(ToolCall& call);
awaitable<Result<ToolAnswer>> request_access(ToolCall& call);

}  // namespace caisson::mcp
