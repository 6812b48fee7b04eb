// Somebody who can write to the database file and knows how the chain is made: what the tests of
// the audit defend against.
#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <future>
#include <string>
#include <vector>

#include "store/audit_chain.h"
#include "store/reader.h"
#include "store/store.h"

namespace caisson::store {

class Forger {
 public:
  explicit Forger(const std::string& path) : path_(path) {
    EXPECT_EQ(sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
    sqlite3_busy_timeout(handle_, 5000);
  }
  Forger(const Forger&) = delete;
  Forger& operator=(const Forger&) = delete;
  ~Forger() { sqlite3_close(handle_); }

  // The error, or "".
  std::string run(const std::string& sql) {
    char* message = nullptr;
    const int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, &message);
    const std::string text = message != nullptr ? message : "";
    sqlite3_free(message);
    return code == SQLITE_OK ? "" : text;
  }
  void must(const std::string& sql) { ASSERT_EQ(run(sql), "") << sql; }
  void drop_triggers() {
    must(
        "DROP TRIGGER audit_keeps_rows; DROP TRIGGER audit_loses_none;"
        "DROP TRIGGER audit_grows_at_its_end");
  }
  // Makes the hashes right again from row `from` on.
  void rechain(std::int64_t from) {
    ChainHasher hasher;
    Digest previous{};
    for (const AuditRow& row : rows()) {
      const bool forged = row.sequence >= from;
      const Digest hash = forged ? hasher.hash(previous, row.sequence, row.time, row.event)
                                 : digest_from_hex(row.hash).value();
      if (forged) {
        must("UPDATE audit SET previous = x'" + to_hex(previous) + "', hash = x'" + to_hex(hash) +
             "' WHERE sequence = " + std::to_string(row.sequence));
      }
      previous = hash;
    }
  }
  // A row of his own at that number, rightly chained to the one before it.
  void insert(std::int64_t sequence) {
    must("INSERT INTO audit SELECT " + std::to_string(sequence) +
         ", time, tenant, 'nobody', action, sandbox, object, outcome, detail, request_id, "
         "previous, hash FROM audit WHERE sequence = " +
         std::to_string(sequence - 1));
    ChainHasher hasher;
    for (const AuditRow& row : rows()) {
      if (row.sequence == sequence - 1) before_ = digest_from_hex(row.hash).value();
      if (row.sequence != sequence) continue;
      const Digest hash = hasher.hash(before_, row.sequence, row.time, row.event);
      must("UPDATE audit SET previous = x'" + to_hex(before_) + "', hash = x'" + to_hex(hash) +
           "' WHERE sequence = " + std::to_string(sequence));
    }
  }
  // Gives rows `from` and later a number that is greater (or smaller) by `by`.
  void renumber(std::int64_t from, std::int64_t by) {
    const std::string away = std::to_string(1'000'000);
    must("UPDATE audit SET sequence = sequence + " + away +
         " WHERE sequence >= " + std::to_string(from));
    must("UPDATE audit SET sequence = sequence - " + away + " + " + std::to_string(by) +
         " WHERE sequence >= " + away);
  }

 private:
  [[nodiscard]] std::vector<AuditRow> rows() const {
    AuditQuery query;
    query.limit = kPageRowsMax;
    return Reader::open(path_).value().audit(query).value();
  }

  std::string path_;
  sqlite3* handle_ = nullptr;
  Digest before_{};
};

inline Result<void> write_and_wait(Store& store, Store::Batch batch) {
  std::promise<Result<void>> promise;
  auto answer = promise.get_future();
  store.write(std::move(batch),
              [&promise](Result<void> result) { promise.set_value(std::move(result)); });
  return answer.get();
}

inline AuditEvent sample_event(int number) {
  AuditEvent event;
  event.tenant = "default";
  event.actor = "abcdefghijkl";
  event.action = "tool.shell_exec";
  event.sandbox = "sandbox-" + std::to_string(number % 3);
  event.object = "echo " + std::to_string(number);
  event.detail = R"({"exit_code":0})";
  event.request_id = "0123456789abcdef";
  return event;
}

// Each in a transaction of its own.
inline void write_events(Store& store, int count, int first = 1) {
  for (int number = first; number < first + count; ++number) {
    Store::Batch batch;
    batch.audit.push_back(sample_event(number));
    const Result<void> written = write_and_wait(store, std::move(batch));
    ASSERT_TRUE(written) << written.error().message;
  }
}

}  // namespace caisson::store
