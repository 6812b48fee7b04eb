#include "engine/native/own_process.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "sys/raw.h"

namespace caisson::engine::native {
namespace {

constexpr int kCapabilitiesMax = 64;

Result<void> drop_bounding_set() {
  for (int capability = 0; capability < kCapabilitiesMax; ++capability) {
    const int held = ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    if (held < 0) break;  // the first that this kernel does not know
    if (held == 1 && ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
      return sys_failure("drop a capability from the bounding set", errno);
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    return sys_failure("clear the ambient capabilities", errno);
  return {};
}

// What the kernel says about us now, not what we asked for.
Result<void> verify(uid_t uid, gid_t gid) {
  uid_t real = 0;
  uid_t effective = 0;
  uid_t saved = 0;
  if (::getresuid(&real, &effective, &saved) != 0 || real != uid || effective != uid ||
      saved != uid)
    return failure(Errc::Internal, "the user id did not change");
  if (::getresgid(&real, &effective, &saved) != 0 || real != gid || effective != gid ||
      saved != gid)
    return failure(Errc::Internal, "the group id did not change");
  if (::getgroups(0, nullptr) != 0) return failure(Errc::Internal, "groups are left");
  std::uint64_t now = 0;
  std::uint64_t permitted = 0;
  if (sys::raw::capget(now, permitted) != 0 || now != 0 || permitted != 0)
    return failure(Errc::Internal, "capabilities are left");
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
    return failure(Errc::Internal, "privileges could come back");
  return {};
}

}  // namespace

Result<void> become_unprivileged(uid_t uid, gid_t gid) {
  if (uid == 0 || gid == 0) return failure(Errc::InvalidArgument, "root is not unprivileged");
  TRY(drop_bounding_set());  // first: it needs a capability itself
  // A kernel without keys, or one that lets nobody ask, has none to lose.
  if (sys::raw::join_session_keyring() < 0 && errno != ENOSYS && errno != EPERM)
    return sys_failure("leave the session's keys", errno);
  if (sys::raw::drop_groups() != 0) return sys_failure("drop the groups", errno);
  if (sys::raw::setresgid(gid) != 0) return sys_failure("change the group id", errno);
  if (sys::raw::setresuid(uid) != 0) return sys_failure("change the user id", errno);
  if (sys::raw::capset(0, 0, 0) != 0) return sys_failure("drop the capabilities", errno);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return sys_failure("no_new_privs", errno);
  return verify(uid, gid);
}

Result<void> adopt_orphans() {
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return sys_failure("adopt orphans", errno);
  return {};
}

}  // namespace caisson::engine::native
