#include "guest/layer/pack.h"

#include <gtest/gtest.h>

#include "guest/layer/home_kit_test.h"
#include "guest/layer/tree.h"

namespace caisson::layer {
namespace {

using wire::LayerError;

class Pack : public testing::Test {
 protected:
  // in/0 as an archive.
  Result<std::string> pack() {
    const UniqueFd file(::memfd_create("archive", MFD_CLOEXEC));
    home_.descriptor = file.get();
    home_.job.layers = 1;
    const auto done = home_.run(wire::JobKind::Pack);
    if (!done) return std::unexpected(done.error());
    done_ = *done;
    std::string bytes(done->bytes_out, '\0');
    EXPECT_EQ(::pread(file.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    return bytes;
  }
  // The same layer again, in `into`.
  void copy(Home& into) {
    const auto archive = pack();
    ASSERT_TRUE(archive) << archive.error().message;
    const auto back = into.unpack(*archive);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_TRUE(std::ranges::equal(back->digest, done_.digest));
  }

  Home home_;
  wire::LayerDone done_{};
};

TEST_F(Pack, ANameThatWouldHideAFileIsRefused) {
  home_.write("in/0/root/etc/.wh.passwd", "guest's trick");
  const auto archive = pack();
  ASSERT_FALSE(archive);
  EXPECT_EQ(kind_of(archive.error()), LayerError::BadInput);
  EXPECT_NE(archive.error().message.find("etc/.wh.passwd"), std::string::npos);
}

TEST_F(Pack, AMarkThatWouldLeadElsewhereIsRefused) {
  home_.make("in/0/root/d");
  home_.mark("in/0/root/d", "user.overlay.redirect", "/etc");
  EXPECT_FALSE(pack());
}

TEST_F(Pack, ALargeFileOfHolesIsRefusedBeforeItIsRead) {
  home_.write("in/0/root/x", "");
  ASSERT_EQ(::truncate(home_.at("in/0/root/x").c_str(), off_t{1} << 40U), 0);
  const auto archive = pack();
  ASSERT_FALSE(archive);
  EXPECT_EQ(kind_of(archive.error()), LayerError::TooLarge);
}

TEST_F(Pack, UnpackingGivesTheLayerBack) {
  home_.write("in/0/root/d/file", "content");
  home_.write("in/0/root/d/ümläut\xff", "name");
  home_.write("in/0/root/" + std::string(120, 'l'), "long");
  ASSERT_EQ(::link(home_.at("in/0/root/d/file").c_str(), home_.at("in/0/root/z").c_str()), 0);
  home_.link(std::string(200, 't'), "in/0/root/link");
  home_.hide("in/0/root/d/gone");
  home_.make("in/0/root/o");
  home_.mark("in/0/root/o");
  home_.mark("in/0/root/d/file", "user.note", "hello");
  ASSERT_EQ(::mkfifo(home_.at("in/0/root/pipe").c_str(), 0600), 0);
  ASSERT_EQ(::chown(home_.at("in/0/root/d").c_str(), 1000, 1001), 0);
  ASSERT_EQ(::chmod(home_.at("in/0/root/o").c_str(), 01777), 0);
  const timespec times[2] = {{-5, 700}, {-5, 700}};
  ASSERT_EQ(::utimensat(AT_FDCWD, home_.at("in/0/root/d/file").c_str(), times, 0), 0);
  Home back;
  copy(back);
  EXPECT_EQ(back.read("out/root/d/file"), "content");
  EXPECT_EQ(back.read("out/root/d/ümläut\xff"), "name");
  EXPECT_EQ(back.read("out/root/" + std::string(120, 'l')), "long");
  EXPECT_EQ(back.facts("out/root/d/file").st_ino, back.facts("out/root/z").st_ino);
  EXPECT_EQ(back.facts("out/root/d/file").st_mtim.tv_sec, -5);
  EXPECT_EQ(back.facts("out/root/d/file").st_mtim.tv_nsec, 700);
  EXPECT_EQ(std::filesystem::read_symlink(back.at("out/root/link")).string(),
            std::string(200, 't'));
  EXPECT_TRUE(back.is_hidden("out/root/d/gone"));
  EXPECT_TRUE(back.is_opaque("out/root/o"));
  EXPECT_EQ(back.facts("out/root/o").st_mode & 07777U, 01777U);
  EXPECT_EQ(back.attribute("out/root/d/file", "user.note"), "hello");
  EXPECT_TRUE(S_ISFIFO(back.facts("out/root/pipe").st_mode));
  EXPECT_EQ(back.facts("out/root/d").st_uid, 1000U);
  EXPECT_EQ(back.facts("out/root/d").st_gid, 1001U);
}

TEST_F(Pack, PartsGoToTheirPlaces) {
  home_.write("in/0/root/etc/x", "1");
  home_.write("in/0/root/usr/covered", "not to be seen");
  home_.write("in/0/systemusr/lib/y", "2");
  home_.hide("in/0/systemusr/bin");
  Home back;
  copy(back);
  EXPECT_EQ(back.read("out/root/etc/x"), "1");
  EXPECT_EQ(back.read("out/root/usr/lib/y"), "2");
  EXPECT_TRUE(back.is_hidden("out/root/usr/bin"));
  EXPECT_FALSE(back.has("out/root/usr/covered"));
}

TEST_F(Pack, WhatIsNoPartIsLeftAlone) {
  home_.write("in/0/root/x", "1");
  home_.write("in/0/work/y", "2");
  home_.write("in/0/systemusr.work/z", "3");
  Home back;
  copy(back);
  EXPECT_TRUE(back.has("out/root/x"));
  EXPECT_FALSE(back.has("out/root/work") || back.has("out/root/usr.work"));
}

TEST_F(Pack, EqualLayersGiveEqualBytes) {
  Home other;
  const auto fill = [](Home& home, const std::vector<const char*>& names) {
    for (const char* name : names) home.write(std::string("in/0/root/") + name, name);
    for (const char* name :
         {"in/0/root/b/1", "in/0/root/b/2", "in/0/root/a", "in/0/root/b", "in/0/root"}) {
      const timespec times[2] = {{5, 0}, {5, 0}};
      ::utimensat(AT_FDCWD, home.at(name).c_str(), times, 0);
    }
  };
  fill(home_, {"a", "b/1", "b/2"});
  fill(other, {"b/2", "b/1", "a"});
  const auto first = pack();
  ASSERT_TRUE(first);
  const UniqueFd file(::memfd_create("archive", MFD_CLOEXEC));
  other.descriptor = file.get();
  other.job.layers = 1;
  const auto second = other.run(wire::JobKind::Pack);
  ASSERT_TRUE(second);
  EXPECT_TRUE(std::ranges::equal(second->digest, done_.digest));
}

}  // namespace
}  // namespace caisson::layer
