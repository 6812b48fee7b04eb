// Archives as a whole: too large, broken, packed in every way; and what is written of them.
#include <gtest/gtest.h>

#include <set>

#include "guest/layer/compress_kit_test.h"
#include "guest/layer/decoder.h"
#include "guest/layer/sanitise_kit_test.h"

namespace caisson::layer {
namespace {

using wire::LayerError;

// --------------------------------------------------------------------------------------- limits

TEST(SanitiseArchive, BytesEntriesAndRatioAreBounded) {
  const std::string bomb = Tar().file("x", std::string(32UL << 20U, '\0')).end();
  for (const std::string& archive : {gzip(bomb), bzip2(bomb), xz(bomb), zstd(bomb)}) {
    Seed ratio(archive);
    ratio.job.ratio_max = 100;
    const auto done = ratio.run();
    ASSERT_FALSE(done);
    EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge) << done.error().message;
    Seed bytes(archive);
    bytes.job.bytes_max = 1UL << 20U;
    const auto second = bytes.run();
    ASSERT_FALSE(second);
    EXPECT_EQ(kind_of(second.error()), LayerError::TooLarge) << second.error().message;
    EXPECT_LE(bytes.written.size(), 1UL << 20U);
  }
  Seed many(Tar().file("a/b/c", "x").end());
  many.job.entries_max = 2;
  const auto done = many.run();
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge);
}

TEST(SanitiseArchive, FoldersThatWereMissingCountAsWritten) {
  std::string deep;
  for (std::size_t i = 1; i < kMemberDepthMax; ++i) deep += "d/";
  Seed seed(Tar().file("./" + deep + "x").end());
  seed.job.bytes_max = 16UL * 1024;
  const auto done = seed.run();
  ASSERT_FALSE(done);
  EXPECT_EQ(kind_of(done.error()), LayerError::TooLarge) << done.error().message;
}

TEST(SanitiseArchive, AllNamesTogetherHaveALimit) {
  std::string folders;
  while (folders.size() + 251 < kMemberBytesMax - 20) folders += std::string(250, 'w') + "/";
  Tar tar;
  std::string one = folders;
  const std::size_t count = kTableBytesMax / folders.size() + 1;
  for (std::size_t i = 0; i < count; ++i) {
    one.resize(folders.size());
    one += std::to_string(i);
    tar.extension('L', one).file("x");
  }
  expect_refused(gzip(tar.end()), "names", LayerError::TooLarge);
}

// A short text can go through many long names.
TEST(SanitiseArchive, NamesThatLinksGoThroughCountToo) {
  Tar tar;
  for (std::size_t i = 0; i < 200; ++i) {
    std::string target = std::to_string(i);
    for (std::size_t step = 0; step < 120; ++step) target += "/" + std::string(30, 'n');
    tar.pax({{"linkpath", target + "/.."}}).link("l" + std::to_string(i), "x");
  }
  EXPECT_TRUE(Seed(tar.end()).run());
  for (std::size_t i = 200; i < 400; ++i) {
    std::string target = std::to_string(i);
    for (std::size_t step = 0; step < 120; ++step) target += "/" + std::string(30, 'n');
    tar.pax({{"linkpath", target + "/.."}}).link("l" + std::to_string(i), "x");
  }
  expect_refused(tar.end(), "names", LayerError::TooLarge);
}

TEST(SanitiseArchive, ADictionaryBeyondTheLimitIsRefused) {
  expect_refused(greedy_xz(Tar().file("x", "content").end()), "xz", LayerError::TooLarge);
  expect_refused(zstd(Tar().file("x", "content").end(), kZstdWindowLogMax + 1), "zstd");
}

