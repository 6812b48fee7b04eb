#include "guest/layer/diff.h"

#include <gtest/gtest.h>

#include "guest/layer/home_kit_test.h"

namespace caisson::layer {
namespace {

using wire::LayerError;
using Lines = std::vector<std::string>;

class Diff : public testing::Test {
 protected:
  Lines diff(std::uint32_t a_layers, std::uint32_t b_layers) {
    home_.job.a_layers = a_layers;
    home_.job.b_layers = b_layers;
    const auto done = home_.run(wire::JobKind::Diff);
    EXPECT_TRUE(done) << done.error().message;
    if (done) EXPECT_EQ(done->entries, home_.heard.lines.size());
    return home_.heard.lines;
  }
  // The same file in both states.
  void both(const std::string& name, const std::string& content) {
    home_.write("a/" + name, content);
    home_.write("b/" + name, content);
  }
  // Written by b's layer, and so shown by b.
  void in_b(const std::string& name, const std::string& content) {
    home_.write("b.in/0/root/" + name, content);
    home_.write("b/" + name, content);
  }
  Home home_;
};

TEST_F(Diff, LimitsHold) {
  for (int i = 0; i < 5; ++i) in_b(std::to_string(i), "x");
  home_.job.entries_max = 4;
  home_.job.b_layers = 1;
  auto done = home_.run(wire::JobKind::Diff);
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
  home_.job.entries_max = 100;
  home_.job.flags = wire::kJobStage;
  home_.job.bytes_max = 4;
  done = home_.run(wire::JobKind::Diff);
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
}

TEST_F(Diff, ABadPrefixIsRefused) {
  home_.prefix = "../etc";
  EXPECT_FALSE(home_.run(wire::JobKind::Diff));
}

TEST_F(Diff, EachKindIsToldOnceAndInOrder) {
  home_.write("a/mod", "old");
  in_b("mod", "new");
  both("mode", "x");
  in_b("mode", "x");
  ASSERT_EQ(::chmod(home_.at("b/mode").c_str(), 0755), 0);
  in_b("added/deep/file", "1");
  home_.write("a/removed", "1");
  home_.hide("b.in/0/root/removed");
  home_.write("a/type", "file");
  in_b("type/inner", "now a folder");
  home_.link("x", "a/link");
  home_.link("y", "b/link");
  home_.link("y", "b.in/0/root/link");
  both("same", "copied up and not changed");
  home_.write("b.in/0/root/same", "copied up and not changed");
  EXPECT_EQ(diff(0, 1), (Lines{"A added", "A added/deep", "A added/deep/file", "M link", "M mod",
                               "m mode", "R removed", "T type", "A type/inner"}));
}

TEST_F(Diff, OnlyWhatTheLayersTouchIsLookedAt) {
  home_.write("a/untouched", "one");
  home_.write("b/untouched", "two");
  in_b("new", "x");
  EXPECT_EQ(diff(0, 1), (Lines{"A new"}));
}

TEST_F(Diff, ChangesOfEitherSideAreSeen) {
  home_.write("b/x", "base");
  home_.write("a/x", "changed in a");
  home_.write("a.in/0/root/x", "changed in a");
  home_.write("b/y", "removed in a");
  home_.hide("a.in/0/root/y");
  EXPECT_EQ(diff(1, 0), (Lines{"M x", "A y"}));
}

TEST_F(Diff, WhiteoutsOfFoldersAndOpaqueFoldersAreComparedWhole) {
  home_.write("a/gone/x/1", "1");
  home_.hide("b.in/0/root/gone");
  both("opaque/kept", "same");
  home_.write("a/opaque/lost", "1");
  home_.make("b.in/0/root/opaque");
  home_.mark("b.in/0/root/opaque");
  home_.write("b.in/0/root/opaque/kept", "same");
  home_.write("a/was/folder", "1");
  in_b("was", "file");
  EXPECT_EQ(diff(0, 1),
            (Lines{"R gone", "R gone/x", "R gone/x/1", "R opaque/lost", "T was", "R was/folder"}));
}

TEST_F(Diff, PartsStandAtTheirPlaceAndThePrefixSelects) {
  home_.make("a/usr/lib");
  home_.write("b/usr/lib/x", "1");
  home_.write("b.in/0/systemusr/lib/x", "1");
  in_b("workspace/src/f", "1");
  in_b("workspace/other", "1");
  home_.make("a/workspace/src");
  EXPECT_EQ(diff(0, 1), (Lines{"A usr/lib/x", "A workspace/other", "A workspace/src/f"}));
  home_.prefix = "workspace/src";
  EXPECT_EQ(diff(0, 1), (Lines{"A workspace/src/f"}));
  home_.prefix = "usr";
  EXPECT_EQ(diff(0, 1), (Lines{"A usr/lib/x"}));
}

TEST_F(Diff, AFileThatIsDatedBackIsStillSeen) {
  home_.write("a/f", "one");
  in_b("f", "two");
  const timespec times[2] = {{9, 0}, {9, 0}};
  for (const char* name : {"a/f", "b/f"}) {
    ASSERT_EQ(::utimensat(AT_FDCWD, home_.at(name).c_str(), times, 0), 0);
  }
  EXPECT_EQ(diff(0, 1), (Lines{"M f"}));
}

TEST_F(Diff, LinksOfAStateAreNotFollowed) {
  home_.write("host/secret", "1");
  home_.link(home_.at("host"), "b/d");
  home_.link(home_.at("host"), "b.in/0/root/d");
  EXPECT_EQ(diff(0, 1), (Lines{"A d"}));
}

TEST_F(Diff, BothSidesAreStaged) {
  home_.write("a/d/mod", "old");
  in_b("d/mod", "new");
  in_b("d/added", "1");
  ASSERT_EQ(::chmod(home_.at("b/d/added").c_str(), 0700), 0);
  home_.link("/etc/passwd", "b/l");
  home_.link("/etc/passwd", "b.in/0/root/l");
  home_.write("a/removed", "2");
  home_.hide("b.in/0/root/removed");
  home_.job.flags = wire::kJobStage;
  EXPECT_EQ(diff(0, 1), (Lines{"A d/added", "M d/mod", "A l", "R removed"}));
  EXPECT_EQ(home_.read("out/a/d/mod"), "old");
  EXPECT_EQ(home_.read("out/b/d/mod"), "new");
  EXPECT_EQ(home_.facts("out/b/d/added").st_mode & 07777U, 0755U);
  EXPECT_TRUE(S_ISLNK(home_.facts("out/b/l").st_mode));
  EXPECT_EQ(home_.read("out/a/removed"), "2");
  EXPECT_FALSE(home_.has("out/b/removed"));
}

}  // namespace
}  // namespace caisson::layer
