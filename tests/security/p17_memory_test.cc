// P17: memory is bounded, whatever it is called, and running out of it stays inside.
#include <gtest/gtest.h>

#include <future>

#include "tests/security/host_view.h"
#include "tests/support/box.h"

namespace caisson::test {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kLimit = 64 * kMiB;
// Socket memory is charged after the fact, in batches: the kernel may note a moment just above the
// limit.
constexpr std::uint64_t kBatches = kMiB;
constexpr double kAnswerMs = 2000;  // of a neighbour, on a loaded machine

void small(control::LocalSpec& local) {
  local.spec.request.limits.memory_bytes = kLimit;
  local.spec.request.limits.disk_bytes = 8 * kLimit;  // the wall under test is the memory limit
}

// Runs the attack, and asks a neighbour and the manager all the while.
control::ExecutionResult attack(Box& victim, const std::string& script) {
  Box neighbour;
  auto running = std::async(std::launch::async, [&] { return victim.python(script); });
  int answers = 0;
  do {
    const auto answer = neighbour.run({"/bin/true"});
    EXPECT_EQ(answer.exit_code, 0);
    EXPECT_LT(answer.duration_ms, kAnswerMs);
    EXPECT_EQ(victim.status().end, engine::EndReason::Running);
    ++answers;
  } while (running.wait_for(seconds(0)) != std::future_status::ready);
  EXPECT_GT(answers, 0);
  return running.get();
}

void expect_contained(Box& victim, const std::string& script) {
  const pid_t init = victim.init_pid();
  const auto result = attack(victim, script);
  EXPECT_TRUE(result.oom_killed) << result.out << result.err;
  EXPECT_EQ(result.out.find("ESCAPED"), std::string::npos) << result.out;
  EXPECT_NE(result.breach.find("Memory limit exceeded"), std::string::npos) << result.breach;
  const engine::Status status = victim.status();
  EXPECT_EQ(status.end, engine::EndReason::Running);
  EXPECT_LE(status.usage.memory_peak_bytes, kLimit);
  EXPECT_GE(status.usage.oom_kills, 1U);
  EXPECT_EQ(victim.init_pid(), init);
  EXPECT_EQ(victim.sh("echo alive").out, "alive\n");
}

TEST(P17, HeapStopsAtTheLimit) {
  Box box(small);
  expect_contained(box, R"(
held = []
for _ in range(1024):
    held.append(bytearray(b'x') * (1 << 20))
print('ESCAPED')
)");
}

// One process under the limit each, all together far above it.
TEST(P17, ManyProcessesShareOneLimit) {
  Box box(small);
  expect_contained(box, R"(
import os
ready, go = os.pipe()
children = []
for _ in range(12):
    pid = os.fork()
    if pid == 0:
        held = bytearray(b'x') * (16 << 20)
        os.close(go); os.read(ready, 1); os._exit(0)
    children.append(pid)
os.close(go)
if all(os.waitpid(pid, 0)[1] == 0 for pid in children): print('ESCAPED')
)");
}

TEST(P17, LockedAndSharedMappingsCount) {
  Box box(small);
  expect_contained(box, R"(
import mmap
held = []
for _ in range(64):
    area = mmap.mmap(-1, 8 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
    for page in range(0, 8 << 20, 4096): area[page] = 1
    held.append(area)
print('ESCAPED')
)");
}

TEST(P17, MemoryFilesCount) {
  Box box(small);
  expect_contained(box, R"(
import os
for number in range(64):
    fd = os.memfd_create('hoard')
    for _ in range(16): os.write(fd, b'x' * (1 << 20))
print('ESCAPED')
)");
}

// Pages of a pipe are the kernel's, and charged to whoever filled it.
TEST(P17, PipeBuffersCount) {
  Box box([](control::LocalSpec& local) {
    small(local);
    local.spec.request.limits.open_files = 4096;
  });
  expect_contained(box, R"(
import fcntl, os
for _ in range(8):
    if os.fork() == 0:
        held = []
        try:
            for _ in range(2000):
                r, w = os.pipe(); os.set_blocking(w, False); held.append((r, w))
                try:
                    while os.write(w, b'x' * 65536): pass
                except BlockingIOError: pass
        except OSError: pass
        os.read(os.pipe()[0], 1)
for _ in range(8): os.wait()
)");
}

TEST(P17, SocketBuffersCount) {
  Box box(small);
  expect_contained(box, R"(
import os, socket
for _ in range(8):
    if os.fork() == 0:
        held = []
        try:
            for _ in range(1000):
                a, b = socket.socketpair(); a.setblocking(False); held.append((a, b))
                a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                try:
                    while a.send(b'x' * 65536): pass
                except BlockingIOError: pass
        except OSError: pass
        os.read(os.pipe()[0], 1)
for _ in range(8): os.wait()
)");
}

// Files in memory stay when their writer is gone, so the sandbox is as full afterwards as before:
// the limit holds, init lives, and taking the files away makes it whole again.
TEST(P17, FilesInMemoryCount) {
  for (const std::string place : {"/tmp", "/dev/shm", "/run", "/workspace"}) {
    Box box(small);
    const auto result = attack(box, "with open('" + place + R"(/hoard', 'wb') as file:
    for _ in range(256): file.write(b'x' * (1 << 20))
print('ESCAPED')
)");
    EXPECT_TRUE(result.oom_killed) << place << result.out << result.err;
    EXPECT_EQ(result.out, "") << place;
    EXPECT_LE(box.status().usage.memory_peak_bytes, kLimit) << place;
    EXPECT_EQ(box.status().end, engine::EndReason::Running) << place;
    EXPECT_TRUE(box.session().remove({1000, 1000}, place + "/hoard")) << place;
    EXPECT_EQ(box.sh("echo alive").out, "alive\n") << place;
  }
}

// By default the private layer is half of the memory: a full disk says so, and nobody is killed.
TEST(P17, TheDefaultDiskLeavesMemoryForProcesses) {
  Box box;
  const auto result = box.sh("cat /dev/zero >/tmp/hoard; echo status $?; rm /tmp/hoard");
  EXPECT_NE(result.out.find("status 1"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("No space left"), std::string::npos) << result.err;
  EXPECT_FALSE(result.oom_killed);
}

// Buffers of network sockets on lo, which the older accounting leaves out unless it is told:
// gigabytes fit into them, and the pool they come from is the whole host's.
TEST(P17, NetworkBuffersOnLoopbackAreBounded) {
  Box box(small);
  const auto pool = [&] {  // pages of TCP and UDP in the whole kernel
    std::uint64_t pages = 0;
    std::ifstream file("/proc/net/sockstat");
    for (std::string word; file >> word;) {
      if (word == "mem" && file >> word) pages += std::stoull(word);
    }
    return pages * 4096;
  };
  const std::uint64_t before = pool();
  std::uint64_t most = before;
  auto running = std::async(std::launch::async, [&] {
    return box.python(R"(
import os, socket
for _ in range(4):
    if os.fork() == 0:
        held = []
        server = socket.create_server(('127.0.0.1', 0), backlog=100)
        try:
            for _ in range(150):
                a = socket.create_connection(server.getsockname()); b, _ = server.accept()
                b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                a.setblocking(False); held.append((a, b))
                try:
                    while a.send(b'x' * 65536): pass
                except BlockingIOError: pass
            for _ in range(600):
                u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('127.0.0.1', 0))
                for _ in range(8): u.sendto(b'x' * 40000, u.getsockname())
                held.append(u)
        except OSError: pass
        print('full', flush=True); os.read(os.pipe()[0], 1)
import signal; signal.pause()
)",
                      within(seconds(5)));
  });
  while (running.wait_for(milliseconds(20)) != std::future_status::ready) {
    most = std::max(most, pool());
  }
  (void)running.get();
  // A stream under pressure may still keep one small buffer, so this is not to the byte.
  EXPECT_LE(most - before, kLimit) << "bytes of TCP and UDP buffers on the host";
  EXPECT_LE(box.status().usage.memory_peak_bytes, kLimit + kBatches);
  EXPECT_EQ(box.sh("echo alive").out, "alive\n");
}

TEST(P17, SwapIsNoWayOut) {
  Box box(small);
  const engine::HostFeatures& host = manager().host();
  if (!host.swap_accounting) GTEST_SKIP() << "this kernel cannot limit swap";
  const std::string group = limit_group(host, "memory", box.id());
  if (host.v2_controllers.contains("memory")) {
    EXPECT_EQ(text_of(group + "/memory.swap.max"), "0\n");
    EXPECT_EQ(text_of(group + "/memory.max"), std::to_string(kLimit) + "\n");
  } else {
    EXPECT_EQ(text_of(group + "/memory.memsw.limit_in_bytes"), std::to_string(kLimit) + "\n");
    EXPECT_EQ(text_of(group + "/memory.limit_in_bytes"), std::to_string(kLimit) + "\n");
  }
}

// Every tenant is a better victim than init, and cannot say otherwise.
TEST(P17, TenantsAreFirstToGoAndCannotHide) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box([&](control::LocalSpec& local) { local.spec.request.uid = uid; });
    const auto result = box.python(R"(
print(open('/proc/self/oom_score_adj').read().strip())
for value in ('499', '0', '-1000'):
    try:
        with open('/proc/self/oom_score_adj', 'w') as file: file.write(value)
    except OSError: pass
print(int(open('/proc/self/oom_score_adj').read()) >= 0)
try:
    with open('/proc/1/oom_score_adj', 'w') as file: file.write('1000')
    print('WROTE')
except OSError: print('refused')
)");
    EXPECT_EQ(result.out, "500\nTrue\nrefused\n") << uid << result.err;
    EXPECT_EQ(text_of("/proc/" + std::to_string(box.init_pid()) + "/oom_score_adj"), "0\n");
  }
}

TEST(P17, ANewLimitHoldsAtOnce) {
  Box box([](control::LocalSpec& local) {
    local.spec.request.limits.memory_bytes = 192 * kMiB;
    local.spec.request.limits.disk_bytes = 16 * kMiB;
  });
  const std::string hold = "held = bytearray(b'x') * (96 << 20); print('held')";
  EXPECT_EQ(box.python(hold).out, "held\n");
  engine::Limits limits = manager().request(box.id())->limits;
  limits.memory_bytes = kLimit;
  ASSERT_TRUE(manager().set_limits(box.id(), limits));
  EXPECT_TRUE(box.python(hold).oom_killed);
  limits.memory_bytes = 192 * kMiB;
  ASSERT_TRUE(manager().set_limits(box.id(), limits));
  EXPECT_EQ(box.python(hold).out, "held\n");
}

}  // namespace
}  // namespace caisson::test
