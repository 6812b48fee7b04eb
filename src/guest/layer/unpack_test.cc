// What an archive must not do, then what it may.
#include "guest/layer/unpack.h"

#include <gtest/gtest.h>

#include <span>

#include "guest/layer/compress_kit_test.h"
#include "guest/layer/decoder.h"
#include "guest/layer/digest.h"
#include "guest/layer/home_kit_test.h"
#include "guest/layer/tar_kit_test.h"
#include "guest/layer/tar_reader.h"

namespace caisson::layer {
namespace {

using wire::LayerError;

std::array<std::uint8_t, 32> digest_of(const std::string& bytes) {
  Digest digest;
  digest.add(std::as_bytes(std::span(bytes)));
  return digest.finish();
}

void expect_refused(const std::string& archive, const std::string& why,
                    LayerError error = LayerError::BadInput) {
  Home home;
  const auto done = home.unpack(archive);
  ASSERT_FALSE(done) << "accepted, though " << why;
  EXPECT_EQ(kind_of(done.error()), error) << done.error().message;
  EXPECT_NE(done.error().message.find(why), std::string::npos) << done.error().message;
}

// ------------------------------------------------------------------------- names and links

TEST(Unpack, NamesThatLeadUpwardAreRefused) {
  expect_refused(Tar().file("../evil").end(), "'..'");
  expect_refused(Tar().file("a/../../evil").end(), "'..'");
  expect_refused(Tar().pax({{"path", "a/../../evil"}}).file("good").end(), "'..'");
  expect_refused(Tar().extension('L', "../evil").file("good").end(), "'..'");
  expect_refused(Tar().header({.name = "evil", .prefix = ".."}).end(), "'..'");
  expect_refused(Tar().file("a", "x").hard("b", "../a").end(), "'..'");
}

TEST(Unpack, AnAbsoluteNameIsTakenFromTheRoot) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar().file("/etc/passwd", "guest").file("//x//y/./z", "deep").end()));
  EXPECT_EQ(home.read("out/root/etc/passwd"), "guest");
  EXPECT_EQ(home.read("out/root/x/y/z"), "deep");
}

TEST(Unpack, ANulInAnExtendedNameIsRefused) {
  expect_refused(Tar().pax({{"path", std::string("a\0b", 3)}}).file("x").end(), "path");
  expect_refused(Tar().pax({{"linkpath", std::string("a\0b", 3)}}).link("x", "y").end(),
                 "linkpath");
}

TEST(Unpack, AFileThroughALinkStaysInTheRoot) {
  Home home;
  home.make("outside");
  const auto done = home.unpack(Tar()
                                    .link("up", home.at("outside"))
                                    .folder("in")
                                    .link("rel", "../../../../in")
                                    .file("rel/evil", "x")
                                    .end());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(home.read("out/root/in/evil"), "x");
  expect_refused(Tar().link("up", home.at("outside")).file("up/evil", "x").end(), "no folder");
  EXPECT_FALSE(home.has("outside/evil"));
}

TEST(Unpack, ARootThatIsALinkIsRefused) {
  expect_refused(Tar().link(".", "/etc").file("passwd", "x").end(), "root");
  expect_refused(Tar().link("./", "/etc").end(), "root");
  expect_refused(Tar().file("x").hard(".", "x").end(), "root");
}

TEST(Unpack, AFileReplacesALinkInsteadOfFollowingIt) {
  Home home;
  home.write("secret", "host");
  ASSERT_TRUE(home.unpack(Tar().link("x", home.at("secret")).file("x", "guest").end()));
  EXPECT_EQ(home.read("secret"), "host");
  EXPECT_TRUE(S_ISREG(home.facts("out/root/x").st_mode));
}

TEST(Unpack, AFolderReplacesALink) {
  Home home;
  ASSERT_TRUE(
      home.unpack(Tar().folder("real").link("x", "real").folder("x").file("x/f", "1").end()));
  EXPECT_TRUE(home.is_folder("out/root/x"));
  EXPECT_FALSE(home.has("out/root/real/f"));
}

TEST(Unpack, HardLinksOnlyLeadToFilesOfThisLayer) {
  expect_refused(Tar().hard("x", "/etc/passwd").end(), "no file of this layer");
  expect_refused(Tar().link("l", "/etc/passwd").hard("x", "l").end(), "no file of this layer");
  expect_refused(Tar().folder("d").hard("x", "d").end(), "no file of this layer");
  expect_refused(Tar().folder("d").file("d/f").link("l", "d").hard("x", "l/f").end(),
                 "no file of this layer");
  expect_refused(Tar().folder("d").file("d/f").hard("d", "d/f").end(), "place of a folder");
}

