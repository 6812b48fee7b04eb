#include "guest/layer/merge.h"

#include <gtest/gtest.h>

#include "guest/layer/home_kit_test.h"

namespace caisson::layer {
namespace {

using Lines = std::vector<std::string>;

class Merge : public testing::Test {
 protected:
  Lines merge() {
    home_.job.a_layers = 1;
    home_.job.b_layers = 1;
    home_.make("a.in/0/root");
    home_.make("b.in/0/root");
    const auto done = home_.run(wire::JobKind::Merge);
    EXPECT_TRUE(done) << done.error().message;
    if (done) conflicts_ = done->conflicts;
    return home_.heard.lines;
  }
  void base(const std::string& name, const std::string& content) {
    for (const char* state : {"base/", "a/", "b/"}) home_.write(state + name, content);
  }
  void in_a(const std::string& name, const std::string& content) { put("a", name, content); }
  void in_b(const std::string& name, const std::string& content) { put("b", name, content); }
  void gone_in(const std::string& state, const std::string& name) {
    std::filesystem::remove_all(home_.at(state + "/" + name));
    std::filesystem::remove_all(home_.at(state + ".in/0/root/" + name));
    home_.hide(state + ".in/0/root/" + name);
  }
  void put(const std::string& state, const std::string& name, const std::string& content) {
    home_.write(state + "/" + name, content);
    home_.write(state + ".in/0/root/" + name, content);
  }
  void expect_conflict(const Lines& lines) {
    EXPECT_EQ(merge(), lines);
    EXPECT_NE(conflicts_, 0U);
    EXPECT_TRUE(std::filesystem::is_empty(home_.at("out")));
  }
  Home home_;
  std::uint64_t conflicts_ = 0;
};

TEST_F(Merge, BothChangedNotAlikeIsAConflictAndNothingIsWritten) {
  base("f", "base");
  in_a("f", "a's");
  in_b("f", "b's");
  in_b("other", "new");
  in_b("before", "new");
  expect_conflict({"A before", "C f", "A other"});
}

TEST_F(Merge, ChangeAgainstRemovalIsAConflictBothWays) {
  base("f", "base");
  base("g", "base");
  in_a("f", "changed");
  gone_in("b", "f");
  gone_in("a", "g");
  in_b("g", "changed");
  expect_conflict({"C f", "C g"});
}

TEST_F(Merge, AFolderRemovedInOneAndFilledInTheOtherIsAConflict) {
  base("d/x", "1");
  gone_in("b", "d");
  in_a("d/new", "2");
  expect_conflict({"C d"});
}

TEST_F(Merge, ANewFileInAFolderThatAHasRemovedIsAConflict) {
  base("d/x", "1");
  gone_in("a", "d");
  in_b("d/new", "2");
  expect_conflict({"C d/new"});
}

TEST_F(Merge, AFolderAgainstAFileIsAConflict) {
  in_a("x", "file");
  in_b("x/y", "in a folder");
  expect_conflict({"C x"});
}

TEST_F(Merge, ModesOfAFolderThatDifferAreAConflict) {
  base("d/x", "1");
  home_.make("b.in/0/root/d");
  ASSERT_EQ(::chmod(home_.at("a/d").c_str(), 0700), 0);
  ASSERT_EQ(::chmod(home_.at("b/d").c_str(), 0711), 0);
  expect_conflict({"C d"});
}

TEST_F(Merge, ABrokenPrefixIsRefused) {
  home_.prefix = "a/../b";
  EXPECT_FALSE(home_.run(wire::JobKind::Merge));
}

TEST_F(Merge, WhatOnlyBChangedIsTaken) {
  base("d/mod", "base");
  base("d/gone", "base");
  base("tree/x/y", "base");
  in_a("d/mine", "a's own");
  in_b("d/mod", "b's");
  gone_in("b", "d/gone");
  gone_in("b", "tree");
  in_b("new/deep/file", "1");
  for (const char* state : {"base/d", "a/d", "b/d"}) {
    ASSERT_EQ(::chmod(home_.at(state).c_str(), 0750), 0);
    ASSERT_EQ(::chown(home_.at(state).c_str(), 5, 6), 0);
  }
  EXPECT_EQ(merge(), (Lines{"R d/gone", "M d/mod", "A new", "A new/deep", "A new/deep/file",
                            "R tree", "R tree/x", "R tree/x/y"}));
  EXPECT_EQ(conflicts_, 0U);
  EXPECT_EQ(home_.read("out/root/d/mod"), "b's");
  EXPECT_TRUE(home_.is_hidden("out/root/d/gone"));
  EXPECT_TRUE(home_.is_hidden("out/root/tree"));
  EXPECT_EQ(home_.read("out/root/new/deep/file"), "1");
  EXPECT_EQ(home_.facts("out/root/d").st_mode & 07777U, 0750U);
  EXPECT_EQ(home_.facts("out/root/d").st_uid, 5U);
  EXPECT_FALSE(home_.has("out/root/d/mine"));
  EXPECT_FALSE(home_.is_opaque("out/root/d"));
}

TEST_F(Merge, TheSameChangeOnBothSidesIsThereAlready) {
  base("f", "base");
  base("g", "base");
  base("d/x", "base");
  for (const char* state : {"a", "b"}) {
    put(state, "f", "same");
    gone_in(state, "g");
    gone_in(state, "d");
    put(state, "new/x", "same");
  }
  in_b("new/y", "b's");
  EXPECT_EQ(merge(), (Lines{"A new/y"}));
  EXPECT_EQ(conflicts_, 0U);
  EXPECT_EQ(home_.read("out/root/new/y"), "b's");
  EXPECT_FALSE(home_.has("out/root/f"));
  // a has this folder, and what is in it must go on showing.
  EXPECT_FALSE(home_.is_opaque("out/root/new"));
}

TEST_F(Merge, TypesChangeWithTheirContent) {
  base("f", "file");
  base("d/x", "1");
  gone_in("b", "f");
  std::filesystem::remove(home_.at("b.in/0/root/f"));
  in_b("f/inner", "folder now");
  gone_in("b", "d");
  std::filesystem::remove(home_.at("b.in/0/root/d"));
  in_b("d", "file now");
  EXPECT_EQ(merge(), (Lines{"T d", "R d/x", "T f", "A f/inner"}));
  EXPECT_EQ(home_.read("out/root/d"), "file now");
  EXPECT_EQ(home_.read("out/root/f/inner"), "folder now");
}

TEST_F(Merge, PartsStayPartsAndThePrefixSelects) {
  base("usr/lib/x", "base");
  base("ws/a", "base");
  home_.write("b/usr/lib/x", "b's");
  home_.write("b.in/0/systemusr/lib/x", "b's");
  in_b("ws/a", "b's");
  EXPECT_EQ(merge(), (Lines{"M usr/lib/x", "M ws/a"}));
  EXPECT_EQ(home_.read("out/systemusr/lib/x"), "b's");
  EXPECT_FALSE(home_.has("out/root/usr"));
  EXPECT_EQ(home_.read("out/root/ws/a"), "b's");
  std::filesystem::remove_all(home_.at("out"));
  home_.make("out");
  home_.prefix = "ws";
  EXPECT_EQ(merge(), (Lines{"M ws/a"}));
  EXPECT_FALSE(home_.has("out/systemusr"));
}

TEST_F(Merge, NothingToDoLeavesAnEmptyRoot) {
  base("f", "x");
  EXPECT_EQ(merge(), Lines{});
  EXPECT_TRUE(home_.is_folder("out/root"));
}

}  // namespace
}  // namespace caisson::layer