TEST(SanitiseArchive, HolesAreBoundedBeforeTheyAreWritten) {
  const auto sparse = [](const std::string& size) {
    return Tar()
        .pax({{"GNU.sparse.major", "0"}, {"GNU.sparse.size", size}, {"GNU.sparse.map", ""}})
        .file("x")
        .end();
  };
  Seed large(sparse("9223372036854775807"));
  EXPECT_EQ(kind_of(large.run().error()), LayerError::TooLarge);
  EXPECT_EQ(large.written.size(), 0U);
  Seed bomb(sparse("33554432"));
  bomb.job.ratio_max = 100;
  EXPECT_EQ(kind_of(bomb.run().error()), LayerError::TooLarge);
  EXPECT_EQ(bomb.written.size(), 0U);
}

// ------------------------------------------------------------------------------- broken archives

TEST(SanitiseArchive, WhatIsNoTarIsSaidToBeNone) {
  expect_refused("hello", "not a tar archive");
  expect_refused(std::string(700, 'x'), "not a tar archive");
  expect_refused("PK\x03\x04" + std::string(2000, 'z'), "not a tar archive");
  for (const auto& packed : {gzip("text"), bzip2("text"), xz("text"), zstd("text")}) {
    expect_refused(packed, "not a tar archive");
  }
  expect_refused(gzip(gzip(Tar().file("x").end())), "not a tar archive");
  expect_refused(Tar().file("x", "1").raw(std::string(700, 'x')).end(), "wrong checksum");
  expect_refused(Tar().file("x").raw(std::string(512, '\0')).file("y").end(), "behind a block");
  expect_refused(Tar().pax({{"path", "x"}}).end(), "nothing behind");
}

// At the end of a member a plain tar may break off, as every reader has it; nowhere else.
TEST(SanitiseArchive, AnArchiveThatIsCutIsRefused) {
  const std::string first = Tar().pax({{"path", "a/b"}}).file("x", std::string(700, 'a')).cut();
  const std::string whole = first + Tar().link("l", "a").file("c", "content").end();
  const std::set<std::size_t> ends{0, first.size(), first.size() + 512};
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Seed seed(whole.substr(0, size));
    const auto done = seed.run();
    // Padding is no content: an archive may end before it, or in it.
    const std::size_t data = first.size() + 1024 + 7;
    const std::size_t mark = whole.size() - 1024;  // two blocks of zeros, of which one is enough
    const bool padded = (size >= 512 * 3 + 700 && size <= first.size()) ||
                        (size >= data && size <= mark) || size >= mark + 512;
    EXPECT_EQ(done.has_value(), ends.contains(size) || padded) << size;
    if (!done) EXPECT_EQ(kind_of(done.error()), LayerError::BadInput) << done.error().message;
  }
}

TEST(SanitiseArchive, APackedArchiveThatIsCutOrChangedIsRefused) {
  const std::string plain = Tar().file("d/f", "content").link("l", "d").end();
  for (const std::string& packed : {gzip(plain), bzip2(plain), xz(plain), zstd(plain)}) {
    for (std::size_t size = 1; size < packed.size(); ++size) {
      const auto done = Seed(packed.substr(0, size)).run();
      ASSERT_FALSE(done) << size << " of " << packed.size();
      EXPECT_EQ(kind_of(done.error()), LayerError::BadInput) << done.error().message;
    }
    EXPECT_FALSE(Seed(packed + "garbage").run());
    std::string flipped = packed;
    flipped[packed.size() / 2] = static_cast<char>(flipped[packed.size() / 2] ^ 0x10);
    const auto done = Seed(flipped).run();
    // zstd's frames have a checksum only if their writer wanted one.
    if (packed != zstd(plain)) EXPECT_FALSE(done);
  }
  expect_refused(gzip(plain).substr(0, 40), "gzip archive ends too early");
  expect_refused(bzip2(plain).substr(0, 40), "bzip2 archive ends too early");
  expect_refused(xz(plain).substr(0, 40), "xz archive ends too early");
  expect_refused(zstd(plain).substr(0, 40), "zstd archive ends too early");
  expect_refused(Tar().file("d/f", "content").cut().substr(0, 515), "'d/f': the archive ends");
}

