#include "image/blob_store.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "image/run_test.h"
#include "sys/file.h"
#include "sys/temp_dir_test.h"

namespace caisson::image {
namespace {

using test::run;

class BlobStoreTest : public testing::Test {
 protected:
  BlobStoreTest() { reopen(); }
  void reopen(BlobStoreOptions options = {}) {
    store_.reset();
    auto opened = BlobStore::open(dir_.path("store"), options);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  std::string file_of(const Digest& digest) {
    return "store/blobs/" + std::string(to_string(digest.algorithm())) + "/" +
           std::string(digest.hex());
  }
  std::string part_of(const Digest& digest) {
    return "store/ingest/" + std::string(to_string(digest.algorithm())) + "-" +
           std::string(digest.hex()) + ".part";
  }
  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }

  boost::asio::io_context io_;
  sys::TempDir dir_;
  std::unique_ptr<BlobStore> store_;
};

TEST_F(BlobStoreTest, KeepsWhatItsDigestSays) {
  const auto stored = run(io_, store_->put("hello"));
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->digest, digest_of("hello"));
  EXPECT_EQ(store_->size_of(stored->digest), 5U);
  const auto text = run(io_, store_->read_verified(stored->digest, 100));
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "hello");
  EXPECT_EQ(run(io_, store_->read_verified(stored->digest, 4)).error().code, Errc::TooLarge);
  const auto wide = run(io_, store_->put("hello", Algorithm::Sha512));
  ASSERT_TRUE(wide);
  EXPECT_TRUE(dir_.has(file_of(wide->digest)));
  EXPECT_EQ(store_->list()->size(), 2U);
}

TEST_F(BlobStoreTest, DescriptorsAreReadOnlyAndOfTheVerifiedFile) {
  const auto stored = run(io_, store_->put("hello"));
  const auto fd = run(io_, store_->open_verified(stored->digest));
  ASSERT_TRUE(fd);
  for (const int one : {fd->get(), stored->fd.get()}) {
    EXPECT_EQ(::fcntl(one, F_GETFL) & O_ACCMODE, O_RDONLY);
    EXPECT_EQ(::lseek(one, 0, SEEK_CUR), 0);
    EXPECT_EQ(sys::read_again(one), "hello");
  }
}

TEST_F(BlobStoreTest, ADamagedBlobIsNeverHandedOut) {
  const auto stored = run(io_, store_->put("hello"));
  ASSERT_EQ(::chmod(dir_.path(file_of(stored->digest)).c_str(), 0600), 0);
  dir_.write(file_of(stored->digest), "hellp");
  EXPECT_EQ(run(io_, store_->open_verified(stored->digest)).error().code, Errc::NotFound);
  EXPECT_FALSE(dir_.has(file_of(stored->digest)));
  EXPECT_EQ(run(io_, store_->open_verified(stored->digest)).error().code, Errc::NotFound);
  // A link under a blob's name is not followed.
  dir_.write("elsewhere", "hello");
  dir_.link("../../../elsewhere", file_of(digest_of("hello")));
  EXPECT_FALSE(run(io_, store_->open_verified(digest_of("hello"))));
}

TEST_F(BlobStoreTest, WrongContentHasNoName) {
  const Digest digest = digest_of("hello");
  auto ingest = store_->begin_here(digest, 5);
  ASSERT_TRUE(ingest);
  ASSERT_TRUE(ingest->write(bytes("hellp")));
  EXPECT_EQ(store_->commit_here(std::move(*ingest)).error().code, Errc::Protocol);
  EXPECT_FALSE(store_->size_of(digest));
  EXPECT_FALSE(dir_.has(part_of(digest)));
  // Too long, too short.
  ingest = store_->begin_here(digest, 5);
  ASSERT_TRUE(ingest);
  EXPECT_EQ(ingest->write(bytes("hello!")).error().code, Errc::TooLarge);
  ASSERT_TRUE(ingest->write(bytes("hell")));
  EXPECT_EQ(store_->commit_here(std::move(*ingest)).error().code, Errc::Protocol);
  EXPECT_FALSE(store_->size_of(digest));
}

