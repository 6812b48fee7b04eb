// The record against somebody who can write to its file. tests/security/p45_audit_test.cc holds the
// promise itself; here are the corners.
#include <gtest/gtest.h>

#include <algorithm>

#include "store/forger_test.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

class VerifyTest : public testing::Test {
 protected:
  // Twelve rows, and an anchor after the fourth, the eighth and the last.
  void SetUp() override {
    for (int first : {1, 5, 9}) {
      auto store = Store::open({.path = path(), .anchor_path = anchors()});
      ASSERT_TRUE(store) << store.error().message;
      write_events(**store, 4, first);
    }
    ASSERT_TRUE(verify().intact) << verify().reason;
  }
  [[nodiscard]] std::string path() const { return dir_.path("caisson.db"); }
  [[nodiscard]] std::string anchors() const { return dir_.path("anchors"); }
  [[nodiscard]] Verdict verify() const {
    const auto verdict = verify_file(path(), anchors());
    EXPECT_TRUE(verdict) << verdict.error().message;
    return verdict ? *verdict : Verdict();
  }
  void expect_bad(std::int64_t row, const std::string& words) const {
    const Verdict verdict = verify();
    EXPECT_FALSE(verdict.intact);
    EXPECT_EQ(verdict.bad_row, row) << verdict.reason;
    EXPECT_NE(verdict.reason.find(words), std::string::npos) << verdict.reason;
  }

  sys::TempDir dir_;
};

TEST_F(VerifyTest, EveryColumnIsWatched) {
  Forger forger(path());
  forger.drop_triggers();
  for (const std::string& change :
       {"time = time + 1", "tenant = 'x'", "actor = 'x'", "action = 'x'", "sandbox = 'x'",
        "object = 'x'", "outcome = 1", "outcome = 256", "detail = ''", "request_id = 'x'",
        "previous = zeroblob(32)", "hash = zeroblob(32)", "hash = x'00'"}) {
    forger.must("SAVEPOINT clean");
    forger.must("CREATE TABLE kept AS SELECT * FROM audit WHERE sequence = 6");
    forger.must("UPDATE audit SET " + change + " WHERE sequence = 6");
    forger.must("RELEASE clean");
    expect_bad(6, "row 6 was changed");
    forger.must(
        "DELETE FROM audit WHERE sequence = 6; INSERT INTO audit SELECT * FROM kept; "
        "DROP TABLE kept");
    ASSERT_TRUE(verify().intact) << verify().reason;
  }
}

TEST_F(VerifyTest, RowsBelowOneAreSeen) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("UPDATE audit SET sequence = -5 WHERE sequence = 12");
  expect_bad(-5, "row -5 was inserted");
}

TEST_F(VerifyTest, ARemovedRowIsNamedThoughTheRestWasRenumbered) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("DELETE FROM audit WHERE sequence = 5");
  forger.renumber(6, -1);
  expect_bad(5, "row 5 is missing: what stands there was row 6");
}

TEST_F(VerifyTest, AnInsertedRowIsNamedThoughItIsWellChained) {
  Forger forger(path());
  forger.drop_triggers();
  forger.renumber(5, 2);
  forger.insert(5);
  forger.insert(6);
  expect_bad(5, "row 5 was inserted");
}

TEST_F(VerifyTest, ARowFromElsewhereDoesNotFollow) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("UPDATE audit SET previous = zeroblob(32) WHERE sequence = 6");
  ChainHasher hasher;
  const AuditRow row = Reader::open(path())
                           .value()
                           .audit({.tenant = {},
                                   .sandbox = {},
                                   .action = {},
                                   .outcome = {},
                                   .after = 5,
                                   .before = {},
                                   .limit = 1})
                           .value()[0];
  forger.must("UPDATE audit SET hash = x'" +
              to_hex(hasher.hash({}, row.sequence, row.time, row.event)) + "' WHERE sequence = 6");
  expect_bad(6, "does not follow");
}

TEST_F(VerifyTest, ARewrittenTailIsFoundAtTheNextAnchor) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("UPDATE audit SET actor = 'nobody' WHERE sequence = 6");
  forger.rechain(6);
  EXPECT_TRUE(verify_file(path(), "").value().intact) << "the chain alone cannot know";
  expect_bad(8, "rows 5 to 8");
}

TEST_F(VerifyTest, ARecordThatWasEmptiedIsFound) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("DELETE FROM audit");
  EXPECT_TRUE(verify_file(path(), "").value().intact);
  expect_bad(1, "counted 12 rows");
}

// The server goes on after its record was cut; the new rows must not cover it up.
TEST_F(VerifyTest, ACutStaysVisibleWhenTheRecordGrowsAgain) {
  {
    Forger forger(path());
    forger.drop_triggers();
    forger.must("DELETE FROM audit WHERE sequence > 10");
  }
  {
    auto store = Store::open({.path = path(), .anchor_path = anchors()}).value();
    write_events(*store, 5);
    EXPECT_FALSE(store->verify().value().intact);
  }
  expect_bad(12, "anchor");
}

