// Images, snapshots and volumes; and the way from the first version of the database.
#include <gtest/gtest.h>

#include "store/forger_test.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

class FilesTest : public testing::Test {
 protected:
  [[nodiscard]] StoreOptions options() const {
    return {.path = dir_.path("caisson.db"), .anchor_path = dir_.path("anchors")};
  }
  void SetUp() override { open(); }
  void open() {
    store_.reset();
    auto opened = Store::open(options());
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  Result<void> write(Store::Batch batch) {
    std::promise<Result<void>> promise;
    store_->write(std::move(batch), [&](Result<void> result) { promise.set_value(result); });
    return promise.get_future().get();
  }
  std::vector<FileRecord> files(FileKind kind) {
    auto got = store_->files(kind);
    EXPECT_TRUE(got) << got.error().message;
    return got ? *got : std::vector<FileRecord>();
  }

  sys::TempDir dir_;
  std::unique_ptr<Store> store_;
};

FileRecord file(FileKind kind, std::string tenant, std::string id, std::string spec) {
  return {{kind, std::move(tenant), std::move(id)}, 5, std::move(spec)};
}

TEST_F(FilesTest, EachKindHasItsOwnNamesAndSoHasEachTenant) {
  Store::Batch batch;
  batch.files = {
      file(FileKind::Image, "red", "a", "1"),    file(FileKind::Image, "blue", "a", "2"),
      file(FileKind::Snapshot, "red", "a", "3"), file(FileKind::Volume, "red", "a", "4"),
      file(FileKind::Person, "red", "a", "5"),   file(FileKind::Listing, "red", "a", "6")};
  ASSERT_TRUE(write(batch));
  open();
  EXPECT_EQ(files(FileKind::Person), std::vector{batch.files[4]});
  EXPECT_EQ(files(FileKind::Listing), std::vector{batch.files[5]});
  EXPECT_EQ(files(FileKind::Image).size(), 2U);
  EXPECT_EQ(files(FileKind::Snapshot), std::vector{batch.files[2]});
  EXPECT_EQ(files(FileKind::Volume), std::vector{batch.files[3]});

  Store::Batch change;
  change.files = {file(FileKind::Image, "red", "a", "9")};
  change.forgotten_files = {batch.files[1].key, batch.files[3].key};
  ASSERT_TRUE(write(change));
  EXPECT_EQ(files(FileKind::Image), change.files);
  EXPECT_TRUE(files(FileKind::Volume).empty());
}

TEST_F(FilesTest, ABatchIsAllOrNothing) {
  Store::Batch batch;
  batch.files = {file(FileKind::Image, "red", "a", "1"),
                 file(FileKind::Image, "red", std::string(kFileIdBytesMax + 1, 'x'), "1")};
  EXPECT_EQ(write(batch).error().code, Errc::TooLarge);
  batch.files[1] = file(FileKind::Image, "red", "b", std::string(kSpecBytesMax + 1, 'x'));
  EXPECT_EQ(write(batch).error().code, Errc::TooLarge);
  EXPECT_TRUE(files(FileKind::Image).empty());
}

TEST_F(FilesTest, AStoppedSandboxIsNoEndedOne) {
  SandboxRecord one;
  one.id = "one";
  one.state = RecordState::Stopped;
  SandboxRecord two;
  two.id = "two";
  two.state = RecordState::Ended;
  Store::Batch batch;
  batch.sandboxes = {one, two};
  ASSERT_TRUE(write(batch));
  const auto living = store_->living();
  ASSERT_TRUE(living);
  EXPECT_EQ(*living, std::vector{one});
}

TEST_F(FilesTest, ADatabaseOfTheFirstVersionIsTakenOver) {
  SandboxRecord old;
  old.id = "old";
  old.tenant = "red";
  old.spec = "{}";
  Store::Batch batch;
  batch.sandboxes = {old};
  batch.audit.resize(1);
  ASSERT_TRUE(write(batch));
  store_.reset();
  // As version 1 had it.
  Forger(options().path)
      .must(
          "DROP TABLE images; DROP TABLE snapshots; DROP TABLE volumes;"
          "DROP TABLE persons; DROP TABLE listings; DROP TABLE runs; DROP TABLE run_pieces; DROP "
          "TABLE history_size;"
          "DROP INDEX sandboxes_living;"
          "CREATE INDEX sandboxes_living ON sandboxes (created) WHERE state = 0;"
          "PRAGMA user_version = 1;");
  auto looked = Reader::open(options().path);
  ASSERT_TRUE(looked) << looked.error().message;
  EXPECT_TRUE(looked->files(FileKind::Image)->empty());
  open();
  EXPECT_EQ(*store_->living(), std::vector{old});
  EXPECT_TRUE(files(FileKind::Snapshot).empty());
  Store::Batch after;
  after.files = {file(FileKind::Volume, "red", "data", "{}")};
  ASSERT_TRUE(write(after));
  open();
  EXPECT_EQ(files(FileKind::Volume), after.files);
  const auto verdict = store_->verify();
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->intact) << verdict->reason;
}

}  // namespace
}  // namespace caisson::store
