#include "sys/process.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <utility>

#include "sys/raw.h"

namespace caisson::sys {
namespace {

constexpr nanoseconds kWaitMost = seconds(3600);  // in one call; then another

}  // namespace

Child Child::adopt(pid_t pid, UniqueFd pidfd) noexcept { return {pid, std::move(pidfd)}; }

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, -1);
    pidfd_ = std::move(other.pidfd_);
  }
  return *this;
}

Child::~Child() { end(); }

void Child::end() noexcept {
  if (!pidfd_) return;
  (void)raw::pidfd_send_signal(pidfd_.get(), SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | __WALL) != 0 &&
         errno == EINTR) {
  }
  pidfd_.reset();
  pid_ = -1;
}

Result<void> Child::signal(int number) const {
  if (!pidfd_) return failure(Errc::NotFound, "signal: the process has ended");
  if (raw::pidfd_send_signal(pidfd_.get(), number) != 0)
    return sys_failure("signal a process", errno);
  return {};
}

Result<std::optional<ExitStatus>> Child::reap(int options) {
  if (!pidfd_) return failure(Errc::NotFound, "wait: the process was waited for already");
  siginfo_t info{};
  while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | __WALL | options) !=
         0) {
    if (errno != EINTR) return sys_failure("wait for a process", errno);
  }
  if (info.si_pid == 0) return std::nullopt;
  pidfd_.reset();
  pid_ = -1;
  if (info.si_code == CLD_EXITED) return ExitStatus{info.si_status, 0};
  return ExitStatus{-1, info.si_status};
}

Result<ExitStatus> Child::wait() {
  const auto status = TRY(reap(0));
  CAISSON_ASSERT(status.has_value());
  return *status;
}

Result<std::optional<ExitStatus>> Child::try_wait() { return reap(WNOHANG); }

void become_errand(pid_t parent, std::span<const int> kept) noexcept {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  std::array<int, kErrandDescriptorsMax> order{};
  const std::size_t count = std::min(kept.size(), order.size());
  std::copy_n(kept.begin(), count, order.begin());
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count));
  unsigned next = STDERR_FILENO + 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto one = static_cast<unsigned>(order[i]);
    if (one > next) (void)raw::close_range(next, one - 1, 0);
    next = std::max(next, one + 1);
  }
  (void)raw::close_range(next, ~0U, 0);
}

void refuse_tracing() noexcept { (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

Result<bool> wait_ready(int fd, short events, std::optional<TimePoint> deadline) {
  for (;;) {
    timespec left{};
    if (deadline) {
      const auto rest =
          std::clamp<nanoseconds>(*deadline - Clock::now(), nanoseconds(0), kWaitMost);
      left.tv_sec = duration_cast<seconds>(rest).count();
      left.tv_nsec = (rest % seconds(1)).count();
    }
    pollfd one{fd, events, 0};
    const int ready = ::ppoll(&one, 1, deadline ? &left : nullptr, nullptr);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return sys_failure("poll", errno);
    if (deadline && Clock::now() >= *deadline) return false;
  }
}

}  // namespace caisson::sys
