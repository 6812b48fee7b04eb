#include "cli/client_tar.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "cli/client_untar.h"
#include "sys/temp_dir_test.h"

namespace caisson::cli {
namespace {

using sys::TempDir;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string entry(const std::string& name, char type, const std::string& content = "",
                  const std::string& link = "", unsigned mode = 0644) {
  std::string out = tar_header({name, link, type, mode, 1234567890, content.size()}) + content;
  out.append((kTarBlock - out.size() % kTarBlock) % kTarBlock, '\0');
  return out;
}

std::string end() { return std::string(2 * kTarBlock, '\0'); }

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

// Fed in pieces of `step` bytes: the answer must not depend on how the stream was cut.
Result<void> unpack(const std::string& archive, const std::string& folder, UnpackLimits limits = {},
                    std::size_t step = 100'000) {
  Unpacker unpacker(open_folder(folder), limits);
  for (std::size_t at = 0; at < archive.size(); at += step)
    TRY(unpacker.take(bytes_of(std::string_view(archive).substr(at, step))));
  return unpacker.finish();
}

void expect_refused(const std::string& archive, std::string_view part) {
  const TempDir dir;
  const std::string folder = dir.folder("in");
  const auto result = unpack(archive + end(), folder);
  ASSERT_FALSE(result) << part;
  EXPECT_NE(result.error().message.find(part), std::string::npos) << result.error().message;
  // Nothing but the folder is in the folder around it.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

// --- what must not come out ---

TEST(Unpacker, NamesThatLeadOutAreRefused) {
  expect_refused(entry("/etc/passwd", '0', "x"), "an absolute name");
  expect_refused(entry("../x", '0', "x"), "leads out");
  expect_refused(entry("a/../../x", '0', "x"), "leads out");
  expect_refused(entry("a/..", '5'), "leads out");
  expect_refused(entry(std::string(200, 'a') + "/../../../x", '0', "x"), "leads out");  // pax
  expect_refused(entry(".", '0', "x"), "without a name");
}

TEST(Unpacker, LinksThatLeadOutAreRefused) {
  expect_refused(entry("l", '2', "", "/etc"), "leads out");
  expect_refused(entry("l", '2', "", ".."), "leads out");
  expect_refused(entry("a/l", '2', "", "../../x"), "leads out");
  expect_refused(entry("l", '2', "", ""), "leads out");
  // Its text stays inside; by way of another link it would not.
  expect_refused(entry("d/up", '2', "", "..") + entry("l", '2', "", "d/up/../x"), "leads out");
  expect_refused(entry("h", '1', "", "x"), "a hard link");
}

TEST(Unpacker, NothingIsWrittenThroughALink) {
  expect_refused(entry("d", '2', "", "e") + entry("d/x", '0', "evil"), "");
  const TempDir dir;
  dir.folder("outside");
  dir.folder("in");
  dir.link("../outside", "in/trap");
  EXPECT_FALSE(unpack(entry("trap/x", '0', "evil") + end(), dir.path("in")));
  EXPECT_FALSE(dir.has("outside/x"));
  // A file that is a link already is replaced, not followed.
  dir.write("outside/victim", "old");
  dir.link("../outside/victim", "in/file");
  EXPECT_TRUE(unpack(entry("file", '0', "new") + end(), dir.path("in")));
  EXPECT_EQ(dir.read("outside/victim"), "old");
  EXPECT_EQ(dir.read("in/file"), "new");
}

TEST(Unpacker, DevicesAndFifosAreRefused) {
  for (const char type : {'3', '4', '6', 'S', 'Z'})
    expect_refused(entry("x", type), "neither a file nor a folder nor a link");
}

TEST(Unpacker, WhatIsNoArchiveIsRefused) {
  const std::string good = entry("a", '0', "abc");
  const TempDir dir;
  EXPECT_FALSE(unpack("", dir.path()));
  EXPECT_FALSE(unpack(good, dir.path()));  // no end
  EXPECT_FALSE(unpack(good.substr(0, 700) + "", dir.path()));
  EXPECT_FALSE(unpack(std::string(1024, 'x'), dir.path()));
  std::string wrong_sum = good + end();
  wrong_sum[0] = 'b';
  EXPECT_FALSE(unpack(wrong_sum, dir.path()));
  EXPECT_FALSE(unpack(std::string(kTarBlock, '\0') + good + end(), dir.path()));
}

TEST(Unpacker, LimitsHold) {
  const TempDir dir;
  UnpackLimits limits;
  limits.entries_max = 2;
  const std::string two = entry("a", '0', "1") + entry("b", '0', "2");
  EXPECT_TRUE(unpack(two + end(), dir.path(), limits));
  EXPECT_FALSE(unpack(two + entry("c", '0', "3") + end(), dir.path(), limits));
  limits = {};
  limits.bytes_max = 5;
  EXPECT_TRUE(unpack(entry("a", '0', "12345") + end(), dir.path(), limits));
  EXPECT_FALSE(unpack(entry("a", '0', "123") + entry("b", '0', "123") + end(), dir.path(), limits));
  std::string deep;
  for (std::size_t i = 0; i < kTarDepthMax; ++i) deep += "d/";
  EXPECT_TRUE(safe_entry_name(deep));
  EXPECT_FALSE(safe_entry_name(deep + "d"));
  EXPECT_FALSE(safe_entry_name(std::string(256, 'a')));
  EXPECT_FALSE(safe_entry_name(std::string_view("a\0b", 3)));
  expect_refused(tar_header({"x", "", 'x', 0, 0, kTarExtensionMax + 1}), "too long");
}

TEST(Unpacker, NoSetIdBitComesThrough) {
  const TempDir dir;
  std::string archive = entry("a", '0', "x", "", 0777);
  archive.replace(100, 7, "0006777");
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i)
    sum += i >= 148 && i < 156 ? std::uint64_t{' '} : static_cast<unsigned char>(archive[i]);
  char text[8];
  std::snprintf(text, sizeof(text), "%06o", static_cast<unsigned>(sum));
  archive.replace(148, 6, text, 6);
  ASSERT_TRUE(unpack(archive + end(), dir.path()));
  struct stat info{};
  ASSERT_EQ(::stat(dir.path("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07000U, 0U);
}

// --- what does ---

TEST(Unpacker, FilesFoldersAndLinksInside) {
  const std::string archive = entry("./", '5') + entry("./d/", '5', "", "", 0700) +
                              entry("d/a", '0', std::string(1000, 'a')) + entry("e/f/g", '0', "") +
                              entry("d/l", '2', "", "../e/f") +
                              entry(std::string(150, 'n'), '0', "long") + end();
  for (const std::size_t step : {std::size_t{1}, std::size_t{511}, std::size_t{100'000}}) {
    const TempDir dir;
    const auto result = unpack(archive, dir.path(), {}, step);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(dir.read("d/a"), std::string(1000, 'a'));
    EXPECT_TRUE(dir.has("e/f/g"));
    EXPECT_EQ(std::filesystem::read_symlink(dir.path("d/l")), "../e/f");
    EXPECT_EQ(dir.read(std::string(150, 'n')), "long");
    struct stat info{};
    ASSERT_EQ(::stat(dir.path("d/a").c_str(), &info), 0);
    EXPECT_EQ(info.st_mtim.tv_sec, 1234567890);
  }
}

TEST(SafeLink, TwoDotsLeadAndStayInside) {
  EXPECT_TRUE(is_safe_link("a", "b/c"));
  EXPECT_TRUE(is_safe_link("a/b/c", "../../d"));
  EXPECT_TRUE(is_safe_link("a/b", "./../c"));
  EXPECT_FALSE(is_safe_link("a/b", "../../c"));
  EXPECT_FALSE(is_safe_link("a/b", "x/../c"));
  EXPECT_FALSE(is_safe_link("a/b", "/c"));
  EXPECT_FALSE(is_safe_link("a/b", std::string_view("a\0", 2)));
}

std::string pack(const std::string& folder, std::size_t step) {
  auto packer = Packer::scan(folder);
  EXPECT_TRUE(packer) << packer.error().message;
  std::string out;
  std::string piece(step, '\0');
  for (;;) {
    const auto got = packer->read(std::as_writable_bytes(std::span(piece.data(), piece.size())));
    EXPECT_TRUE(got);
    if (!got || *got == 0) return out;
    out.append(piece, 0, *got);
  }
}

TEST(Packer, WhatItPacksUnpacksToTheSame) {
  const TempDir from;
  from.write("a", std::string(1025, 'x'));
  from.write("empty", "");
  from.folder("d/e");
  from.write("d/e/" + std::string(120, 'n'), "long name");
  from.link("../a", "d/link");
  const std::string archive = pack(from.path(), 4096);
  EXPECT_EQ(archive.size() % kTarBlock, 0U);
  EXPECT_EQ(pack(from.path(), 7), archive);
  const TempDir to;
  const auto result = unpack(archive, to.path());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(to.read("a"), std::string(1025, 'x'));
  EXPECT_TRUE(to.has("empty"));
  EXPECT_EQ(to.read("d/e/" + std::string(120, 'n')), "long name");
  EXPECT_EQ(std::filesystem::read_symlink(to.path("d/link")), "../a");
}

// A link in the folder goes as a link: what it points to is not ours to send.
TEST(Packer, LinksAreNotFollowedAndOddFilesAreLeftOut) {
  const TempDir dir;
  dir.folder("in");
  dir.write("secret", "do not send");
  dir.link("../secret", "in/link");
  dir.link("..", "in/up");
  ASSERT_EQ(::mkfifo(dir.path("in/fifo").c_str(), 0600), 0);
  auto packer = Packer::scan(dir.path("in"));
  ASSERT_TRUE(packer);
  EXPECT_EQ(packer->left_out(), std::vector<std::string>{"fifo"});
  EXPECT_EQ(packer->content_bytes(), 0U);
  const std::string archive = pack(dir.path("in"), 4096);
  EXPECT_EQ(archive.find("do not send"), std::string::npos);
  EXPECT_FALSE(Packer::scan(dir.path("none")));
  EXPECT_FALSE(Packer::scan(dir.path("secret")));
}

TEST(Packer, AFolderThatIsTooDeepIsRefused) {
  const TempDir dir;
  std::string path = "d";
  for (std::size_t i = 0; i < kPackDepthMax; ++i) path += "/d";
  dir.folder(path);
  const auto result = Packer::scan(dir.path());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::TooLarge);
}

}  // namespace
}  // namespace caisson::cli
