// exec and background processes. All of them are the tool shell_exec to a sandbox's list of tools
// and to the blocklist.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "control/fleet_impl.h"
#include "control/guest_path.h"
#include "control/local_spec.h"
#include "control/sandbox_spec.h"
#include "control/text.h"
#include "control/tools.h"

namespace caisson::control {
namespace {

constexpr int kSignalBase = 128;
constexpr int kSignalMax = 64;
constexpr double kAloudSecondsMax = 4'294'967;  // in milliseconds it is a number of 32 bits

std::string field(std::string_view prefix, std::string_view name) {
  return std::string(prefix) + std::string(name);
}

// What the audit shows and the blocklist judges.
std::string text_of(const ExecWish& wish) {
  if (wish.command) return *wish.command;
  std::string out;
  for (const std::string& word : wish.argv) out.append(out.empty() ? "" : " ").append(word);
  return out;
}

Result<std::vector<std::string>> argv_of(ExecWish& wish, std::string_view prefix) {
  const std::string name = field(prefix, wish.command ? "command" : "argv");
  if (wish.command.has_value() == !wish.argv.empty())
    return bad_field(name, name + ": want exactly one of command and argv");
  if (wish.command) {
    if (wish.command->empty()) return bad_field(name, name + ": is empty");
    wish.argv = {"/bin/sh", "-c", *std::move(wish.command)};
  }
  if (wish.argv.size() > kArgumentsMax)
    return bad_field(name, fmt::format("{}: {} words are too many, want at most {}", name,
                                       wish.argv.size(), kArgumentsMax));
  if (wish.argv.front().empty()) return bad_field(name, name + ": the program's name is empty");
  for (const std::string& word : wish.argv) {
    if (word.size() >= kCommandBytesMax)
      return bad_field(name,
                       name + ": want less than 128 KiB, longer text comes by standard input");
    if (word.find('\0') != std::string::npos) return bad_field(name, name + ": holds a NUL");
  }
  return std::move(wish.argv);
}

ProcessView view_of_guest(const engine::GuestProcess& process, const Sandbox& sandbox) {
  ProcessView view;
  view.id = process.id;
  view.pid = process.pid;
  view.running = process.running;
  view.terminal = (process.flags & wire::kStartPty) != 0;
  const auto known = sandbox.commands.find(process.id);
  view.command = known != sandbox.commands.end() ? known->second
                                                 : cut_text(process.name, kProcessNameBytesMax);
  view.age_seconds = std::chrono::duration<double>(process.age).count();
  for (int which = 0; which < 2; ++which) {
    view.begin[which] = process.begin[which];
    view.end[which] = process.end[which];
  }
  if (process.running) return view;
  const wire::ExitedBody& exited = process.exited;
  view.signal = std::clamp(exited.signal, 0, 127);
  view.exit_code = view.signal != 0 ? kSignalBase + view.signal : std::clamp(exited.code, 0, 255);
  view.timed_out = (exited.flags & wire::kExitTimedOut) != 0;
  view.oom_killed = (exited.flags & wire::kExitOomKilled) != 0;
  return view;
}

std::unexpected<Error> no_process(std::uint32_t process) {
  return failure(Errc::NotFound, "there is no process " + std::to_string(process));
}

}  // namespace

Result<void> FleetImpl::may_run(const Sandbox& sandbox, std::string_view text) const {
  if (std::ranges::find(sandbox.kept.tools, kShellExec) == sandbox.kept.tools.end())
    return failure(Errc::Denied, "this sandbox may not use the tool shell_exec");
  if (const auto pattern = blocklist_.match(text))
    return failure(Errc::Denied, "the command is on the server's blocklist: " + *pattern);
  return {};
}

Result<milliseconds> FleetImpl::exec_timeout(const ExecWish& wish, std::string_view prefix) const {
  // Whoever hears it as it goes on may listen for as long as the sandbox lives.
  if (wish.sink && !wish.timeout_seconds) return milliseconds(0);
  const double most = wish.sink ? kAloudSecondsMax : kExecSecondsMax;
  const double value = wish.timeout_seconds.value_or(options_.exec_timeout_seconds);
  if (!std::isfinite(value) || value <= 0 || value > most) {
    const std::string name = field(prefix, "timeout_seconds");
    return bad_field(
        name, fmt::format("{} is {}: want more than 0 and at most {} seconds", name, value, most));
  }
  return milliseconds(static_cast<std::int64_t>(std::ceil(value * 1000)));
}

Result<engine::ExecRequest> FleetImpl::exec_request(Sandbox& sandbox, ExecWish wish,
                                                    std::string_view prefix) {
  if (wish.output_bytes_max < kOutputBytesMin || wish.output_bytes_max > kOutputBytesMax) {
    const std::string name = field(prefix, "output_bytes_max");
    return bad_field(name, fmt::format("{} is {}: want {} to {}", name, wish.output_bytes_max,
                                       kOutputBytesMin, kOutputBytesMax));
  }
  engine::ExecRequest request;
  request.argv = TRY(argv_of(wish, prefix));
  request.cwd = wish.workdir
                    ? TRY(guest_path(*wish.workdir, sandbox.kept.workdir, field(prefix, "workdir")))
                    : sandbox.kept.workdir;
  request.env = sandbox.kept.environment;
  set_variables(request.env, TRY(way_out_variables(sandbox)));
  if (sandbox.kept.models) set_variables(request.env, model_environment(options_.models));
  if (sandbox.kept.authority) set_variables(request.env, trust_environment());
  if (wish.workdir) set_variables(request.env, {"PWD=" + request.cwd});
  set_variables(request.env, TRY(environment_of(wish.environment, field(prefix, "env"))));
  request.user = sandbox.user();
  request.input = std::move(wish.input);
  request.merge_error = wish.merge_error;
  request.keep_background = wish.keep_background;
  request.hold = wish.hold;
  request.output_bytes_max = wish.output_bytes_max;
  request.admit = std::move(wish.admit);
  return request;
}

store::AuditEvent FleetImpl::about(const Caller& caller, const Sandbox& sandbox, std::string action,
                                   std::uint32_t process) const {
  const auto known = sandbox.commands.find(process);
  store::AuditEvent event = row(caller, std::move(action), sandbox.id,
                                known == sandbox.commands.end() ? "" : known->second);
  event.object = "process " + std::to_string(process) + (event.object.empty() ? "" : ": ") +
                 std::move(event.object);
  return event;
}

awaitable<Result<ExecOutcome>> FleetImpl::exec(const Caller& caller, std::string id,
                                               ExecWish wish) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await run(caller, *sandbox, std::move(wish), "exec", "");
}

