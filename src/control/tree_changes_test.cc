#include "control/tree_changes.h"

#include <gtest/gtest.h>

#include "control/text.h"

namespace caisson::control {
namespace {

engine::FileEntry file(std::string name, std::uint64_t inode, std::int64_t ctime,
                       std::uint64_t size = 10) {
  engine::FileEntry out;
  out.name = std::move(name);
  out.type = wire::EntryType::File;
  out.mode = 0644;
  out.inode = inode;
  out.ctime_ns = ctime;
  out.size = size;
  return out;
}

Stamps stamps_of(const std::vector<engine::FileEntry>& entries) {
  Stamps out;
  for (const auto& entry : entries) out[entry.name] = stamp_of(entry);
  return out;
}

TEST(TreeChanges, UntouchedFilesAreNotLookedAt) {
  const std::vector<engine::FileEntry> now{file("a", 1, 100), file("b", 2, 100)};
  const auto changes = find_changes({{"a", {}}, {"b", {}}}, stamps_of(now), now);
  EXPECT_TRUE(changes.old_files.empty());
  EXPECT_TRUE(changes.kept.empty());
  EXPECT_TRUE(changes.fresh.empty());
}

TEST(TreeChanges, AnEditWithTheOldSizeAndTimeIsSeenByTheKernelsTime) {
  const std::vector<engine::FileEntry> then{file("a", 1, 100)};
  const auto changes = find_changes({{"a", {}}}, stamps_of(then), {file("a", 1, 101)});
  EXPECT_EQ(changes.old_files, std::vector<std::string>{"a"});
  EXPECT_EQ(changes.kept, std::vector<std::string>{"a"});
}

TEST(TreeChanges, RemovedAndNew) {
  const std::vector<engine::FileEntry> then{file("gone", 1, 100)};
  const auto changes = find_changes({{"gone", {}}}, stamps_of(then), {file("new", 2, 200)});
  EXPECT_EQ(changes.old_files, std::vector<std::string>{"gone"});
  EXPECT_TRUE(changes.kept.empty());
  EXPECT_EQ(changes.fresh, std::vector<std::string>{"new"});
}

TEST(TreeChanges, WhatLayBesideTheArchiveCountsOnlyWhenItChanged) {
  const std::vector<engine::FileEntry> then{file("left", 1, 100), file("old", 2, 100)};
  const auto changes =
      find_changes({}, stamps_of(then), {file("left", 1, 100), file("old", 2, 300)});
  EXPECT_EQ(changes.fresh, std::vector<std::string>{"old"});
  EXPECT_TRUE(changes.old_files.empty());
}

TEST(TreeChanges, AFileThatBecameAFolderIsRemoved) {
  auto folder = file("a", 3, 200);
  folder.type = wire::EntryType::Folder;
  const auto changes =
      find_changes({{"a", {}}}, stamps_of({file("a", 1, 100)}), {folder, file("a/b", 4, 200)});
  EXPECT_EQ(changes.old_files, std::vector<std::string>{"a"});
  EXPECT_EQ(changes.fresh, std::vector<std::string>{"a/b"});
}

TEST(TreeChanges, GitsOwnFilesAreNobodysChange) {
  const auto changes =
      find_changes({{".git/HEAD", {}}}, {},
                   {file(".git/index", 1, 1), file("sub/.GIT/x", 2, 1), file(".gitignore", 3, 1)});
  EXPECT_TRUE(changes.old_files.empty());
  EXPECT_EQ(changes.fresh, std::vector<std::string>{".gitignore"});
  EXPECT_EQ(changes.ignores, std::vector<std::string>{".gitignore"});
}

TEST(TreeChanges, GitPaths) {
  for (const char* path : {".git", "a/.git", ".git/x", "a/.Git/b", "a/b/.gIT"})
    EXPECT_TRUE(is_git_path(path)) << path;
  for (const char* path : {"git", ".gitignore", "a/.github/x", "", "a.git/b", ".git2"})
    EXPECT_FALSE(is_git_path(path)) << path;
}

TEST(Utf8Patch, OnlyThePartThatIsNoTextIsPacked) {
  const std::string text =
      "diff --git a/a b/a\n+good\ndiff --git a/b b/b\n+\xe4\n diff --git a/x b/x\ndiff --git a/c "
      "b/c\n+fine\n";
  const std::string binary =
      "diff --git a/a b/a\nA\ndiff --git a/b b/b\nB\ndiff --git a/c b/c\nC\n";
  EXPECT_EQ(as_utf8_patch(text, binary),
            "diff --git a/a b/a\n+good\ndiff --git a/b b/b\nB\ndiff --git a/c b/c\n+fine\n");
}

TEST(Utf8Patch, AFileThatBecameALinkHasTwoParts) {
  const std::string text =
      "diff --git a/a b/a\ndeleted\n-\xe4\ndiff --git a/a b/a\nnew file mode 120000\n+x\n";
  const std::string binary = "diff --git a/a b/a\nfirst\ndiff --git a/a b/a\nsecond\n";
  EXPECT_EQ(as_utf8_patch(text, binary),
            "diff --git a/a b/a\nfirst\ndiff --git a/a b/a\nnew file mode 120000\n+x\n");
}

TEST(Utf8Patch, AllOfItWhenTheFilesWerePairedOtherwise) {
  const std::string binary = "diff --git a/z b/z\nZ\n";
  EXPECT_EQ(as_utf8_patch("diff --git a/b b/c\n\xff\n", binary), binary);
}

}  // namespace
}  // namespace caisson::control
