#include "engine/microvm/jail/jail.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <memory>

#include "engine/microvm/jail/jail_child.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/namespace.h"
#include "sys/raw.h"

namespace caisson::engine::microvm {
namespace {

// Of its id; the group counts, too.
constexpr std::uint64_t kJailTasksMax = 128;
constexpr std::size_t kStackBytes = std::size_t{64} * 1024;
constexpr int kLiftedFdMin = 16;
constexpr const char* kRootBytes = "67108864";  // of files of the jail's own, as far as there are
constexpr unsigned kPlain = sys::kMountNoSuid | sys::kMountNoDev | sys::kMountReadOnly;
constexpr const char* kLinks[][2] = {
    {"lib", "usr/lib"}, {"lib64", "usr/lib64"}, {"lib32", "usr/lib32"}};

// The numbers a child may use: see native/tier.cc.
class LowDescriptors {
 public:
  Result<int> lift(int fd) {
    UniqueFd low = TRY(sys::duplicate(fd, kLiftedFdMin));
    if (low.get() >= sys::kParkedFdMin)
      return failure(Errc::Exhausted, "jail: too many descriptors");
    held_.push_back(std::move(low));
    return held_.back().get();
  }

 private:
  std::vector<UniqueFd> held_;
};

class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

struct Root {
  UniqueFd mount;
  std::vector<UniqueFd> parts;
  std::vector<std::string> targets;  // of the parts
};

Result<void> write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return sys_failure("write it", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Result<Root> make_root(const JailWish& wish) {
  const sys::ModeMask no_mask(0);
  Root root;
  root.mount =
      TRY(sys::new_mount("tmpfs", {{"mode", "0555"}, {"size", kRootBytes}, {"nr_inodes", "32"}},
                         kPlain & ~sys::kMountReadOnly));
  TRY(sys::make_dir(root.mount.get(), "usr", 0555, sys::Existing::Refuse));
  for (const auto& link : kLinks) {
    if (::symlinkat(link[1], root.mount.get(), link[0]) != 0)
      return sys_failure("make the jail's root", errno);
  }
  root.parts.push_back(TRY(sys::clone_mount(AT_FDCWD, "/usr", kPlain)));
  root.targets.emplace_back("usr");
  for (const JailFile& file : wish.files) {
    const UniqueFd place =
        TRY(sys::open_at(root.mount.get(), file.name, O_WRONLY | O_CREAT | O_EXCL, 0444));
    if (file.source < 0) {
      TRY_IN(file.name, write_all(place.get(), file.content));
      continue;
    }
    const unsigned flags = file.writable ? kPlain & ~sys::kMountReadOnly : kPlain;
    root.parts.push_back(TRY_IN(file.name, sys::clone_mount(file.source, "", flags)));
    root.targets.push_back(file.name);
  }
  for (const JailTree& tree : wish.trees) {
    if (!tree.at.contains('/'))
      TRY(sys::make_dir(root.mount.get(), tree.at, 0555, sys::Existing::Refuse));
    root.parts.push_back(TRY(sys::duplicate(tree.mount)));
    root.targets.push_back(tree.at);
  }
  TRY(sys::set_mount_flags(root.mount.get(), sys::kMountReadOnly));
  return root;
}

Result<sys::Child> clone_child(JailPlan& plan) {
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  int pidfd = -1;
  clone_args arguments{};
  arguments.flags = CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_PIDFD |
                    (plan.orphaned ? 0U : CLONE_NEWPID) | CLONE_NEWUTS | CLONE_NEWIPC |
                    CLONE_NEWNS | CLONE_NEWNET | (plan.group >= 0 ? CLONE_INTO_CGROUP : 0U);
  arguments.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  arguments.exit_signal = SIGCHLD;
  arguments.stack = reinterpret_cast<std::uint64_t>(stack.get());
  arguments.stack_size = kStackBytes;
  arguments.cgroup = static_cast<std::uint64_t>(plan.group >= 0 ? plan.group : 0);
  long pid = -1;
  int reason = 0;
  {
    const SignalsBlocked blocked;
    pid = sys::raw::clone3_on_stack(arguments, jail_main, &plan);
    reason = errno;
  }
  if (pid < 0) return sys_failure("clone", reason);
  UniqueFd low(pidfd);
  sys::Child child = sys::Child::adopt(static_cast<pid_t>(pid), TRY(sys::park(std::move(low))));
  if (plan.failed == JailStep::None) return child;
  TRY(child.wait());
  return sys_failure(std::string("jail: ") + to_string(plan.failed), plan.sys_errno);
}

}  // namespace

Result<sys::Child> start_in_jail(const JailWish& wish) {
  const Root root = TRY_IN("the monitor's jail", make_root(wish));
  LowDescriptors low;
  std::vector<int> tasks;
  for (const int one : wish.tasks) tasks.push_back(TRY(low.lift(one)));
  std::vector<JailMount> mounts;
  for (std::size_t i = 0; i < root.parts.size(); ++i)
    mounts.push_back({TRY(low.lift(root.parts[i].get())), root.targets[i].c_str()});
  std::vector<JailCopied> copies;
  for (const JailCopy& one : wish.copies)
    copies.push_back({TRY(low.lift(one.from)), TRY(low.lift(one.to))});
  std::vector<int> descriptors(wish.descriptors.size(), -1);
  for (const JailDescriptor& one : wish.descriptors) {
    CAISSON_ASSERT(one.number >= 0 && static_cast<std::size_t>(one.number) < descriptors.size());
    descriptors[static_cast<std::size_t>(one.number)] = TRY(low.lift(one.fd));
  }
  std::vector<std::string> words = wish.arguments;
  std::vector<char*> argv;
  std::string name = wish.program;
  argv.push_back(name.data());
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  char* envp[] = {nullptr};

  JailPlan plan;
  plan.tasks = tasks.data();
  plan.task_count = tasks.size();
  plan.root = TRY(low.lift(root.mount.get()));
  plan.mounts = mounts.data();
  plan.mount_count = mounts.size();
  plan.copies = copies.data();
  plan.copy_count = copies.size();
  plan.group = wish.group < 0 ? -1 : TRY(low.lift(wish.group));
  plan.user_namespace = wish.user_namespace < 0 ? -1 : TRY(low.lift(wish.user_namespace));
  plan.id = wish.id;
  plan.capabilities = wish.capabilities;
  plan.orphaned = wish.beside >= 0;
  plan.file_bytes_max = wish.file_bytes_max;
  plan.files_max = kMonitorFilesMax;
  plan.tasks_max = kJailTasksMax;
  plan.descriptors = descriptors.data();
  plan.descriptor_count = descriptors.size();
  plan.program = name.c_str();
  plan.argv = argv.data();
  plan.envp = envp;
  if (!plan.orphaned) return clone_child(plan);
  const auto visit = TRY(sys::PidNamespaceVisit::begin(wish.beside));
  sys::Child between = TRY(clone_child(plan));
  TRY(between.wait());
  return between;
}

}  // namespace caisson::engine::microvm
