#include "doors/sandboxer/record.h"

#include "doors/sandboxer/words.h"
#include "doors/shared/text.h"

namespace caisson::sandboxer {

namespace {

store::RunRecord run_of(const Row& row, const RunHead& head) {
  store::RunRecord run;
  run.id = head.id;
  run.sandbox = row.id;
  run.command = doors::cut_utf8(head.command, kRecordCommandBytesMax);
  run.exit_code = head.exit_code;
  run.started = head.started;
  return run;
}

store::RunPiece piece_of(const std::string& run, bool error, std::string content,
                         store::WallTime now) {
  store::RunPiece piece;
  piece.run = run;
  piece.stream = error ? 2 : 1;
  piece.content = std::move(content);
  piece.time = now;
  return piece;
}

}  // namespace

awaitable<void> record_run(Call& call, const Row& row, RunHead head, std::string_view out,
                           std::string_view err) {
  std::vector<store::RunPiece> pieces;
  const store::WallTime now = call.services().now();
  for (const bool error : {false, true}) {
    const std::string_view text = doors::cut_utf8(error ? err : out, kRecordedBytesMax / 2);
    if (!text.empty()) pieces.push_back(piece_of(head.id, error, std::string(text), now));
  }
  co_await call.services().ledger->put(row.id, run_of(row, head), std::move(pieces));
}

RunRecorder::RunRecorder(ServicesPtr services, const Row& row, RunHead head)
    : services_(std::move(services)), run_(run_of(row, head)) {}

awaitable<void> RunRecorder::begin() { co_await services_->ledger->put(run_.sandbox, run_, {}); }

awaitable<void> RunRecorder::add(bool error, std::string_view bytes) {
  if (recorded_ >= kRecordedBytesMax) co_return;
  if (error != error_ && !text_.empty()) co_await flush(true, std::nullopt);
  error_ = error;
  bytes = bytes.substr(0, kRecordedBytesMax - recorded_);
  recorded_ += bytes.size();
  text_ += bytes;
  if (text_.size() >= kRecordPieceBytes || Clock::now() - flushed_ > kRecordEvery)
    co_await flush(false, std::nullopt);
}

// Half a character waits for the rest of it, unless there is none to come.
awaitable<void> RunRecorder::flush(bool last, std::optional<store::RunRecord> run) {
  const std::size_t held = last ? 0 : unfinished_bytes(text_);
  std::vector<store::RunPiece> pieces;
  std::string whole = text_.substr(0, text_.size() - held);
  text_.erase(0, whole.size());
  flushed_ = Clock::now();
  if (!whole.empty())
    pieces.push_back(piece_of(run_.id, error_, doors::lossy_utf8(whole), services_->now()));
  if (pieces.empty() && !run) co_return;
  co_await services_->ledger->put(run_.sandbox, std::move(run), std::move(pieces));
}

awaitable<void> RunRecorder::end(int exit_code) {
  run_.exit_code = exit_code;
  co_await flush(true, run_);
}

}  // namespace caisson::sandboxer
