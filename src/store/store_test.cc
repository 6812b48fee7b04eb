#include "store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>

#include "store/forger_test.h"
#include "store/writer.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

class StoreTest : public testing::Test {
 protected:
  [[nodiscard]] StoreOptions options() const {
    return {.path = dir_.path("caisson.db"), .anchor_path = dir_.path("anchors")};
  }
  void open() {
    auto opened = Store::open(options());
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  void SetUp() override { open(); }
  void reopen() {
    store_.reset();
    open();
  }
  [[nodiscard]] std::vector<AuditRow> rows(const AuditQuery& query = {}) {
    auto got = store_->audit(query);
    EXPECT_TRUE(got) << got.error().message;
    return got ? *got : std::vector<AuditRow>();
  }

  sys::TempDir dir_;
  std::unique_ptr<Store> store_;
};

SandboxRecord sandbox(const std::string& id) {
  return {.id = id,
          .tenant = "default",
          .token = "abcdefghijkl",
          .created = 5,
          .ended = std::nullopt,
          .end_reason = "",
          .spec = "{}"};
}

TokenRecord token(const std::string& id) {
  return {.id = id,
          .sha256 = to_hex(sha256(id)),
          .tenant = "default",
          .label = "laptop",
          .scopes = 5,
          .created = 7,
          .expires = 9,
          .revoked = std::nullopt,
          .last_used = std::nullopt,
          .max_sandboxes = 3};
}

TEST_F(StoreTest, ASecondServerIsRefused) {
  const auto second = Store::open(options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::Busy);
  reopen();
}

TEST_F(StoreTest, ADatabaseOfANewerVersionIsRefused) {
  store_.reset();
  Forger(options().path).must("PRAGMA user_version = 99");
  const auto opened = Store::open(options());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::Unsupported);
  EXPECT_NE(opened.error().message.find("99"), std::string::npos);
  EXPECT_EQ(Reader::open(options().path).error().code, Errc::Unsupported);
}

TEST_F(StoreTest, AFileThatIsNoDatabaseIsRefused) {
  dir_.write("other.db", std::string(8192, 'x'));
  EXPECT_FALSE(Store::open({.path = dir_.path("other.db"), .anchor_path = ""}));
  dir_.write("empty.db", "");
  EXPECT_EQ(Reader::open(dir_.path("empty.db")).error().code, Errc::NotFound);
  EXPECT_EQ(Reader::open(dir_.path("none.db")).error().code, Errc::NotFound);
  EXPECT_EQ(Store::open({.path = "", .anchor_path = ""}).error().field, "path");
}

TEST_F(StoreTest, NobodyElseMayReadTheFiles) {
  write_events(*store_, 1);
  store_->flush().value();
  for (const char* name :
       {"caisson.db", "caisson.db-wal", "caisson.db-shm", "anchors", "caisson.db.anchor-key"}) {
    struct stat facts{};
    ASSERT_EQ(::stat(dir_.path(name).c_str(), &facts), 0) << name;
    EXPECT_EQ(facts.st_mode & 0777U, 0600U) << name;
  }
}

TEST_F(StoreTest, TheTriggersRefuse) {
  write_events(*store_, 3);
  Forger forger(options().path);
  EXPECT_NE(forger.run("UPDATE audit SET actor = 'x' WHERE sequence = 2"), "");
  EXPECT_NE(forger.run("DELETE FROM audit WHERE sequence = 3"), "");
  EXPECT_NE(forger.run("REPLACE INTO audit SELECT * FROM audit WHERE sequence = 2"), "");
  EXPECT_NE(forger.run("INSERT INTO audit SELECT 9, time, tenant, actor, action, sandbox, object, "
                       "outcome, detail, request_id, previous, hash FROM audit WHERE sequence = 3"),
            "");
  EXPECT_TRUE(store_->verify().value().intact);
}

