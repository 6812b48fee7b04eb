// fork, checkpoint, rollback: the state of a sandbox's files.
#include "doors/mcp/tool.h"

namespace caisson::mcp {

namespace json = boost::json;

namespace {

constexpr std::size_t kNameBytesMax = 128;

Result<std::string> only_name(const json::object& arguments) {
  control::ToolArguments read(arguments);
  const std::string name = TRY(read.text_or_none("name", kNameBytesMax)).value_or("");
  TRY(read.finish());
  return name;
}

}  // namespace

awaitable<Result<ToolAnswer>> fork(ToolCall& call) {
  const auto name = only_name(call.arguments);
  if (!name) co_return std::unexpected(name.error());
  control::ForkWish wish;
  wish.name = *name;
  auto view = co_await call.fleet().fork(call.caller(), call.sandbox, std::move(wish));
  if (!view) co_return std::unexpected(view.error());
  ToolAnswer answer;
  answer.structured = {{"fork", view->id}, {"parent", call.sandbox}};
  co_return answer;
}

awaitable<Result<ToolAnswer>> checkpoint(ToolCall& call) {
  const auto name = only_name(call.arguments);
  if (!name) co_return std::unexpected(name.error());
  control::SnapshotWish wish;
  wish.name = *name;
  auto view = co_await call.fleet().snapshot(call.caller(), call.sandbox, std::move(wish));
  if (!view) co_return std::unexpected(view.error());
  ToolAnswer answer;
  answer.structured = {{"checkpoint", view->id}, {"name", view->name}};
  co_return answer;
}

awaitable<Result<ToolAnswer>> rollback(ToolCall& call) {
  const auto wanted = [&]() -> Result<std::string> {
    control::ToolArguments read(call.arguments);
    const std::string out = TRY(read.text("checkpoint", kNameBytesMax));
    TRY(read.finish());
    return out;
  }();
  if (!wanted) co_return std::unexpected(wanted.error());
  const auto snapshot = call.fleet().get_snapshot(call.caller(), *wanted);
  if (!snapshot) co_return std::unexpected(snapshot.error());
  control::UndoWish wish;
  wish.snapshot = snapshot->id;
  wish.end_processes = true;
  const auto view = co_await call.fleet().undo(call.caller(), call.sandbox, std::move(wish));
  if (!view) co_return std::unexpected(view.error());
  ToolAnswer answer;
  answer.structured = {{"checkpoint", view->snapshot}};
  co_return answer;
}

}  // namespace caisson::mcp
