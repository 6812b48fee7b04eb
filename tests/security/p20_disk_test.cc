// P20: bytes and files are bounded on every mount that can be written, and a full sandbox recovers.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "sys/file.h"
#include "tests/security/host_view.h"
#include "tests/support/box.h"

namespace caisson::test {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;
constexpr std::uint64_t kBytes = 8 * kMiB;
constexpr std::uint64_t kFiles = 400;
constexpr const char* kCopy = "/srv/copy";  // a private copy of a folder of the host
constexpr const char* kPlaces[] = {"/workspace", "/tmp", "/run", "/dev/shm", kCopy, "/opt/private"};

class P20 : public testing::Test {
 protected:
  P20() {
    char name[] = "/var/tmp/caisson-copied-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("no folder");
    folder_ = name;
    std::filesystem::permissions(folder_, std::filesystem::perms::all);
    std::ofstream(folder_ / "lower") << std::string(2 * kMiB, 'x');
  }
  ~P20() override { std::filesystem::remove_all(folder_); }

  void limited(control::LocalSpec& local) const {
    engine::LaunchRequest& request = local.spec.request;
    request.limits.disk_bytes = kBytes;
    request.limits.disk_files = kFiles;
    request.limits.memory_bytes = 256 * kMiB;
    request.folders.push_back({kCopy, engine::FolderMode::PrivateCopy});
    local.folders.push_back(sys::open_at(AT_FDCWD, folder_, O_PATH | O_DIRECTORY).value());
    request.writable.emplace_back("/opt/private");
  }
  // Runs `script` with `place` set, in a fresh sandbox per place, and hands the result over.
  void in_each(
      const std::string& script,
      const std::function<void(const std::string&, const control::ExecutionResult&)>& see) {
    for (const std::string place : kPlaces) {
      Box box([this](control::LocalSpec& local) { limited(local); });
      see(place, box.python("import os, errno\nplace = '" + place + "'\n" + script));
      EXPECT_EQ(box.status().end, engine::EndReason::Running) << place;
      EXPECT_EQ(box.status().usage.oom_kills, 0U) << place;
      // Usable afterwards: what was deleted is free again.
      EXPECT_EQ(box.sh("cd " + place + " && echo again >after && cat after").out, "again\n")
          << place;
    }
    EXPECT_EQ(std::filesystem::file_size(folder_ / "lower"), 2 * kMiB);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "after")) << "the host's folder was written";
  }

  std::filesystem::path folder_;
};

TEST_F(P20, BytesStopAtTheLimit) {
  in_each(R"(
total = 0
fd = os.open(place + '/big', os.O_WRONLY | os.O_CREAT, 0o600)
try:
    while total < (1 << 30): total += os.write(fd, b'x' * 65536)
except OSError as error: print(errno.errorcode[error.errno])
print((4 << 20) < total <= (8 << 20))
os.close(fd); os.unlink(place + '/big')
)",
          [](const std::string& place, const control::ExecutionResult& result) {
            EXPECT_EQ(result.out, "ENOSPC\nTrue\n") << place << result.err;
          });
}

// One budget for all mounts together: filling one leaves nothing in the others.
TEST_F(P20, AllMountsShareOneBudget) {
  Box box([this](control::LocalSpec& local) { limited(local); });
  const auto result = box.python(R"(
import os
total = 0
for place in ('/workspace', '/tmp', '/run', '/dev/shm', '/srv/copy', '/opt/private'):
    try:
        with open(place + '/part', 'wb', buffering=0) as file:
            while total < (1 << 30): total += file.write(b'x' * 65536)
    except OSError: pass
print((4 << 20) < total <= (8 << 20))
for place in ('/workspace', '/tmp', '/run', '/dev/shm', '/srv/copy', '/opt/private'):
    try: os.unlink(place + '/part')
    except FileNotFoundError: pass
with open('/tmp/after', 'wb') as file: file.write(b'x' * (4 << 20))
print('recovered')
)");
  EXPECT_EQ(result.out, "True\nrecovered\n") << result.err;
}

TEST_F(P20, FilesStopAtTheLimit) {
  in_each(R"(
made = 0
os.mkdir(place + '/many')
try:
    while made < 100000:
        os.close(os.open('%s/many/%d' % (place, made), os.O_WRONLY | os.O_CREAT, 0o600)); made += 1
except OSError as error: print(errno.errorcode[error.errno])
print(100 < made <= 400)
for number in range(made): os.unlink('%s/many/%d' % (place, number))
os.rmdir(place + '/many')
)",
          [](const std::string& place, const control::ExecutionResult& result) {
            EXPECT_EQ(result.out, "ENOSPC\nTrue\n") << place << result.err;
          });
}

