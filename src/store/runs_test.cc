// What was run in sandboxes: written, read by pages, cut to size, forgotten.
#include <gtest/gtest.h>

#include "store/forger_test.h"
#include "store/run_ledger.h"
#include "sys/temp_dir_test.h"

namespace caisson::store {
namespace {

RunRecord run(std::string id, std::string sandbox, WallTime started) {
  return {.id = std::move(id),
          .sandbox = std::move(sandbox),
          .command = "true",
          .exit_code = std::nullopt,
          .started = started};
}

RunPiece piece(std::string of, std::string content) {
  RunPiece made;
  made.run = std::move(of);
  made.content = std::move(content);
  made.time = 7;
  return made;
}

class RunsTest : public testing::Test {
 protected:
  [[nodiscard]] StoreOptions options() const {
    return {.path = dir_.path("caisson.db"), .anchor_path = dir_.path("anchors")};
  }
  void SetUp() override { open(options()); }
  void open(const StoreOptions& with) {
    store_.reset();
    auto opened = Store::open(with);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  Result<void> write(Store::Batch batch) {
    std::promise<Result<void>> promise;
    store_->write(std::move(batch), [&](Result<void> result) { promise.set_value(result); });
    return promise.get_future().get();
  }
  Errc refused(Store::Batch batch, const std::string& field) {
    const auto written = write(std::move(batch));
    EXPECT_FALSE(written);
    if (written) return Errc::Internal;
    EXPECT_EQ(written.error().field, field);
    return written.error().code;
  }
  std::vector<std::string> ids(const RunQuery& query) {
    std::vector<std::string> out;
    for (const RunRecord& one : store_->runs(query).value()) out.push_back(one.id);
    return out;
  }
  std::vector<RunPiece> pieces(const std::string& of, std::int64_t after = 0,
                               std::size_t limit = kPageRowsMax) {
    return store_->pieces({.run = of, .after = after, .limit = limit}).value();
  }
  std::string said(const std::string& of) {
    std::string text;
    for (const RunPiece& one : pieces(of)) text += one.content;
    return text;
  }

  sys::TempDir dir_;
  std::unique_ptr<Store> store_;
};

using Texts = std::vector<std::string>;

TEST_F(RunsTest, WhatIsTooLongIsRefusedByName) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1)};
  batch.runs[0].command.assign(kRunCommandBytesMax + 1, 'x');
  EXPECT_EQ(refused(batch, "command"), Errc::TooLarge);
  batch.runs[0].command.resize(kRunCommandBytesMax);
  batch.pieces = {piece("a", std::string(kRunPieceBytesMax + 1, 'x'))};
  EXPECT_EQ(refused(batch, "content"), Errc::TooLarge);
  batch.pieces[0].content.resize(kRunPieceBytesMax);
  batch.trims = {{.run = std::string(kNameBytesMax + 1, 'x'), .keep_bytes = 1}};
  EXPECT_EQ(refused(batch, "run"), Errc::TooLarge);
  EXPECT_TRUE(ids({.sandbox = "box"}).empty());
  batch.trims.clear();
  EXPECT_TRUE(write(batch));
  EXPECT_EQ(said("a").size(), kRunPieceBytesMax);
}

TEST_F(RunsTest, WhatWaitsIsBoundedByItsBytes) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1)};
  for (std::size_t at = 0; at <= kQueueBytesMax / kRunPieceBytesMax; ++at)
    batch.pieces.push_back(piece("a", std::string(kRunPieceBytesMax, 'x')));
  const auto written = write(std::move(batch));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::Exhausted);
}

