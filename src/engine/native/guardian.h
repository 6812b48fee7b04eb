// engine/native/guardian.h — cleans up after a single run that was killed.
//
// A command that gets SIGKILL runs no destructor. Its sandbox dies all the same, because init sees
// the control socket close; what would stay behind is an empty control group. The guardian is a
// process that shares our memory (so it costs no copy), in a session of its own, asleep on a pipe.
// When the run ends in order, the guardian is ended. When the pipe closes without that, it kills
// and removes what the run had made. Like the child zone it allocates and locks nothing: the
// process whose memory it lives in may have died in the middle of anything.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/native/group_roots.h"
#include "sys/process.h"

namespace caisson::engine::native {

class Guardian {
 public:
  // Watches over the groups of `id`, which exist already.
  [[nodiscard]] static Result<Guardian> start(const GroupRoots& roots, const std::string& id);
  Guardian(Guardian&&) noexcept;
  Guardian& operator=(Guardian&&) noexcept;
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  ~Guardian();

  // The groups are gone, in order: it is not needed any more. It dies while the caller goes on.
  void dismiss() const noexcept;

 private:
  struct Post;
  Guardian();

  // It runs on the stack in `post_`, so it is ended (by child_'s destructor) before that goes.
  std::unique_ptr<Post> post_;
  UniqueFd alive_;  // closes when we die, however we die
  sys::Child child_;
};

}  // namespace caisson::engine::native
