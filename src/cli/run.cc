#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>

#include "base/id.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/relay.h"
#include "cli/run_options.h"
#include "cli/summary.h"
#include "cli/terminal.h"
#include "control/egress_child.h"
#include "control/local_spec.h"
#include "control/network_rules.h"
#include "engine/launcher/core.h"
#include "engine/native/head_start.h"
#include "engine/native/rootless.h"
#include "engine/plan.h"
#include "policy/environment.h"
#include "sys/file.h"
#include "sys/raw.h"
#include "sys/socket.h"

namespace caisson::cli {
namespace {

constexpr milliseconds kInitLate{250};  // init ends the process at its time; this much later we do

std::vector<std::string> caller_environment() {
  std::vector<std::string> all;
  for (char** at = environ; *at != nullptr; ++at) all.emplace_back(*at);
  return all;
}

std::string home_folder() {
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe): one thread
  return home != nullptr ? home : "";
}

Result<control::LocalSpec> wish(const RunOptions& options) {
  control::LocalWish wish;
  wish.capability = options.capability;
  wish.writable = options.writable;
  wish.home = home_folder();
  wish.state_dir = options.state_dir;
  if (options.show_folder) {
    char path[PATH_MAX];
    if (::getcwd(path, sizeof(path)) == nullptr) return sys_failure("current folder", errno);
    wish.current_folder = path;
  }
  control::LocalSpec local = TRY(control::local_spec(wish));
  engine::SandboxSpec& spec = local.spec;
  engine::Limits& limits = spec.request.limits;
  if (options.tier) spec.tier = *options.tier;
  spec.egress.insert(spec.egress.end(), options.allow.begin(), options.allow.end());
  if (options.memory_bytes) {
    limits.memory_bytes = *options.memory_bytes;
    spec.declared.memory = true;
    if (!options.disk_bytes && limits.memory_bytes != 0) {
      limits.disk_bytes = std::max<std::uint64_t>(limits.memory_bytes / 2, 1U << 20U);
    }
  }
  if (options.disk_bytes) limits.disk_bytes = *options.disk_bytes;
  if (options.processes) limits.processes = *options.processes;
  if (options.cpu_millis) {
    limits.cpu_millis = *options.cpu_millis;
    spec.declared.cpu = true;
  }
  if (options.cpu_time_us) {
    limits.cpu_time_us = *options.cpu_time_us;
    spec.declared.cpu_time = true;
  }
  if (options.uid) spec.request.uid = *options.uid;
  if (options.gid) spec.request.gid = *options.gid;
  if (options.workdir) local.workdir = *options.workdir;
  spec.request.id = TRY(SandboxId::random()).str();
  return local;
}

engine::StartOptions start_options(const RunOptions& options, const control::LocalSpec& local,
                                   bool terminal) {
  const engine::LaunchRequest& request = local.spec.request;
  engine::StartOptions start;
  start.argv = options.command;
  start.cwd = local.workdir;
  start.uid = request.uid;
  start.gid = request.gid;
  start.env = control::base_environment(request, local.workdir);
  if (options.capability) {
    control::set_variables(start.env,
                           policy::filter_environment(caller_environment(), *options.capability));
    control::set_variables(start.env, {"PWD=" + local.workdir});
  }
  if (!local.spec.egress.empty()) control::set_variables(start.env, control::way_out_environment());
  if (!request.trust.empty()) control::set_variables(start.env, control::trust_environment());
  if (terminal) {
    const char* kind = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
    control::set_variables(start.env, {std::string("TERM=") + (kind != nullptr ? kind : "xterm")});
    const WindowSize size = window_size(STDIN_FILENO);
    start.rows = size.rows;
    start.columns = size.columns;
  }
  control::set_variables(start.env, options.environment);
  // Quiet: what matters is the first output or the end, and each word from init wakes us.
  start.flags = wire::kStartAttach | wire::kStartStdin | wire::kStartKillTree | wire::kStartQuiet |
                wire::kStartSole | (terminal ? wire::kStartPty : 0U);
  start.timeout = options.timeout;
  return start;
}

int report_not_started(const RelayOutcome& outcome, const engine::StartOptions& start) {
  const Error& error = *outcome.not_started;
  if (outcome.not_started_at == wire::Step::Cwd) {
    complain("run", "'" + start.cwd + "': " + error.message + "; --workdir names a folder inside");
    return kExitSandbox;
  }
  complain("run", "cannot start '" + start.argv.front() + "': " + error.message);
  return error.sys_errno == EACCES || error.sys_errno == ENOEXEC ? kExitNotExecutable
                                                                 : kExitNotFound;
}

void print_summary(const RunReport& report, Summary summary) {
  if (summary == Summary::Json) {
    fmt::print(stderr, "{}\n", summary_json(report));
    return;
  }
  for (const std::string& line : breaches(report)) fmt::print(stderr, "[sandbox] {}\n", line);
  if (summary == Summary::Text) fmt::print(stderr, "{}\n", summary_text(report));
}

using HeadStart = std::unique_ptr<engine::native::HeadStart>;

// What a run needs beside its plan.
struct Company {
  engine::HostFeatures host;
  HeadStart head_start;
  std::optional<control::EgressChild> egress;  // only with rules
};

// With rules, the command begins when somebody serves its way out.
Result<void> launch_and_start(engine::LauncherCore& core, const RunOptions& options,
                              control::LocalSpec& local, const engine::Plan& plan,
                              std::optional<control::EgressChild>& egress, engine::GuestLink& link,
                              engine::native::GuestEnd end, const engine::StartOptions& start) {
  if (!egress) {
    TRY(link.start(kRelayed, start));
    (void)link.on_writable();
  }
  engine::LaunchReply reply =
      TRY(core.launch(plan.request, std::move(local.folders), std::move(end)));
  if (!egress) return {};
  auto served = egress->serve(local.spec.egress, options.name_servers, std::move(reply.gate));
  if (served) return link.start(kRelayed, start);
  (void)core.destroy(plan.request.id);
  return served;
}

Result<int> run_planned(const RunOptions& options, control::LocalSpec local,
                        const engine::Plan& plan, Company company) {
  const UniqueFd signals = TRY(watch_signals());
  const bool terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  engine::native::TierOptions tier;
  tier.host = std::move(company.host);
  tier.state_dir = options.state_dir;
  tier.head_start = std::move(company.head_start);
  const TimePoint begin = Clock::now();
  auto opened =
      std::make_unique<engine::LauncherCore>(TRY(engine::LauncherCore::open(std::move(tier))));
  // Not destroyed: after destroy() there is nothing in it but helpers that are dead already, and
  // the end of this process reaps them sooner than a destructor.
  engine::LauncherCore& core = *opened.release();
  TRY(core.prepare(plan.request, local.folders));
  const std::string id = plan.request.id;
  // What init is to start lies there when it begins to read: it need not wait for us.
  engine::native::GuestEnd end;
  TRY(sys::random_bytes(end.nonce));
  sys::SocketPair stream = TRY(sys::stream_pair());
  end.stream = std::move(stream.theirs);
  engine::GuestLink link(std::move(stream.ours), end.nonce);
  const engine::StartOptions start = start_options(options, local, terminal);
  TRY(launch_and_start(core, options, local, plan, company.egress, link, std::move(end), start));
  RelayRequest request{terminal, std::nullopt};
  if (options.timeout.count() > 0) request.give_up = begin + options.timeout + kInitLate;
  Result<RelayOutcome> outcome = RelayOutcome{};
  {
    std::optional<RawTerminal> raw;
    if (terminal) raw.emplace(STDIN_FILENO);
    outcome = relay(core, id, link, request, signals.get());
  }
  RunReport report;
  // A command that has ended and left nobody behind: there is an init without work. Else the tree
  // was killed, and the sandbox's group makes sure of it.
  const bool orderly = outcome && outcome->exited && outcome->closed_output.empty() &&
                       (outcome->exited->flags & wire::kExitTreeKilled) == 0;
  report.status = TRY(orderly ? core.leave(id) : core.destroy(id));
  if (!outcome) return std::unexpected(outcome.error());
  if (outcome->not_started) return report_not_started(*outcome, start);
  report.sandbox_id = id;
  report.limits = plan.request.limits;
  report.timeout = options.timeout;
  report.duration = duration_cast<milliseconds>(Clock::now() - begin);
  report.exited = outcome->exited;
  report.closed_output = outcome->closed_output;
  if (company.egress) {
    auto told = company.egress->finish();
    if (!told) return std::unexpected(told.error().within("what left the sandbox"));
    report.egress = *std::move(told);
  }
  report.no_spawn = engine::seccomp::has(plan.request.profile, engine::seccomp::Profile::NoSpawn);
  print_summary(report, options.summary);
  return exit_status(report);
}

// The files are ours to open; what is in them, only the egress process reads.
Result<std::string> prepare_egress(control::EgressChild& egress, const RunOptions& options,
                                   const control::EgressRules& rules) {
  for (const policy::NetworkEgressRule& rule : rules) {
    for (const policy::HeaderInjection& one : rule.inject) {
      const auto given = [&](const auto& secret) { return secret.first == one.secret; };
      if (std::ranges::any_of(options.secrets, given)) continue;
      return failure(Errc::InvalidArgument,
                     fmt::format("network_egress_rules: the rule for '{}' needs the secret '{}'; "
                                 "give it with --secret {}=FILE",
                                 rule.domain, one.secret, one.secret));
    }
  }
  std::vector<control::EgressChild::SecretFile> files;
  files.reserve(options.secrets.size());
  for (const auto& [name, path] : options.secrets)
    files.push_back({name, TRY_IN("--secret " + name, sys::open_at(AT_FDCWD, path, O_RDONLY))});
  return egress.prepare(rules, files);
}

bool has_rules(const RunOptions& options) {
  return !options.allow.empty() ||
         (options.capability && !options.capability->network_egress_rules.empty());
}

Result<int> run(const RunOptions& options, HeadStart head_start) {
  Company company;
  company.head_start = std::move(head_start);
  company.host = engine::probe_host();
  const engine::HostFeatures& host = company.host;
  // First, because a folder that is opened belongs to the mount namespace it is opened in.
  if (!host.privileged)
    company.head_start.reset();  // entering a user namespace takes a single thread
  // Also first: it must stay in the network that we are about to leave.
  if (has_rules(options) && !options.dry_run) company.egress = TRY(control::EgressChild::spawn());
  if (!host.privileged && !options.dry_run) TRY(engine::native::enter_outer_namespace(host));
  control::LocalSpec local = TRY(wish(options));
  engine::Plan plan = TRY(engine::plan(local.spec, host));
  if (options.dry_run) {
    fmt::print("{}", options.summary == Summary::Json ? engine::to_json(plan) + "\n"
                                                      : engine::to_text(plan));
    return kExitOk;
  }
  if (options.summary == Summary::Text) {
    for (const std::string& remark : local.remarks) fmt::print(stderr, "[sandbox] {}\n", remark);
    for (const std::string& note : plan.notes) fmt::print(stderr, "[sandbox] note: {}\n", note);
  }
  if (company.egress) {
    plan.request.trust = TRY(prepare_egress(*company.egress, options, local.spec.egress));
    local.spec.request.trust = plan.request.trust;
  }
  return run_planned(options, std::move(local), plan, std::move(company));
}

}  // namespace

int run_command(std::span<char*> args) {
  // What a stranger left open is not ours to hand on, and would take the low numbers that a launch
  // needs.
  (void)sys::raw::close_range(STDERR_FILENO + 1, ~0U, 0);
  // Before the options are read: it needs to know nothing of them.
  HeadStart head_start;
  if (::geteuid() == 0) head_start = engine::native::HeadStart::begin();
  const auto options = parse_run_options(args);
  if (!options) return options.error();
  const auto status = run(*options, std::move(head_start));
  if (status) return *status;
  complain(args[0], status.error().message);
  return status.error().code == Errc::InvalidArgument ? kExitUsage : kExitSandbox;
}

}  // namespace caisson::cli
