#include "engine/native/skeleton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sys/temp_dir_test.h"

namespace caisson::engine::native {
namespace {

namespace fs = std::filesystem;

// One for the whole suite: a copy of parts of the host's /etc costs some time.
class Skeleton : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    store_ = std::make_unique<sys::TempDir>();
    store_->folder("layers");
    store_->folder("trash");
    layer_ = ensure_host_skeleton(store_->fd(), ::geteuid());
  }
  static void TearDownTestSuite() { store_.reset(); }
  void SetUp() override { ASSERT_TRUE(layer_) << layer_.error().message; }

  static std::string path(const std::string& inside) {
    return store_->path(*layer_ + "/" + inside);
  }
  static std::set<std::string> names(const std::string& inside) {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(path(inside)))
      found.insert(entry.path().filename().string());
    return found;
  }

  static inline std::unique_ptr<sys::TempDir> store_;  // NOLINT: the suite's own
  static inline Result<std::string> layer_;            // NOLINT: the suite's own
};

TEST_F(Skeleton, NothingPrivateOfTheHostIsInIt) {
  for (const char* name : {"etc/shadow", "etc/gshadow", "etc/sudoers", "etc/ssh", "etc/ssl/private",
                           "etc/machine-id", "etc/subuid", "etc/crontab"}) {
    EXPECT_FALSE(fs::exists(fs::symlink_status(path(name)))) << name;
  }
  for (const char* folder : {"home", "root", "opt", "srv", "mnt", "media", "proc", "sys", "dev",
                             "tmp", "run", "usr", "var/lib", "var/log", "var/cache", "var/tmp"}) {
    EXPECT_TRUE(names(folder).empty()) << folder;
  }
  // The host's accounts are no business of a guest.
  const std::string passwd = store_->read(*layer_ + "/etc/passwd");
  EXPECT_EQ(std::ranges::count(passwd, '\n'), 3);
  EXPECT_NE(passwd.find("agent:x:1000:1000:"), std::string::npos);
}

TEST_F(Skeleton, EveryFileIsForEveryoneAndNoneHasSpecialBits) {
  for (const auto& entry : fs::recursive_directory_iterator(path("etc"))) {
    struct stat facts{};
    ASSERT_EQ(::lstat(entry.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_uid, ::geteuid());
    EXPECT_TRUE(S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode) || S_ISLNK(facts.st_mode))
        << entry.path();
    if (!S_ISLNK(facts.st_mode)) {
      EXPECT_EQ(facts.st_mode & 07000, 0U) << entry.path();
      EXPECT_NE(facts.st_mode & S_IROTH, 0U) << entry.path();
      EXPECT_EQ(facts.st_mode & S_IWOTH, 0U) << entry.path();
    }
  }
  struct stat tmp{};
  ASSERT_EQ(::lstat(path("tmp").c_str(), &tmp), 0);
  EXPECT_EQ(tmp.st_mode & 07777, 01777U);
}

TEST_F(Skeleton, RootNamesAreLinksWhereTheHostsAre) {
  for (const char* name : {"bin", "sbin", "lib", "lib64"}) {
    const fs::path host = fs::path("/") / name;
    if (fs::is_symlink(host)) {
      EXPECT_EQ(fs::read_symlink(path(name)), fs::read_symlink(host)) << name;
    } else if (fs::is_directory(host)) {
      EXPECT_TRUE(fs::is_directory(path(name))) << name;
    }
  }
  EXPECT_EQ(fs::read_symlink(path("etc/mtab")), "/proc/self/mounts");
  EXPECT_EQ(fs::read_symlink(path("var/run")), "/run");
}

TEST_F(Skeleton, IsMadeOnceAndLeavesNoWaste) {
  const auto again = ensure_host_skeleton(store_->fd(), ::geteuid());
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *layer_);
  EXPECT_TRUE(fs::is_empty(store_->path("trash")));
  EXPECT_TRUE(layer_->starts_with("layers/host-") && layer_->ends_with("/fs")) << *layer_;
}

TEST(SkeletonFailure, IsAnErrorAndLeavesNoHalfLayer) {
  const sys::TempDir store;
  store.folder("trash");  // no layers: the finished one cannot be named
  EXPECT_FALSE(ensure_host_skeleton(store.fd(), std::nullopt));
  EXPECT_TRUE(fs::is_empty(store.path("trash")));
}

TEST(HostSystemFolders, AreRealFoldersAndUsrIsFirst) {
  const auto folders = host_system_folders();
  ASSERT_FALSE(folders.empty());
  EXPECT_EQ(folders.front(), "/usr");
  for (const std::string& folder : folders)
    EXPECT_TRUE(fs::is_directory(fs::symlink_status(folder))) << folder;
}

}  // namespace
}  // namespace caisson::engine::native