TEST_F(RunsTest, ARunIsReplacedAndOutlivesTheServer) {
  Store::Batch batch;
  batch.runs = {run("b", "box", 5), run("a", "box", 5), run("c", "box", 3), run("d", "other", 1)};
  ASSERT_TRUE(write(batch));
  Store::Batch end;
  end.runs = {run("b", "box", 5)};
  end.runs[0].exit_code = -9;
  ASSERT_TRUE(write(end));
  open(options());
  EXPECT_EQ(ids({.sandbox = "box"}), (Texts{"c", "a", "b"}));
  EXPECT_EQ(ids({.sandbox = "box", .newest_first = true}), (Texts{"b", "a", "c"}));
  EXPECT_EQ(ids({.sandbox = "box", .newest_first = true, .limit = 1}), Texts{"b"});
  EXPECT_TRUE(ids({.sandbox = "none"}).empty());
  const auto found = store_->run("b").value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->exit_code, -9);
  EXPECT_EQ(found->command, "true");
  EXPECT_FALSE(store_->run("a").value()->exit_code);
  EXPECT_FALSE(store_->run("none").value());
}

TEST_F(RunsTest, PiecesComeInTheirOrderAndByPages) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1)};
  for (int at = 0; at < 5; ++at) batch.pieces.push_back(piece("a", std::to_string(at)));
  batch.pieces[1].stream = 2;
  batch.pieces[1].offset = 77;
  batch.pieces.push_back(piece("a", std::string("\0\xC3\xA9", 3)));
  ASSERT_TRUE(write(batch));
  EXPECT_EQ(said("a"), std::string("01234\0\xC3\xA9", 8));
  const auto first = pieces("a", 0, 2);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[1].stream, 2);
  EXPECT_EQ(first[1].offset, 77);
  EXPECT_EQ(first[1].time, 7);
  const auto rest = pieces("a", first[1].id);
  ASSERT_EQ(rest.size(), 4U);
  EXPECT_EQ(rest[0].content, "2");
  EXPECT_TRUE(pieces("a", rest.back().id).empty());
  EXPECT_TRUE(pieces("none").empty());
}

TEST_F(RunsTest, APageHasItsLimitWhateverIsAsked) {
  Store::Batch batch;
  for (std::size_t at = 0; at <= kPageRowsMax; ++at) {
    batch.runs.push_back(run("r" + std::to_string(at), "box", 1));
    batch.pieces.push_back(piece("r0", "x"));
  }
  ASSERT_TRUE(write(batch));
  EXPECT_EQ(ids({.sandbox = "box", .limit = kPageRowsMax + 1}).size(), kPageRowsMax);
  EXPECT_EQ(pieces("r0", 0, kPageRowsMax + 1).size(), kPageRowsMax);
}

TEST_F(RunsTest, APageOfLargePiecesIsAShortOne) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1)};
  constexpr std::size_t kFit = kPiecePageBytesMax / kRunPieceBytesMax;
  for (std::size_t at = 0; at < kFit + 3; ++at)
    batch.pieces.push_back(piece("a", std::string(kRunPieceBytesMax, 'x')));
  ASSERT_TRUE(write(batch));
  const auto first = pieces("a");
  ASSERT_EQ(first.size(), kFit);
  EXPECT_EQ(pieces("a", first.back().id).size(), 3U);
}

TEST_F(RunsTest, APageEndsBehindTheBytesThatWereAskedFor) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1)};
  for (int i = 0; i < 4; ++i) batch.pieces.push_back(piece("a", "12345"));
  ASSERT_TRUE(write(std::move(batch)));
  EXPECT_EQ(store_->pieces({.run = "a", .bytes = 6})->size(), 2U);
  EXPECT_EQ(store_->pieces({.run = "a", .bytes = 0})->size(), 1U) << "never none";
}

TEST_F(RunsTest, ATrimKeepsTheNewest) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1), run("b", "box", 1)};
  batch.pieces = {piece("a", "1111"), piece("a", "22"), piece("b", "bbbb"), piece("a", "333")};
  batch.trims = {{.run = "a", .keep_bytes = 9}};
  ASSERT_TRUE(write(batch));
  EXPECT_EQ(said("a"), "111122333");
  const auto trim = [this](std::int64_t keep) {
    Store::Batch more;
    more.trims = {{.run = "a", .keep_bytes = keep}};
    return write(more).has_value();
  };
  ASSERT_TRUE(trim(8));
  EXPECT_EQ(said("a"), "22333");
  // A newer piece that fits alone does not stand behind a gap.
  ASSERT_TRUE(trim(4));
  EXPECT_EQ(said("a"), "333");
  ASSERT_TRUE(trim(0));
  EXPECT_EQ(said("a"), "");
  EXPECT_EQ(said("b"), "bbbb");
  // Numbers are never given twice: a reader that waits behind the last one misses nothing.
  Store::Batch more;
  more.pieces = {piece("a", "4")};
  ASSERT_TRUE(write(more));
  EXPECT_EQ(pieces("a")[0].id, 5);
}

