#include "engine/gvisor/runsc.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace caisson::engine::gvisor {
namespace {

constexpr const char* kVersion = "runsc version 0.0~20221219.0\nspec: 1.0.2-dev\n";
constexpr const char* kFlags =
    "  -file-access value\n    \tspecifies\n  -host-fifo value\n  -host-uds value\n"
    "  -ignore-cgroups\n    \tdon't configure\n  -net-raw runsc exec\n  -network value\n"
    "  -oci-seccomp\n  -overlay\n  -overlay2 value\n"
    "  -platform string\n    \tspecifies which platform to use: ptrace (default), kvm.\n";

bool has(const Runsc& found, std::string_view flag) {
  return std::ranges::find(found.flags, flag) != found.flags.end();
}

TEST(Runsc, WhatOneSaysAboutItself) {
  const auto found = judge(kVersion, kFlags);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->version, "0.0~20221219.0");
  EXPECT_EQ(found->platform, "ptrace");
  for (const char* flag : {"--platform=ptrace", "--network=none", "--host-uds=none",
                           "--host-fifo=none", "--net-raw=false", "--overlay2=none"})
    EXPECT_TRUE(has(*found, flag)) << flag;
  EXPECT_FALSE(has(*found, "--directfs=false"));
}

TEST(Runsc, ANewerOneHasMoreToClose) {
  std::string flags = kFlags;
  flags.replace(flags.find("ptrace (default)"), 16, "systrap (default), ptrace");
  const auto found = judge(kVersion, flags + "  -directfs\n");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->platform, "systrap");
  EXPECT_TRUE(has(*found, "--directfs=false"));
}

TEST(Runsc, OneThatCannotBeClosedIsRefusedByName) {
  std::string flags = kFlags;
  flags.erase(flags.find("  -host-uds"), sizeof("  -host-uds value\n") - 1);
  const auto found = judge(kVersion, flags);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::Unsupported);
  EXPECT_NE(found.error().message.find("--host-uds"), std::string::npos);
  EXPECT_FALSE(judge("something else", kFlags));
}

}  // namespace
}  // namespace caisson::engine::gvisor
