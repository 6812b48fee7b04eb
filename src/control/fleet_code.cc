// Code in interpreters that are there already, by itself or in contexts. To a sandbox's list of
// tools and to the blocklist it is shell_exec, like every command.
#include "control/fleet_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>

#include "base/id.h"
#include "control/text.h"
#include "control/tools.h"

namespace caisson::control {
namespace {

namespace json = boost::json;

std::map<std::string_view, std::string_view> pairs_of(const std::vector<std::string>& variables) {
  std::map<std::string_view, std::string_view> out;
  for (const std::string& one : variables) {
    const std::string_view text = one;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      out.insert_or_assign(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

// What makes `to` out of `from`; null: without that one.
json::object changed_variables(const std::vector<std::string>& from,
                               const std::vector<std::string>& to) {
  const auto before = pairs_of(from);
  const auto after = pairs_of(to);
  json::object out;
  for (const auto& [name, value] : after) {
    const auto at = before.find(name);
    if (at == before.end() || at->second != value) out[to_utf8(name)] = to_utf8(value);
  }
  for (const auto& [name, value] : before) {
    if (!after.contains(name)) out[to_utf8(name)] = nullptr;
  }
  return out;
}

ContextView view_of_context(const interpreters::Context& context) {
  return {context.id,      context.language, context.workdir,
          context.created, context.busy(),   context.runs};
}

Result<void> check_code(const CodeWish& wish) {
  if (wish.code.size() > kCodeBytesMax)
    return std::unexpected(Error{Errc::TooLarge,
                                 fmt::format("code has {} bytes: at most {}; write it to a file, "
                                             "and run that",
                                             wish.code.size(), kCodeBytesMax),
                                 0, "code"});
  if (!is_utf8(wish.code)) return bad_field("code", "code: want valid UTF-8");
  if (wish.context && !wish.environment.empty())
    return bad_field("env", "env: a context has its own; change it in the code");
  if (wish.context && wish.workdir)
    return bad_field("workdir", "workdir: a context has its own; change it in the code");
  return {};
}

void tell(const CodeOutcome& outcome, Audited& audit) {
  audit.detail["exit_code"] = outcome.exit_code;
  audit.detail["duration_ms"] = static_cast<double>(outcome.wall.count()) / 1000;
  audit.detail["stdout_bytes"] = outcome.out.size() + outcome.out_lost;
  audit.detail["stderr_bytes"] = outcome.err.size() + outcome.err_lost;
  if (outcome.timed_out) audit.detail["timed_out"] = true;
  if (outcome.context_ended) audit.detail["context_ended"] = true;
  if (outcome.error) audit.detail["error"] = outcome.error->name;
}

// A context runs one thing at a time.
class Occupied {
 public:
  explicit Occupied(std::shared_ptr<interpreters::Context> context) : context_(std::move(context)) {
    if (context_) context_->taken = true;
  }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;
  ~Occupied() {
    if (context_) context_->taken = false;
  }

 private:
  std::shared_ptr<interpreters::Context> context_;
};

// A place under kContextsMax, from the wish on.
class Place {
 public:
  explicit Place(SandboxPtr sandbox) : sandbox_(std::move(sandbox)) { ++sandbox_->code.opening; }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { --sandbox_->code.opening; }

 private:
  SandboxPtr sandbox_;
};

}  // namespace

Result<engine::ExecRequest> FleetCode::request(FleetImpl& fleet, Sandbox& sandbox,
                                               Variables environment,
                                               std::optional<std::string> workdir) {
  ExecWish wish;
  wish.argv = {"interpreter"};
  wish.environment = std::move(environment);
  wish.workdir = std::move(workdir);
  return fleet.exec_request(sandbox, std::move(wish), "");
}

Result<FleetCode::InterpreterPtr> FleetCode::interpreter_of(FleetImpl& fleet,
                                                            const SandboxPtr& sandbox,
                                                            Language language) {
  auto& slot = sandbox->code.interpreters[language];
  if (slot && !slot->dead()) return slot;
  auto wanted = TRY(request(fleet, *sandbox, {}, std::nullopt));
  engine::StartOptions options;
  options.env = std::move(wanted.env);
  options.cwd = std::move(wanted.cwd);
  options.uid = wanted.user.uid;
  options.gid = wanted.user.gid;
  std::vector<std::string> imports;
  if (const auto wish = sandbox->kept.interpreters.find(language);
      wish != sandbox->kept.interpreters.end())
    imports = wish->second.imports;
  auto keep = [alive = fleet.alive(), weak = std::weak_ptr<Sandbox>(sandbox)](std::uint32_t process,
                                                                              bool there) {
    const auto self = alive.lock();
    const auto kept = weak.lock();
    if (!self || !kept) return;
    std::erase(kept->kept.interpreter_processes, process);
    if (!there) return;
    kept->kept.interpreter_processes.push_back(process);
    // A server that comes after us ends it: nobody else knows how to speak to it.
    keep_record(**self, *kept);
  };
  slot = std::make_shared<interpreters::Interpreter>(fleet.executor_, sandbox->guest, language);
  slot->begin(std::move(options), imports, std::move(keep));
  return slot;
}

void FleetCode::warm(FleetImpl& fleet, const SandboxPtr& sandbox) {
  if (!sandbox->guest || sandbox->state != State::Running || sandbox->once) return;
  if (std::ranges::find(sandbox->kept.tools, kShellExec) == sandbox->kept.tools.end()) return;
  for (const auto& [language, wish] : sandbox->kept.interpreters) {
    // What is wrong with it, the first call hears.
    if (wish.warm) (void)interpreter_of(fleet, sandbox, language);
  }
}

awaitable<bool> FleetCode::rest(SandboxPtr sandbox) {
  bool ended = false;
  for (const auto& [language, one] : std::map(sandbox->code.interpreters)) {
    if (!one || one->dead() || !one->idle()) continue;
    co_await one->end("the interpreter was ended: the sandbox's files were sealed or changed");
    ended = true;
  }
  co_return ended;
}

void FleetCode::keep_record(FleetImpl& fleet, const Sandbox& sandbox) {
  const auto found = fleet.living_.find(sandbox.id);
  if (found == fleet.living_.end() || found->second.get() != &sandbox || sandbox.once) return;
  store::Store::Batch batch;
  batch.sandboxes.push_back(fleet.stored(sandbox));
  fleet.post(std::move(batch));
}

awaitable<void> FleetCode::bury(FleetImpl& fleet, SandboxPtr sandbox) {
  constexpr milliseconds kEndWait{5'000};
  const auto processes = std::exchange(sandbox->kept.interpreter_processes, {});
  for (const std::uint32_t process : processes) {
    (void)co_await sandbox->guest->signal(process, SIGKILL, wire::SignalTarget::Tree);
    (void)co_await sandbox->guest->wait(process, kEndWait);
    (void)co_await sandbox->guest->forget(process);
  }
  if (processes.empty()) co_return;
  store::Store::Batch batch;
  batch.sandboxes.push_back(fleet.stored(*sandbox));
  fleet.post(std::move(batch));
}

Result<FleetCode::ContextPtr> FleetCode::find(Sandbox& sandbox, std::string_view context) {
  interpreters::Home& home = sandbox.code;
  home.look();
  const auto found = home.contexts.find(context);
  if (found != home.contexts.end()) return found->second;
  const std::string name = cut_text(context, 64);
  for (const auto& [id, why] : home.ended) {
    if (id == context) return failure(Errc::Gone, fmt::format("context '{}' ended: {}", name, why));
  }
  return failure(Errc::NotFound, fmt::format("there is no context '{}'", name));
}

awaitable<Result<void>> FleetCode::may_run(FleetImpl& fleet, SandboxPtr sandbox,
                                           std::string_view text) {
  if (const auto may = fleet.may_run(*sandbox, text); !may) {
    ++fleet.counters_.denied;
    co_return may;
  }
  co_return co_await fleet.before_change(sandbox);
}

awaitable<Result<CodeOutcome>> FleetImpl::run_code(const Caller& caller, std::string id,
                                                   CodeWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "code.run", sandbox->id, wish.code));
  if (const auto may = within_budget(audit); !may) co_return std::unexpected(may.error());
  if (rows_missing()) {
    auto works = co_await store_works();
    if (!works) co_return std::unexpected(works.error());
  }
  audit.detail["language"] = std::string(to_string(wish.language));
  if (wish.context) audit.detail["context"] = cut_text(*wish.context, 64);
  Result<CodeOutcome> done;
  if (const auto good = check_code(wish); !good) {
    done = std::unexpected(good.error());
  } else if (const auto may = co_await FleetCode::may_run(*this, sandbox.ptr(), wish.code); !may) {
    done = std::unexpected(may.error());
  } else {
    done =
        explained(*this, *sandbox, co_await FleetCode::run(*this, sandbox.ptr(), std::move(wish)));
  }
  if (done) tell(*done, audit);
  co_return co_await settle(audit, std::move(done));
}

awaitable<Result<CodeOutcome>> FleetCode::run(FleetImpl& fleet, SandboxPtr sandbox, CodeWish wish) {
  ExecWish limits;
  limits.timeout_seconds = wish.timeout_seconds;
  const auto timeout = fleet.exec_timeout(limits, "");
  if (!timeout) co_return std::unexpected(timeout.error());
  std::shared_ptr<interpreters::Context> context;
  if (wish.context) {
    auto there = find(*sandbox, *wish.context);
    if (!there) co_return std::unexpected(there.error());
    context = *there;
    if (context->busy())
      co_return failure(Errc::Busy, "the context is busy: wait for its run, or interrupt it");
  }
  const Occupied occupied(context);
  auto wanted = request(fleet, *sandbox, std::move(wish.environment), std::move(wish.workdir));
  if (!wanted) co_return std::unexpected(wanted.error());
  auto interpreter = context ? Result<InterpreterPtr>(context->interpreter)
                             : interpreter_of(fleet, sandbox, wish.language);
  if (!interpreter) co_return std::unexpected(interpreter.error());
  ++fleet.counters_.execs;
  ++sandbox->execs;
  const TimePoint deadline = Clock::now() + std::min(*timeout, interpreters::kReadyTimeout);
  if (auto ready = co_await (*interpreter)->ready(deadline); !ready)
    co_return std::unexpected(ready.error());
  interpreters::RunWish run;
  run.code = std::move(wish.code);
  run.input = std::move(wish.input);
  run.output_bytes_max = wish.output_bytes_max;
  run.timeout = *timeout;
  run.admit = std::move(wish.admit);
  run.sink = std::move(wish.sink);
  if (context) {
    run.context = context->number;
    run.environment = changed_variables(context->environment, wanted->env);
    context->environment = std::move(wanted->env);
    ++context->runs;
  } else {
    run.environment = changed_variables((*interpreter)->environment(), wanted->env);
    run.workdir = wanted->cwd;
  }
  auto done = co_await (*interpreter)->run(std::move(run));
  if (context) sandbox->code.look();
  co_return done;
}

awaitable<Result<ContextView>> FleetImpl::create_context(const Caller& caller, std::string id,
                                                         ContextWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this,
                row(caller, "context.create", sandbox->id, std::string(to_string(wish.language))));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<ContextView> made;
  if (const auto good = check_imports(wish.language, wish.imports, "imports"); !good) {
    made = std::unexpected(good.error());
  } else if (const auto may = co_await FleetCode::may_run(*this, sandbox.ptr(), ""); !may) {
    made = std::unexpected(may.error());
  } else {
    made =
        explained(*this, *sandbox, co_await FleetCode::open(*this, sandbox.ptr(), std::move(wish)));
  }
  if (made) audit.detail["context"] = made->id;
  co_return co_await settle(audit, std::move(made));
}

awaitable<Result<ContextView>> FleetCode::open(FleetImpl& fleet, SandboxPtr sandbox,
                                               ContextWish wish) {
  interpreters::Home& home = sandbox->code;
  home.look();
  if (home.contexts.size() + home.opening >= kContextsMax)
    co_return failure(Errc::Exhausted,
                      fmt::format("this sandbox has {} contexts, as many as it may have: delete "
                                  "one first",
                                  kContextsMax));
  const Place place(sandbox);
  auto wanted = request(fleet, *sandbox, std::move(wish.environment), std::move(wish.workdir));
  if (!wanted) co_return std::unexpected(wanted.error());
  auto plain = request(fleet, *sandbox, {}, std::nullopt);
  if (!plain) co_return std::unexpected(plain.error());
  auto interpreter = interpreter_of(fleet, sandbox, wish.language);
  if (!interpreter) co_return std::unexpected(interpreter.error());
  const auto ready = co_await (*interpreter)->ready(Clock::now() + interpreters::kReadyTimeout);
  if (!ready) co_return std::unexpected(ready.error());
  json::array imports;
  for (const std::string& one : wish.imports) imports.emplace_back(one);
  json::object said{{"imports", std::move(imports)},
                    {"cwd", wanted->cwd},
                    {"env", changed_variables((*interpreter)->environment(), wanted->env)}};
  const auto number = co_await (*interpreter)->open(std::move(said), interpreters::kReadyTimeout);
  if (!number) co_return std::unexpected(number.error());
  auto name = SandboxId::random();
  if (!name) {
    (*interpreter)->close(*number);
    co_return std::unexpected(name.error());
  }
  const auto context = std::make_shared<interpreters::Context>();
  context->id = name->str();
  context->language = wish.language;
  context->interpreter = *interpreter;
  context->number = *number;
  context->workdir = std::move(wanted->cwd);
  context->created = store::wall_now();
  context->environment = std::move(plain->env);
  home.contexts[context->id] = context;
  co_return view_of_context(*context);
}

awaitable<Result<Contexts>> FleetImpl::contexts(const Caller& caller, std::string id) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  (*found)->code.look();
  Contexts out;
  for (const auto& [name, context] : (*found)->code.contexts)
    out.push_back(view_of_context(*context));
  std::ranges::sort(out, {}, [](const ContextView& one) { return std::pair(one.created, one.id); });
  co_return out;
}

awaitable<Result<void>> FleetImpl::interrupt_context(const Caller& caller, std::string id,
                                                     std::string context) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "context.interrupt", sandbox->id, context));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<void> done;
  if (const auto there = FleetCode::find(*sandbox, context)) {
    (*there)->interpreter->interrupt((*there)->number);
  } else {
    done = std::unexpected(there.error());
  }
  co_return co_await settle(audit, std::move(done));
}

awaitable<Result<void>> FleetImpl::remove_context(const Caller& caller, std::string id,
                                                  std::string context) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "context.delete", sandbox->id, context));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<void> done;
  if (const auto there = FleetCode::find(*sandbox, context)) {
    (*there)->interpreter->close((*there)->number);
    sandbox->code.forget(context, "it was deleted");
  } else {
    done = std::unexpected(there.error());
  }
  co_return co_await settle(audit, std::move(done));
}

}  // namespace caisson::control
