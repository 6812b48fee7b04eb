// engine/microvm/machine.h — one running machine: its monitor in a jail, and the talk with it.
// Destroying it kills the monitor, and with it everything inside.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/microvm/driver.h"
#include "engine/microvm/vm_plan.h"
#include "sys/process.h"

namespace caisson::engine::microvm {

inline constexpr std::size_t kLastWordsMax = 1024;

// What a machine is made of; everything is the caller's and only looked at.
struct MachineParts {
  VmPlan plan;
  int kernel = -1;                       // shown in the jail
  std::span<const std::byte> initramfs;  // with the machine's record; empty for a clone's
  int memory_of = -1;                    // Clone: the memory of the machine it is a copy of
  int image = -1;                        // read-only
  int upper = -1;                        // readable and writable
  int state = -1;                        // Clone
  int null = -1;                         // the null device
  int channel = -1;                      // the machine's end of the stream for life
  std::span<const int> tasks;            // as JailWish has them
  int group = -1;
  int user_namespace = -1;
  int beside = -1;  // the carrier, by pidfd
  std::uint64_t disk_bytes = 0;
};

class Machine {
 public:
  [[nodiscard]] static Result<Machine> start(const Driver& driver, const MachineParts& parts);

  [[nodiscard]] int pidfd() const noexcept { return monitor_.pidfd(); }
  [[nodiscard]] pid_t pid() const noexcept { return monitor_.pid(); }
  [[nodiscard]] bool alive() const noexcept { return monitor_.alive(); }
  // Its processors stand still, and its clock with them.
  [[nodiscard]] Result<void> stop(TimePoint deadline) { return talk_->stop(deadline); }
  [[nodiscard]] Result<void> go_on(TimePoint deadline) { return talk_->go_on(deadline); }
  [[nodiscard]] Result<RunState> run_state(TimePoint deadline) {
    return talk_->run_state(deadline);
  }
  [[nodiscard]] Result<void> save(int file, TimePoint deadline) {
    return talk_->save(file, deadline);
  }
  // Its memory as a file: whole, and of one moment, while it is stopped.
  [[nodiscard]] int memory() const noexcept { return memory_.get(); }
  [[nodiscard]] UniqueFd take_memory() { return std::move(memory_); }
  [[nodiscard]] Result<void> kill() const;
  [[nodiscard]] Result<sys::ExitStatus> wait() { return monitor_.wait(); }
  [[nodiscard]] Result<std::optional<sys::ExitStatus>> try_reap() { return monitor_.try_wait(); }
  [[nodiscard]] std::string last_words() const { return words_in(complaints_.get()); }
  // Where the monitor complains; the machine of a sandbox leaves nothing else behind.
  [[nodiscard]] UniqueFd take_complaints() { return std::move(complaints_); }
  // What is in it, cut and without control characters.
  [[nodiscard]] static std::string words_in(int complaints);

 private:
  Machine(sys::Child monitor, std::unique_ptr<Monitor> talk, UniqueFd complaints, UniqueFd memory)
      : complaints_(std::move(complaints)),
        memory_(std::move(memory)),
        talk_(std::move(talk)),
        monitor_(std::move(monitor)) {}

  UniqueFd complaints_;
  UniqueFd memory_;
  std::unique_ptr<Monitor> talk_;
  sys::Child monitor_;
};

}  // namespace caisson::engine::microvm
