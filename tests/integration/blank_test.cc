// The launcher hands out sandboxes that it made ahead: they must be what was asked for, and
// nobody's before.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/support/box.h"

namespace caisson::test {
namespace {

constexpr int kAttemptsMax = 200;
constexpr std::uint64_t kMiB = 1ULL << 20U;

// The ids of all sandboxes on this host, those that nobody has asked for yet included.
std::set<std::string> ids_with_groups() {
  const std::string prefix = "caisson-";
  std::set<std::string> ids;
  for (const auto& entry : std::filesystem::directory_iterator(manager().host().cgroup_v2_root)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix)) ids.insert(name.substr(prefix.size()));
  }
  return ids;
}

using Change = std::function<void(engine::LaunchRequest&)>;

Change memory(std::uint64_t bytes) {
  return [bytes](engine::LaunchRequest& request) { request.limits.memory_bytes = bytes; };
}

// Runs `look` in a sandbox that existed before it was created, with something that no blank was
// made with.
void with_blank(const Change& change, const std::function<void(Box&)>& look) {
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    {
      Box before;  // says which kind is wanted, and gives the launcher time to make one
      EXPECT_EQ(before.sh("true").exit_code, 0);
    }
    const std::set<std::string> there = ids_with_groups();
    Box box([&](control::LocalSpec& local) { change(local.spec.request); });
    if (!there.contains(box.id())) continue;
    look(box);
    return;
  }
  FAIL() << "the launcher made nothing ahead in " << kAttemptsMax << " attempts";
}

TEST(Blank, HasTheLimitsOfTheRequestAndNotItsOwn) {
  with_blank(memory(64 * kMiB), [](Box& box) {
    const auto result = box.python("held = bytearray(b'x') * (200 << 20)");
    EXPECT_TRUE(result.oom_killed) << result.exit_code << " " << result.err;
    EXPECT_LE(box.status().usage.memory_peak_bytes, 64 * kMiB);
  });
}

TEST(Blank, IsEmptyAndHasRunNobody) {
  with_blank(memory(128 * kMiB), [](Box& box) {
    // Numbers are given in order, and 1 is init: this is the first process that ran in it.
    EXPECT_EQ(box.sh("echo $$").out, "2\n");
    EXPECT_EQ(box.sh("find /workspace /tmp /run /dev/shm -mindepth 1").out, "");
  });
}

TEST(Blank, HasTheNameOfTheRequest) {
  with_blank([](engine::LaunchRequest& request) { request.hostname = "called.so"; },
             [](Box& box) { EXPECT_EQ(box.sh("uname -n").out, "called.so\n"); });
  with_blank([](engine::LaunchRequest& request) { request.hostname.clear(); },
             [](Box& box) { EXPECT_EQ(box.sh("uname -n").out, box.id() + "\n"); });
}

TEST(Blank, IsNotListedBeforeItIsHandedOut) {
  const Box box;
  const auto ids = manager().list();
  ASSERT_TRUE(ids);
  EXPECT_EQ(*ids, std::vector<std::string>{box.id()});
}

// A file operation ends before it is said to be done: one that is still open for writing could not
// be executed.
TEST(Written, AProgramCanBeExecutedAtOnce) {
  Box box;
  const engine::GuestUser user{1000, 1000};
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(
        box.session().write_file(user, "/tmp/tool", "#!/bin/sh\necho $0\n", {.mode = 0755}));
    ASSERT_EQ(box.run({"/tmp/tool"}).out, "/tmp/tool\n");
  }
}

}  // namespace
}  // namespace caisson::test
