#include "sys/file.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>

#include "sys/temp_dir_test.h"

namespace caisson::sys {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(ReadSmall, OneByteTooManyIsAnErrorAndNotACut) {
  const TempDir dir;
  dir.write("exact", std::string(10'000, 'x'));
  EXPECT_EQ(read_small(dir.fd(), "exact", 10'000), std::string(10'000, 'x'));
  const auto more = read_small(dir.fd(), "exact", 9'999);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Errc::Exhausted);
  EXPECT_TRUE(more.error().message.starts_with("exact: ")) << more.error().message;
  dir.write("empty", "");
  EXPECT_EQ(read_small(dir.fd(), "empty", 0), "");
}

TEST(ReadSmall, AFifoWithoutAWriterDoesNotHang) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.path("fifo").c_str(), 0600), 0);
  const auto read = read_small(dir.fd(), "fifo");
  EXPECT_FALSE(read);
}

TEST(ReadAgain, BeginsAtTheBeginningEachTime) {
  const TempDir dir;
  dir.write("file", "first");
  const auto file = open_at(dir.fd(), "file", O_RDONLY);
  ASSERT_TRUE(file);
  EXPECT_EQ(read_again(file->get()), "first");
  dir.write("file", "second");
  EXPECT_EQ(read_again(file->get()), "second");
}

TEST(OpenAt, EveryDescriptorIsBornCloseOnExec) {
  const TempDir dir;
  dir.write("file", "");
  const auto is_cloexec = [](int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; };
  EXPECT_TRUE(is_cloexec(open_at(dir.fd(), "file", O_RDONLY)->get()));
  EXPECT_TRUE(is_cloexec(open_beneath(dir.fd(), "file", O_RDONLY)->get()));
  EXPECT_TRUE(is_cloexec(duplicate(dir.fd())->get()));
  const auto pipe = make_pipe();
  EXPECT_TRUE(is_cloexec(pipe->read.get()) && is_cloexec(pipe->write.get()));
  EXPECT_TRUE(is_cloexec(sealed_memfd("test", {}, 0400)->get()));
}

TEST(OpenBeneath, NothingLeadsOut) {
  const TempDir dir;
  dir.write("secret", "outside");
  dir.folder("root/inner");
  dir.write("root/file", "inside");
  dir.link("../secret", "root/up");
  dir.link("/etc/passwd", "root/absolute");
  dir.link("file", "root/harmless");
  dir.link("/proc/self/root", "root/magic");
  dir.link("inner", "root/folder");
  dir.write("root/inner/deep", "deep");
  const auto root = open_at(dir.fd(), "root", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(root);
  for (const char* path : {"..", "../secret", "inner/../../secret", "up", "absolute", "/etc/passwd",
                           "harmless", "magic", "magic/etc/passwd", "folder/deep", ""}) {
    EXPECT_FALSE(open_beneath(root->get(), path, O_RDONLY)) << path;
  }
  EXPECT_TRUE(open_beneath(root->get(), "file", O_RDONLY));
  EXPECT_TRUE(open_beneath(root->get(), "inner/deep", O_RDONLY));
}

// /proc has links that are none on disk: they jump to where a descriptor points.
TEST(OpenBeneath, MagicLinksAreNotFollowed) {
  const auto proc = open_at(AT_FDCWD, "/proc/self", O_RDONLY | O_DIRECTORY);
  ASSERT_TRUE(proc);
  for (const char* path : {"root/etc/passwd", "cwd/.", "exe", "fd/0"})
    EXPECT_FALSE(open_beneath(proc->get(), path, O_RDONLY)) << path;
  EXPECT_TRUE(open_beneath(proc->get(), "status", O_RDONLY));
}

TEST(RemoveTree, LinksAreRemovedAndNeverFollowed) {
  const TempDir dir;
  dir.folder("kept/deep");
  dir.write("kept/deep/file", "kept");
  dir.folder("tree/a/b/c");
  dir.write("tree/a/b/c/file", "gone");
  dir.link(dir.path("kept"), "tree/a/to_folder");
  dir.link(dir.path("kept/deep/file"), "tree/a/b/to_file");
  dir.link("/", "tree/to_root");
  dir.link("nowhere", "tree/dangling");
  ASSERT_TRUE(remove_tree(dir.fd(), "tree"));
  EXPECT_FALSE(dir.has("tree"));
  EXPECT_EQ(dir.read("kept/deep/file"), "kept");
}

TEST(RemoveTree, ALinkOnTopIsOnlyALink) {
  const TempDir dir;
  dir.folder("kept");
  dir.write("kept/file", "kept");
  dir.link("kept", "link");
  ASSERT_TRUE(remove_tree(dir.fd(), "link"));
  EXPECT_FALSE(dir.has("link"));
  EXPECT_EQ(dir.read("kept/file"), "kept");
  const auto missing = remove_tree(dir.fd(), "missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::NotFound);
}

TEST(RemoveTree, DepthHasALimit) {
  const TempDir dir;
  std::string deep = "tree";
  for (int i = 0; i < 140; ++i) deep += "/d";
  dir.folder(deep);
  const auto removed = remove_tree(dir.fd(), "tree");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Errc::Exhausted);
}

TEST(ListDir, MoreThanTheLimitIsAnError) {
  const TempDir dir;
  for (const char* name : {"a", "b", ".c"}) dir.write(name, "");
  auto all = list_dir(dir.fd(), 3);
  ASSERT_TRUE(all);
  std::ranges::sort(*all);
  EXPECT_EQ(*all, (std::vector<std::string>{".c", "a", "b"}));
  EXPECT_EQ(list_dir(dir.fd(), 2).error().code, Errc::Exhausted);
}

TEST(MakeDir, SaysWhenSomebodyWasFirst) {
  const TempDir dir;
  EXPECT_TRUE(make_dir(dir.fd(), "one", 0700, Existing::Refuse));
  EXPECT_TRUE(make_dir(dir.fd(), "one", 0700, Existing::Accept));
  EXPECT_EQ(make_dir(dir.fd(), "one", 0700, Existing::Refuse).error().code, Errc::AlreadyExists);
  EXPECT_TRUE(remove_dir(dir.fd(), "one"));
  EXPECT_FALSE(remove_dir(dir.fd(), "one"));
}

TEST(WriteOnce, NamesTheFileThatRefused) {
  const TempDir dir;
  const auto missing = write_once(dir.fd(), "nothing/here", "1");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("nothing/here"), std::string::npos);
  dir.write("file", "");
  EXPECT_TRUE(write_once(dir.fd(), "file", "value"));
  EXPECT_EQ(dir.read("file"), "value");
}

TEST(SealedMemfd, NobodyCanChangeIt) {
  const std::string content = "init";
  const auto sealed = sealed_memfd("test", bytes_of(content), 0111);
  ASSERT_TRUE(sealed);
  EXPECT_EQ(read_again(sealed->get()), content);
  EXPECT_LT(::pwrite(sealed->get(), "x", 1, 0), 0);
  EXPECT_LT(::pwrite(sealed->get(), "x", 1, 100), 0);
  EXPECT_NE(::ftruncate(sealed->get(), 0), 0);
  EXPECT_NE(::ftruncate(sealed->get(), 100), 0);
  EXPECT_EQ(::mmap(nullptr, 4, PROT_READ | PROT_WRITE, MAP_SHARED, sealed->get(), 0), MAP_FAILED);
  // The seals are sealed too: none can be added later to make the content unusable.
  EXPECT_NE(::fcntl(sealed->get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  struct stat facts{};
  ASSERT_EQ(::fstat(sealed->get(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0111U);
  EXPECT_EQ(read_again(sealed->get()), content);
}

TEST(Park, MovesHighOnceAndClosesTheLowOne) {
  const TempDir dir;
  auto low = duplicate(dir.fd());
  ASSERT_TRUE(low);
  const int number = low->get();
  ASSERT_LT(number, kParkedFdMin);
  auto parked = park(std::move(*low));
  ASSERT_TRUE(parked);
  EXPECT_GE(parked->get(), kParkedFdMin);
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
  const int high = parked->get();
  EXPECT_EQ(park(std::move(*parked))->get(), high);
}

TEST(RandomBytes, DifferEachTime) {
  std::array<std::byte, 32> one{};
  std::array<std::byte, 32> two{};
  ASSERT_TRUE(random_bytes(one) && random_bytes(two));
  EXPECT_NE(one, two);
}

}  // namespace
}  // namespace caisson::sys