TEST(SanitiseArchive, ItsFilesMustBeFiles) {
  Home home;
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const UniqueFd good = file_of(Tar().end());
  const UniqueFd empty = file_of("");
  const std::vector<std::pair<int, int>> pairs{{read_end.get(), empty.get()},
                                               {good.get(), write_end.get()},
                                               {good.get(), good.get()},
                                               {good.get(), -1},
                                               {-1, empty.get()}};
  for (const auto& [in, out] : pairs) {
    home.descriptor = in;
    home.output = out;
    const auto done = home.run(wire::JobKind::Sanitise);
    ASSERT_FALSE(done);
    EXPECT_EQ(kind_of(done.error()), LayerError::BadInput);
  }
}

// -------------------------------------------------------------------------------- good archives

TEST(SanitiseArchive, NothingIsAnArchiveOfNothing) {
  for (const std::string& archive :
       {std::string(), Tar().end(), std::string(512, '\0'), std::string(10240, '\0'), gzip(""),
        bzip2(""), xz(""), zstd(""), gzip(Tar().end())}) {
    Seed seed(archive);
    const auto done = seed.run();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->entries, 0U);
    EXPECT_EQ(done->bytes_out, 1024U);
    EXPECT_EQ(seed.written, std::string(1024, '\0'));
  }
}

TEST(SanitiseArchive, EveryCompressionGivesTheSameBytes) {
  const std::string plain =
      Tar().folder("d").file("d/f", std::string(3'000'000, 'x')).link("l", "d").end();
  const std::string half = plain.substr(0, plain.size() / 2);
  const std::string rest = plain.substr(plain.size() / 2);
  const std::string padding(4096, '\0');
  Seed wanted(plain);
  ASSERT_TRUE(wanted.run());
  ASSERT_EQ(wanted.files().at("d/f"), std::string(3'000'000, 'x'));
  for (const std::string& archive :
       {gzip(plain), bzip2(plain), xz(plain), zstd(plain), gzip(half) + gzip(rest),
        bzip2(half) + bzip2(rest), xz(half) + xz(rest), zstd(half) + zstd(rest),
        bzip2("") + bzip2(plain) + bzip2(""), gzip(plain) + padding, bzip2(plain) + padding,
        xz(plain) + padding}) {
    Seed seed(archive);
    const auto done = seed.run();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->bytes_in, archive.size());
    EXPECT_EQ(done->bytes_out, seed.written.size());
    EXPECT_EQ(done->entries, 3U);
    EXPECT_TRUE(seed.written == wanted.written);
  }
}

TEST(SanitiseArchive, ANameIsNoCompression) {
  expect_kept(Tar().file("BZh9", "x").file("BZhello", "y"), {"BZh9", "BZhello"}, 0);
}

TEST(SanitiseArchive, LongNamesOfEveryDialectAreRead) {
  const std::string name = std::string(120, 'a') + "/" + std::string(120, 'b');
  const std::string target = std::string(150, 't');
  Seed seed(Tar()
                .pax({{"comment", "a commit"}}, 'g')
                .extension('L', name + '\0')
                .file("short", "gnu")
                .extension('K', target + '\0')
                .link("l", "short")
                .header({.name = "file", .prefix = "some/prefix"})
                .header({.name = "old", .magic = std::string("ustar  \0", 8)})
                .header({.name = "v7", .magic = std::string(8, '\0')})
                .pax({{"path", "sun/" + name}}, 'X')
                .file("cut", "sun")
                .end());
  const auto done = seed.run();
  ASSERT_TRUE(done) << done.error().message;
  const Files wanted{{name, "gnu"}, {"l", target}, {"some/prefix/file", ""},
                     {"old", ""},   {"v7", ""},    {"sun/" + name, "sun"}};
  EXPECT_EQ(seed.files(), wanted);
}

