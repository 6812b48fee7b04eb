// tests/support — a sandbox in a test. Start at Box: it makes one through the library, as a program
// would, runs commands in it and takes it away. Every process of a test shares one launcher.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "control/sandbox_manager.h"
#include "engine/plan.h"

namespace caisson::test {

// The state directory of this test program: of its own, on disk, removed at the end
// ($CAISSON_STATE_DIR overrides it).
[[nodiscard]] const std::string& state_dir();
// The programs under test, and the static ones that they run: $CAISSON_BIN and $CAISSON_PAYLOAD.
[[nodiscard]] std::string caisson_program();
[[nodiscard]] std::string payload(const std::string& name);

// One manager for the whole test program.
[[nodiscard]] control::SandboxManager& manager();

class Box {
 public:
  // Friendly defaults, changed by `change` before the launch. A failure to start fails the test and
  // throws.
  explicit Box(const std::function<void(control::LocalSpec&)>& change = {});
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;
  ~Box();

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  // What ran, or a test failure and an empty result.
  control::ExecutionResult run(const std::vector<std::string>& argv,
                               const control::ExecuteOptions& options = {});
  control::ExecutionResult sh(const std::string& script,
                              const control::ExecuteOptions& options = {});
  control::ExecutionResult python(const std::string& script,
                                  const control::ExecuteOptions& options = {});
  [[nodiscard]] engine::GuestSession& session();
  [[nodiscard]] engine::Status status();
  [[nodiscard]] pid_t init_pid() { return manager().init_pid(id_); }
  // Destroys it now; what is asked of it afterwards fails.
  void destroy();

 private:
  std::string id_;
  std::shared_ptr<engine::GuestSession> session_;
};

// Shows the folder of static payloads inside, read-only at its own path.
void show_payloads(control::LocalSpec& local);

}  // namespace caisson::test
