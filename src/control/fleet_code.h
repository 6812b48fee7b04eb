// control/fleet_code.h — interpreters in the life of a sandbox. Only the fleet_*.cc files include
// it.
#pragma once

#include "control/fleet_impl.h"

namespace caisson::control {

class FleetCode {
 public:
  // Starts those that shall be there before anybody asks.
  static void warm(FleetImpl& fleet, const SandboxPtr& sandbox);
  // Ends those that nobody would miss, where something needs a sandbox without processes; whether
  // there were any.
  static awaitable<bool> rest(SandboxPtr sandbox);
  // Those of a server that is gone.
  static awaitable<void> bury(FleetImpl& fleet, SandboxPtr sandbox);

 private:
  friend class FleetImpl;
  using InterpreterPtr = std::shared_ptr<interpreters::Interpreter>;
  using ContextPtr = std::shared_ptr<interpreters::Context>;
  using Variables = std::vector<std::pair<std::string, std::string>>;

  [[nodiscard]] static Result<engine::ExecRequest> request(FleetImpl& fleet, Sandbox& sandbox,
                                                           Variables environment,
                                                           std::optional<std::string> workdir);
  // The one that lives, or one that is just being started.
  [[nodiscard]] static Result<InterpreterPtr> interpreter_of(FleetImpl& fleet,
                                                             const SandboxPtr& sandbox,
                                                             Language language);
  [[nodiscard]] static Result<ContextPtr> find(Sandbox& sandbox, std::string_view context);
  // Everything that is judged before an interpreter hears of it.
  static awaitable<Result<void>> may_run(FleetImpl& fleet, SandboxPtr sandbox,
                                         std::string_view text);
  static awaitable<Result<CodeOutcome>> run(FleetImpl& fleet, SandboxPtr sandbox, CodeWish wish);
  static void keep_record(FleetImpl& fleet, const Sandbox& sandbox);
  static awaitable<Result<ContextView>> open(FleetImpl& fleet, SandboxPtr sandbox,
                                             ContextWish wish);
};

}  // namespace caisson::control
