// The launcher hands out sandboxes that it made ahead: they must be what was asked for, and
// nobody's before.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "base/id.h"
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

// All that a tenant can find out about its walls. What differs from one sandbox to the next, its
// numbers and its name, is left out.
constexpr const char* kWalls = R"(
import os, re, resource, socket
def text(path):
    with open(path) as file:
        return file.read()
status = text('/proc/self/status')
for name in ('Uid', 'Gid', 'Groups', 'NoNewPrivs', 'Seccomp', 'Seccomp_filters', 'CapInh', 'CapPrm',
             'CapEff', 'CapBnd', 'CapAmb', 'NSpid', 'Threads', 'CoreDumping'):
    print(*re.findall(f'^{name}:.*$', status, re.M))
for line in text('/proc/self/mountinfo').splitlines():
    left, right = line.split(' - ')
    kind, _, options = right.split(' ', 2)
    hidden = re.sub(r'(lowerdir|upperdir|workdir|uid|gid|size|nr_inodes)\+?=[^,]*', '', options)
    print('mount', left.split()[4:6], kind, hidden)
for name in sorted(dir(resource)):
    if name.startswith('RLIMIT_'):
        print(name, resource.getrlimit(getattr(resource, name)))
print('maps', [line.split()[::2] for line in text('/proc/self/uid_map').splitlines()])
print('environment', sorted(os.environ))
print('descriptors', sorted(os.listdir('/proc/self/fd')))
print('network', socket.if_nameindex(), text('/proc/net/tcp').count('\\n'))
print('keys', text('/proc/keys'), 'oom', text('/proc/self/oom_score_adj'))
print('devices', sorted(os.listdir('/dev')), 'root', sorted(os.listdir('/')))
print('processes', [p for p in sorted(os.listdir('/proc')) if p.isdigit()][:1])
print('swept', os.listdir('/tmp'), os.listdir('/workspace'), os.listdir('/dev/shm'))
)";

// What bounds it on the host, file by file.
std::map<std::string, std::string> bounds_of(const std::string& id) {
  std::map<std::string, std::string> found;
  constexpr const char* kFiles[] = {"memory.max",
                                    "memory.swap.max",
                                    "pids.max",
                                    "cpu.max",
                                    "cpu.cfs_quota_us",
                                    "memory.limit_in_bytes",
                                    "cgroup.max.depth",
                                    "memory.kmem.tcp.limit_in_bytes",
                                    "memory.memsw.limit_in_bytes"};
  for (const auto& root : std::filesystem::directory_iterator("/sys/fs/cgroup")) {
    for (const auto& group : {root.path() / ("caisson-" + id),
                              std::filesystem::path("/sys/fs/cgroup") / ("caisson-" + id)}) {
      for (const char* file : kFiles) {
        std::ifstream in(group / file);
        std::string line;
        if (std::getline(in, line)) found[file] = line;
      }
    }
  }
  return found;
}

TEST(Blank, HasTheSameWallsAsOneThatWasMadeForItsCaller) {
  const auto limits = [](engine::LaunchRequest& request) {
    request.limits.memory_bytes = 96 * kMiB;
    request.limits.processes = 33;
    request.limits.cpu_millis = 700;
  };
  // A caller who names his sandbox never gets one that was made ahead.
  Box cold([&](control::LocalSpec& local) {
    limits(local.spec.request);
    local.spec.request.id = SandboxId::random()->str();
  });
  const auto wanted = cold.python(kWalls);
  ASSERT_EQ(wanted.exit_code, 0) << wanted.err;
  const auto bounds = bounds_of(cold.id());
  EXPECT_GE(bounds.size(), 3U);
  with_blank(limits, [&](Box& box) {
    const auto found = box.python(kWalls);
    EXPECT_EQ(found.out, wanted.out) << found.err;
    EXPECT_EQ(bounds_of(box.id()), bounds);
  });
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
