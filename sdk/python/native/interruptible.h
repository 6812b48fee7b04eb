// sdk/python/native/interruptible.h — a long call of the library that Ctrl-C ends.
//
// Python handles signals in its main thread and only while that runs Python. So there the work is
// done by a second thread, and the main one waits where a signal wakes it: when a handler raises
// (KeyboardInterrupt does), the work is asked to stop, its end is awaited, and the exception goes
// on. Other threads are never interrupted; they do the work themselves. Nobody holds the GIL while
// he waits.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/unique_fd.h"

namespace caisson::python {

[[nodiscard]] bool on_main_thread() noexcept;

// An eventfd: set once, when the work is done.
[[nodiscard]] UniqueFd make_event();
void set_event(int event) noexcept;
// True when the event was set; false when a signal's handler raised first. Needs the GIL, and gives
// it away while it waits.
[[nodiscard]] bool wait_unless_interrupted(int event);

// work(stop) → its answer. Needs the GIL, and gives it away.
template <class Work>
auto interruptible(const Work& work) {
  using Answer = std::invoke_result_t<const Work&, std::stop_token>;
  if (!on_main_thread()) {
    const pybind11::gil_scoped_release others_run;
    return work(std::stop_token());
  }
  const UniqueFd done = make_event();
  std::optional<Answer> answer;
  std::jthread worker([&](const std::stop_token& stop) {
    answer.emplace(work(stop));
    set_event(done.get());
  });
  const bool finished = wait_unless_interrupted(done.get());
  if (!finished) worker.request_stop();
  {
    const pybind11::gil_scoped_release others_run;
    worker.join();
  }
  if (!finished) throw pybind11::error_already_set();
  return std::move(*answer);
}

}  // namespace caisson::python
