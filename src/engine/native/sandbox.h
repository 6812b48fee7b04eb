// engine/native/sandbox.h — one running sandbox of the native tier and everything that it holds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/native/groups.h"
#include "engine/native/slots.h"
#include "engine/nonce.h"
#include "engine/usage.h"
#include "sys/process.h"

namespace caisson::engine::native {

class Sandbox {
 public:
  Sandbox(SandboxId id, Slot slot, Groups groups, UniqueFd control, sys::Child init, Nonce nonce)
      : id_(std::move(id)),
        nonce_(nonce),
        slot_(std::move(slot)),
        groups_(std::move(groups)),
        control_(std::move(control)),
        init_(std::move(init)) {}

  [[nodiscard]] const SandboxId& id() const noexcept { return id_; }
  [[nodiscard]] const Nonce& nonce() const noexcept { return nonce_; }
  [[nodiscard]] Groups& groups() noexcept { return groups_; }
  [[nodiscard]] const Groups& groups() const noexcept { return groups_; }
  [[nodiscard]] const Slot& slot() const noexcept { return slot_; }
  [[nodiscard]] Slot& slot() noexcept { return slot_; }
  [[nodiscard]] int control() const noexcept { return control_.get(); }
  // The private tmpfs; only with a launcher that stays.
  [[nodiscard]] int layer() const noexcept { return layer_.get(); }
  void keep_layer(UniqueFd layer) noexcept { layer_ = std::move(layer); }
  // Of a carried one: where its tier finds out why it has ended.
  [[nodiscard]] int trace() const noexcept { return trace_.get(); }
  void keep_trace(UniqueFd trace) noexcept { trace_ = std::move(trace); }
  [[nodiscard]] int pidfd() const noexcept { return init_.pidfd(); }
  [[nodiscard]] pid_t init_pid() const noexcept { return init_.pid(); }
  [[nodiscard]] bool alive() const noexcept { return init_.alive(); }

  // A fresh stream to init; whoever had one before is cut off.
  [[nodiscard]] Result<UniqueFd> connect();

  // Process 1 has closed its sockets: it ends, or has ended.
  [[nodiscard]] bool ending() const noexcept;

  // init starts nobody from here on, until it gets other rules or release() is said. Busy when it
  // does not say so at once.
  [[nodiscard]] Result<void> hold();
  void release() noexcept;

  // To a carrier that is held: its init goes on at the other end of `stream`.
  [[nodiscard]] Result<void> carry(int stream);

  // Asks init to end every process but itself; they are dead a moment later.
  [[nodiscard]] Result<void> end_processes();

  // Every process of it, at once.
  [[nodiscard]] Result<void> kill();

  // init has ended: reaps it and says why init says it did, if it said anything. Nothing while it
  // runs.
  [[nodiscard]] Result<std::optional<sys::ExitStatus>> try_reap();
  [[nodiscard]] std::optional<Error> init_failure();

  // Kills every process, reaps init, removes the groups. What is left is the slot, for the next
  // sandbox.
  [[nodiscard]] Result<Slot> destroy();

 private:
  SandboxId id_;
  Nonce nonce_;
  // Built downward, destroyed upward: processes die first, then their empty groups go, then the ids
  // are free.
  Slot slot_;
  UniqueFd layer_;
  UniqueFd trace_;
  Groups groups_;
  UniqueFd control_;
  sys::Child init_;
};

}  // namespace caisson::engine::native
