// Most hosts share their mounts with every namespace that does not object. This file makes the test
// program see the host so, in a mount namespace of its own that ends with it, before the first
// sandbox is made: a copy of a mount that forgot to be private shows itself.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

namespace caisson::test {

class SharedHost : public testing::Environment {
 public:
  void SetUp() override {
    ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
    // Away from the machine's own peers first, or ours would reach them.
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr), 0);
  }
};

inline testing::Environment* const shared_host =
    testing::AddGlobalTestEnvironment(new SharedHost);  // NOLINT: gtest owns and deletes it

// A tmpfs with one file "late", mounted on a folder of the host, and gone with the test.
class LateMount {
 public:
  explicit LateMount(const std::string& at) : at_(at) {
    EXPECT_EQ(::mount("tmpfs", at.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755"), 0) << at;
    std::ofstream(at + "/late") << "late";
  }
  LateMount(const LateMount&) = delete;
  LateMount& operator=(const LateMount&) = delete;
  ~LateMount() { EXPECT_EQ(::umount2(at_.c_str(), MNT_DETACH), 0); }

 private:
  std::string at_;
};

}  // namespace caisson::test
