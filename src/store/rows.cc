#include "store/rows.h"

#include "store/digest.h"

namespace caisson::store {
namespace {

// Not an outcome: a number that nobody wrote must not be read as one that somebody did.
constexpr Outcome kNoOutcome = static_cast<Outcome>(0xFF);

Outcome outcome_of(std::int64_t number) noexcept {
  return number >= 0 && number <= static_cast<std::int64_t>(Outcome::Failed)
             ? static_cast<Outcome>(number)
             : kNoOutcome;
}

std::string hex_of(const std::string& bytes) {
  const auto digest = digest_from_bytes(bytes);
  return digest ? to_hex(*digest) : std::string("damaged");
}

}  // namespace

AuditRow row_of(const Statement& select) {
  AuditRow row;
  row.sequence = select.integer(0);
  row.time = select.integer(1);
  row.event.tenant = select.text(2);
  row.event.actor = select.text(3);
  row.event.action = select.text(4);
  row.event.sandbox = select.text(5);
  row.event.object = select.text(6);
  row.event.outcome = outcome_of(select.integer(7));
  row.event.detail = select.text(8);
  row.event.request_id = select.text(9);
  row.previous = hex_of(select.text(10));
  row.hash = hex_of(select.text(11));
  return row;
}

TokenRecord token_of(const Statement& select) {
  TokenRecord record;
  record.id = select.text(0);
  record.sha256 = select.text(1);
  record.tenant = select.text(2);
  record.label = select.text(3);
  record.scopes = static_cast<std::uint8_t>(select.integer(4) & 0xF);
  record.created = select.integer(5);
  record.expires = select.maybe_integer(6);
  record.revoked = select.maybe_integer(7);
  record.last_used = select.maybe_integer(8);
  record.max_sandboxes = select.integer(9);
  return record;
}

std::string_view table_of(FileKind kind) noexcept {
  switch (kind) {
    case FileKind::Image:
      return "images";
    case FileKind::Snapshot:
      return "snapshots";
    case FileKind::Volume:
      return "volumes";
    case FileKind::Person:
      return "persons";
    case FileKind::Listing:
      return "listings";
  }
  return "images";
}

FileRecord file_of(FileKind kind, const Statement& select) {
  FileRecord record;
  record.key = {kind, select.text(0), select.text(1)};
  record.created = select.integer(2);
  record.spec = select.text(3);
  return record;
}

RunRecord run_of(const Statement& select) {
  RunRecord record;
  record.id = select.text(0);
  record.sandbox = select.text(1);
  record.command = select.text(2);
  record.exit_code = select.maybe_integer(3);
  record.started = select.integer(4);
  return record;
}

RunPiece piece_of(const Statement& select) {
  RunPiece piece;
  piece.id = select.integer(0);
  piece.run = select.text(1);
  piece.stream = select.integer(2);
  piece.content = select.text(3);
  piece.time = select.integer(4);
  piece.offset = select.integer(5);
  return piece;
}

SandboxRecord sandbox_of(const Statement& select) {
  SandboxRecord record;
  record.id = select.text(0);
  record.tenant = select.text(1);
  record.token = select.text(2);
  const std::int64_t state = select.integer(3);
  record.state = state == 0   ? RecordState::Living
                 : state == 2 ? RecordState::Stopped
                              : RecordState::Ended;
  record.created = select.integer(4);
  record.ended = select.maybe_integer(5);
  record.end_reason = select.text(6);
  record.spec = select.text(7);
  return record;
}

}  // namespace caisson::store