TEST_F(RunsTest, ATrimKeepsNotTooMany) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1)};
  for (std::size_t at = 0; at < kRunPiecesMax + 2; ++at) batch.pieces.push_back(piece("a", "x"));
  batch.trims = {{.run = "a", .keep_bytes = 1 << 30}};
  ASSERT_TRUE(write(batch));
  EXPECT_EQ(pieces("a", 0, 1).at(0).id, 3);
}

TEST_F(RunsTest, ASandboxIsForgottenWithAllThatWasRun) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1), run("b", "other", 1)};
  batch.pieces = {piece("a", "1"), piece("b", "2")};
  ASSERT_TRUE(write(batch));
  Store::Batch forget;
  forget.forgotten_runs = {"box"};
  ASSERT_TRUE(write(forget));
  EXPECT_FALSE(store_->run("a").value());
  EXPECT_EQ(said("a"), "");
  EXPECT_EQ(said("b"), "2");
  // What comes late has no place any more.
  Store::Batch late;
  late.pieces = {piece("a", "late")};
  ASSERT_TRUE(write(late));
  EXPECT_EQ(said("a"), "");
}

TEST_F(RunsTest, TheOldestRunsMakeRoom) {
  StoreOptions few = options();
  few.runs_max = 7;
  few.runs_of_sandbox_max = 5;
  open(few);
  Store::Batch batch;
  batch.runs = {run("x0", "small", 1), run("x1", "small", 2'000), run("x2", "small", 3'000)};
  batch.pieces = {piece("x0", "gone")};
  for (std::size_t at = 0; at < kRunsPruneEvery; ++at)
    batch.runs.push_back(run("r" + std::to_string(at), "large", static_cast<WallTime>(at) + 10));
  ASSERT_TRUE(write(batch));
  EXPECT_EQ(ids({.sandbox = "large"}), (Texts{"r1019", "r1020", "r1021", "r1022", "r1023"}));
  EXPECT_EQ(ids({.sandbox = "small"}), (Texts{"x1", "x2"}));
  EXPECT_EQ(said("x0"), "");
}

TEST_F(RunsTest, TheOldestOutputMakesRoom) {
  StoreOptions little = options();
  little.run_output_bytes_max = 2LL * static_cast<std::int64_t>(kRunPieceBytesMax);
  open(little);
  const auto write_some = [this](const std::string& id, char letter) {
    Store::Batch batch;
    batch.runs = {run(id, "box", 1)};
    for (std::size_t at = 0; at < kRunsPruneBytes / kRunPieceBytesMax; ++at) {
      batch.pieces.push_back(piece(id, std::string(1000, letter)));
      batch.pieces.push_back(piece(id, std::string(kRunPieceBytesMax, letter)));
    }
    return write(batch).has_value();
  };
  ASSERT_TRUE(write_some("old", 'o'));
  ASSERT_TRUE(write_some("new", 'n'));
  EXPECT_EQ(said("old"), "");
  EXPECT_LE(said("new").size(), 2 * kRunPieceBytesMax);
  EXPECT_EQ(ids({.sandbox = "box"}).size(), 2U) << "the runs themselves are small";
  // What is written later finds its run.
  Store::Batch more;
  more.pieces = {piece("old", "more")};
  ASSERT_TRUE(write(more));
  EXPECT_EQ(said("old"), "more");
}

