#include "cli/client_pull_board.h"

#include <gtest/gtest.h>

#include "cli/client_text.h"

namespace caisson::cli {
namespace {

const std::string kOne = "sha256:" + std::string(64, 'a');
const std::string kTwo = "sha256:" + std::string(64, 'b');

TEST(PullBoard, ALineForEachNewThing) {
  PullBoard board;
  EXPECT_EQ(board.take({"resolve", "", 0, 0}), "resolve");
  EXPECT_EQ(board.take({"download", kOne, 0, 2048}), "aaaaaaaaaaaa download 2.0K");
  EXPECT_FALSE(board.take({"download", kOne, 1024, 2048}));
  EXPECT_EQ(board.take({"download", kTwo, 0, 0}), "bbbbbbbbbbbb download");
  EXPECT_EQ(board.take({"unpack", kOne, 0, 4096}), "aaaaaaaaaaaa unpack 4.0K");
}

TEST(PullBoard, ABarForEachLayerThatIsNotDone) {
  PullBoard board;
  (void)board.take({"resolve", "", 0, 0});
  EXPECT_EQ(board.lines(80, 10, 1).size(), 1U);
  (void)board.take({"download", kOne, 1024, 2048});
  (void)board.take({"download", kTwo, 5, 0});
  auto lines = board.lines(80, 10, 1);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "aaaaaaaaaaaa download  [##########----------]  50%  1.0K of 2.0K  1.0K/s");
  EXPECT_EQ(lines[1], "bbbbbbbbbbbb download  5B  5B/s");
  (void)board.take({"unpack", kOne, 9, 9});
  lines = board.lines(80, 10, 1);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1], "1 done");
}

TEST(PullBoard, FitsTheWindow) {
  PullBoard board;
  for (int i = 0; i < 9; ++i) (void)board.take({"download", "sha256:" + std::to_string(i), 1, 2});
  const auto lines = board.lines(20, 4, 1);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines.back(), "and 6 more");
  EXPECT_EQ(lines.front(), shown(lines.front(), 20));
}

// Whatever a registry or a server says.
TEST(PullBoard, HoldsSoManyLayersAndNoControlCharacter) {
  PullBoard board;
  for (std::size_t i = 0; i < kPullRowsMax + 10; ++i)
    (void)board.take({"download", "sha256:" + std::to_string(i), 1, 2});
  EXPECT_EQ(board.lines(80, 10'000, 1).size(), kPullRowsMax);
  EXPECT_FALSE(board.take({"download", "sha256:new", 1, 2}));
  PullBoard evil;
  const auto line = evil.take({"\x1b[2J", "sha256:\x1b]0;x", 1, 2});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace caisson::cli