TEST_F(P20, FoldersLinksAndFifosCountAsFiles) {
  in_each(R"(
def fill(name, make, undo):
    made = 0
    try:
        while made < 100000: make('%s/%s%d' % (place, name, made)); made += 1
    except OSError as error: print(name, errno.errorcode[error.errno], made <= 400)
    for number in range(made): undo('%s/%s%d' % (place, name, number))
fill('folder', os.mkdir, os.rmdir)
fill('symlink', lambda path: os.symlink('x' * 1000, path), os.unlink)
fill('fifo', os.mkfifo, os.unlink)
)",
          [](const std::string& place, const control::ExecutionResult& result) {
            EXPECT_EQ(result.out, "folder ENOSPC True\nsymlink ENOSPC True\nfifo ENOSPC True\n")
                << place << result.err;
          });
}

// A name costs kernel memory even where the file is one and the same.
TEST_F(P20, HardLinksAreBounded) {
  in_each(R"(
open(place + '/one', 'w').close()
made = 0
try:
    while made < 100000: os.link(place + '/one', '%s/link%d' % (place, made)); made += 1
except OSError as error: print(errno.errorcode[error.errno])
print(made <= 400)
for number in range(made): os.unlink('%s/link%d' % (place, number))
os.unlink(place + '/one')
)",
          [](const std::string& place, const control::ExecutionResult& result) {
            EXPECT_EQ(result.out, "ENOSPC\nTrue\n") << place << result.err;
          });
}

// A hole costs nothing and is allowed; filling it, or reserving room for it, is what counts.
TEST_F(P20, SparseIsFreeAndReservedIsNot) {
  in_each(R"(
import mmap
fd = os.open(place + '/sparse', os.O_RDWR | os.O_CREAT, 0o600)
os.truncate(fd, 1 << 32)
print('sparse', os.fstat(fd).st_size == 1 << 32, os.fstat(fd).st_blocks == 0)
try:
    os.posix_fallocate(fd, 0, 16 << 20); print('RESERVED')
except OSError as error: print(errno.errorcode[error.errno])
pid = os.fork()
if pid == 0:
    area = mmap.mmap(fd, 64 << 20)
    for page in range(0, 64 << 20, 4096): area[page] = 1
    os._exit(0)
print('mapped', os.waitpid(pid, 0)[1] & 127)
os.close(fd); os.unlink(place + '/sparse')
)",
          [](const std::string& place, const control::ExecutionResult& result) {
            EXPECT_EQ(result.out, "sparse True True\nENOSPC\nmapped 7\n") << place << result.err;
          });
}

// Attributes live beside the files, in memory of the kernel. Where a mount takes none at all, that
// is a bound as well.
TEST_F(P20, AttributesAreBounded) {
  in_each(R"(
files, stored, last = 0, 0, ''
while files < 300:
    path = '%s/carrier%d' % (place, files)
    try: os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError as error: last = errno.errorcode[error.errno]; break
    files += 1
    try:
        for number in range(16): os.setxattr(path, 'user.a%d' % number, b'x' * 4096); stored += 4096
    except OSError as error: last = errno.errorcode[error.errno]
print(last, stored <= (8 << 20))
for number in range(files): os.unlink('%s/carrier%d' % (place, number))
)",
          [](const std::string& place, const control::ExecutionResult& result) {
            const bool bounded = result.out == "ENOSPC True\n" || result.out == "EOPNOTSUPP True\n";
            EXPECT_TRUE(bounded) << place << result.out << result.err;
          });
}

// What is deleted but still open counts until it is closed.
TEST_F(P20, DeletedButOpenStillCounts) {
  in_each(R"(
total, held = 0, []
try:
    while total < (1 << 30):
        fd = os.open(place + '/ghost', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(place + '/ghost'); held.append(fd)
        total += os.write(fd, b'x' * 262144)
except OSError as error: print(errno.errorcode[error.errno])
print(total <= (8 << 20))
)",
          [](const std::string& place, const control::ExecutionResult& result) {
            EXPECT_EQ(result.out, "ENOSPC\nTrue\n") << place << result.err;
          });
}

// Changing a file of the copied folder brings it into the private layer, where it counts.
TEST_F(P20, CopiedUpFilesCount) {
  Box box([this](control::LocalSpec& local) { limited(local); });
  const auto result = box.python(R"(
import errno
held = []
with open('/tmp/filler', 'wb', buffering=0) as file:
    for _ in range(7): file.write(b'x' * (1 << 20))
try:
    open('/srv/copy/lower', 'r+b').close(); print('COPIED')
except OSError as error: print(errno.errorcode[error.errno])
)");
  EXPECT_EQ(result.out, "ENOSPC\n") << result.err;
}

}  // namespace
}  // namespace caisson::test
