// engine/native/guardian.h — takes a single run's sandbox away after the run has ended, however it
// ended.
//
// A command that gets SIGKILL runs no destructor, and one that ends in order should not keep its
// caller waiting for the removal of empty groups and mounts. The guardian does both: a process that
// shares our memory and our descriptors (so it costs no copy, and our own end closes and unmaps
// nothing), in a session of its own, asleep until we are dead. Then it kills what is left in the
// groups, removes them, clears the slot's record and ends; the descriptors and the memory go with
// it. Like the child zone it allocates and locks nothing: the process whose memory it lives in may
// have died in the middle of anything.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/native/group_roots.h"
#include "sys/process.h"

namespace caisson::engine::native {

class Guardian {
 public:
  // The record to clear when nothing of the sandbox is left; fd -1: there is none.
  struct SlotRecord {
    int table = -1;
    std::uint32_t slot = 0;
  };
  // Watches over the groups of `id`, which exist already.
  [[nodiscard]] static Result<Guardian> start(const GroupRoots& roots, const std::string& id,
                                              SlotRecord record);
  Guardian(Guardian&&) noexcept;
  Guardian& operator=(Guardian&&) noexcept;
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  ~Guardian();

  // The groups are gone already: it is not needed any more. It dies while the caller goes on.
  void dismiss() const noexcept;
  // False where there are no groups to take away, and so nobody who would; and when somebody has
  // killed it.
  [[nodiscard]] bool on_duty() const noexcept;

 private:
  struct Post;
  Guardian();

  // It runs on the stack in `post_`, so it is ended (by child_'s destructor) before that goes.
  std::unique_ptr<Post> post_;
  UniqueFd self_;  // a pidfd of our own process: ready when we are dead
  sys::Child child_;
};

}  // namespace caisson::engine::native
