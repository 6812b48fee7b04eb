// sys/process.h — a child by pidfd: a pid can be reused, a pidfd cannot.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

struct ExitStatus {
  int code = 0;    // exit status, or -1 when a signal ended it
  int signal = 0;  // 0 when it exited
};

// Kills, then reaps, when it is destroyed.
class Child {
 public:
  Child() noexcept = default;
  [[nodiscard]] static Child adopt(pid_t pid, UniqueFd pidfd) noexcept;
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  // -1 once it was waited for: the number may be another process's by then.
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] int pidfd() const noexcept { return pidfd_.get(); }
  [[nodiscard]] bool alive() const noexcept { return static_cast<bool>(pidfd_); }

  [[nodiscard]] Result<void> signal(int number) const;
  [[nodiscard]] Result<ExitStatus> wait();
  [[nodiscard]] Result<std::optional<ExitStatus>> try_wait();  // nothing while it runs

 private:
  Child(pid_t pid, UniqueFd pidfd) noexcept : pid_(pid), pidfd_(std::move(pidfd)) {}
  [[nodiscard]] Result<std::optional<ExitStatus>> reap(int options);
  void end() noexcept;

  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

inline constexpr std::size_t kErrandDescriptorsMax = 64;

// For a child that was forked for one errand: it dies with `parent`, and holds no descriptor but
// those it needs. What else it has a copy of belongs to others, who would not see it closed.
void become_errand(pid_t parent, std::span<const int> kept) noexcept;

// From here on no other process of the same id may look into this one.
void refuse_tracing() noexcept;

// True when `fd` became ready for `events` before the deadline; no deadline waits for ever.
[[nodiscard]] Result<bool> wait_ready(int fd, short events, std::optional<TimePoint> deadline);

}  // namespace caisson::sys