TEST_F(StoreTest, WhatIsTooLongIsRefusedByName) {
  Store::Batch batch;
  batch.audit.push_back(sample_event(1));
  batch.audit[0].detail.assign(kDetailBytesMax + 1, 'x');
  auto refused = write_and_wait(*store_, batch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::TooLarge);
  EXPECT_EQ(refused.error().field, "detail");
  batch.audit[0].detail.resize(kDetailBytesMax);
  EXPECT_TRUE(write_and_wait(*store_, batch));
  batch.audit[0].actor.assign(kNameBytesMax + 1, 'x');
  EXPECT_EQ(write_and_wait(*store_, batch).error().field, "actor");
  Store::Batch records;
  records.sandboxes.push_back(sandbox("one"));
  records.sandboxes[0].spec.assign(kSpecBytesMax + 1, 'x');
  EXPECT_EQ(write_and_wait(*store_, records).error().field, "spec");
  EXPECT_EQ(rows().size(), 1U);
}

// An object is cut, not refused: a guest chooses its length. No character is halved.
TEST_F(StoreTest, AnObjectIsCut) {
  Store::Batch batch;
  batch.audit.push_back(sample_event(1));
  batch.audit[0].object.assign(kObjectBytesMax - 1, 'x');
  batch.audit[0].object += "\xE2\x82\xAC tail";
  ASSERT_TRUE(write_and_wait(*store_, batch));
  EXPECT_EQ(rows()[0].event.object, std::string(kObjectBytesMax - 1, 'x'));
  EXPECT_TRUE(store_->verify().value().intact);
}

TEST_F(StoreTest, AnyBytesSurvive) {
  Store::Batch batch;
  batch.audit.push_back(sample_event(1));
  batch.audit[0].object = std::string("a\0b\xFF'\";--\n", 10);
  ASSERT_TRUE(write_and_wait(*store_, batch));
  EXPECT_EQ(rows()[0].event, batch.audit[0]);
  EXPECT_TRUE(store_->verify().value().intact);
}

TEST_F(StoreTest, RowsAreChainedAcrossAReopen) {
  write_events(*store_, 2);
  reopen();
  write_events(*store_, 2, 3);
  const auto all = rows();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].previous, std::string(64, '0'));
  for (std::size_t at = 0; at < all.size(); ++at) {
    EXPECT_EQ(all[at].sequence, static_cast<std::int64_t>(at) + 1);
    EXPECT_EQ(all[at].event, sample_event(static_cast<int>(at) + 1));
    if (at == 0) continue;
    EXPECT_EQ(all[at].previous, all[at - 1].hash);
    EXPECT_GE(all[at].time, all[at - 1].time);
  }
  const Verdict verdict = store_->verify().value();
  EXPECT_TRUE(verdict.intact) << verdict.reason;
  EXPECT_EQ(verdict.rows, 4);
  EXPECT_EQ(verdict.head, all[3].hash);
  EXPECT_FALSE(verdict.bad_row);
}

TEST_F(StoreTest, AnEmptyRecordIsIntact) {
  const Verdict verdict = store_->verify().value();
  EXPECT_TRUE(verdict.intact) << verdict.reason;
  EXPECT_EQ(verdict.rows, 0);
  EXPECT_EQ(verdict.head, std::string(64, '0'));
}

TEST_F(StoreTest, TimeNeverGoesBackwards) {
  write_events(*store_, 2);
  store_.reset();
  std::filesystem::remove(options().anchor_path);
  {
    Forger forger(options().path);  // as if the clock had been a day ahead
    forger.drop_triggers();
    forger.must("UPDATE audit SET time = time + 86400000000 WHERE sequence = 2");
    forger.rechain(2);
  }
  open();
  write_events(*store_, 1, 3);
  const auto all = rows();
  EXPECT_EQ(all[2].time, all[1].time);
  EXPECT_GT(all[2].time, wall_now());
  EXPECT_TRUE(store_->verify().value().intact);
}

