// engine/seccomp/table.h — which system calls exist for a tenant, and on what terms.
// One Rule per call we know. A number that is not in the table belongs to a newer kernel than the
// table and answers ENOSYS, so that a program falls back to what it did before that call existed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace caisson::engine::seccomp {

enum class Verdict : std::uint8_t {
  Allow,
  Refuse,  // EPERM: the call exists, and a tenant has no business with it
  Absent,  // ENOSYS: callers have a fallback that we can check, or the kernel has dropped the call
           // itself
  DebugOnly,    // allowed under Profile::Debug, otherwise refused
  Spawn,        // makes a process: refused under Profile::NoSpawn
  Clone,        // by flags: no new namespaces; under Profile::NoSpawn only threads
  Socket,       // by family, type and protocol
  SocketPair,   // by family
  Personality,  // by value
  Ioctl,        // all but the requests that type into a terminal or change its line discipline
  Prctl,        // all but PR_SET_MM
  // Names an id in the arguments that are counted from the first: any but init's own.
  BecomeOne,     // the first argument
  BecomeTwo,     // the first two
  BecomeThree,   // the first three
  ChangeOwner,   // the second and third
  ChangeOwnerAt  // the third and fourth
};

struct Rule {
  std::uint16_t number;
  Verdict verdict;
  std::string_view name;
};

// Sorted by number, without duplicates; both are checked when this room is compiled.
[[nodiscard]] std::span<const Rule> table() noexcept;

}  // namespace caisson::engine::seccomp