TEST(Unpack, AHardLinkSharesTheFile) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar().file("a", "x").hard("d/b", "./a").hard("a", "a").end()));
  EXPECT_EQ(home.facts("out/root/a").st_ino, home.facts("out/root/d/b").st_ino);
  EXPECT_EQ(home.facts("out/root/a").st_nlink, 2U);
}

TEST(Unpack, NamesAndDepthHaveLimits) {
  Home home;
  const std::string long_name(kNameBytesMax, 'n');
  ASSERT_TRUE(home.unpack(Tar().pax({{"path", long_name}}).file("x", "1").end()));
  EXPECT_TRUE(home.has("out/root/" + long_name));
  expect_refused(Tar().pax({{"path", long_name + "n"}}).file("x").end(), "at most 255");
  std::string deep;
  for (std::size_t i = 0; i < kDepthMax; ++i) deep += "d/";
  expect_refused(Tar().pax({{"path", deep + "x"}}).file("x").end(), "folders deep");
  Home deepest;
  ASSERT_TRUE(deepest.unpack(Tar().pax({{"path", deep}}).folder("x").end()));
  std::string wide;
  for (int i = 0; i < 20; ++i) wide += std::string(250, 'w') + "/";
  expect_refused(Tar().pax({{"path", wide + "x"}}).file("x").end(), "at most 4095");
}

// ---------------------------------------------------------------------------- types and owners

TEST(Unpack, DevicesAreLeftOutAndTheWhiteoutDeviceIsRefused) {
  Home home;
  ASSERT_TRUE(home.unpack(
      Tar()
          .header({.name = "dev/null", .type = '3', .device_major = 1, .device_minor = 3})
          .header({.name = "dev/sda", .type = '4', .device_major = 8})
          .end()));
  EXPECT_FALSE(home.has("out/root/dev/null"));
  EXPECT_FALSE(home.has("out/root/dev/sda"));
  expect_refused(Tar().header({.name = "x", .type = '3'}).end(), "0:0");
}

TEST(Unpack, UnknownTypesAreRefused) {
  expect_refused(Tar().header({.name = "x", .type = 'V'}).end(), "unknown type");
  expect_refused(Tar().header({.name = "x", .type = 's'}).end(), "unknown type");
}

TEST(Unpack, OwnersBeyondTheRangeAreRefusedAndNeverWrap) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar().header({.name = "x", .uid = 65534, .gid = 7}).end()));
  EXPECT_EQ(home.facts("out/root/x").st_uid, 65534U);
  EXPECT_EQ(home.facts("out/root/x").st_gid, 7U);
  expect_refused(Tar().header({.name = "x", .uid = 65535}).end(), "65535");
  expect_refused(Tar().header({.name = "x", .gid = 65535}).end(), "65535");
  expect_refused(Tar().pax({{"uid", "4294967296"}}).file("x").end(), "4294967296");
  expect_refused(Tar().pax({{"gid", "18446744073709551616"}}).file("x").end(),
                 "18446744073709551616");
  expect_refused(Tar().pax({{"uid", "-1"}}).file("x").end(), "-1");
  expect_refused(Tar().pax({{"uid", "0x10"}}).file("x").end(), "0x10");
  const std::string minus_one(8, '\xff');
  expect_refused(Tar().header({.name = "x", .patches = {{108, minus_one}}}).end(), "-1");
}

TEST(Unpack, ModesLoseSetuidAndSetgidOnly) {
  Home home;
  ASSERT_TRUE(
      home.unpack(Tar().file("suid", "", 06755).folder("tmp", 03777).file("ro", "x", 0400).end()));
  EXPECT_EQ(home.facts("out/root/suid").st_mode & 07777U, 0755U);
  EXPECT_EQ(home.facts("out/root/tmp").st_mode & 07777U, 01777U);
  EXPECT_EQ(home.facts("out/root/ro").st_mode & 07777U, 0400U);
}