TEST_F(StoreTest, Queries) {
  Store::Batch batch;
  for (int number = 1; number <= 12; ++number) batch.audit.push_back(sample_event(number));
  batch.audit[3].tenant = "other";
  batch.audit[4].action = "login";
  batch.audit[4].sandbox = "";
  batch.audit[5].action = "tools";
  batch.audit[6].outcome = Outcome::Denied;
  ASSERT_TRUE(write_and_wait(*store_, batch));
  const auto numbers = [this](const AuditQuery& query) {
    std::vector<std::int64_t> found;
    for (const AuditRow& row : rows(query)) found.push_back(row.sequence);
    return found;
  };
  using Numbers = std::vector<std::int64_t>;
  AuditQuery query;
  query.limit = 2;
  EXPECT_EQ(numbers(query), (Numbers{1, 2}));
  query.after = 10;
  EXPECT_EQ(numbers(query), (Numbers{11, 12}));
  query = {};
  query.before = 5;
  query.limit = 3;
  EXPECT_EQ(numbers(query), (Numbers{4, 3, 2}));
  query.after = 3;
  EXPECT_EQ(numbers(query), (Numbers{4}));
  query = {};
  query.tenant = "other";
  EXPECT_EQ(numbers(query), (Numbers{4}));
  query = {};
  query.sandbox = "sandbox-0";
  EXPECT_EQ(numbers(query), (Numbers{3, 6, 9, 12}));
  query.sandbox = "";
  EXPECT_EQ(numbers(query), (Numbers{5}));
  query = {};
  query.action = "login";
  EXPECT_EQ(numbers(query), (Numbers{5}));
  query.action = "tool.";
  EXPECT_EQ(numbers(query).size(), 10U);  // not "login", not "tools"
  query = {};
  query.outcome = Outcome::Denied;
  EXPECT_EQ(numbers(query), (Numbers{7}));
  query = {};
  query.limit = kPageRowsMax + 1;
  EXPECT_EQ(store_->audit(query).error().field, "limit");
  query.limit = kPageRowsMax;
  EXPECT_EQ(numbers(query).size(), 12U);
  query = {};
  query.tenant = "' OR 1=1 --";
  EXPECT_TRUE(numbers(query).empty());
}

TEST_F(StoreTest, RecordsOfTokens) {
  Store::Batch batch;
  batch.tokens = {token("one"), token("two")};
  ASSERT_TRUE(write_and_wait(*store_, batch));
  batch.tokens = {token("one")};
  batch.tokens[0].revoked = 8;
  batch.tokens[0].expires.reset();
  batch.forgotten_tokens = {"two", "never there"};
  ASSERT_TRUE(write_and_wait(*store_, batch));
  reopen();
  EXPECT_EQ(store_->tokens().value(), batch.tokens);
}

TEST_F(StoreTest, RecordsOfSandboxes) {
  Store::Batch batch;
  batch.sandboxes = {sandbox("one"), sandbox("two")};
  ASSERT_TRUE(write_and_wait(*store_, batch));
  SandboxRecord ended = sandbox("one");
  ended.state = RecordState::Ended;
  ended.ended = 11;
  ended.end_reason = "destroyed";
  ASSERT_TRUE(write_and_wait(
      *store_, {.audit = {}, .sandboxes = {ended}, .tokens = {}, .forgotten_tokens = {}}));
  reopen();
  EXPECT_EQ(store_->living().value(), std::vector<SandboxRecord>{sandbox("two")});
  EXPECT_EQ(store_->sandbox("one").value(), ended);
  EXPECT_EQ(store_->sandbox("three").value(), std::nullopt);
}

TEST_F(StoreTest, TheOldestEndedSandboxesAreForgotten) {
  store_.reset();
  StoreOptions few = options();
  few.ended_records_max = 3;
  store_ = Store::open(few).value();
  Store::Batch batch;
  batch.sandboxes.push_back(sandbox("living"));
  for (int number = 0; number < 1100; ++number) {
    batch.sandboxes.push_back(sandbox("old-" + std::to_string(number)));
    batch.sandboxes.back().state = RecordState::Ended;
    batch.sandboxes.back().ended = number;
  }
  ASSERT_TRUE(write_and_wait(*store_, batch));
  EXPECT_FALSE(store_->sandbox("old-1096").value());
  EXPECT_TRUE(store_->sandbox("old-1097").value());
  EXPECT_TRUE(store_->sandbox("living").value());
}

