#include "store/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace caisson::store {
namespace {

Result<void> check_size(const char* field, const std::string& text, std::size_t max) {
  if (text.size() <= max) return {};
  return std::unexpected(Error{
      Errc::TooLarge,
      fmt::format("{}: {} bytes are too long for the record: at most {}", field, text.size(), max),
      0, field});
}

// At most `max` bytes, and no half of a character at the end.
void cut(std::string& text, std::size_t max) {
  if (text.size() <= max) return;
  std::size_t end = max;
  const auto continues = [&text](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  while (end > 0 && max - end < 3 && continues(end)) --end;
  text.resize(end);
}

Result<std::size_t> admit(AuditEvent& event) {
  cut(event.object, kObjectBytesMax);
  TRY(check_size("tenant", event.tenant, kNameBytesMax));
  TRY(check_size("actor", event.actor, kNameBytesMax));
  TRY(check_size("action", event.action, kNameBytesMax));
  TRY(check_size("sandbox", event.sandbox, kNameBytesMax));
  TRY(check_size("request_id", event.request_id, kNameBytesMax));
  TRY(check_size("detail", event.detail, kDetailBytesMax));
  return event.object.size() + event.detail.size();
}

Result<std::size_t> admit(const TokenRecord& record) {
  TRY(check_size("id", record.id, kNameBytesMax));
  TRY(check_size("sha256", record.sha256, kNameBytesMax));
  TRY(check_size("tenant", record.tenant, kNameBytesMax));
  TRY(check_size("label", record.label, kNameBytesMax));
  return record.label.size();
}

Result<std::size_t> admit(SandboxRecord& record) {
  cut(record.end_reason, kObjectBytesMax);
  TRY(check_size("id", record.id, kNameBytesMax));
  TRY(check_size("tenant", record.tenant, kNameBytesMax));
  TRY(check_size("token", record.token, kNameBytesMax));
  TRY(check_size("spec", record.spec, kSpecBytesMax));
  return record.end_reason.size() + record.spec.size();
}

Result<std::size_t> admit(const FileKey& key) {
  TRY(check_size("id", key.id, kFileIdBytesMax));
  TRY(check_size("tenant", key.tenant, kNameBytesMax));
  return sizeof(FileKey) + key.id.size();
}

Result<std::size_t> admit(const FileRecord& record) {
  const std::size_t key = TRY(admit(record.key));
  TRY(check_size("spec", record.spec, kSpecBytesMax));
  return key + record.spec.size();
}

Result<std::size_t> admit(const RunRecord& record) {
  TRY(check_size("id", record.id, kNameBytesMax));
  TRY(check_size("sandbox", record.sandbox, kNameBytesMax));
  TRY(check_size("command", record.command, kRunCommandBytesMax));
  return sizeof(RunRecord) + record.command.size();
}

Result<std::size_t> admit(const RunPiece& piece) {
  TRY(check_size("run", piece.run, kNameBytesMax));
  TRY(check_size("content", piece.content, kRunPieceBytesMax));
  return sizeof(RunPiece) + piece.content.size();
}

Result<std::size_t> admit(const RunTrim& trim) {
  TRY(check_size("run", trim.run, kNameBytesMax));
  return sizeof(RunTrim) + trim.run.size();
}

Result<std::size_t> admit_history(const Store::Batch& batch) {
  std::size_t bytes = 0;
  for (const RunRecord& record : batch.runs) {
    const std::size_t more = TRY(admit(record));
    bytes += more;
  }
  for (const RunPiece& piece : batch.pieces) {
    const std::size_t more = TRY(admit(piece));
    bytes += more;
  }
  for (const RunTrim& trim : batch.trims) {
    const std::size_t more = TRY(admit(trim));
    bytes += more;
  }
  return bytes + batch.forgotten_runs.size() * sizeof(std::string);
}

// How much memory a batch holds, more or less.
Result<std::size_t> admit(Store::Batch& batch) {
  std::size_t bytes = sizeof(Store::Batch);
  for (AuditEvent& event : batch.audit) {
    const std::size_t more = TRY(admit(event));
    bytes += sizeof(AuditEvent) + more;
  }
  for (SandboxRecord& record : batch.sandboxes) {
    const std::size_t more = TRY(admit(record));
    bytes += sizeof(SandboxRecord) + more;
  }
  for (const TokenRecord& record : batch.tokens) {
    const std::size_t more = TRY(admit(record));
    bytes += sizeof(TokenRecord) + more;
  }
  for (const FileRecord& record : batch.files) {
    const std::size_t more = TRY(admit(record));
    bytes += more;
  }
  for (const FileKey& key : batch.forgotten_files) {
    const std::size_t more = TRY(admit(key));
    bytes += more;
  }
  const std::size_t history = TRY(admit_history(batch));
  return bytes + history + batch.forgotten_tokens.size() * sizeof(std::string);
}

}  // namespace

Writer::Writer(std::unique_ptr<Ledger> ledger, std::optional<AnchorWriter> anchor,
               seconds anchor_every)
    : ledger_(std::move(ledger)),
      anchor_(std::move(anchor)),
      anchor_every_(std::max(anchor_every, kAnchorEveryMin)),
      anchor_due_(Clock::now() + anchor_every_),
      thread_([this] { run(); }) {}

Writer::~Writer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Writer::write(Store::Batch batch, Store::Done done) {
  Result<void> taken = enqueue(batch, done);
  if (taken) {
    wake_.notify_one();
    return;
  }
  failures_.fetch_add(1, std::memory_order_relaxed);
  done(std::move(taken));
}

// Takes both, or leaves both.
Result<void> Writer::enqueue(Store::Batch& batch, Store::Done& done) {
  const std::size_t bytes = TRY(admit(batch));
  const std::scoped_lock lock(mutex_);
  if (stopping_) return failure(Errc::Gone, "the store is closed");
  if (queue_.size() >= kQueueMax || queued_bytes_ + bytes > kQueueBytesMax) {
    return failure(Errc::Exhausted, fmt::format("{} writes wait for the disk already: try again "
                                                "later",
                                                queue_.size()));
  }
  queued_bytes_ += bytes;
  queue_.push_back(Job{std::move(batch), std::move(done), bytes});
  return {};
}

std::vector<Writer::Job> Writer::next_group() {
  std::vector<Job> group;
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return stopping_ || !queue_.empty(); };
  if (anchor_ && ledger_->head().sequence != anchored_) {
    wake_.wait_until(lock, anchor_due_, ready);
  } else {
    wake_.wait(lock, ready);
  }
  if (queue_.size() <= kGroupMax) {
    group.swap(queue_);
    queued_bytes_ = 0;
    return group;
  }
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(kGroupMax);
  group.assign(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  for (const Job& job : group) queued_bytes_ -= job.bytes;
  return group;
}

void Writer::run() {
  for (;;) {
    std::vector<Job> group = next_group();
    if (!group.empty()) {
      write_group(group);
      group.clear();
      ledger_->tidy();
    }
    if (anchor_ && Clock::now() >= anchor_due_) write_anchor();
    const std::scoped_lock lock(mutex_);
    if (stopping_ && queue_.empty()) break;
  }
  if (anchor_) write_anchor();
}

void Writer::write_group(std::vector<Job>& group) {
  std::vector<Ledger::Entry> entries(group.size());
  for (std::size_t at = 0; at < group.size(); ++at) entries[at].batch = &group[at].batch;
  ledger_->write(entries);
  std::uint64_t rows = 0;
  std::uint64_t failures = 0;
  std::uint64_t unwritten = 0;
  for (std::size_t at = 0; at < group.size(); ++at) {
    if (entries[at].result) {
      rows += group[at].batch.audit.size();
    } else {
      ++failures;
      unwritten += group[at].batch.audit.size();
    }
  }
  rows_.fetch_add(rows, std::memory_order_relaxed);
  failures_.fetch_add(failures, std::memory_order_relaxed);
  unwritten_.fetch_add(unwritten, std::memory_order_relaxed);
  if (failures < group.size()) commits_.fetch_add(1, std::memory_order_relaxed);
  for (std::size_t at = 0; at < group.size(); ++at) {
    // A waiter may end the moment it is told: nothing of its job is kept beyond the call.
    const Store::Done done = std::move(group[at].done);
    done(std::move(entries[at].result));
  }
}

void Writer::write_anchor() {
  anchor_due_ = Clock::now() + anchor_every_;
  if (anchor_->append(ledger_->head(), wall_now())) {
    anchored_ = ledger_->head().sequence;
  } else {
    failures_.fetch_add(1, std::memory_order_relaxed);  // tried again when the next one is due
  }
}

Store::Counters Writer::counters() const {
  const std::scoped_lock lock(mutex_);
  return {.rows = rows_.load(std::memory_order_relaxed),
          .commits = commits_.load(std::memory_order_relaxed),
          .failures = failures_.load(std::memory_order_relaxed),
          .waiting = queue_.size(),
          .unwritten = unwritten_.load(std::memory_order_relaxed)};
}

}  // namespace caisson::store
