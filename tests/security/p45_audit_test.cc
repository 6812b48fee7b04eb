// P45: the audit record cannot be altered unnoticed. The attacker can write to the database, knows
// how the chain is made and may recompute every hash. He cannot write to the anchors, or has not
// their key.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>

#include "store/forger_test.h"
#include "sys/file.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

class P45 : public testing::Test {
 protected:
  void SetUp() override {
    for (int first : {1, 11, 21}) {  // an anchor after each ten rows
      auto store = Store::open({.path = path(), .anchor_path = anchors()});
      ASSERT_TRUE(store) << store.error().message;
      write_events(**store, 10, first);
    }
    const Verdict verdict = verify();
    ASSERT_TRUE(verdict.intact) << verdict.reason;
    ASSERT_EQ(verdict.rows, 30);
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

TEST_F(P45, TheTableItselfRefuses) {
  Forger forger(path());
  EXPECT_NE(forger.run("UPDATE audit SET outcome = 0 WHERE sequence = 7"), "");
  EXPECT_NE(forger.run("DELETE FROM audit WHERE sequence = 7"), "");
  EXPECT_NE(forger.run("REPLACE INTO audit SELECT * FROM audit WHERE sequence = 7"), "");
  EXPECT_TRUE(verify().intact);
}

TEST_F(P45, AChangedRowIsNamed) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("UPDATE audit SET actor = 'somebody else' WHERE sequence = 17");
  expect_bad(17, "row 17 was changed");
}

TEST_F(P45, ARemovedRowIsNamed) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("DELETE FROM audit WHERE sequence = 18");
  expect_bad(18, "row 18 is missing");
}

TEST_F(P45, AnInsertedRowIsNamed) {
  Forger forger(path());
  forger.drop_triggers();
  forger.renumber(12, 1);
  forger.insert(12);
  expect_bad(12, "row 12 was inserted");
}

TEST_F(P45, ReorderedRowsAreNamed) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must(
      "UPDATE audit SET sequence = 1000 WHERE sequence = 14;"
      "UPDATE audit SET sequence = 14 WHERE sequence = 15;"
      "UPDATE audit SET sequence = 15 WHERE sequence = 1000");
  expect_bad(14, "row 14 was moved");
}

TEST_F(P45, ACutTailIsNamed) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("DELETE FROM audit WHERE sequence > 26");
  EXPECT_TRUE(verify_file(path(), "").value().intact) << "only the anchor can tell";
  expect_bad(27, "row 27 is missing");
}

TEST_F(P45, ARecordWrittenAnewIsFound) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("UPDATE audit SET actor = 'somebody else' WHERE sequence = 15");
  forger.rechain(1);
  EXPECT_TRUE(verify_file(path(), "").value().intact) << "only the anchor can tell";
  expect_bad(20, "rows 11 to 20");
}

TEST_F(P45, AForgedAnchorIsFound) {
  Forger forger(path());
  forger.drop_triggers();
  forger.must("DELETE FROM audit WHERE sequence > 25");
  // The last line is made to fit what is left, without the key.
  std::string text = dir_.read("anchors");
  const std::size_t last = text.rfind('\n', text.size() - 2) + 1;
  ASSERT_EQ(text.substr(last, 3), "30 ");
  text.replace(last, 2 + 1 + 64, "25 " + verify_file(path(), "").value().head);
  dir_.write("anchors", text);
  const Verdict verdict = verify();
  EXPECT_FALSE(verdict.intact);
  EXPECT_NE(verdict.reason.find("line 3 of the anchors"), std::string::npos) << verdict.reason;
}

// The row is durable before the action is acknowledged: what was said before SIGKILL is there.
TEST_F(P45, ACrashLosesNothingThatWasAcknowledged) {
  sys::Pipe pipe = sys::make_pipe().value();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto store = Store::open({.path = path(), .anchor_path = anchors()});
    for (int number = 31; store; ++number) {
      Store::Batch batch;
      batch.audit.push_back(sample_event(number));
      if (!write_and_wait(**store, std::move(batch))) break;
      if (::write(pipe.write.get(), &number, sizeof(number)) != sizeof(number)) break;
    }
    ::_exit(1);
  }
  pipe.write.reset();
  int acknowledged = 0;
  for (int number = 0; ::read(pipe.read.get(), &number, sizeof(number)) == sizeof(number);) {
    acknowledged = number;
    if (number == 100) ::kill(child, SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_GE(acknowledged, 100);
  const Verdict verdict = verify();
  EXPECT_TRUE(verdict.intact) << verdict.reason;
  EXPECT_GE(verdict.rows, acknowledged);
}

// A full disk stops actions, not the record.
TEST_F(P45, WithoutRoomForTheRowNothingIsAcknowledged) {
  auto store = Store::open({.path = path(),
                            .anchor_path = anchors(),
                            .reserve_bytes = std::numeric_limits<std::int64_t>::max()})
                   .value();
  Store::Batch batch;
  batch.audit.push_back(sample_event(31));
  const auto refused = write_and_wait(*store, std::move(batch));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::StoreFull);
  EXPECT_EQ(store->verify().value().rows, 30);
}

}  // namespace
}  // namespace caisson::store
