// How a chain is judged: row by row in the order of their numbers, each against the one before and
// against the anchors. The walk goes in pages, so that a long one does not keep the writer from
// emptying its log.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "store/reader.h"
#include "store/rows.h"

namespace caisson::store {
namespace {

constexpr std::int64_t kPageRows = 5000;
constexpr std::int64_t kShiftMax = 64;  // how far a renumbered row is looked for

class Walk {
 public:
  Walk(Database& database, const AnchorFile* file) : database_(database) {
    if (file == nullptr) return;
    anchors_ = file->anchors;
    bad_line_ = file->bad_line;
    std::ranges::sort(anchors_, {}, &Anchor::count);
  }

  Result<Verdict> run();

 private:
  [[nodiscard]] Result<bool> page(Statement& select);  // true: there may be more
  [[nodiscard]] Result<bool> judge(const AuditRow& row);
  [[nodiscard]] Result<bool> name_change(const AuditRow& row);
  [[nodiscard]] std::int64_t original_number(const AuditRow& row);
  [[nodiscard]] bool judge_anchors();
  void judge_end();
  bool bad(std::int64_t row, std::string reason) {
    verdict_.bad_row = row;
    verdict_.reason = std::move(reason);
    return false;
  }

  Database& database_;
  std::vector<Anchor> anchors_;  // by count
  std::size_t next_anchor_ = 0;
  std::int64_t anchored_ = 0;  // rows that an anchor vouches for
  std::int64_t bad_line_ = 0;
  ChainHasher hasher_;
  Digest previous_{};
  std::int64_t seen_ = 0;
  WallTime time_ = 0;
  Verdict verdict_;
};

Result<Verdict> Walk::run() {
  Statement select = TRY(database_.prepare(
      fmt::format("SELECT {} FROM audit WHERE sequence > ?1 ORDER BY sequence LIMIT {}",
                  kAuditColumns, kPageRows)));
  bool more = true;
  while (more) {
    auto next = page(select);
    select.reset();
    if (!next && next.error().code == Errc::Internal) {
      bad(seen_ + 1,
          fmt::format("the database is damaged at row {}: {}", seen_ + 1, next.error().message));
      break;
    }
    if (!next) return std::unexpected(next.error());
    more = *next;
  }
  if (!verdict_.bad_row) judge_end();
  verdict_.rows = seen_;
  verdict_.head = to_hex(previous_);
  verdict_.intact = verdict_.reason.empty();
  return verdict_;
}

Result<bool> Walk::page(Statement& select) {
  // A row with a number below 1, which is never given, comes first and is seen, too.
  select.bind(1, seen_ == 0 ? std::numeric_limits<std::int64_t>::min() : seen_);
  std::int64_t count = 0;
  while (TRY(select.step())) {
    const AuditRow row = row_of(select);
    const bool good = TRY(judge(row));
    if (!good) return false;
    ++count;
  }
  return count == kPageRows;
}

Result<bool> Walk::judge(const AuditRow& row) {
  const std::int64_t expected = seen_ + 1;
  if (row.sequence < expected)
    return bad(row.sequence, fmt::format("row {} was inserted: numbers begin at 1", row.sequence));
  if (row.sequence != expected) return bad(expected, fmt::format("row {} is missing", expected));
  const auto previous = digest_from_hex(row.previous);
  const auto hash = digest_from_hex(row.hash);
  const bool sound =
      previous && hash && hasher_.hash(*previous, row.sequence, row.time, row.event) == *hash;
  if (!sound) return name_change(row);
  if (*previous != previous_) {
    return bad(expected, fmt::format("row {} does not follow row {}: a row was inserted, removed "
                                     "or written anew",
                                     expected, seen_));
  }
  if (row.time < time_)
    return bad(expected, fmt::format("row {} is older than row {}", expected, seen_));
  seen_ = expected;
  previous_ = *hash;
  time_ = row.time;
  return judge_anchors();
}

// The number that a row had when it was written, when its hash still tells; 0 when it does not.
std::int64_t Walk::original_number(const AuditRow& row) {
  const auto previous = digest_from_hex(row.previous);
  const auto hash = digest_from_hex(row.hash);
  if (!previous || !hash) return 0;
  for (std::int64_t shift = 1; shift <= kShiftMax; ++shift) {
    for (const std::int64_t number : {row.sequence - shift, row.sequence + shift})
      if (hasher_.hash(*previous, number, row.time, row.event) == *hash) return number;
  }
  return 0;
}

// Always a bad row; this only finds the word for it.
Result<bool> Walk::name_change(const AuditRow& row) {
  // The row that was written after the last good one still says so, wherever it stands now.
  Statement successor = TRY(database_.prepare(
      "SELECT sequence FROM audit WHERE sequence > ?1 AND previous = ?2 LIMIT 1"));
  successor.bind(1, row.sequence).bind_bytes(2, as_bytes(previous_));
  const bool moved = TRY(successor.step());
  if (moved && row.previous != to_hex(previous_)) {
    return bad(row.sequence,
               fmt::format("row {} was moved or inserted: the row that belongs there is number {}",
                           row.sequence, successor.integer(0)));
  }
  const std::int64_t original = original_number(row);
  if (original > row.sequence) {
    return bad(row.sequence, fmt::format("row {} is missing: what stands there was row {}",
                                         row.sequence, original));
  }
  if (original > 0) {
    return bad(
        original,
        fmt::format("row {} was inserted: what is row {} now stood there when it was written",
                    original, row.sequence));
  }
  return bad(row.sequence, fmt::format("row {} was changed", row.sequence));
}

bool Walk::judge_anchors() {
  for (; next_anchor_ < anchors_.size() && anchors_[next_anchor_].count <= seen_; ++next_anchor_) {
    const Anchor& anchor = anchors_[next_anchor_];
    if (anchor.count < seen_) continue;  // an empty record's, or a number that is not one
    if (!equal_in_constant_time(anchor.hash, previous_)) {
      return bad(seen_, fmt::format("row {} is not the one that the anchor of {} vouches for: rows "
                                    "{} to {}, or some of them, were written anew",
                                    seen_, to_rfc3339(anchor.time), anchored_ + 1, seen_));
    }
    anchored_ = seen_;
  }
  return true;
}

void Walk::judge_end() {
  if (next_anchor_ < anchors_.size() && anchors_[next_anchor_].count > seen_) {
    const Anchor& anchor = anchors_.back();
    bad(seen_ + 1, fmt::format("row {} is missing: the anchor of {} counted {} rows", seen_ + 1,
                               to_rfc3339(anchor.time), anchor.count));
  } else if (bad_line_ != 0) {
    verdict_.reason = fmt::format(
        "line {} of the anchors was changed, or lines before it were removed", bad_line_);
  }
}

}  // namespace

Result<Verdict> Reader::verify(const AnchorFile* anchors) { return Walk(database_, anchors).run(); }

}  // namespace caisson::store