awaitable<Result<ExecOutcome>> FleetImpl::run(const Caller& caller, SandboxPtr kept, ExecWish wish,
                                              std::string action, std::string prefix) {
  const Use sandbox(std::move(kept));
  const std::string text = text_of(wish);
  Audited audit(*this, row(caller, std::move(action), sandbox->id, text));
  if (const auto may = within_budget(audit); !may) co_return std::unexpected(may.error());
  if (rows_missing()) {
    auto works = co_await store_works();
    if (!works) co_return std::unexpected(works.error());
  }
  const auto refuse = [](const Error& error) -> Result<ExecOutcome> {
    return std::unexpected(error);
  };
  if (const auto may = may_run(*sandbox, text); !may) {
    ++counters_.denied;
    co_return co_await settle(audit, refuse(may.error()));
  }
  if (const auto up = co_await before_change(sandbox.ptr()); !up)
    co_return co_await settle(audit, refuse(up.error()));
  const auto timeout = exec_timeout(wish, prefix);
  if (!timeout) co_return co_await settle(audit, refuse(timeout.error()));
  OutputSink sink = std::move(wish.sink);
  auto request = exec_request(*sandbox, std::move(wish), prefix);
  if (!request) co_return co_await settle(audit, refuse(request.error()));
  request->timeout = *timeout;
  ++counters_.execs;
  ++sandbox->execs;
  Result<ExecOutcome> done;
  if (sink) {
    done = co_await run_aloud(sandbox->guest, *std::move(request), std::move(sink));
  } else {
    done = co_await sandbox->guest->execute(*std::move(request));
  }
  if (!done && done.error().code == Errc::Gone) {
    // Its init went under the command: why, is the launcher's to say.
    if (sandbox->state != State::Ended && !sandbox->guest->alive())
      co_await look_at_death(sandbox.ptr(), done.error());
    done = explained(*this, *sandbox, std::move(done));
  }
  if (done) {
    audit.detail["exit_code"] = done->exit_code;
    audit.detail["duration_ms"] = static_cast<double>(done->wall.count()) / 1000;
    audit.detail["stdout_bytes"] = done->out.size() + done->out_lost;
    audit.detail["stderr_bytes"] = done->err.size() + done->err_lost;
    if (done->timed_out) audit.detail["timed_out"] = true;
    if (done->oom_killed) audit.detail["oom_killed"] = true;
  }
  co_return co_await settle(audit, std::move(done));
}

