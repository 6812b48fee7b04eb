#include "engine/native/rootless.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "engine/launch_request.h"
#include "sys/file.h"
#include "sys/namespace.h"
#include "sys/process.h"
#include "sys/raw.h"

namespace caisson::engine::native {
namespace {

constexpr const char* kUidTool = "/usr/bin/newuidmap";
constexpr const char* kGidTool = "/usr/bin/newgidmap";

// The tools must run in the old namespace, while we wait in the new one: a child that we leave
// behind runs them.
Result<void> run_map_tool(const char* tool, pid_t target, unsigned own, const IdRange& range) {
  std::string words[] = {tool,
                         std::to_string(target),
                         "0",
                         std::to_string(own),
                         "1",
                         "1",
                         std::to_string(range.start),
                         std::to_string(kIdsPerSlot)};
  char* argv[9] = {};
  for (std::size_t i = 0; i < 8; ++i) argv[i] = words[i].data();
  char* envp[] = {nullptr};
  pid_t pid = -1;
  const int reason = ::posix_spawn(&pid, tool, nullptr, nullptr, argv, envp);
  if (reason != 0) return sys_failure(std::string("start ") + tool, reason);
  UniqueFd pidfd(sys::raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch a process", errno);
  sys::Child child = sys::Child::adopt(pid, std::move(pidfd));
  const sys::ExitStatus status = TRY(child.wait());
  if (status.code != 0) {
    return failure(Errc::Denied, std::string(tool) + " refused the range " +
                                     std::to_string(range.start) +
                                     "; see /etc/subuid and /etc/subgid");
  }
  return {};
}

// Forks a child in the old namespace that writes our maps once we are in the new one.
class Mapper {
 public:
  static Result<Mapper> start(const SubIds& ids) {
    Mapper mapper;
    sys::Pipe go = TRY(sys::make_pipe());
    const pid_t us = ::getpid();
    const unsigned uid = ::geteuid();
    const unsigned gid = ::getegid();
    const pid_t pid = ::fork();
    if (pid < 0) return sys_failure("fork", errno);
    if (pid == 0) {
      go.write.reset();
      char word = 0;
      if (::read(go.read.get(), &word, 1) != 1) ::_exit(1);
      const bool mapped =
          run_map_tool(kUidTool, us, uid, ids.uid) && run_map_tool(kGidTool, us, gid, ids.gid);
      ::_exit(mapped ? 0 : 1);
    }
    UniqueFd pidfd(sys::raw::pidfd_open(pid));
    if (!pidfd) return sys_failure("watch a process", errno);
    mapper.child_ = sys::Child::adopt(pid, std::move(pidfd));
    mapper.go_ = std::move(go.write);
    return mapper;
  }

  Result<void> finish() {
    const char word = 'g';
    if (::write(go_.get(), &word, 1) != 1) return sys_failure("wake the mapper", errno);
    const sys::ExitStatus status = TRY(child_.wait());
    if (status.code != 0) {
      return failure(
          Errc::Denied,
          "newuidmap or newgidmap refused this user's sub-ids; see /etc/subuid and /etc/subgid");
    }
    return {};
  }

 private:
  UniqueFd go_;
  sys::Child child_;
};

Result<void> map_self_alone(unsigned uid, unsigned gid) {
  TRY(sys::deny_setgroups());
  return sys::write_id_maps(::getpid(), {{0, uid, 1}}, {{0, gid, 1}});
}

}  // namespace

Result<void> enter_outer_namespace(const HostFeatures& host) {
  const unsigned uid = ::geteuid();
  const unsigned gid = ::getegid();
  std::optional<Mapper> mapper;
  if (host.sub_ids) mapper = TRY(Mapper::start(*host.sub_ids));
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) != 0) {
    return sys_failure("new user namespace", errno);
  }
  if (mapper) {
    TRY(mapper->finish());
  } else {
    TRY(map_self_alone(uid, gid));
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return sys_failure("make / private", errno);
  if (mapper && (sys::raw::setresgid(0) != 0 || sys::raw::setresuid(0) != 0)) {
    return sys_failure("become root of the user namespace", errno);
  }
  return {};
}

}  // namespace caisson::engine::native
