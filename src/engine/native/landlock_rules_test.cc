#include "engine/native/landlock_rules.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace caisson::engine::native {
namespace {

std::vector<std::string> written(const LaunchRequest& request) {
  std::vector<std::string> paths;
  for (const Rule& rule : landlock_rules(request)) {
    if (rule.access == wire::Access::Write) paths.push_back(rule.path);
  }
  std::ranges::sort(paths);
  return paths;
}

using Paths = std::vector<std::string>;

TEST(LandlockRules, WithoutAGrantNothingIsWritten) {
  LaunchRequest request;
  request.scratch = ScratchMode::ReadOnly;
  request.workspace = WorkspaceMode::ReadOnly;
  request.folders = {{"/ref", FolderMode::ReadOnly}};
  EXPECT_EQ(written(request), Paths{});
}

TEST(LandlockRules, OnlyWhatIsGrantedIsWritten) {
  LaunchRequest request;
  EXPECT_EQ(written(request), (Paths{"/dev/shm", "/run", "/tmp", "/workspace"}));
  request.scratch = ScratchMode::ReadOnly;
  request.workspace = WorkspaceMode::ReadOnly;
  request.folders = {{"/copy", FolderMode::PrivateCopy},
                     {"/ref", FolderMode::ReadOnly},
                     {"/real", FolderMode::Writable}};
  request.writable = {"/cache"};
  EXPECT_EQ(written(request), (Paths{"/cache", "/copy", "/real"}));
}

TEST(LandlockRules, AVolumeInThePlaceOfTheWorkspace) {
  LaunchRequest request;
  request.scratch = ScratchMode::ReadOnly;
  StoreMount volume;
  volume.kind = StoreMount::Kind::Volume;
  volume.at = "/workspace";
  volume.read_only = true;
  request.store_mounts = {volume};
  EXPECT_FALSE(has_own_workspace(request));
  EXPECT_EQ(written(request), Paths{});
  request.store_mounts[0].read_only = false;
  EXPECT_EQ(written(request), Paths{"/workspace"});
  request.store_mounts[0].at = "/workspace/x";
  EXPECT_TRUE(has_own_workspace(request));
  EXPECT_EQ(written(request), (Paths{"/workspace", "/workspace/x"}));
}

TEST(LandlockRules, AWritableRootIsOneRule) {
  LaunchRequest request;
  request.root = RootMode::Writable;
  EXPECT_EQ(written(request), Paths{"/"});
}

// The kernel's trees take ioctl and the few writes of a process about itself, never a new file.
TEST(LandlockRules, DevAndProcAreDevicesInEveryMode) {
  for (const RootMode root : {RootMode::ReadOnly, RootMode::Writable}) {
    LaunchRequest request;
    request.root = root;
    const std::vector<Rule> rules = landlock_rules(request);
    for (const char* path : {"/dev", "/proc"}) {
      EXPECT_EQ(std::ranges::count(rules, Rule{wire::Access::Device, path}), 1) << path;
      EXPECT_EQ(std::ranges::count(rules, Rule{wire::Access::Write, path}), 0) << path;
    }
    EXPECT_EQ(std::ranges::count(rules, Rule{wire::Access::Read, "/"}), 1);
  }
}

}  // namespace
}  // namespace caisson::engine::native
