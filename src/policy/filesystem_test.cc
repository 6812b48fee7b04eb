#include "policy/filesystem.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/lexical_path.h"

namespace caisson::policy {
namespace {

FilesystemConfig read_write(std::vector<std::string> paths) {
  return {FilesystemMode::ReadWrite, std::move(paths)};
}

TEST(FilesystemPolicy, ReadOnlyWritesNothingNotEvenTmp) {
  const FilesystemPolicy policy(FilesystemConfig{});
  EXPECT_TRUE(policy.can_read("/etc/hostname"));
  EXPECT_FALSE(policy.can_write("/tmp/x"));
  EXPECT_EQ(policy.deny_reason("/tmp/x", PathOp::Write),
            "write of \"/tmp/x\" denied: filesystem mode is read_only");
  EXPECT_FALSE(policy.deny_reason("/tmp/x", PathOp::Read));
}

TEST(FilesystemPolicy, ReadOnlyIgnoresWritablePaths) {
  const FilesystemPolicy policy({FilesystemMode::ReadOnly, {"/tmp"}});
  EXPECT_FALSE(policy.can_write("/tmp/x"));
}

TEST(FilesystemPolicy, NoneDoesNeither) {
  const FilesystemPolicy policy({FilesystemMode::None, {"/tmp"}});
  EXPECT_FALSE(policy.can_read("/etc/hostname"));
  EXPECT_FALSE(policy.can_write("/tmp/x"));
  EXPECT_EQ(policy.deny_reason("/a", PathOp::Read),
            "read of \"/a\" denied: filesystem mode is none");
}

TEST(FilesystemPolicy, WritesOnlyUnderTheListByWholeComponents) {
  const FilesystemPolicy policy(read_write({"/tmp/a"}));
  EXPECT_FALSE(policy.can_write("/tmp/ab"));
  EXPECT_FALSE(policy.can_write("/tmp"));
  EXPECT_FALSE(policy.can_write("/"));
  EXPECT_FALSE(policy.can_write("/tmp/a/../b"));
  EXPECT_FALSE(policy.can_write("/tmp/a/../../etc/passwd"));
  EXPECT_FALSE(policy.can_write(std::string_view("/tmp/a/x\0", 9)));
  EXPECT_FALSE(policy.can_write("tmp/a/x"));
  EXPECT_FALSE(policy.can_write(""));
  EXPECT_TRUE(policy.can_write("/tmp/a"));
  EXPECT_TRUE(policy.can_write("/tmp/a/"));
  EXPECT_TRUE(policy.can_write("//tmp/./a/b"));
  EXPECT_TRUE(policy.can_write("/../tmp/b/../a/x"));
  EXPECT_TRUE(policy.can_read("/etc/hostname"));
  EXPECT_EQ(policy.deny_reason("/tmp/a/../b", PathOp::Write),
            "write of \"/tmp/b\" denied: not under any of writable_paths");
}

TEST(FilesystemPolicy, AnEmptyListWritesEverywhereButAnInvalidOneNowhere) {
  EXPECT_TRUE(FilesystemPolicy(read_write({})).can_write("/anything"));
  EXPECT_TRUE(FilesystemPolicy(read_write({"/"})).can_write("/anything"));
  EXPECT_FALSE(FilesystemPolicy(read_write({"/a/../b"})).can_write("/b"));
  EXPECT_FALSE(FilesystemPolicy(read_write({"out"})).can_write("/out"));
}

TEST(FilesystemPolicy, RelativePathsBelongToTheWorkingFolder) {
  const FilesystemPolicy policy(read_write({"out", "."}), "/home/me/project");
  EXPECT_TRUE(policy.can_write("/home/me/project/out/x"));
  EXPECT_TRUE(policy.can_write("out/x"));
  EXPECT_FALSE(policy.can_write("../x"));
  EXPECT_FALSE(policy.can_write("/out/x"));
}

TEST(ValidatePathAccess, IsDeniedWithTheReason) {
  const auto denied = validate_path_access("/x", PathOp::Write, FilesystemConfig{});
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, Errc::Denied);
  EXPECT_TRUE(validate_path_access("/x", PathOp::Read, FilesystemConfig{}));
  EXPECT_FALSE(
      validate_path_access(std::string_view("/x\0y", 4), PathOp::Read, FilesystemConfig{}));
  EXPECT_FALSE(parse_path_op("execute"));
  EXPECT_EQ(*parse_path_op("write"), PathOp::Write);
}

TEST(LexicalPath, LengthIsBounded) {
  const std::string longest = "/" + std::string(kPathBytesMax - 1, 'a');
  EXPECT_TRUE(clean_path(longest));
  EXPECT_FALSE(clean_path(longest + "a"));
  EXPECT_TRUE(absolute_path(longest, ""));
  EXPECT_FALSE(absolute_path(longest + "a", ""));
}

TEST(LexicalPath, CleanKeepsTheMeaning) {
  EXPECT_EQ(*clean_path("/"), "/");
  EXPECT_EQ(*clean_path("//a//b/./"), "/a/b");
  EXPECT_EQ(*clean_path("./a"), "a");
  EXPECT_EQ(*clean_path("./"), ".");
  EXPECT_EQ(*clean_path("a..b/...c"), "a..b/...c");
  EXPECT_FALSE(clean_path("/a\xff"));
  EXPECT_FALSE(clean_path("./~"));
  EXPECT_EQ(*clean_path("/~"), "/~");
}

}  // namespace
}  // namespace caisson::policy
