// sdk/python/native/manager.h — control::SandboxManager as an object of Python.
//
// It adds what a Python program needs and the library cannot know: the GIL is given away in every
// call that waits, Ctrl-C ends a command, close() may come while other threads still run commands,
// and a child that was forked off keeps its hands off its parent's launcher.
#pragma once

#include <pybind11/pybind11.h>
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "control/sandbox_manager.h"

namespace caisson::python {

class Manager {
 public:
  Manager(std::string program, std::string state_dir, std::optional<std::string> current_folder);
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager();

  // Ends every sandbox, and with them every command that other threads wait for.
  void close();

  [[nodiscard]] std::string create_sandbox(const pybind11::handle& capability);
  // The arguments of caisson.local.models.SandboxResult, by name.
  [[nodiscard]] pybind11::dict execute(const std::string& id, const std::vector<std::string>& argv,
                                       std::int64_t timeout_ms, std::vector<std::string> env,
                                       std::string input, std::optional<std::string> workdir,
                                       std::uint32_t output_bytes_max);
  void destroy(const std::string& id);
  // How it ended, "running" while it has not: the words of engine::EndReason.
  [[nodiscard]] std::string status(const std::string& id);
  [[nodiscard]] std::vector<std::string> list();
  [[nodiscard]] std::shared_ptr<policy::ResourceMonitor> monitor(const std::string& id);
  [[nodiscard]] pid_t launcher_pid();

 private:
  using Shared = std::shared_ptr<control::SandboxManager>;
  // Whoever works with it holds it: close() does not take it away under him.
  [[nodiscard]] Shared open();
  [[nodiscard]] Shared take() noexcept;

  const pid_t owner_;
  std::mutex mutex_;  // guards manager_ alone, and nobody waits for the GIL under it
  Shared manager_;
};

}  // namespace caisson::python