awaitable<Result<ProcessView>> FleetImpl::start(const Caller& caller, std::string id,
                                                ProcessWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  const std::string text = text_of(wish.exec);
  Audited audit(*this, row(caller, "process.start", sandbox->id, text));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  const auto refuse = [](const Error& error) -> Result<ProcessView> {
    return std::unexpected(error);
  };
  if (const auto may = may_run(*sandbox, text); !may) {
    ++counters_.denied;
    co_return co_await settle(audit, refuse(may.error()));
  }
  if (const auto up = co_await before_change(sandbox.ptr()); !up)
    co_return co_await settle(audit, refuse(up.error()));
  engine::StartOptions options;
  if (const auto& seconds = wish.exec.timeout_seconds) {
    // A process in the background has no deadline unless one is asked for.
    if (!std::isfinite(*seconds) || *seconds <= 0 || *seconds > UINT32_MAX / 1000.0)
      co_return co_await settle(
          audit, refuse(bad_field("timeout_seconds",
                                  "timeout_seconds: want more than 0 and at most 4294967 seconds")
                            .error()));
    options.timeout = milliseconds(static_cast<std::int64_t>(std::ceil(*seconds * 1000)));
  }
  if (wish.terminal && (wish.rows == 0 || wish.columns == 0))
    co_return co_await settle(
        audit, refuse(bad_field("rows", "rows, columns: want at least 1 each").error()));
  if (!wish.exec.input.empty())
    co_return co_await settle(
        audit, refuse(bad_field("stdin",
                                "stdin: a process in the background takes its input by "
                                "itself; write it after the start")
                          .error()));
  const bool merge = wish.exec.merge_error;
  auto request = exec_request(*sandbox, std::move(wish.exec), "");
  if (!request) co_return co_await settle(audit, refuse(request.error()));
  options.argv = std::move(request->argv);
  options.env = std::move(request->env);
  if (wish.terminal) set_variables(options.env, {"TERM=xterm-256color"});
  options.cwd = std::move(request->cwd);
  options.uid = request->user.uid;
  options.gid = request->user.gid;
  options.rows = wish.rows;
  options.columns = wish.columns;
  options.flags = (wish.terminal ? wire::kStartPty : 0U) |
                  (wish.input && !wish.terminal ? wire::kStartStdin : 0U) |
                  (merge ? wire::kStartMergeError : 0U);
  ++counters_.execs;
  ++sandbox->execs;
  auto started = explained(*this, *sandbox, co_await sandbox->guest->start(std::move(options)));
  if (!started) co_return co_await settle(audit, refuse(started.error()));
  const std::string name = cut_text(text, kProcessNameBytesMax);
  if (sandbox->commands.size() >= wire::kProcessesMax)
    sandbox->commands.erase(sandbox->commands.begin());
  sandbox->commands[started->id] = name;
  (void)sandbox->starters.add(caller.request_id, started->id);
  (void)sandbox->told.add(caller.request_id, started->id);
  audit.detail["process"] = started->id;
  events_.add("process.started", sandbox->tenant, sandbox->id,
              {{"process", started->id}, {"command", name}});
  co_return co_await settle(audit, Result<ProcessView>(view_of_guest(*started, *sandbox)));
}