TEST(Unpack, OnlyTheUsersAttributesAreKept) {
  Home home;
  const auto done = home.unpack(Tar()
                                    .pax({{"SCHILY.xattr.user.note", "hello"},
                                          {"SCHILY.xattr.user.overlay.opaque", "y"},
                                          {"SCHILY.xattr.user.overlay.redirect", "/etc"},
                                          {"SCHILY.xattr.trusted.overlay.opaque", "y"},
                                          {"SCHILY.xattr.security.capability", "x"}})
                                    .folder("d")
                                    .end());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(home.attribute("out/root/d", "user.note"), "hello");
  EXPECT_FALSE(home.is_opaque("out/root/d"));
  EXPECT_EQ(home.attribute("out/root/d", "user.overlay.redirect"), "");
  EXPECT_EQ(home.attribute("out/root/d", "trusted.overlay.opaque"), "");
  EXPECT_EQ(home.attribute("out/root/d", "security.capability"), "");
}

TEST(Unpack, TooManyAttributesAreRefused) {
  std::vector<std::pair<std::string, std::string>> records;
  for (std::size_t i = 0; i <= kAttributesMax; ++i) {
    records.emplace_back("SCHILY.xattr.user.n" + std::to_string(i), "v");
  }
  expect_refused(Tar().pax(records).file("x").end(), "attributes", LayerError::TooLarge);
}

TEST(Unpack, TimesAreSetAlsoThoseOfFolders) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar()
                              .header({.name = "d/", .type = '5', .mode = 0755, .mtime = 1000})
                              .pax({{"mtime", "1234.000000567"}})
                              .file("d/f", "x")
                              .pax({{"mtime", "-1.5"}})
                              .file("d/old", "x")
                              .link("d/l", "f")
                              .header({.name = "./", .type = '5', .mode = 0700, .mtime = 77})
                              .end()));
  EXPECT_EQ(home.facts("out/root/d").st_mtim.tv_sec, 1000);
  EXPECT_EQ(home.facts("out/root/d/f").st_mtim.tv_sec, 1234);
  EXPECT_EQ(home.facts("out/root/d/f").st_mtim.tv_nsec, 567);
  EXPECT_EQ(home.facts("out/root/d/old").st_mtim.tv_sec, -2);
  EXPECT_EQ(home.facts("out/root/d/l").st_mtim.tv_sec, 1'700'000'000);
  EXPECT_EQ(home.facts("out/root").st_mtim.tv_sec, 77);
  EXPECT_EQ(home.facts("out/root").st_mode & 07777U, 0700U);
}

// ---------------------------------------------------------------------------------- whiteouts

TEST(Unpack, WhiteoutsBecomeAnOverlaysOwn) {
  Home home;
  ASSERT_TRUE(
      home.unpack(Tar().file("etc/.wh.passwd").file("var/.wh..wh..opq").file("var/x").end()));
  EXPECT_TRUE(home.is_hidden("out/root/etc/passwd"));
  EXPECT_TRUE(home.is_opaque("out/root/var"));
  EXPECT_TRUE(home.has("out/root/var/x"));
}

TEST(Unpack, NoWhiteoutNameReachesTheTree) {
  expect_refused(Tar().file(".wh.").end(), "whiteout of nothing");
  expect_refused(Tar().file(".wh..").end(), "whiteout of nothing");
  expect_refused(Tar().file(".wh...").end(), "whiteout of nothing");
  expect_refused(Tar().folder(".wh.d").end(), "not a file");
  expect_refused(Tar().link(".wh.l", "x").end(), "not a file");
  expect_refused(Tar().file(".wh.d/inside").end(), "lies in a whiteout");
  expect_refused(Tar().file(".wh..wh..opq").end(), "whole root");
  Home home;
  ASSERT_TRUE(home.unpack(
      Tar().folder(".wh..wh.plnk").file(".wh..wh.plnk/1.2", "x").file(".wh..wh.aufs", "x").end()));
  EXPECT_TRUE(std::filesystem::is_empty(home.at("out/root")));
}

TEST(Unpack, AnEntryWinsOverTheWhiteoutOfItsNameInEitherOrder) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar()
                              .file(".wh.first")
                              .file("first", "1")
                              .file("second", "2")
                              .file(".wh.second")
                              .file(".wh.d")
                              .folder("d")
                              .folder("e")
                              .file("e/kept", "3")
                              .file(".wh.e")
                              .file(".wh.p")
                              .file("p/q", "4")
                              .end()));
  EXPECT_EQ(home.read("out/root/first"), "1");
  EXPECT_EQ(home.read("out/root/second"), "2");
  // A folder that is new here shows nothing of what it replaced.
  EXPECT_TRUE(home.is_opaque("out/root/d"));
  EXPECT_TRUE(home.is_opaque("out/root/e"));
  EXPECT_EQ(home.read("out/root/e/kept"), "3");
  EXPECT_TRUE(home.is_opaque("out/root/p"));
  EXPECT_EQ(home.read("out/root/p/q"), "4");
}

