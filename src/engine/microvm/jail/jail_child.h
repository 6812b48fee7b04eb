// engine/microvm/jail/jail_child.h — from clone to execve of a monitor. The child shares the
// launcher's memory while the launcher waits: it allocates nothing, locks nothing, throws nothing.
// The rules are those of engine/native/child.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace caisson::engine::microvm {

enum class JailStep : std::int32_t {
  None,
  CloseDescriptors,
  JoinGroup,
  Copy,
  PrivateMounts,
  AttachRoot,
  AttachMount,
  SwitchRoot,
  Hostname,
  CgroupNamespace,
  EnterUserNamespace,
  Limits,
  BoundingSet,
  Ids,
  Capabilities,
  Keyring,
  NoNewPrivileges,
  Session,
  DieWithParent,
  Descriptors,
  Orphan,
  Exec,
};
[[nodiscard]] const char* to_string(JailStep step) noexcept;

struct JailMount {
  int mount = -1;
  const char* target = nullptr;
};

struct JailCopied {
  int from = -1;
  int to = -1;
};

struct JailPlan {  // no owners in here
  const int* tasks = nullptr;
  std::size_t task_count = 0;
  int root = -1;
  const JailMount* mounts = nullptr;
  std::size_t mount_count = 0;
  const JailCopied* copies = nullptr;
  std::size_t copy_count = 0;
  int group = -1;
  int user_namespace = -1;
  std::uint32_t id = 0;
  std::uint64_t capabilities = 0;  // what is kept
  bool orphaned = false;           // executed by a child of this one, which then ends
  std::uint64_t file_bytes_max = 0;
  std::uint64_t files_max = 0;
  std::uint64_t tasks_max = 0;
  const int* descriptors = nullptr;  // i becomes number i
  std::size_t descriptor_count = 0;
  const char* program = nullptr;
  char* const* argv = nullptr;
  char* const* envp = nullptr;

  // written by the child
  JailStep failed = JailStep::None;
  std::int32_t sys_errno = 0;
};

[[noreturn]] void jail_main(void* plan) noexcept;

}  // namespace caisson::engine::microvm
