#include "control/sandbox_manager.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "base/id.h"
#include "engine/plan.h"
#include "policy/environment.h"
#include "policy/flags.h"

namespace caisson::control {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr int kKilled = 128 + 9;

std::vector<std::string> caller_environment() {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) all.emplace_back(*at);
  return all;
}

std::string breach_of(const engine::Status& status, const engine::Limits& limits) {
  using engine::EndReason;
  switch (status.end) {
    case EndReason::CpuTime:
      return fmt::format("CPU limit exceeded: {:.1f} s used, limit is {:.1f} s",
                         static_cast<double>(status.usage.cpu_time_us) / 1e6,
                         static_cast<double>(limits.cpu_time_us) / 1e6);
    case EndReason::OutOfMemory:
      return fmt::format("Memory limit exceeded: {:.1f} MiB used, limit is {:.1f} MiB",
                         static_cast<double>(status.usage.memory_peak_bytes) / kMiB,
                         static_cast<double>(limits.memory_bytes) / kMiB);
    case EndReason::Life:
      return fmt::format("Time limit exceeded: limit is {:.1f} s",
                         static_cast<double>(limits.life_us) / 1e6);
    default:
      return "";
  }
}

}  // namespace

Result<std::unique_ptr<SandboxManager>> SandboxManager::open(Options options) {
  engine::HostFeatures host = engine::probe_host();
  if (!host.privileged) {
    return failure(Errc::Unsupported,
                   "the library needs root on this host: its launcher serves many sandboxes, each "
                   "with ids of its own; "
                   "as an ordinary user run one at a time with caisson run");
  }
  if (options.program.empty()) options.program = engine::find_caisson_program();
  if (options.state_dir.empty()) options.state_dir = default_state_dir(host.euid);
  auto launcher = TRY(engine::LauncherClient::spawn(options.program, options.state_dir));
  return std::unique_ptr<SandboxManager>(
      new SandboxManager(std::move(options), std::move(host), std::move(launcher)));
}

SandboxManager::SandboxManager(Options options, engine::HostFeatures host,
                               std::unique_ptr<engine::LauncherClient> launcher)
    : options_(std::move(options)), host_(std::move(host)), launcher_(std::move(launcher)) {}

SandboxManager::~SandboxManager() = default;

Result<std::string> SandboxManager::create_sandbox(
    const policy::CapabilityDeclaration& capability) {
  LocalWish wish;
  wish.capability = TRY(policy::validate(capability));
  wish.current_folder = options_.current_folder;
  wish.state_dir = options_.state_dir;
  if (const char* home = std::getenv("HOME"))
    wish.home = home;  // NOLINT(concurrency-mt-unsafe): read only
  LocalSpec local = TRY(local_spec(wish));
  return launch(std::move(local),
                policy::filter_environment(caller_environment(), *wish.capability),
                wish.capability->resource_limits);
}

Result<std::string> SandboxManager::create_sandbox(LocalSpec local,
                                                   const policy::ResourceLimits& budget) {
  return launch(std::move(local), {}, budget);
}

Result<std::string> SandboxManager::launch(LocalSpec local, const std::vector<std::string>& passed,
                                           const policy::ResourceLimits& budget) {
  engine::Plan plan = TRY(engine::plan(local.spec, host_));
  auto live = std::make_shared<Live>();
  if (plan.request.gate) {
    live->egress = TRY(EgressChild::spawn(options_.program));
    plan.request.trust = TRY(live->egress->prepare(local.spec.egress, {}));
  }
  engine::LaunchReply reply = TRY(launcher_->launch(plan.request, local.folders));
  if (live->egress) {
    const auto served = live->egress->serve(local.spec.egress, {}, std::move(reply.gate));
    if (!served) {
      (void)launcher_->destroy(reply.id);
      return std::unexpected(served.error());
    }
  }
  live->session = TRY(engine::GuestSession::connect(std::move(reply.stream), reply.nonce));
  live->environment = base_environment(plan.request, local.workdir);
  if (live->egress) set_variables(live->environment, way_out_environment());
  if (!plan.request.trust.empty()) set_variables(live->environment, trust_environment());
  set_variables(live->environment, passed);
  set_variables(live->environment, {"PWD=" + local.workdir});
  live->request = std::move(plan.request);
  live->request.id = reply.id;
  live->record = std::move(reply.record);
  live->workdir = std::move(local.workdir);
  live->init_pid = reply.init_pid;
  live->monitor = std::make_shared<policy::ResourceMonitor>(budget);
  const std::scoped_lock lock(mutex_);
  live_.emplace(reply.id, std::move(live));
  return reply.id;
}