// All or nothing, for one batch beside others in the same transaction.
TEST_F(StoreTest, ABatchIsAtomicAndItsNeighboursStay) {
  store_.reset();
  Forger forger(options().path);
  forger.must(
      "CREATE TRIGGER poison BEFORE INSERT ON audit WHEN NEW.object = 'poison' "
      "BEGIN SELECT RAISE(ABORT, 'poisoned'); END");
  open();
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  store_->write({}, [opened](const Result<void>&) { opened.wait(); });  // the next three gather
  std::vector<std::promise<Result<void>>> promises(3);
  for (int number = 0; number < 3; ++number) {
    Store::Batch batch;
    batch.audit = {sample_event(number), sample_event(number)};
    batch.sandboxes = {sandbox("of-" + std::to_string(number))};
    if (number == 1) batch.audit[1].object = "poison";
    store_->write(std::move(batch), [&promises, number](Result<void> result) {
      promises[static_cast<std::size_t>(number)].set_value(std::move(result));
    });
  }
  gate.set_value();
  EXPECT_TRUE(promises[0].get_future().get());
  const auto failed = promises[1].get_future().get();
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("poisoned"), std::string::npos);
  EXPECT_TRUE(promises[2].get_future().get());
  EXPECT_EQ(rows().size(), 4U);
  EXPECT_TRUE(store_->sandbox("of-0").value());
  EXPECT_FALSE(store_->sandbox("of-1").value());
  EXPECT_TRUE(store_->sandbox("of-2").value());
  EXPECT_TRUE(store_->verify().value().intact);
  const auto counters = store_->counters();
  EXPECT_EQ(counters.rows, 4U);
  EXPECT_EQ(counters.failures, 1U);
}

TEST_F(StoreTest, AFullQueueRefusesAtOnce) {
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::promise<void> reached;
  store_->write({}, [&reached, opened](const Result<void>&) {
    reached.set_value();
    opened.wait();
  });
  reached.get_future().wait();  // the writer stands still
  std::atomic<int> done = 0;
  for (std::size_t number = 0; number < kQueueMax; ++number)
    store_->write({}, [&done](const Result<void>& result) { done += result.has_value() ? 1 : 0; });
  EXPECT_EQ(store_->counters().waiting, kQueueMax);
  const auto refused = write_and_wait(*store_, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Exhausted);
  gate.set_value();
  for (auto flushed = store_->flush(); !flushed; flushed = store_->flush())
    EXPECT_EQ(flushed.error().code, Errc::Exhausted);
  EXPECT_EQ(done, static_cast<int>(kQueueMax));
  EXPECT_EQ(store_->counters().waiting, 0U);
}

TEST_F(StoreTest, TheQueueIsBoundedInBytesToo) {
  std::promise<void> gate;
  auto opened = gate.get_future().share();
  std::promise<void> reached;
  store_->write({}, [&reached, opened](const Result<void>&) {
    reached.set_value();
    opened.wait();
  });
  reached.get_future().wait();
  std::atomic<int> refused = 0;
  for (std::size_t bytes = 0; bytes <= kQueueBytesMax; bytes += kSpecBytesMax) {
    Store::Batch batch;
    batch.sandboxes.push_back(sandbox("large"));
    batch.sandboxes[0].spec.assign(kSpecBytesMax, 'x');
    store_->write(std::move(batch), [&refused](const Result<void>& result) {
      if (!result && result.error().code == Errc::Exhausted) ++refused;
    });
  }
  EXPECT_GE(refused, 1);
  gate.set_value();
  EXPECT_TRUE(store_->flush());
}

TEST_F(StoreTest, ClosingWritesWhatWaits) {
  std::atomic<int> done = 0;
  for (int number = 1; number <= 500; ++number) {
    Store::Batch batch;
    batch.audit.push_back(sample_event(number));
    store_->write(std::move(batch),
                  [&done](const Result<void>& result) { done += result.has_value() ? 1 : 0; });
  }
  reopen();
  EXPECT_EQ(done, 500);
  EXPECT_EQ(store_->verify().value().rows, 500);
}

