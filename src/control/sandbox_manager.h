// control/sandbox_manager.h — the library: sandboxes for a program, from many threads.
//
//   auto manager = SandboxManager::open();
//   auto id = (*manager)->create_sandbox(CapabilityParser::from_file("cap.yaml").value());
//   auto result = (*manager)->execute(*id, {"python3", "agent.py"});
//   (*manager)->destroy(*id);
//
// The names are those of AumAI Sandbox. The manager starts one small launcher process and speaks
// with it; when the manager goes, so does every sandbox it made.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/egress_child.h"
#include "control/local_spec.h"
#include "engine/launcher/client.h"
#include "engine/link/guest_session.h"
#include "policy/capability.h"
#include "policy/resource_monitor.h"

namespace caisson::control {

inline constexpr milliseconds kExecuteTimeout{60'000};

struct ResourceUsage {
  double cpu_seconds = 0;     // of this command's tree
  double peak_memory_mb = 0;  // of the command and what it waited for
  std::int64_t tokens_used = 0;
  double cost_usd = 0;
};

struct ExecutionResult {
  int exit_code = 0;  // 128 + N when signal N ended it
  std::string out;    // standard output
  std::string err;    // standard error
  std::uint64_t out_lost = 0;
  std::uint64_t err_lost = 0;
  double duration_ms = 0;
  bool timed_out = false;
  bool oom_killed = false;
  std::string breach;  // which limit ended it, its value and the use; empty when none did
  ResourceUsage resource_usage;
};

struct ExecuteOptions {
  milliseconds timeout = kExecuteTimeout;
  std::vector<std::string> env;  // NAME=value, after the sandbox's own
  std::string input;
  std::optional<std::string> workdir;
  std::uint32_t output_bytes_max = 1024 * 1024;
  std::stop_token stop{};  // when requested, the command's whole tree is killed
};

class SandboxManager {
 public:
  struct Options {
    std::string program;    // the caisson command; empty: found beside this program or in the PATH
    std::string state_dir;  // empty: the default for this user
    std::optional<std::string>
        current_folder;  // shown inside at its own path; none: an empty /workspace
  };
  [[nodiscard]] static Result<std::unique_ptr<SandboxManager>> open(Options options);
  [[nodiscard]] static Result<std::unique_ptr<SandboxManager>> open() { return open(Options{}); }
  SandboxManager(const SandboxManager&) = delete;
  SandboxManager& operator=(const SandboxManager&) = delete;
  ~SandboxManager();

  [[nodiscard]] Result<std::string> create_sandbox(const policy::CapabilityDeclaration& capability);
  // For callers who say more than a capability can: doors, tests, benchmarks.
  [[nodiscard]] Result<std::string> create_sandbox(LocalSpec local,
                                                   const policy::ResourceLimits& budget = {});

  [[nodiscard]] Result<ExecutionResult> execute(const std::string& id,
                                                const std::vector<std::string>& argv,
                                                const ExecuteOptions& options);
  [[nodiscard]] Result<ExecutionResult> execute(const std::string& id,
                                                const std::vector<std::string>& argv) {
    return execute(id, argv, ExecuteOptions{});
  }
  [[nodiscard]] Result<void> destroy(const std::string& id);

  [[nodiscard]] Result<void> freeze(const std::string& id) { return launcher_->freeze(id); }
  [[nodiscard]] Result<void> thaw(const std::string& id) { return launcher_->thaw(id); }
  [[nodiscard]] Result<void> set_limits(const std::string& id, const engine::Limits& limits);
  [[nodiscard]] Result<engine::Status> status(const std::string& id) {
    return launcher_->status(id);
  }
  [[nodiscard]] Result<std::vector<std::string>> list() { return launcher_->list(); }
  [[nodiscard]] Result<engine::Record> record(const std::string& id);
  [[nodiscard]] Result<engine::LaunchRequest> request(const std::string& id);
  // Files and processes inside. Lives until destroy().
  [[nodiscard]] Result<std::shared_ptr<engine::GuestSession>> session(const std::string& id);
  [[nodiscard]] Result<std::shared_ptr<policy::ResourceMonitor>> monitor(const std::string& id);
  [[nodiscard]] pid_t init_pid(const std::string& id);
  [[nodiscard]] pid_t launcher_pid() const noexcept { return launcher_->pid(); }
  [[nodiscard]] const engine::HostFeatures& host() const noexcept { return host_; }

 private:
  struct Live {
    engine::LaunchRequest request;
    engine::Record record;
    std::string workdir;
    std::vector<std::string> environment;
    pid_t init_pid = 0;
    std::shared_ptr<engine::GuestSession> session;
    std::shared_ptr<policy::ResourceMonitor> monitor;
    std::optional<EgressChild> egress;  // only with rules; ends with this
  };

  SandboxManager(Options options, engine::HostFeatures host,
                 std::unique_ptr<engine::LauncherClient> launcher);
  [[nodiscard]] Result<std::shared_ptr<Live>> find(const std::string& id);
  [[nodiscard]] Result<std::string> launch(LocalSpec local, const std::vector<std::string>& passed,
                                           const policy::ResourceLimits& budget);
  [[nodiscard]] Result<ExecutionResult> ended(const std::string& id, const Live& live,
                                              const Error& error, TimePoint begin);

  Options options_;
  engine::HostFeatures host_;
  std::unique_ptr<engine::LauncherClient> launcher_;
  std::mutex mutex_;  // guards live_ alone: no call into a sandbox is made under it
  std::map<std::string, std::shared_ptr<Live>> live_;
};

}  // namespace caisson::control
