// P9: guest ids mean nothing on the host, and host root is never mapped.
#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <stop_token>
#include <thread>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

constexpr std::uint32_t kSlotBase = 2'000'000;
constexpr std::uint32_t kStoreBase = 1'000'000;
constexpr std::uint32_t kIds = 65536;

// All the ids that the kernel holds for a process: real, effective, saved, file system, groups.
std::set<std::uint32_t> ids_of(const std::string& status) {
  std::set<std::uint32_t> ids;
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    words >> key;
    if (key != "Uid:" && key != "Gid:" && key != "Groups:") continue;
    for (std::uint32_t id = 0; words >> id;) ids.insert(id);
  }
  return ids;
}

// Host processes in the pid namespace of `init`, by their kernel ids.
std::vector<std::set<std::uint32_t>> processes_of(pid_t init) {
  const auto space = [](const std::string& pid) {
    std::error_code gone;
    return std::filesystem::read_symlink("/proc/" + pid + "/ns/pid", gone).string();
  };
  const std::string ours = space(std::to_string(init));
  std::vector<std::set<std::uint32_t>> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos || space(pid) != ours) continue;
    auto ids = ids_of(read_text("/proc/" + pid + "/status"));
    if (!ids.empty()) found.push_back(std::move(ids));
  }
  return found;
}

// A sandbox with a tenant process that stays until the end.
class Occupied {
 public:
  explicit Occupied(std::uint32_t uid)
      : box_([&](control::LocalSpec& local) {
          as_user(uid)(local);
          show_payloads(local);
        }),
        tenant_([this, uid](const std::stop_token& stop) {
          engine::ExecRequest request;
          request.argv = {payload("pause")};
          request.user = {uid, uid};
          request.groups = {uid, 44};
          request.stop = stop;
          (void)box_.session().execute(request);
        }) {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (box_.session().list_processes().value().empty() && Clock::now() < deadline)
      std::this_thread::yield();
  }
  Box& box() { return box_; }

 private:
  Box box_;
  std::jthread tenant_;
};

TEST(P09, ProcessesOfTwoSandboxesShareNoId) {
  Occupied one(0);
  Occupied two(0);
  const std::uint32_t first = first_id(one.box().init_pid());
  const std::uint32_t second = first_id(two.box().init_pid());
  EXPECT_NE(first, second);
  for (auto& [box, base] : {std::pair{&one, first}, std::pair{&two, second}}) {
    EXPECT_GE(base, kSlotBase);
    EXPECT_EQ((base - kSlotBase) % kIds, 0U);
    const auto processes = processes_of(box->box().init_pid());
    EXPECT_GE(processes.size(), 2U);
    for (const auto& ids : processes) {
      EXPECT_GE(*ids.begin(), base);
      EXPECT_LT(*ids.rbegin(), base + kIds);
    }
  }
}

TEST(P09, NoIdOfTheHostIsMapped) {
  Box box;
  for (const char* map : {"uid_map", "gid_map"}) {
    std::istringstream lines(read_text("/proc/" + std::to_string(box.init_pid()) + "/" + map));
    std::uint32_t inside = 0;
    std::uint32_t outside = 0;
    std::uint32_t count = 0;
    int ranges = 0;
    for (; lines >> inside >> outside >> count; ++ranges) {
      EXPECT_GE(outside, kSlotBase);
      EXPECT_EQ(count, kIds);
    }
    EXPECT_EQ(ranges, 1);
  }
}

// init's own id, and what would wrap into it or into root.
TEST(P09, IdsThatBelongToNobodyAreRefused) {
  for (const std::uint32_t uid : {65535U, 65536U, 4294967295U, 2'000'000U}) {
    control::LocalSpec local;
    local.spec = engine::default_spec();
    local.workdir = "/";
    as_user(uid)(local);
    const auto made = manager().create_sandbox(std::move(local));
    EXPECT_FALSE(made) << uid;
    if (made) (void)manager().destroy(*made);
  }
  Box box;
  for (const std::uint32_t uid : {65535U, 65536U, 4294967295U}) {
    engine::ExecRequest request;
    request.argv = {"/bin/true"};
    request.user = {uid, 1000};
    EXPECT_FALSE(box.session().execute(request)) << uid;
  }
}

