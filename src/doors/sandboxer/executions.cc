// What was run in a sandbox, and what it said: also when the sandbox is gone.
#include <algorithm>
#include <boost/json/array.hpp>

#include "doors/sandboxer/call.h"
#include "doors/sandboxer/log.h"
#include "doors/sandboxer/words.h"

namespace caisson::sandboxer {

namespace json = boost::json;

namespace {

constexpr std::int64_t kLimitMax = static_cast<std::int64_t>(store::kPageRowsMax);
constexpr std::size_t kAnswerBytesMax = 32UL << 20U;  // of output in one answer

json::object run_json(const store::RunRecord& run) {
  return {{"id", run.id},
          {"command", run.command},
          {"exit_code", run.exit_code.value_or(0)},
          {"executed_at", seconds_of(run.started)}};
}

json::object piece_json(const store::RunPiece& piece) {
  return {{"id", piece.id},
          {"fd", piece.stream},
          {"content", piece.content},
          {"created_at", seconds_of(piece.time)}};
}

struct Page {
  RowPtr row;
  std::size_t limit = 0;
  std::int64_t start = 0;
};

Result<Page> read_page(Call& call, std::int64_t otherwise) {
  doors::Problems problems;
  Page page;
  const std::int64_t limit = query_integer(call, "limit", otherwise, problems);
  page.start = query_integer(call, "start_id", 0, problems);
  if (!problems.empty()) return refuse(call, problems);
  page.limit = static_cast<std::size_t>(std::clamp<std::int64_t>(limit, 0, kLimitMax));
  page.row = TRY(any_row(call));
  return page;
}

// At most `rows` of them. What an answer holds is counted while it is made and sent.
awaitable<Result<json::array>> pieces_of(Call& call, std::string run, std::int64_t after,
                                         std::size_t rows, std::size_t& bytes) {
  json::array out;
  while (out.size() < rows && bytes < kAnswerBytesMax) {
    store::PieceQuery query;
    query.run = run;
    query.after = after;
    query.limit = std::min(rows - out.size(), kPiecesPerRead);
    auto pieces = co_await call.services().history.pieces(std::move(query));
    if (!pieces) co_return std::unexpected(pieces.error());
    if (pieces->empty()) break;
    for (const store::RunPiece& piece : *pieces) {
      after = std::max(after, piece.id);
      bytes += piece.content.size();
      out.push_back(piece_json(piece));
    }
    if (!call.hold().overdraw(2 * bytes)) co_return doors::Budget::exhausted();
  }
  co_return out;
}

// `limit` counts what a join of runs and their pieces would give: a run that said nothing is one.
awaitable<Result<json::array>> runs_with_pieces(Call& call, Page page, bool newest_first) {
  json::array out;
  if (page.limit == 0) co_return out;
  const auto turn = co_await call.services().questions.ask(call.caller.tenant);
  if (!turn) co_return std::unexpected(turn.error());
  co_await call.services().ledger->settle(page.row->id);
  store::RunQuery query;
  query.sandbox = page.row->id;
  query.newest_first = newest_first;
  query.limit = page.limit;
  auto runs = co_await call.services().history.runs(std::move(query));
  if (!runs) co_return std::unexpected(runs.error());
  std::size_t left = page.limit;
  std::size_t bytes = 0;
  for (const store::RunRecord& run : *runs) {
    if (left == 0 || bytes >= kAnswerBytesMax) break;
    auto pieces = co_await pieces_of(call, run.id, 0, newest_first ? kLimitMax : left, bytes);
    if (!pieces) co_return std::unexpected(pieces.error());
    left -= newest_first ? 1 : std::min(left, std::max<std::size_t>(1, pieces->size()));
    json::object one = run_json(run);
    one["logs"] = *std::move(pieces);
    out.push_back(std::move(one));
  }
  co_return out;
}

awaitable<Result<void>> answer_runs(Call& call, std::int64_t otherwise, bool newest_first) {
  auto page = read_page(call, otherwise);
  if (!page) co_return std::unexpected(page.error());
  auto runs = co_await runs_with_pieces(call, *std::move(page), newest_first);
  if (!runs) co_return std::unexpected(runs.error());
  const json::object body{{"executions", *std::move(runs)}};
  co_return co_await answer(call, body);
}

}  // namespace

awaitable<Result<void>> show_execution_logs(Call& call) {
  co_return co_await answer_runs(call, 1000, false);
}

awaitable<Result<void>> show_executions(Call& call) {
  co_return co_await answer_runs(call, 100, true);
}

awaitable<Result<void>> show_execution(Call& call) {
  auto page = read_page(call, 100);
  if (!page) co_return std::unexpected(page.error());
  auto turn = co_await call.services().questions.ask(call.caller.tenant);
  if (!turn) co_return std::unexpected(turn.error());
  co_await call.services().ledger->settle(page->row->id);
  auto run = co_await call.services().history.run(call.match.second);
  if (!run) co_return std::unexpected(run.error());
  if (!*run || (*run)->sandbox != page->row->id)
    co_return refuse(call, 404, "Command execution not found");
  std::size_t bytes = 0;
  auto pieces = co_await pieces_of(call, (*run)->id, page->start, page->limit, bytes);
  if (!pieces) co_return std::unexpected(pieces.error());
  *turn = control::Turns::Turn();  // the rest goes as fast as the client reads
  const json::object body{{"execution", run_json(**run)}, {"logs", *std::move(pieces)}};
  co_return co_await answer(call, body);
}

}  // namespace caisson::sandboxer
