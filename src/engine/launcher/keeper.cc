#include "engine/launcher/keeper.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "base/clock.h"
#include "engine/native/own_process.h"
#include "sys/file.h"

namespace caisson::engine {
namespace {

constexpr milliseconds kBackOffMin{20};
constexpr milliseconds kBackOffMax{5000};
constexpr seconds kSteady{10};       // a worker that lived so long is started again at once
constexpr seconds kOrphansWait{10};  // for what a dead worker had started

class Keeper {
 public:
  Keeper() {
    ::sigemptyset(&signals_);
    for (const int number : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&signals_, number);
    ::sigprocmask(SIG_BLOCK, &signals_, &before_);
  }

  Result<pid_t> start(const std::function<int(int)>& worker, sys::Pipe& lifeline) {
    const pid_t pid = ::fork();
    if (pid < 0) return sys_failure("start the launcher's worker", errno);
    if (pid > 0) return pid;
    lifeline.write.reset();
    ::sigprocmask(SIG_SETMASK, &before_, nullptr);
    ::_exit(worker(lifeline.read.get()));
  }

  // Until the worker has ended; passes a wish to stop on to it. Orphans are reaped as they come.
  int wait_for(pid_t worker) {
    for (;;) {
      int status = 0;
      for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG | __WALL)) > 0;) {
        if (ended == worker) return status;
      }
      // Not yet waited for, so the number is still its own.
      if (pause(milliseconds::max())) ::kill(worker, SIGTERM);
    }
  }

  void wait_for_orphans() {
    const TimePoint deadline = Clock::now() + kOrphansWait;
    for (;;) {
      const pid_t ended = ::waitpid(-1, nullptr, WNOHANG | __WALL);
      if (ended < 0 || Clock::now() >= deadline) return;
      if (ended == 0) (void)pause(milliseconds(100));
    }
  }

  // Until a signal comes or the time is over; true when we are to stop.
  bool pause(milliseconds time) {
    const timespec wait{time.count() / 1000, (time.count() % 1000) * 1'000'000};
    const int got =
        ::sigtimedwait(&signals_, nullptr, time == milliseconds::max() ? nullptr : &wait);
    if (got == SIGTERM || got == SIGINT) stopping_ = true;
    return stopping_;
  }

  [[nodiscard]] bool stopping() const noexcept { return stopping_; }

 private:
  sigset_t signals_{};
  sigset_t before_{};
  bool stopping_ = false;
};

bool orderly(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == kWorkerDone; }

void report(int status) {
  const bool killed = WIFSIGNALED(status);
  (void)std::fprintf(stderr, "caisson launcher: the worker ended (%s %d); its sandboxes are gone\n",
                     killed ? "signal" : "status", killed ? WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace

Result<int> keep(const std::function<int(int lifeline)>& worker,
                 const std::function<void()>& started) {
  TRY(native::adopt_orphans());
  sys::Pipe lifeline = TRY(sys::make_pipe());
  lifeline.read = TRY(sys::park(std::move(lifeline.read)));
  Keeper keeper;
  milliseconds back_off{0};
  for (bool first = true;; first = false) {
    const TimePoint begin = Clock::now();
    const pid_t pid = TRY(keeper.start(worker, lifeline));
    if (first) started();
    const int status = keeper.wait_for(pid);
    keeper.wait_for_orphans();
    if (orderly(status) || keeper.stopping()) return kWorkerDone;
    if (first && WIFEXITED(status)) return kWorkerCannotStart;
    report(status);
    // The first death costs no time; one that dies again and again does not eat a processor.
    if (Clock::now() - begin >= kSteady) back_off = milliseconds(0);
    const TimePoint until = Clock::now() + back_off;
    for (TimePoint now = Clock::now(); now < until; now = Clock::now()) {
      if (keeper.pause(duration_cast<milliseconds>(until - now) + milliseconds(1)))
        return kWorkerDone;
    }
    back_off = std::clamp(back_off * 2, kBackOffMin, kBackOffMax);
  }
}

}  // namespace caisson::engine