TEST_F(RunsTest, LongCommandsMakeRoomToo) {
  StoreOptions little = options();
  little.run_command_bytes_max = 3 << 19;  // 95 of these
  open(little);
  Store::Batch batch;
  for (std::size_t at = 0; at < kRunsPruneEvery; ++at) {
    batch.runs.push_back(run("r" + std::to_string(at), "box", static_cast<WallTime>(at)));
    batch.runs.back().command.assign(16384, 'x');
  }
  ASSERT_TRUE(write(batch));
  const auto left = ids({.sandbox = "box", .limit = kPageRowsMax});
  EXPECT_LE(left.size(), 95U);
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.back(), "r1023");
}

TEST_F(RunsTest, TheSizeIsWhatIsThere) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1), run("b", "other", 1)};
  batch.pieces = {piece("a", "1234"), piece("b", "12"), piece("b", "\xC3\xA9")};
  batch.trims = {{.run = "b", .keep_bytes = 2}};
  ASSERT_TRUE(write(batch));
  const auto size = [this](const char* what) {
    auto database = Database::open(options().path, OpenMode::ReadOnly);
    return database->integer(std::string("SELECT ") + what + " FROM history_size").value_or(-1);
  };
  EXPECT_EQ(size("output"), 64 + 4 + 64 + 2);
  EXPECT_EQ(size("commands"), 64 + 4 + 64 + 4);
  batch.runs[0].command = "longer";
  Store::Batch change;
  change.runs = {batch.runs[0]};
  change.forgotten_runs = {"other"};
  ASSERT_TRUE(write(change));
  EXPECT_EQ(size("output"), 64 + 4);
  EXPECT_EQ(size("commands"), 64 + 6);
}

TEST_F(RunsTest, ABatchIsAllOrNothing) {
  Store::Batch batch;
  batch.runs = {run("a", "box", 1)};
  ASSERT_TRUE(write(batch));
  Forger(options().path)
      .must("CREATE TRIGGER no BEFORE DELETE ON run_pieces BEGIN SELECT RAISE(ABORT, 'no'); END");
  Store::Batch bad;
  bad.audit.resize(1);
  bad.pieces = {piece("a", "1")};
  bad.trims = {{.run = "a", .keep_bytes = 0}};
  EXPECT_FALSE(write(bad));
  EXPECT_EQ(said("a"), "");
  EXPECT_TRUE(store_->audit({}).value().empty());
}

TEST_F(RunsTest, ADatabaseOfTheSecondVersionIsTakenOver) {
  Store::Batch batch;
  batch.audit.resize(1);
  batch.files = {{{FileKind::Volume, "red", "data"}, 5, "{}"}};
  ASSERT_TRUE(write(batch));
  store_.reset();
  Forger(options().path)
      .must(
          "DROP TABLE persons; DROP TABLE listings; DROP TABLE runs; DROP TABLE run_pieces; DROP "
          "TABLE history_size;"
          "PRAGMA user_version = 2;");
  auto looked = Reader::open(options().path);
  ASSERT_TRUE(looked) << looked.error().message;
  EXPECT_TRUE(looked->files(FileKind::Person)->empty());
  EXPECT_TRUE(looked->files(FileKind::Listing)->empty());
  EXPECT_EQ(looked->files(FileKind::Volume)->size(), 1U);
  EXPECT_TRUE(looked->runs({.sandbox = "box"})->empty());
  EXPECT_FALSE(looked->run("a").value());
  EXPECT_TRUE(looked->pieces({.run = "a"})->empty());
  open(options());
  Store::Batch after;
  after.runs = {run("a", "box", 1)};
  after.pieces = {piece("a", "1")};
  after.files = {{{FileKind::Person, "red", "red"}, 5, "{}"}};
  ASSERT_TRUE(write(after));
  open(options());
  EXPECT_EQ(said("a"), "1");
  EXPECT_EQ(*store_->files(FileKind::Person), after.files);
  EXPECT_EQ(store_->files(FileKind::Volume)->size(), 1U);
  EXPECT_TRUE(store_->verify().value().intact);
}

}  // namespace
}  // namespace caisson::store