awaitable<Result<std::vector<ProcessView>>> FleetImpl::views(SandboxPtr sandbox) {
  auto all = explained(*this, *sandbox, co_await sandbox->guest->processes());
  if (!all) co_return std::unexpected(all.error());
  std::vector<ProcessView> out;
  const auto& hidden = sandbox->kept.interpreter_processes;  // ours, and not the caller's
  for (const engine::GuestProcess& process : *all) {
    if (std::ranges::find(hidden, process.id) == hidden.end())
      out.push_back(view_of_guest(process, *sandbox));
  }
  co_return out;
}

awaitable<Result<ProcessView>> FleetImpl::view_of(SandboxPtr sandbox, std::uint32_t process) {
  auto all = co_await views(std::move(sandbox));
  if (!all) co_return std::unexpected(all.error());
  const auto at = std::ranges::find(*all, process, &ProcessView::id);
  if (at == all->end()) co_return no_process(process);
  co_return std::move(*at);
}

awaitable<Result<std::vector<ProcessView>>> FleetImpl::processes(const Caller& caller,
                                                                 std::string id) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use use(*found);
  co_return co_await views(use.ptr());
}

awaitable<Result<ProcessView>> FleetImpl::process(const Caller& caller, std::string id,
                                                  std::uint32_t process) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use use(*found);
  co_return co_await view_of(use.ptr(), process);
}

namespace {

class Output final : public OutputStream {
 public:
  Output(FleetImpl& fleet, SandboxPtr sandbox, std::uint32_t process,
         std::unique_ptr<engine::GuestOutput> guest)
      : fleet_(fleet), use_(std::move(sandbox)), process_(process), guest_(std::move(guest)) {}

  awaitable<Result<Item>> next() override {
    auto item = co_await guest_->next();
    if (!item) {
      if (item.error().code != Errc::Gone) co_return std::unexpected(item.error());
      co_return std::unexpected(fleet_.explain(*use_, item.error()));
    }
    if (auto* data = std::get_if<engine::GuestData>(&*item))
      co_return OutputChunk{data->error, data->offset, data->lost, std::move(data->bytes)};
    const auto& exited = std::get<wire::ExitedBody>(*item);
    engine::GuestProcess ended;
    ended.id = process_;
    ended.running = false;
    ended.exited = exited;
    for (int which = 0; which < 2; ++which) ended.end[which] = exited.end_offset[which];
    co_return view_of_guest(ended, *use_);
  }

 private:
  FleetImpl& fleet_;
  Use use_;
  std::uint32_t process_;
  std::unique_ptr<engine::GuestOutput> guest_;
};

}  // namespace

awaitable<Result<std::unique_ptr<OutputStream>>> FleetImpl::attach(const Caller& caller,
                                                                   std::string id,
                                                                   std::uint32_t process,
                                                                   std::uint64_t out_offset,
                                                                   std::uint64_t err_offset) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, about(caller, *sandbox, "process.attach", process));
  const bool first = !sandbox->told.has(caller.request_id, process);
  if (!first) audit.written();
  if (first) {
    auto works = co_await store_works(audit);
    if (!works) co_return std::unexpected(works.error());
  }
  auto output =
      explained(*this, *sandbox, co_await sandbox->guest->attach(process, out_offset, err_offset));
  Result<std::unique_ptr<OutputStream>> result;
  if (output) {
    result = std::make_unique<Output>(*this, sandbox.ptr(), process, *std::move(output));
  } else if (output.error().code == Errc::NotFound) {
    result = no_process(process);
  } else {
    result = std::unexpected(output.error());
  }
  if (!first) co_return result;
  auto settled = co_await settle(audit, std::move(result));
  if (settled) (void)sandbox->told.add(caller.request_id, process);
  co_return settled;
}