TEST(P09, EverythingInTheStoreBelongsToTheStoreRange) {
  Box box;
  std::size_t seen = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(state_dir() + "/layers")) {
    if (entry.path().parent_path() == state_dir() + "/layers") continue;  // named by the launcher
    struct stat facts{};
    ASSERT_EQ(::lstat(entry.path().c_str(), &facts), 0);
    EXPECT_GE(facts.st_uid, kStoreBase) << entry.path();
    EXPECT_LT(facts.st_uid, kStoreBase + kIds) << entry.path();
    EXPECT_GE(facts.st_gid, kStoreBase) << entry.path();
    EXPECT_LT(facts.st_gid, kStoreBase + kIds) << entry.path();
    EXPECT_EQ(facts.st_mode & 06000U, 0U) << entry.path() << " is setuid or setgid";
    EXPECT_FALSE(S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode)) << entry.path();
    EXPECT_LT(::lgetxattr(entry.path().c_str(), "security.capability", nullptr, 0), 0);
    ++seen;
  }
  EXPECT_GT(seen, 100U);
}

TEST(P09, NobodyElseListsTheStateDirectory) {
  Box box;
  for (const auto& [name, mode] :
       {std::pair{"", 0711U}, std::pair{"/layers", 0711U}, std::pair{"/launcher", 0700U}}) {
    struct stat facts{};
    ASSERT_EQ(::stat((state_dir() + name).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777U, mode) << name;
    EXPECT_EQ(facts.st_uid, 0U);
  }
}

// A file that the guest makes in a folder granted for writing belongs to the folder's owner, and
// never to an id of the sandbox or to another user of the host.
TEST(P09, FilesInAWritableFolderBelongToItsOwner) {
  for (const std::uint32_t owner : {0U, 1234U, 3'000'000U}) {
    const HostFolder folder;
    ASSERT_EQ(::chown(folder.path().c_str(), owner, owner), 0);
    for (const std::uint32_t uid : {1000U, 0U}) {
      Box box([&](control::LocalSpec& local) {
        as_user(uid)(local);
        show_folder(local, folder.path(), engine::FolderMode::Writable, "/granted");
      });
      const std::string name = "made-by-" + std::to_string(uid);
      ASSERT_EQ(box.sh("echo x >/granted/" + name + " && chmod 6777 /granted/" + name).exit_code,
                0);
      EXPECT_EQ(box.sh("stat -c %u:%g /granted /granted/" + name).out,
                std::to_string(uid) + ":" + std::to_string(uid) + "\n" + std::to_string(uid) + ":" +
                    std::to_string(uid) + "\n");
      struct stat facts{};
      ASSERT_EQ(::stat(folder.at(name).c_str(), &facts), 0);
      EXPECT_EQ(facts.st_uid, owner);
      EXPECT_EQ(facts.st_gid, owner);
    }
  }
}

// Whatever the guest cannot be told about is nobody's: kernel files and files of other host users.
TEST(P09, ForeignOwnersShowAsTheOverflowId) {
  const HostFolder folder;
  (void)folder.write("of-1", "x");
  ASSERT_EQ(::chown(folder.at("of-1").c_str(), 1, 1), 0);
  Box box([&](control::LocalSpec& local) {
    show_folder(local, folder.path(), engine::FolderMode::ReadOnly, "/granted");
  });
  EXPECT_EQ(box.sh("stat -c %u:%g /proc/sys /proc/meminfo /dev/null /granted/of-1").out,
            "65534:65534\n65534:65534\n65534:65534\n65534:65534\n");
}

}  // namespace
}  // namespace caisson::test