TEST_F(VerifyTest, ADamagedFileIsAVerdict) {
  // A page in the middle of the table, overwritten.
  const std::string bytes = dir_.read("caisson.db");
  std::string broken = bytes;
  const std::size_t at = bytes.find("echo 6");
  ASSERT_NE(at, std::string::npos);
  broken.replace(at / 4096 * 4096, 16, std::string(16, '\xFF'));
  dir_.write("caisson.db", broken);
  const Verdict verdict = verify();
  EXPECT_FALSE(verdict.intact);
  EXPECT_TRUE(verdict.bad_row);
  EXPECT_NE(verdict.reason.find("damaged"), std::string::npos) << verdict.reason;
}

TEST_F(VerifyTest, ChangedAnchorsAreFound) {
  const std::string text = dir_.read("anchors");
  ASSERT_EQ(std::ranges::count(text, '\n'), 3);
  const std::size_t second = text.find('\n') + 1;
  const std::size_t third = text.find('\n', second) + 1;
  const auto with = [&](const std::string& other) {
    dir_.write("anchors", other);
    return verify();
  };
  std::string changed = text;
  changed[second] = '7';  // its count
  EXPECT_NE(with(changed).reason.find("line 2"), std::string::npos);
  EXPECT_FALSE(with(text.substr(second)).intact) << "the first line was removed";
  EXPECT_FALSE(with(text.substr(0, second) + text.substr(third)).intact) << "the second one";
  EXPECT_FALSE(with("nonsense\n" + text).intact);
  // A write that a crash cut short is no change.
  EXPECT_TRUE(with(text + "12 ab").intact);
  {
    auto store = Store::open({.path = path(), .anchor_path = anchors()}).value();
    write_events(*store, 1);
  }
  EXPECT_TRUE(verify().intact) << verify().reason;
  EXPECT_EQ(dir_.read("anchors").substr(0, text.size()), text);
}

// Lines that are cut off while the server runs: its next line does not follow the last one.
TEST_F(VerifyTest, AnchorsTakenFromARunningServerAreMissed) {
  auto store = Store::open({.path = path(), .anchor_path = anchors()}).value();
  const std::string text = dir_.read("anchors");
  std::filesystem::resize_file(anchors(), text.find('\n') + 1);
  write_events(*store, 1);
  store.reset();
  EXPECT_NE(verify().reason.find("line 2 of the anchors"), std::string::npos) << verify().reason;
}

TEST_F(VerifyTest, AnotherKeyVouchesForNothing) {
  dir_.write("caisson.db.anchor-key", std::string(64, 'a') + "\n");
  EXPECT_NE(verify().reason.find("line 1 of the anchors"), std::string::npos);
  dir_.write("caisson.db.anchor-key", "short\n");
  EXPECT_FALSE(verify_file(path(), anchors()));
  EXPECT_FALSE(Store::open({.path = path(), .anchor_path = anchors()}));
  std::filesystem::remove(dir_.path("caisson.db.anchor-key"));
  EXPECT_EQ(verify_file(path(), anchors()).error().code, Errc::NotFound);
  const auto opened = Store::open({.path = path(), .anchor_path = anchors()});
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("restore the key"), std::string::npos);
  EXPECT_FALSE(dir_.has("caisson.db.anchor-key")) << "a new key would hide the loss";
}

TEST_F(VerifyTest, AnchorsComeInTime) {
  auto store =
      Store::open({.path = path(), .anchor_path = anchors(), .anchor_every = seconds(1)}).value();
  write_events(*store, 1);
  const auto size = std::filesystem::file_size(anchors());
  const TimePoint deadline = Clock::now() + seconds(20);
  while (std::filesystem::file_size(anchors()) == size && Clock::now() < deadline)
    ASSERT_TRUE(store->flush());  // waits for the writer, and so for its timer
  EXPECT_GT(std::filesystem::file_size(anchors()), size);
  EXPECT_TRUE(store->verify().value().intact);
}

TEST_F(VerifyTest, AFileIsReadWhileAServerWrites) {
  auto store = Store::open({.path = path(), .anchor_path = anchors()}).value();
  write_events(*store, 3);
  EXPECT_EQ(verify().rows, 15);
  EXPECT_EQ(Reader::open(path()).value().audit({}).value().size(), 15U);
  EXPECT_TRUE(Reader::open(path()).value().tokens().value().empty());
  EXPECT_TRUE(Reader::open(path()).value().living().value().empty());
}

// Longer than a page of the walk.
TEST_F(VerifyTest, ALongRecord) {
  {
    auto store = Store::open({.path = path(), .anchor_path = anchors()}).value();
    Store::Batch batch;
    for (int number = 0; number < 12'000; ++number) batch.audit.push_back(sample_event(number));
    ASSERT_TRUE(write_and_wait(*store, std::move(batch)));
  }
  EXPECT_EQ(verify().rows, 12'012);
  EXPECT_TRUE(verify().intact);
  Forger forger(path());
  forger.drop_triggers();
  forger.must("DELETE FROM audit WHERE sequence = 11111");
  expect_bad(11'111, "row 11111 is missing");
}

}  // namespace
}  // namespace caisson::store