TEST(Unpack, AWhiteoutThroughALinkStaysInTheRoot) {
  Home home;
  home.write("victim/file", "host");
  ASSERT_TRUE(home.unpack(Tar().folder("real").link("l", "/real").file("l/.wh.file").end()));
  EXPECT_TRUE(home.is_hidden("out/root/real/file"));
  expect_refused(Tar().link("l", home.at("victim")).file("l/.wh.file").end(), "no folder");
  EXPECT_EQ(home.read("victim/file"), "host");
}

// --------------------------------------------------------------------------------- duplicates

TEST(Unpack, TheLaterOfTwoEntriesCounts) {
  Home home;
  const auto done = home.unpack(Tar()
                                    .file("f", "old")
                                    .file("f", "new")
                                    .folder("d")
                                    .file("d/x", "1")
                                    .file("d", "file")
                                    .file("g", "2")
                                    .folder("g")
                                    .file("g/y", "3")
                                    .folder("k")
                                    .file("k/z", "4")
                                    .folder("k", 0700)
                                    .end());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(home.read("out/root/f"), "new");
  EXPECT_EQ(home.read("out/root/d"), "file");
  EXPECT_EQ(home.read("out/root/g/y"), "3");
  EXPECT_EQ(home.read("out/root/k/z"), "4");
  EXPECT_EQ(home.facts("out/root/k").st_mode & 07777U, 0700U);
}

TEST(Unpack, AReplacedFolderIsNotWrittenIntoThroughAnOldDescriptor) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar()
                              .file("d/e/1", "1")
                              .file("d", "f")
                              .link("d", "other")
                              .folder("other")
                              .folder("other/e")
                              .file("d/e/2", "2")
                              .end()));
  EXPECT_EQ(home.read("out/root/other/e/2"), "2");
  EXPECT_FALSE(home.has("out/root/other/e/1"));
}

// ------------------------------------------------------------------------------------- limits

TEST(Unpack, BytesAreCountedOnWhatComesOut) {
  Home home;
  home.job.bytes_max = 64 * 1024;
  const auto done = home.unpack(gzip(Tar().file("x", std::string(128 * 1024, '\0')).end()));
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
}

TEST(Unpack, EntriesAreCountedWithTheFoldersThatTheyNeed) {
  Home home;
  home.job.entries_max = 3;
  ASSERT_TRUE(home.unpack(Tar().file("a/b/c").end()));
  Home more;
  more.job.entries_max = 3;
  const auto done = more.unpack(Tar().file("a/b/c/d").end());
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
}

TEST(Unpack, ARatioBeyondTheLimitIsRefused) {
  const std::string bomb = gzip(Tar().file("x", std::string(32UL * 1024 * 1024, '\0')).end());
  Home home;
  home.job.ratio_max = 100;
  const auto done = home.unpack(bomb);
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
  Home patient;
  patient.job.ratio_max = 2000;
  EXPECT_TRUE(patient.unpack(bomb));
}

TEST(Unpack, AHeaderThatClaimsMoreThanThereIsFails) {
  expect_refused(Tar().header({.name = "x", .size = 10ULL << 30U}).end(), "more than",
                 LayerError::TooLarge);
  expect_refused(Tar().header({.name = "x", .size = 1 << 20}).end(), "ends inside an entry");
  expect_refused(Tar().pax({{"size", "9223372036854775807"}}).file("x").end(), "more than",
                 LayerError::TooLarge);
  expect_refused(Tar().pax({{"size", "-1"}}).file("x").end(), "size");
}

TEST(Unpack, ASparseFileOfHolesCountsAsLargeAsItSays) {
  expect_refused(Tar()
                     .pax({{"GNU.sparse.major", "0"},
                           {"GNU.sparse.size", "10737418240"},
                           {"GNU.sparse.map", ""}})
                     .file("x")
                     .end(),
                 "more than", LayerError::TooLarge);
}

TEST(Unpack, AZstdWindowBeyondTheLimitIsRefused) {
  const std::string tar = Tar().file("x", "content").end();
  expect_refused(zstd(tar, kZstdWindowLogMax + 1), "zstd");
  Home home;
  EXPECT_TRUE(home.unpack(zstd(tar, kZstdWindowLogMax)));
}