TEST_F(StoreTest, AnAnswerMayWriteAgain) {
  std::promise<Result<void>> second;
  store_->write({}, [&](const Result<void>&) {
    Store::Batch batch;
    batch.audit.push_back(sample_event(1));
    store_->write(std::move(batch),
                  [&](Result<void> result) { second.set_value(std::move(result)); });
  });
  EXPECT_TRUE(second.get_future().get());
  EXPECT_EQ(rows().size(), 1U);
}

TEST_F(StoreTest, WithoutFreeSpaceNothingIsTaken) {
  store_.reset();
  StoreOptions greedy = options();
  greedy.reserve_bytes = std::numeric_limits<std::int64_t>::max();
  store_ = Store::open(greedy).value();
  Store::Batch batch;
  batch.audit.push_back(sample_event(1));
  batch.sandboxes.push_back(sandbox("one"));
  const auto refused = write_and_wait(*store_, batch);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::StoreFull);
  EXPECT_TRUE(rows().empty());
  EXPECT_FALSE(store_->sandbox("one").value());
  reopen();
  EXPECT_TRUE(write_and_wait(*store_, batch));
}

TEST_F(StoreTest, ManyWritersAndReadersAtOnce) {
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  std::atomic<int> written = 0;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, &written] {
      for (int number = 0; number < kEach; ++number) {
        Store::Batch batch;
        batch.audit.push_back(sample_event(number));
        if (write_and_wait(*store_, std::move(batch))) ++written;
        if (number % 10 == 0) (void)store_->audit({});
      }
    });
  }
  const Verdict during = store_->verify().value();
  EXPECT_TRUE(during.intact) << during.reason;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written, kThreads * kEach);
  const Verdict after = store_->verify().value();
  EXPECT_TRUE(after.intact) << after.reason;
  EXPECT_EQ(after.rows, kThreads * kEach);
  const auto counters = store_->counters();
  EXPECT_EQ(counters.rows, static_cast<std::uint64_t>(kThreads * kEach));
  EXPECT_LT(counters.commits, counters.rows) << "waiters share a commit";
}

TEST(WallTime, AsText) {
  EXPECT_EQ(to_rfc3339(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(to_rfc3339(1'794'730'823'123'456), "2026-11-15T08:20:23.123456Z");
  EXPECT_EQ(to_rfc3339(-1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(to_rfc3339(std::numeric_limits<WallTime>::max()), "9999-12-31T23:59:59.999999Z");
}

// By hand: --gtest_also_run_disabled_tests --gtest_filter=*Throughput.
TEST_F(StoreTest, DISABLED_Throughput) {
  for (const int waiters : {1, 8, 64, 256}) {
    const TimePoint begin = Clock::now();
    const int rows = waiters == 1 ? 2000 : 60'000;
    std::atomic<int> left = rows;
    std::atomic<int> running = waiters;
    std::promise<void> finished;
    std::function<void()> next = [&] {
      if (left.fetch_sub(1) <= 0) {
        if (running.fetch_sub(1) == 1) finished.set_value();
        return;
      }
      Store::Batch batch;
      batch.audit.push_back(sample_event(7));
      store_->write(std::move(batch), [&](const Result<void>&) { next(); });
    };
    for (int waiter = 0; waiter < waiters; ++waiter) next();
    finished.get_future().wait();
    const auto took = duration_cast<microseconds>(Clock::now() - begin).count();
    std::printf("%4d waiters: %8.0f rows/s, %6.1f us each\n", waiters,
                rows * 1e6 / static_cast<double>(took), static_cast<double>(took) * waiters / rows);
  }
  const TimePoint begin = Clock::now();
  const auto verdict = store_->verify().value();
  const auto took = duration_cast<milliseconds>(Clock::now() - begin).count();
  std::printf("verify: %ld rows in %ld ms\n", static_cast<long>(verdict.rows),
              static_cast<long>(took));
  EXPECT_TRUE(verdict.intact) << verdict.reason;
}

}  // namespace
}  // namespace caisson::store
