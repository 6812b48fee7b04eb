// engine/native/child.h — from clone to execve: the child half of a launch.
// The child shares the launcher's memory while the launcher waits (CLONE_VM and CLONE_VFORK), so it
// allocates nothing, locks nothing, throws nothing, logs nothing. The parent prepares everything,
// as plain pointers and numbers below sys::kParkedFdMin. A failure is written into the plan, which
// the parent reads when it wakes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caisson::engine::native {

// In the order of the launch. The parent turns a failed one into a sentence.
enum class ChildStep : std::int32_t {
  None,
  CloseDescriptors,
  JoinGroup,
  EnterNetwork,
  EnterIpc,
  EnterMounts,
  PrivateMounts,
  AttachRoot,
  MountProc,
  MaskProc,
  AttachMount,
  SwitchRoot,
  Hostname,
  CgroupNamespace,
  EnterUserNamespace,
  MountNamespace,
  Groups,
  BoundingSet,
  Ids,
  Capabilities,
  Keyring,
  NoNewPrivileges,
  Session,
  Descriptors,
  Orphan,
  Exec,
};

[[nodiscard]] const char* to_string(ChildStep step) noexcept;

struct ChildMount {
  int mount = -1;                // detached
  const char* target = nullptr;  // below the root, no link in it
};

struct ChildDescriptor {
  int from = -1;
  int to = -1;
};

struct ChildMask {
  const char* name = nullptr;  // below /proc
  bool folder = false;
};

enum class RootSwitch : std::uint8_t {
  Pivot,  // pivot_root and detach the old root: from any mount namespace. Walks every task of the
          // host
  Enter,  // chroot to where it is attached: only in an empty or a trimmed namespace, where nothing
          // is left behind it. Constant. The root can be replaced later, and what lies behind it
          // stays: Landlock rules that are to hold under every root hang there
};

struct ChildPlan {  // no owners in here: the parent owns, the child only looks
  // joined first
  const int* tasks = nullptr;
  std::size_t task_count = 0;
  int network = -1;
  int ipc = -1;              // -1: the clone's own
  int mount_namespace = -1;  // with one empty folder and nothing of the host; -1: the clone's own
  // Somebody else of the same sandbox is in that namespace already: go on in a copy of it.
  bool copies_mounts = false;

  // file system
  const char* place = nullptr;  // any folder: the new root is attached on it
  int root = -1;
  const ChildMount* mounts = nullptr;
  std::size_t mount_count = 0;
  const ChildMask* masks = nullptr;
  std::size_t mask_count = 0;
  const char* const* read_only = nullptr;
  bool plain_proc = false;  // nothing of /proc is covered or read-only
  RootSwitch root_switch = RootSwitch::Pivot;
  const char* kept =
      nullptr;  // Enter: what holds the host's mounts, to be unmounted before; or none

  // identity
  const char* hostname = nullptr;  // none: as it is
  std::size_t hostname_size = 0;
  int user_namespace = -1;
  bool cgroup_namespace = true;
  bool single_id = false;
  std::uint32_t init_uid = 0;
  std::uint32_t init_gid = 0;
  std::uint64_t capabilities = 0;  // what is kept, in its own user namespace

  // init
  int init = -1;
  int null = -1;
  int control = -1;
  int stream = -1;
  int group = -1;
  int oom = -1;
  bool bare = false;  // the sockets and nothing else
  int carried = -1;   // of a carrier: its end of the stream to an init elsewhere
  int base = -1;      // opened by the child itself: the folder behind the root
  // Of another program than ours: these, in this order, no other. Sources lie above all targets.
  const ChildDescriptor* descriptors = nullptr;
  std::size_t descriptor_count = 0;
  // It is executed by a child of this one, which then ends: it belongs to process 1 of its pid
  // namespace, and nobody outside has to reap it.
  bool orphaned = false;
  char* const* argv = nullptr;
  char* const* envp = nullptr;

  // written by the child
  ChildStep failed = ChildStep::None;
  std::int32_t sys_errno = 0;
  const char* detail = nullptr;
};

// Runs in the clone, on its own stack. Does not return.
[[noreturn]] void child_main(void* plan) noexcept;

}  // namespace caisson::engine::native