TEST(Unpack, AnExtendedHeaderHasALimit) {
  expect_refused(Tar().extension('x', std::string(kExtensionBytesMax + 1, 'x')).file("x").end(),
                 "extended header", LayerError::TooLarge);
  Tar many;
  for (int i = 0; i < 20; ++i) many.pax({{"comment", "x"}});
  expect_refused(many.file("x").end(), "too many extended headers");
}

// ------------------------------------------------------------------------------ broken archives

TEST(Unpack, BrokenArchivesAreRefused) {
  expect_refused(Tar().header({.name = "x", .checksum_off = 1}).end(), "checksum");
  expect_refused(std::string(700, 'x'), "checksum");
  expect_refused(Tar().file("x", "content").cut().substr(0, 515), "ends inside");
  expect_refused(Tar().file("x").raw(std::string(512, '\0')).file("y").end(), "behind a block");
  expect_refused(Tar().pax({{"path", "x"}}).end(), "nothing behind");
  expect_refused(Tar().extension('x', "99 path=x\n").file("x").end(), "broken extended");
  expect_refused(Tar().extension('x', "0 path=x\n").file("x").end(), "broken extended");
  expect_refused(Tar().extension('x', "-5 path=x\n").file("x").end(), "broken extended");
  const std::string packed = gzip(Tar().file("x", "content").end());
  expect_refused(packed.substr(0, packed.size() / 2), "early");
  expect_refused(packed.substr(0, packed.size() - 1), "early");
  expect_refused(packed + "garbage", "gzip");
  std::string flipped = packed;
  flipped[packed.size() - 5] = static_cast<char>(flipped[packed.size() - 5] ^ 1);
  expect_refused(flipped, "gzip");
  const std::string frame = zstd(Tar().file("x", "content").end());
  expect_refused(frame.substr(0, frame.size() - 1), "early");
}

TEST(Unpack, SparseMapsThatDoNotFitAreRefused) {
  const auto sparse = [](const std::string& map, const std::string& size) {
    return Tar()
        .pax({{"GNU.sparse.major", "0"}, {"GNU.sparse.size", size}, {"GNU.sparse.map", map}})
        .file("x", "abcd")
        .end();
  };
  expect_refused(sparse("0,4,2,4", "100"), "fit");
  expect_refused(sparse("98,4", "100"), "fit");
  expect_refused(sparse("0,3", "100"), "fit");
  expect_refused(sparse("9223372036854775807,4", "100"), "fit");
  expect_refused(sparse("0", "100"), "GNU.sparse.map");
  expect_refused(Tar()
                     .pax({{"GNU.sparse.major", "1"}, {"GNU.sparse.realsize", "9"}})
                     .file("x", "99999999\n")
                     .end(),
                 "sparse");
}

// ------------------------------------------------------------------------------ good archives

TEST(Unpack, EveryCompressionGivesTheSameTreeAndTheDigestOfThePlainArchive) {
  const std::string plain = Tar().folder("d").file("d/f", std::string(3'000'000, 'x')).end();
  const std::string half = plain.substr(0, plain.size() / 2);
  const std::string rest = plain.substr(plain.size() / 2);
  for (const std::string& archive :
       {plain, gzip(plain), zstd(plain), gzip(half) + gzip(rest), zstd(half) + zstd(rest)}) {
    Home home;
    const auto done = home.unpack(archive);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(home.facts("out/root/d/f").st_size, 3'000'000);
    EXPECT_EQ(done->bytes_in, archive.size());
    EXPECT_EQ(done->bytes_out, 3'000'000U);
    EXPECT_EQ(done->entries, 2U);
    EXPECT_EQ(std::to_array(done->digest), digest_of(plain));
  }
}

TEST(Unpack, TheDigestCoversWhatLiesBehindTheEnd) {
  const std::string plain = Tar().file("x").end() + std::string(9000, 'z');
  Home home;
  const auto done = home.unpack(gzip(plain));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(std::to_array(done->digest), digest_of(plain));
  Home bounded;
  bounded.job.bytes_max = 5000;
  EXPECT_FALSE(bounded.unpack(gzip(plain)));
}

TEST(Unpack, CompressionInsideOfCompressionIsNotFollowed) {
  expect_refused(gzip(gzip(Tar().file("x").end())), "cut off");
}

