// engine/launcher/rendezvous.h — where a server finds its launcher: one socket in the state
// directory.
//
// The keeper listens and holds the lock; a worker inherits both. While no worker lives, those who
// connect wait in the kernel's queue. The lock is held by every process of the launcher, so whoever
// takes it knows that the last of them is gone.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::engine {

struct Rendezvous {
  UniqueFd lock;
  UniqueFd listener;  // SOCK_SEQPACKET, non-blocking
  std::string path;

  // Makes `run/` in the state directory, takes the lock, listens. Only `server` and root can
  // connect. An older launcher that is about to end is waited for; one that lives is Busy.
  [[nodiscard]] static Result<Rendezvous> open(const std::string& state_dir, uid_t server);
};

[[nodiscard]] std::string launcher_socket(const std::string& state_dir);

// The state directory and its `run/`: passable for everybody, readable for nobody else.
[[nodiscard]] Result<void> make_run_folder(const std::string& state_dir);

// A connection, as soon as the kernel has queued it: that a worker answers is not yet said.
[[nodiscard]] Result<UniqueFd> connect_launcher(const std::string& path);

}  // namespace caisson::engine