TEST_F(BlobStoreTest, APartialDownloadIsResumedAndHashedAgain) {
  const Digest digest = digest_of("hello");
  {
    auto ingest = store_->begin_here(digest, 5);
    ASSERT_TRUE(ingest->write(bytes("hel")));
    EXPECT_EQ(store_->begin_here(digest, 5).error().code, Errc::Busy);
  }
  reopen();
  auto ingest = store_->begin_here(digest, 5);
  ASSERT_TRUE(ingest);
  EXPECT_EQ(ingest->offset(), 3U);
  ASSERT_TRUE(ingest->write(bytes("lo")));
  EXPECT_TRUE(store_->commit_here(std::move(*ingest)));
  // Bytes that changed on disk meanwhile are noticed at the end.
  const Digest other = digest_of("other");
  {
    auto half = store_->begin_here(other, 5);
    ASSERT_TRUE(half->write(bytes("oth")));
  }
  dir_.write(part_of(other), "oTh");
  auto half = store_->begin_here(other, 5);
  ASSERT_TRUE(half->write(bytes("er")));
  EXPECT_EQ(store_->commit_here(std::move(*half)).error().code, Errc::Protocol);
  // More bytes than it may have: from the first byte.
  dir_.write(part_of(other), "other and more");
  EXPECT_EQ(store_->begin_here(other, 5)->offset(), 0U);
}

TEST_F(BlobStoreTest, LeftoversGoWhenItIsOpened) {
  dir_.write("store/ingest/new-0123", "half");
  dir_.write("store/ingest/odd", "x");
  dir_.write(part_of(digest_of("a")), "fresh");
  dir_.write(part_of(digest_of("b")), "old");
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, dir_.path(part_of(digest_of("b"))).c_str(), old, 0), 0);
  reopen();
  EXPECT_FALSE(dir_.has("store/ingest/new-0123"));
  EXPECT_FALSE(dir_.has("store/ingest/odd"));
  EXPECT_TRUE(dir_.has(part_of(digest_of("a"))));
  EXPECT_FALSE(dir_.has(part_of(digest_of("b"))));
  {
    auto dropped = store_->begin_new(10);
    ASSERT_TRUE(dropped->write(bytes("x")));
    EXPECT_EQ(sys::list_dir(sys::open_at(AT_FDCWD, dir_.path("store/ingest"), O_RDONLY)->get(), 10)
                  ->size(),
              2U);
  }
  EXPECT_EQ(
      sys::list_dir(sys::open_at(AT_FDCWD, dir_.path("store/ingest"), O_RDONLY)->get(), 10)->size(),
      1U);
}

TEST_F(BlobStoreTest, GarbageIsWhatNobodyHoldsOrNames) {
  std::vector<Digest> digests;
  Pin held;
  for (const char* text : {"named", "pinned", "garbage"}) {
    const auto stored = run(io_, store_->put(text));
    digests.push_back(stored->digest);
  }
  Pin pin = store_->pin(digests[1]);
  EXPECT_EQ(store_->remove(digests[1]).error().code, Errc::Busy);
  // Young blobs stay.
  auto removed = run(io_, store_->remove_unreferenced({digests[0]}, seconds(3600)));
  EXPECT_EQ(removed->blobs, 0U);
  removed = run(io_, store_->remove_unreferenced({digests[0]}, seconds(0)));
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->blobs, 1U);
  EXPECT_EQ(removed->bytes, 7U);
  EXPECT_TRUE(store_->size_of(digests[0]));
  EXPECT_TRUE(store_->size_of(digests[1]));
  EXPECT_FALSE(store_->size_of(digests[2]));
  pin = Pin();
  EXPECT_TRUE(store_->remove(digests[1]));
  EXPECT_EQ(store_->remove(digests[1]).error().code, Errc::NotFound);
}

TEST_F(BlobStoreTest, AFullDiskIsSaidAndLeavesNothingVisible) {
  // A limit of file size stands for the disk: the write fails in the middle.
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small{100000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string big(200000, 'x');
  const auto stored = store_->put_here(big);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)::signal(SIGXFSZ, handler);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, Errc::StoreFull);
  EXPECT_TRUE(store_->list()->empty());
  EXPECT_TRUE(store_->put_here(big)) << "and it works when there is space again";
}

TEST_F(BlobStoreTest, TheReserveOfTheDiskIsKept) {
  BlobStoreOptions options;
  options.free_bytes_min = ~std::uint64_t{0} / 2;
  reopen(options);
  EXPECT_EQ(store_->begin_here(digest_of("a"), 1).error().code, Errc::StoreFull);
  EXPECT_EQ(store_->put_here("a").error().code, Errc::StoreFull);
  EXPECT_TRUE(store_->list()->empty());
}

}  // namespace
}  // namespace caisson::image