TEST(Unpack, LongNamesOfGnuAndPosixAreRead) {
  Home home;
  const std::string name = std::string(120, 'a') + "/" + std::string(120, 'b');
  ASSERT_TRUE(home.unpack(Tar()
                              .extension('L', name + '\0')
                              .file("short", "gnu")
                              .extension('K', "target-" + std::string(150, 't') + '\0')
                              .link("l", "short")
                              .header({.name = "file", .prefix = "some/prefix"})
                              .header({.name = "old", .magic = std::string("ustar  \0", 8)})
                              .pax({{"path", "ümläut \xff"}})
                              .file("x", "posix")
                              .end()));
  EXPECT_EQ(home.read("out/root/" + name), "gnu");
  EXPECT_EQ(std::filesystem::read_symlink(home.at("out/root/l")).string().size(), 157U);
  EXPECT_TRUE(home.has("out/root/some/prefix/file"));
  EXPECT_TRUE(home.has("out/root/old"));
  EXPECT_EQ(home.read("out/root/ümläut \xff"), "posix");
}

// Two tools that read one archive in two ways are a way around whatever one of them checks.
TEST(Unpack, WhereTwoReadingsArePossibleItIsReadAsOthersDo) {
  Home home;
  const auto done = home.unpack(Tar()
                                    .extension('L', std::string("gnu\0", 4))
                                    .pax({{"path", "posix"}})
                                    .file("plain", "1")
                                    .pax({{"path", "first"}})
                                    .pax({{"path", "last"}})
                                    .file("plain", "2")
                                    .pax({{"path", "never"}, {"path", ""}, {"uid", ""}})
                                    .file("own", "3")
                                    .header({.name = "old/", .type = '\0'})
                                    .file("slash/", "4")
                                    .end());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(home.read("out/root/gnu"), "1");
  EXPECT_EQ(home.read("out/root/last"), "2");
  EXPECT_EQ(home.read("out/root/own"), "3");
  EXPECT_TRUE(home.is_folder("out/root/old"));
  EXPECT_EQ(home.read("out/root/slash"), "4");
  EXPECT_FALSE(home.has("out/root/posix") || home.has("out/root/plain"));
}

TEST(Unpack, SparseFilesOfAllFormatsAreRead) {
  Home home;
  std::string map = "1\n6\n4\n";
  map.resize(512, '\0');
  Header old{.name = "old", .type = 'S', .size = 4, .magic = std::string("ustar  \0", 8)};
  old.patches = {{386, "00000000006"}, {398, "00000000004"}, {483, "00000000014"}};
  const auto done = home.unpack(
      Tar()
          .pax({{"GNU.sparse.major", "0"}, {"GNU.sparse.size", "12"}, {"GNU.sparse.map", "6,4"}})
          .file("first", "data")
          .pax(
              {{"GNU.sparse.size", "12"}, {"GNU.sparse.offset", "6"}, {"GNU.sparse.numbytes", "4"}})
          .file("zero", "data")
          .pax({{"GNU.sparse.major", "1"},
                {"GNU.sparse.minor", "0"},
                {"GNU.sparse.name", "second"},
                {"GNU.sparse.realsize", "12"}})
          .file("GNUSparseFile.1/second", map + "data")
          .header(old)
          .data("data")
          .end());
  ASSERT_TRUE(done) << done.error().message;
  const std::string wanted = std::string(6, '\0') + "data" + std::string(2, '\0');
  for (const char* name : {"first", "zero", "second", "old"}) {
    EXPECT_EQ(home.read(std::string("out/root/") + name), wanted) << name;
  }
}

TEST(Unpack, FifosAreMadeAndSizesOfOtherTypesAreIgnored) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar()
                              .header({.name = "p", .type = '6', .mode = 0620})
                              .header({.name = "l", .type = '2', .link = "p", .size = 5000})
                              .pax({{"comment", "x"}}, 'g')
                              .file("after", "x")
                              .end()));
  EXPECT_TRUE(S_ISFIFO(home.facts("out/root/p").st_mode));
  EXPECT_EQ(home.facts("out/root/p").st_mode & 07777U, 0620U);
  EXPECT_EQ(home.read("out/root/after"), "x");
}

TEST(Unpack, AnEmptyArchiveIsAnEmptyLayer) {
  Home home;
  ASSERT_TRUE(home.unpack(Tar().end()));
  EXPECT_TRUE(home.is_folder("out/root"));
}

TEST(Unpack, APipeIsNoArchive) {
  Home home;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  home.descriptor = ends[0];
  const auto done = home.run(wire::JobKind::Unpack);
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::BadInput);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace caisson::layer
