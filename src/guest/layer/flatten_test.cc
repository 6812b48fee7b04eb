#include "guest/layer/flatten.h"

#include <gtest/gtest.h>

#include "guest/layer/home_kit_test.h"

namespace caisson::layer {
namespace {

using wire::LayerError;

class Flatten : public testing::Test {
 protected:
  Result<wire::LayerDone> flatten(std::uint32_t layers, std::uint32_t flags = 0) {
    home_.job.layers = layers;
    home_.job.flags = flags;
    return home_.run(wire::JobKind::Flatten);
  }
  Home home_;
};

TEST_F(Flatten, MarksThatNoLayerOfOursHasAreRefused) {
  for (const char* mark : {"user.overlay.redirect", "user.overlay.metacopy"}) {
    Home home;
    home.make("in/0/root/d");
    home.mark("in/0/root/d", mark);
    home.job.layers = 1;
    const auto done = home.run(wire::JobKind::Flatten);
    ASSERT_FALSE(done);
    EXPECT_EQ(kind_of(done.error()), LayerError::BadInput);
  }
}

TEST_F(Flatten, LimitsHold) {
  home_.write("in/0/root/a", std::string(5000, 'x'));
  home_.job.bytes_max = 4999;
  auto done = flatten(1);
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
  Home many;
  for (int i = 0; i < 5; ++i) many.write("in/0/root/" + std::to_string(i), "");
  many.job.layers = 1;
  many.job.entries_max = 4;
  done = many.run(wire::JobKind::Flatten);
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
}

TEST_F(Flatten, ATreeThatIsTooDeepIsRefused) {
  std::string path = "in/0/root";
  for (std::size_t i = 0; i < kDepthMax + 2; ++i) path += "/d";
  home_.make(path);
  const auto done = flatten(1);
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::BadInput);
}

TEST_F(Flatten, TheTopmostCounts) {
  home_.write("in/0/root/f", "new");
  home_.write("in/1/root/f", "old");
  home_.write("in/1/root/d/lower", "1");
  home_.write("in/0/root/d/upper", "2");
  ASSERT_EQ(::chmod(home_.at("in/0/root/d").c_str(), 02770), 0);
  ASSERT_EQ(::chown(home_.at("in/1/root/d/lower").c_str(), 12, 13), 0);
  const auto done = flatten(2);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(home_.read("out/root/f"), "new");
  EXPECT_EQ(home_.read("out/root/d/lower"), "1");
  EXPECT_EQ(home_.read("out/root/d/upper"), "2");
  EXPECT_EQ(home_.facts("out/root/d").st_mode & 07777U, 02770U);
  EXPECT_EQ(home_.facts("out/root/d/lower").st_gid, 13U);
  EXPECT_FALSE(home_.is_opaque("out/root/d"));
}

TEST_F(Flatten, WhiteoutsHideAndStayUnlessNothingLiesBelow) {
  home_.hide("in/0/root/gone");
  home_.write("in/1/root/gone", "x");
  home_.hide("in/0/root/folder");
  home_.write("in/1/root/folder/x", "x");
  home_.write("in/0/root/back", "new");
  home_.hide("in/1/root/back");
  ASSERT_TRUE(flatten(2));
  EXPECT_TRUE(home_.is_hidden("out/root/gone"));
  EXPECT_TRUE(home_.is_hidden("out/root/folder"));
  EXPECT_EQ(home_.read("out/root/back"), "new");
  std::filesystem::remove_all(home_.at("out/root"));
  ASSERT_TRUE(flatten(2, wire::kJobOpaque));
  EXPECT_FALSE(home_.has("out/root/gone"));
  EXPECT_FALSE(home_.has("out/root/folder"));
  EXPECT_TRUE(home_.has("out/root/back"));
}

TEST_F(Flatten, OpaqueFoldersHideWhatLiesBelowAndStayOpaque) {
  home_.write("in/0/root/d/new", "1");
  home_.mark("in/0/root/d");
  home_.write("in/1/root/d/old", "2");
  home_.hide("in/0/root/d/needless");
  ASSERT_TRUE(flatten(2));
  EXPECT_TRUE(home_.is_opaque("out/root/d"));
  EXPECT_FALSE(home_.has("out/root/d/old"));
  EXPECT_FALSE(home_.has("out/root/d/needless"));
  std::filesystem::remove_all(home_.at("out/root"));
  ASSERT_TRUE(flatten(2, wire::kJobOpaque));
  EXPECT_FALSE(home_.is_opaque("out/root/d"));
}

TEST_F(Flatten, AFolderOverAWhiteoutOrAFileIsOpaque) {
  home_.write("in/0/root/d/x", "1");
  home_.hide("in/1/root/d");
  home_.write("in/2/root/d/below", "2");
  home_.write("in/0/root/e/x", "1");
  home_.write("in/1/root/e", "a file");
  home_.write("in/0/root/f", "a file");
  home_.write("in/1/root/f/below", "3");
  ASSERT_TRUE(flatten(3));
  EXPECT_TRUE(home_.is_opaque("out/root/d"));
  EXPECT_FALSE(home_.has("out/root/d/below"));
  EXPECT_TRUE(home_.is_opaque("out/root/e"));
  EXPECT_EQ(home_.read("out/root/f"), "a file");
}

TEST_F(Flatten, PartsLinksHolesTimesAndAttributesAreKept) {
  home_.write("in/0/root/a", "shared");
  home_.make("in/0/root/z");
  ASSERT_EQ(::link(home_.at("in/0/root/a").c_str(), home_.at("in/0/root/z/b").c_str()), 0);
  home_.mark("in/0/root/a", "user.note", "hi");
  home_.mark("in/0/root/a", "user.overlay.origin", "somewhere");
  home_.link("/etc", "in/0/root/l");
  home_.write("in/1/systemusr/lib/x", "part");
  home_.write("in/1/root/holes", "");
  ASSERT_EQ(::truncate(home_.at("in/1/root/holes").c_str(), 1 << 20), 0);
  const timespec times[2] = {{9, 8}, {9, 8}};
  ASSERT_EQ(::utimensat(AT_FDCWD, home_.at("in/0/root/z").c_str(), times, 0), 0);
  const auto done = flatten(2);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(home_.facts("out/root/a").st_ino, home_.facts("out/root/z/b").st_ino);
  EXPECT_EQ(home_.attribute("out/root/a", "user.note"), "hi");
  EXPECT_EQ(home_.attribute("out/root/a", "user.overlay.origin"), "");
  EXPECT_TRUE(S_ISLNK(home_.facts("out/root/l").st_mode));
  EXPECT_EQ(home_.read("out/systemusr/lib/x"), "part");
  EXPECT_EQ(home_.facts("out/root/holes").st_size, 1 << 20);
  EXPECT_EQ(home_.facts("out/root/holes").st_blocks, 0);
  EXPECT_EQ(home_.facts("out/root/z").st_mtim.tv_nsec, 8);
}

}  // namespace
}  // namespace caisson::layer