TEST(SanitiseArchive, SparseFilesOfAllFormatsAreMadeWhole) {
  std::string map = "1\n6\n4\n";
  map.resize(512, '\0');
  Header old{.name = "old", .type = 'S', .size = 4, .magic = std::string("ustar  \0", 8)};
  old.patches = {{386, "00000000006"}, {398, "00000000004"}, {483, "00000000014"}};
  Seed seed(
      Tar()
          .pax({{"GNU.sparse.major", "0"}, {"GNU.sparse.size", "12"}, {"GNU.sparse.map", "6,4"}})
          .file("first", "data")
          .pax({{"GNU.sparse.major", "1"},
                {"GNU.sparse.minor", "0"},
                {"GNU.sparse.name", "second"},
                {"GNU.sparse.realsize", "12"}})
          .file("GNUSparseFile.1/second", map + "data")
          .header(old)
          .data("data")
          .end());
  const auto done = seed.run();
  ASSERT_TRUE(done) << done.error().message;
  const std::string whole = std::string(6, '\0') + "data" + std::string(2, '\0');
  EXPECT_EQ(seed.files(), (Files{{"first", whole}, {"old", whole}, {"second", whole}}));
  expect_refused(
      Tar().pax({{"GNU.sparse.size", "9"}, {"GNU.sparse.map", "0,3"}}).file("x", "abcd").end(),
      "fit");
}

// What was written is a tar by the strictest reader that we have: owners, times, and no attributes.
TEST(SanitiseArchive, WhatIsWrittenIsAPlainTar) {
  Seed seed(Tar()
                .header({.name = "d/", .type = '5', .mode = 0700, .uid = 1000, .mtime = 1000})
                .pax({{"mtime", "1234.000000567"},
                      {"uid", "99999999"},
                      {"SCHILY.xattr.user.note", "hello"},
                      {"SCHILY.xattr.security.capability", "x"}})
                .file("d/f", "x")
                .pax({{"mtime", "-1.5"}})
                .file("d/old", "x")
                .header({.name = "d/ahead", .mtime = 8'000'000'000})
                .header({.name = "d/l", .type = '2', .link = "f", .gid = 7, .mtime = 5})
                .end());
  ASSERT_TRUE(seed.run());
  Home tree;
  const auto done = tree.unpack(seed.written);
  ASSERT_TRUE(done) << done.error().message;
  for (const char* name : {"d", "d/f", "d/l"}) {
    EXPECT_EQ(tree.facts(std::string("out/root/") + name).st_uid, 0U);
    EXPECT_EQ(tree.facts(std::string("out/root/") + name).st_gid, 0U);
  }
  EXPECT_EQ(tree.facts("out/root/d").st_mtim.tv_sec, 1000);
  EXPECT_EQ(tree.facts("out/root/d/f").st_mtim.tv_sec, 1234);
  EXPECT_EQ(tree.facts("out/root/d/f").st_mtim.tv_nsec, 567);
  EXPECT_EQ(tree.facts("out/root/d/old").st_mtim.tv_sec, 0);
  EXPECT_LE(tree.facts("out/root/d/ahead").st_mtim.tv_sec, ::time(nullptr));
  EXPECT_EQ(tree.facts("out/root/d/l").st_mtim.tv_sec, 5);
  EXPECT_EQ(tree.attribute("out/root/d/f", "user.note"), "");
  EXPECT_EQ(seed.written.substr(seed.written.size() - 1024), std::string(1024, '\0'));
}

TEST(SanitiseArchive, WhiteoutsMeanNothingHere) {
  expect_kept(Tar().file(".wh.x").file(".wh..wh..opq").folder(".wh.d"),
              {".wh..wh..opq", ".wh.d", ".wh.x"}, 0);
}

// An image's layers stay what their specification says.
TEST(SanitiseArchive, ImagesAreNotReadFromWhatOnlyAnybodyMaySend) {
  const std::string plain = Tar().file("x", "1").end();
  for (const std::string& packed : {bzip2(plain), xz(plain)}) {
    Home home;
    EXPECT_FALSE(home.unpack(packed));
  }
}

}  // namespace
}  // namespace caisson::layer