Result<std::shared_ptr<SandboxManager::Live>> SandboxManager::find(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto at = live_.find(id);
  if (at == live_.end())
    return failure(Errc::NotFound, "sandbox '" + id + "' does not exist, or was destroyed");
  return at->second;
}

Result<ExecutionResult> SandboxManager::execute(const std::string& id,
                                                const std::vector<std::string>& argv,
                                                const ExecuteOptions& options) {
  const std::shared_ptr<Live> live = TRY(find(id));
  if (argv.empty()) return failure(Errc::InvalidArgument, "command: empty");
  TRY(policy::is_command_acceptable(argv.front()));
  engine::ExecRequest request;
  request.argv = argv;
  request.env = live->environment;
  set_variables(request.env, options.env);
  request.cwd = options.workdir.value_or(live->workdir);
  request.user = {live->request.uid, live->request.gid};
  request.input = options.input;
  request.timeout = options.timeout;
  request.output_bytes_max = options.output_bytes_max;
  request.stop = options.stop;
  const TimePoint begin = Clock::now();
  const auto done = live->session->execute(request);
  if (!done) return ended(id, *live, done.error(), begin);
  ExecutionResult result;
  result.exit_code = done->exit_code;
  result.out = done->out;
  result.err = done->err;
  result.out_lost = done->out_lost;
  result.err_lost = done->err_lost;
  result.duration_ms = static_cast<double>(done->wall.count()) / 1000;
  result.timed_out = done->timed_out;
  result.oom_killed = done->oom_killed;
  result.resource_usage.cpu_seconds = static_cast<double>(done->cpu.count()) / 1e6;
  result.resource_usage.peak_memory_mb = static_cast<double>(done->peak_rss_kib) / 1024;
  if (done->timed_out) {
    result.breach = fmt::format("Time limit exceeded: limit is {:.1f} s",
                                static_cast<double>(options.timeout.count()) / 1000);
  } else if (done->oom_killed) {
    result.breach = fmt::format("Memory limit exceeded: limit is {:.1f} MiB",
                                static_cast<double>(live->request.limits.memory_bytes) / kMiB);
  }
  const auto spent = live->monitor->snapshot();
  result.resource_usage.tokens_used = spent.tokens_used;
  result.resource_usage.cost_usd = spent.cost_usd;
  return result;
}

// The sandbox went away under a command: when a limit did it, that is a result and not a failure.
Result<ExecutionResult> SandboxManager::ended(const std::string& id, const Live& live,
                                              const Error& error, TimePoint begin) {
  if (error.code != Errc::Gone) return std::unexpected(error);
  const auto status = launcher_->status(id);
  if (!status) return std::unexpected(error);
  ExecutionResult result;
  result.breach = breach_of(*status, live.request.limits);
  if (result.breach.empty()) {
    return failure(Errc::Gone,
                   fmt::format("sandbox '{}' ended ({}){}{}", id, engine::to_string(status->end),
                               status->detail.empty() ? "" : ": ", status->detail));
  }
  result.exit_code = kKilled;
  result.oom_killed = status->end == engine::EndReason::OutOfMemory;
  result.duration_ms =
      static_cast<double>(duration_cast<microseconds>(Clock::now() - begin).count()) / 1000;
  result.resource_usage.cpu_seconds = static_cast<double>(status->usage.cpu_time_us) / 1e6;
  result.resource_usage.peak_memory_mb =
      static_cast<double>(status->usage.memory_peak_bytes) / kMiB;
  return result;
}

Result<void> SandboxManager::destroy(const std::string& id) {
  {
    const std::scoped_lock lock(mutex_);
    if (live_.erase(id) == 0)
      return failure(Errc::NotFound, "sandbox '" + id + "' does not exist, or was destroyed");
  }
  TRY(launcher_->destroy(id));
  return {};
}

Result<void> SandboxManager::set_limits(const std::string& id, const engine::Limits& limits) {
  const std::shared_ptr<Live> live = TRY(find(id));
  TRY(launcher_->set_limits(id, limits));
  const std::scoped_lock lock(mutex_);
  live->request.limits = limits;
  return {};
}

Result<engine::Record> SandboxManager::record(const std::string& id) {
  return TRY(find(id))->record;
}
Result<engine::LaunchRequest> SandboxManager::request(const std::string& id) {
  return TRY(find(id))->request;
}

Result<std::shared_ptr<engine::GuestSession>> SandboxManager::session(const std::string& id) {
  return TRY(find(id))->session;
}

Result<std::shared_ptr<policy::ResourceMonitor>> SandboxManager::monitor(const std::string& id) {
  return TRY(find(id))->monitor;
}

pid_t SandboxManager::init_pid(const std::string& id) {
  const auto live = find(id);
  return live ? (*live)->init_pid : -1;
}

}  // namespace caisson::control
