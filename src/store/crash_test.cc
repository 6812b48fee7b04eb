// Power off, and no room left: what was acknowledged is there, and nothing is half there.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "store/forger_test.h"
#include "sys/file.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

SandboxRecord beside(int number) {
  SandboxRecord record;
  record.id = "sandbox-" + std::to_string(number);
  record.spec = "{}";
  return record;
}

// Writes batches of one row and one record, and says each number once it is durable.
[[noreturn]] void write_for_ever(const std::string& path, const std::string& anchors, int report) {
  auto opened = Store::open({.path = path, .anchor_path = anchors, .anchor_every = seconds(1)});
  if (!opened) ::_exit(1);
  Store& store = **opened;
  for (int number = 1;; ++number) {
    Store::Batch batch;
    batch.audit.push_back(sample_event(number));
    batch.sandboxes.push_back(beside(number));
    std::promise<void> taken;
    const bool paced = number % 50 == 0;  // groups of many, but no overflowing queue
    store.write(std::move(batch), [report, number, paced, &taken](const Result<void>& result) {
      if (!result || ::write(report, &number, sizeof(number)) != sizeof(number)) ::_exit(2);
      if (paced) taken.set_value();
    });
    if (paced) taken.get_future().wait();
  }
}

TEST(Crash, WhatWasAcknowledgedSurvivesSigkill) {
  const sys::TempDir dir;
  const std::string path = dir.path("caisson.db");
  const std::string anchors = dir.path("anchors");
  std::int64_t rows = 0;
  for (int round = 0; round < 3; ++round) {
    sys::Pipe pipe = sys::make_pipe().value();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_for_ever(path, anchors, pipe.write.get());
    pipe.write.reset();
    std::set<int> acknowledged;
    int number = 0;
    bool killed = false;
    while (::read(pipe.read.get(), &number, sizeof(number)) == sizeof(number)) {
      acknowledged.insert(number);
      if (acknowledged.size() < 200 || killed) continue;
      killed = true;
      ASSERT_EQ(::kill(child, SIGKILL), 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);

    auto opened = Store::open({.path = path, .anchor_path = anchors});
    ASSERT_TRUE(opened) << opened.error().message;
    const Verdict verdict = (*opened)->verify().value();
    EXPECT_TRUE(verdict.intact) << verdict.reason;
    EXPECT_GE(verdict.rows, rows + static_cast<std::int64_t>(acknowledged.size()));
    AuditQuery query;
    query.after = rows;
    query.limit = kPageRowsMax;
    int expected = 1;
    for (const AuditRow& row : (*opened)->audit(query).value()) {
      EXPECT_EQ(row.event, sample_event(expected));
      EXPECT_TRUE((*opened)->sandbox("sandbox-" + std::to_string(expected)).value());
      ++expected;
    }
    EXPECT_GT(expected, *acknowledged.rbegin());
    rows = verdict.rows;
  }
}

// Runs in a child with mounts of its own. The tmpfs goes with it.
void fill_and_recover(const std::string& folder) {
  const std::string path = folder + "/caisson.db";
  const std::string ballast = folder + "/ballast";
  auto opened = Store::open({.path = path, .anchor_path = folder + "/anchors", .reserve_bytes = 0});
  ASSERT_TRUE(opened) << opened.error().message;
  Store& store = **opened;
  std::ofstream(ballast) << std::string(1U << 20U, 'x');
  int written = 0;
  Result<void> last;
  for (; last && written < 10'000; ++written) {
    Store::Batch batch;
    batch.audit = {sample_event(written), sample_event(written)};
    batch.audit[0].detail.assign(kDetailBytesMax, 'x');
    batch.sandboxes.push_back(beside(written));
    last = write_and_wait(store, std::move(batch));
  }
  ASSERT_FALSE(last) << "the disk never filled";
  EXPECT_EQ(last.error().code, Errc::StoreFull) << last.error().message;
  const int good = written - 1;
  // Nothing of the last one is there; everything before is, and can be read.
  Verdict verdict = store.verify().value();
  EXPECT_TRUE(verdict.intact) << verdict.reason;
  EXPECT_EQ(verdict.rows, 2 * good);
  EXPECT_FALSE(store.sandbox("sandbox-" + std::to_string(good)).value());
  EXPECT_TRUE(store.sandbox("sandbox-" + std::to_string(good - 1)).value());
  // Still full: still refused, however often.
  for (int again = 0; again < 5; ++again) {
    Store::Batch batch;
    batch.audit.push_back(sample_event(again));
    batch.audit[0].detail.assign(kDetailBytesMax, 'x');
    const auto refused = write_and_wait(store, std::move(batch));
    if (!refused) EXPECT_EQ(refused.error().code, Errc::StoreFull);
  }
  const std::int64_t before = store.verify().value().rows;
  ASSERT_EQ(::unlink(ballast.c_str()), 0);
  write_events(store, 10);
  verdict = store.verify().value();
  EXPECT_TRUE(verdict.intact) << verdict.reason;
  EXPECT_EQ(verdict.rows, before + 10);
  opened->reset();
  const auto after = verify_file(path, folder + "/anchors");
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_TRUE(after->intact) << after->reason;
}

TEST(Crash, AFullDiskRefusesAndRecovers) {
  if (::geteuid() != 0) GTEST_SKIP() << "a small file system of its own needs root";
  const sys::TempDir dir;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool mounted = ::unshare(CLONE_NEWNS) == 0 &&
                         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=4m") == 0;
    if (!mounted) ::_exit(77);
    fill_and_recover(dir.path());
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no mount namespace of its own here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace caisson::store
