#include "engine/host/parse.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::engine {
namespace {

using Kind = CgroupMount::Kind;

TEST(ParseRelease, TakesTheTwoNumbersThatMatter) {
  EXPECT_EQ(parse_release("6.18.44-fc-v490"), (KernelVersion{6, 18}));
  EXPECT_EQ(parse_release("5.10-rc1"), (KernelVersion{5, 10}));
  for (const char* odd : {"", ".", "6", "6.", "six.1", "-1.2", "99999999999.1", "6.99999999999"}) {
    EXPECT_FALSE(parse_release(odd)) << odd;
  }
}

TEST(ParseMounts, HybridHost) {
  const auto mounts = parse_cgroup_mounts(
      "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:7 - cgroup cgroup "
      "rw,cpu,cpuacct\n"
      "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw,nosuid master:1 propagate_from:2 - cgroup2 cgroup2 "
      "rw,nsdelegate\n");
  ASSERT_EQ(mounts.size(), 3U);
  EXPECT_EQ(mounts[0],
            (CgroupMount{Kind::V1, "/", "/sys/fs/cgroup/cpu,cpuacct", {"cpu", "cpuacct"}}));
  EXPECT_TRUE(mounts[1].controllers.empty());
  EXPECT_EQ(mounts[2], (CgroupMount{Kind::V2, "/", "/sys/fs/cgroup/unified", {}}));
}

// Whoever may mount chooses the source's name and the folder: neither may pass for a field.
TEST(ParseMounts, HostileNames) {
  const auto mounts = parse_cgroup_mounts(
      "1 1 0:1 / /a\\040-\\040cgroup2 rw - tmpfs cgroup2 rw\n"
      "1 1 0:1 /x\\134y /mnt/with\\040blank rw - cgroup2 - rw\n"
      "1 1 0:1 relative /b rw - cgroup2 x rw\n"
      "1 1 0:1 / rw - cgroup2\n"
      " - cgroup2 x rw\n"
      " - \n- -\n\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].root, "/x\\y");
  EXPECT_EQ(mounts[0].point, "/mnt/with blank");
}

TEST(ParseMounts, StopsAtItsLimit) {
  std::string many;
  for (std::size_t i = 0; i < 3 * kCgroupMountsMax; ++i) many += "1 1 0:1 / /c rw - cgroup2 c rw\n";
  EXPECT_EQ(parse_cgroup_mounts(many).size(), kCgroupMountsMax);
}

TEST(ParseMemberships, V1AndV2) {
  const auto groups = parse_memberships(
      "9:name=systemd:/\n4:memory:/box/a:b\n2:cpu,cpuacct:/c\n0::/"
      "user.slice\nrubbish\n5:x\n6:y:relative\n");
  EXPECT_EQ(groups.at(""), "/user.slice");
  EXPECT_EQ(groups.at("memory"), "/box/a:b");
  EXPECT_EQ(groups.at("cpu"), "/c");
  EXPECT_EQ(groups.at("cpuacct"), "/c");
  EXPECT_FALSE(groups.contains("x"));
  EXPECT_FALSE(groups.contains("y"));
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "1:c" + std::to_string(i) + ":/\n";
  EXPECT_EQ(parse_memberships(many).size(), kControllersMax);
}

TEST(HostPathOfGroup, OnlyWhatTheMountShows) {
  const CgroupMount whole{Kind::V2, "/", "/cg", {}};
  EXPECT_EQ(host_path_of_group(whole, "/"), "/cg");
  EXPECT_EQ(host_path_of_group(whole, "/a/b"), "/cg/a/b");
  EXPECT_FALSE(host_path_of_group(whole, "/../outside"));
  EXPECT_FALSE(host_path_of_group(whole, "/.."));
  EXPECT_FALSE(host_path_of_group(whole, "a"));
  const CgroupMount part{Kind::V2, "/box", "/cg", {}};
  EXPECT_EQ(host_path_of_group(part, "/box"), "/cg");
  EXPECT_EQ(host_path_of_group(part, "/box/a"), "/cg/a");
  EXPECT_FALSE(host_path_of_group(part, "/boxer"));
  EXPECT_FALSE(host_path_of_group(part, "/"));
}

TEST(ParseControllers, Words) {
  EXPECT_EQ(parse_controllers("cpuset cpu io memory pids\n"),
            (std::set<std::string>{"cpu", "cpuset", "io", "memory", "pids"}));
  EXPECT_TRUE(parse_controllers("\n").empty());
  EXPECT_TRUE(parse_controllers("").empty());
}

TEST(ParseSubIds, LargestRangeOfTheUser) {
  const std::string text =
      "bob:100000:65536\nalice:165536:1000\nalice:300000:65536\n1000:500000:70000\nalice:0:"
      "99999999\n";
  EXPECT_EQ(parse_sub_ids(text, "bob", 7), (IdRange{100000, 65536}));
  EXPECT_EQ(parse_sub_ids(text, "alice", 1001), (IdRange{300000, 65536}));
  EXPECT_EQ(parse_sub_ids(text, "alice", 1000), (IdRange{500000, 70000}));
  EXPECT_FALSE(parse_sub_ids(text, "eve", 7));
}

TEST(ParseSubIds, OddLinesGiveNothing) {
  for (const char* odd :
       {"alice", "alice:", "alice:1", "alice:1:", "alice:-1:5", "alice:1:-5", "alice:4294967295:2",
        "alice:1:99999999999", "alice:1:0", "alice:0:65536", "alice:1:2:3", ":1:2", "alice :1:2"}) {
    EXPECT_FALSE(parse_sub_ids(odd, "alice", 1000)) << odd;
  }
  EXPECT_FALSE(parse_sub_ids(":1:2", "", 1000))
      << "a user without a name owns no line without an owner";
  std::string late;
  for (std::size_t i = 0; i < kIdLinesMax; ++i) late += "x:1:1\n";
  EXPECT_FALSE(parse_sub_ids(late + "alice:100000:65536\n", "alice", 1000));
}

TEST(ParseUserName, ByNumber) {
  const std::string passwd =
      "root:x:0:0:root:/root:/bin/sh\n:x:5:5::/:\nodd:x\nalice:x:1000:1000::/home/alice:/bin/sh\n";
  EXPECT_EQ(parse_user_name(passwd, 1000), "alice");
  EXPECT_EQ(parse_user_name(passwd, 0), "root");
  EXPECT_FALSE(parse_user_name(passwd, 5));
  EXPECT_FALSE(parse_user_name(passwd, 6));
}

TEST(ParseCpuList, CountsRanges) {
  EXPECT_EQ(parse_cpu_list("0-1\n"), 2);
  EXPECT_EQ(parse_cpu_list("0"), 1);
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), 7);
  for (const char* odd : {"", "a", "3-1", "-1", "0-", "0-99999999", "0--2", "1,,2", ","}) {
    EXPECT_FALSE(parse_cpu_list(odd)) << odd;
  }
}

TEST(ListsFilesystem, WholeNamesOnly) {
  const std::string text = "nodev\tsysfs\n\text4\nnodev\toverlay\n";
  EXPECT_TRUE(lists_filesystem(text, "overlay"));
  EXPECT_TRUE(lists_filesystem(text, "ext4"));
  EXPECT_FALSE(lists_filesystem(text, "over"));
  EXPECT_FALSE(lists_filesystem("", "overlay"));
}

}  // namespace
}  // namespace caisson::engine