awaitable<Result<void>> FleetImpl::write_input(const Caller& caller, std::string id,
                                               std::uint32_t process, std::string bytes,
                                               bool then_close) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, about(caller, *sandbox, "process.input", process));
  const bool first = !sandbox->told.has(caller.request_id, process);
  if (!first) audit.written();
  // What is typed runs: it waits for the audit, though its row may be there already.
  auto works = first ? co_await store_works(audit) : co_await store_works();
  if (!works) co_return std::unexpected(works.error());
  auto taken = explained(*this, *sandbox,
                         co_await sandbox->guest->input(process, std::move(bytes), then_close));
  if (!first) co_return taken;
  auto settled = co_await settle(audit, std::move(taken));
  if (settled) (void)sandbox->told.add(caller.request_id, process);
  co_return settled;
}

awaitable<Result<void>> FleetImpl::signal(const Caller& caller, std::string id,
                                          std::uint32_t process, int number, bool whole_tree) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  if (number < 1 || number > kSignalMax)
    co_return bad_field("signal", fmt::format("signal is {}: want 1 to 64", number));
  Audited audit(*this, about(caller, *sandbox, "process.signal", process));
  audit.detail["signal"] = number;
  audit.detail["tree"] = whole_tree;
  // The call that started it may end it, whatever the disk says: otherwise it would run on.
  const bool own = sandbox->starters.has(caller.request_id, process);
  if (!own) {
    auto works = co_await store_works(audit);
    if (!works) co_return std::unexpected(works.error());
  }
  const auto target = whole_tree ? wire::SignalTarget::Tree : wire::SignalTarget::Foreground;
  auto sent = explained(*this, *sandbox, co_await sandbox->guest->signal(process, number, target));
  if (!sent && sent.error().code == Errc::NotFound) {
    sent = failure(Errc::NotFound,
                   "there is no process " + std::to_string(process) + ", or it has ended");
    if (own) audit.written();  // the end of its own command is on record with it
    if (own) co_return sent;
  }
  co_return co_await settle(audit, std::move(sent));
}

awaitable<Result<void>> FleetImpl::resize(const Caller& caller, std::string id,
                                          std::uint32_t process, std::uint16_t rows,
                                          std::uint16_t columns) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  if (rows == 0 || columns == 0) co_return bad_field("rows", "rows, columns: want at least 1 each");
  Audited audit(*this, about(caller, *sandbox, "process.resize", process));
  const bool first = !sandbox->told.has(caller.request_id, process);
  if (!first) audit.written();
  auto works = first ? co_await store_works(audit) : co_await store_works();
  if (!works) co_return std::unexpected(works.error());
  auto done = explained(*this, *sandbox, co_await sandbox->guest->resize(process, rows, columns));
  if (!first) co_return done;
  auto settled = co_await settle(audit, std::move(done));
  if (settled) (void)sandbox->told.add(caller.request_id, process);
  co_return settled;
}

awaitable<Result<ProcessView>> FleetImpl::wait(const Caller& caller, std::string id,
                                               std::uint32_t process, milliseconds timeout) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto ended = explained(*this, *sandbox, co_await sandbox->guest->wait(process, timeout));
  if (!ended && ended.error().code == Errc::NotFound) co_return no_process(process);
  if (!ended) co_return std::unexpected(ended.error());
  co_return co_await view_of(sandbox.ptr(), process);
}

awaitable<Result<void>> FleetImpl::forget(const Caller& caller, std::string id,
                                          std::uint32_t process) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, about(caller, *sandbox, "process.forget", process));
  const bool own = sandbox->starters.has(caller.request_id, process);
  if (own) audit.written();
  if (!own) {
    auto works = co_await store_works(audit);
    if (!works) co_return std::unexpected(works.error());
  }
  auto done = explained(*this, *sandbox, co_await sandbox->guest->forget(process));
  if (done) sandbox->commands.erase(process);
  if (!done && done.error().code == Errc::Busy)
    done =
        failure(Errc::Busy, "process " + std::to_string(process) + " still runs; signal it first");
  if (own) co_return done;
  co_return co_await settle(audit, std::move(done));
}

}  // namespace caisson::control
