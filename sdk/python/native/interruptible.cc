#include "native/interruptible.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <system_error>

namespace caisson::python {
namespace {

// A signal wakes poll() at once. The one that comes just before it, or that the kernel gives to
// another thread, is seen at the next look.
constexpr std::chrono::milliseconds kNextLook{250};

}  // namespace

bool on_main_thread() noexcept { return ::gettid() == ::getpid(); }

UniqueFd make_event() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC));
  if (!event) throw std::system_error(errno, std::generic_category(), "eventfd");
  return event;
}

void set_event(int event) noexcept {
  const std::uint64_t one = 1;
  (void)!::write(event, &one, sizeof(one));
}

bool wait_unless_interrupted(int event) {
  for (;;) {
    int ready = 0;
    {
      const pybind11::gil_scoped_release others_run;
      pollfd one{event, POLLIN, 0};
      ready = ::poll(&one, 1, static_cast<int>(kNextLook.count()));
    }
    if (ready > 0) return true;
    if (PyErr_CheckSignals() != 0) return false;
  }
}

}  // namespace caisson::python
