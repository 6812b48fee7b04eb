// One command in a sandbox of its own: made, used and gone by one call.
//
// It leaves the rows that a create, an exec and an end leave. Those of the create and of the exec
// are on the disk before the answer, by one wait: the first is on its way while the command runs.
// There is no record of the sandbox itself as one that lives, because no later server would want
// it: what that one finds in the launcher without such a record it ends. Whatever would let it
// outlive its call is refused. Nobody waits for the removal of what is dead.
#include <boost/asio/co_spawn.hpp>

#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"

namespace caisson::control {

// Whoever lets go of it, ends it: also a caller who left while it was made.
class FleetImpl::Once {
 public:
  Once(FleetImpl& fleet, SandboxPtr sandbox)
      : fleet_(fleet.alive()), sandbox_(std::move(sandbox)) {}
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;
  ~Once() {
    if (const auto fleet = fleet_.lock())
      (*fleet)->end(sandbox_, "its only command has ended", "server");
  }
  [[nodiscard]] const SandboxPtr& sandbox() const noexcept { return sandbox_; }

 private:
  std::weak_ptr<FleetImpl*> fleet_;
  SandboxPtr sandbox_;
};

awaitable<Result<std::shared_ptr<FleetImpl::Once>>> FleetImpl::make_once(Caller caller,
                                                                         CreateWish wish) {
  Audited audit(*this, row(caller, "sandbox.create", "", wish.name));
  audit.detail["once"] = true;
  if (wish.profile) audit.detail["profile"] = *wish.profile;
  const auto refuse = [this](const Error& error) -> Result<std::shared_ptr<Once>> {
    ++counters_.failed;
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  if (wish.persistent.value_or(false)) {
    const auto bad = bad_field("persistent",
                               "persistent: a sandbox for one command ends with it; create one "
                               "that stays instead");
    co_return co_await settle(audit, refuse(bad.error()));
  }
  if (wish.memory.value_or(false)) {
    const auto bad = bad_field("memory",
                               "memory: a sandbox for one command begins with it; create one from "
                               "the snapshot instead");
    co_return co_await settle(audit, refuse(bad.error()));
  }
  if (wish.checkpoint.value_or(Checkpoints::None) != Checkpoints::None) {
    const auto bad = bad_field("checkpoint",
                               "checkpoint: a sandbox for one command ends with it, and nothing "
                               "of it can be undone; create one that stays instead");
    co_return co_await settle(audit, refuse(bad.error()));
  }
  wish.persistent = false;  // whatever its profile says
  wish.checkpoint = Checkpoints::None;
  auto made = co_await make(caller, wish, audit);
  if (!made) co_return co_await settle(audit, refuse(made.error()));
  const SandboxPtr sandbox = made->sandbox;
  sandbox->once = true;
  publish(sandbox);
  auto once = std::make_shared<Once>(*this, sandbox);
  describe(*sandbox, audit);
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  post(std::move(batch));  // the row of the command comes behind it, and is waited for
  audit.written();
  ++counters_.created;
  events_.add("sandbox.created", sandbox->tenant, sandbox->id,
              {{"name", sandbox->kept.name},
               {"profile", sandbox->kept.profile},
               {"parent", sandbox->kept.parent}});
  co_return once;
}

Result<void> FleetImpl::lasting(const Sandbox& sandbox) {
  if (!sandbox.once) return {};
  return failure(Errc::Busy, "sandbox '" + sandbox.id +
                                 "' was made for one command and ends with it; create one that "
                                 "stays instead");
}

awaitable<Result<OnceView>> FleetImpl::run_once(const Caller& caller, CreateWish wish,
                                                ExecWish exec) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  auto once = co_await shielded(executor_, make_once(caller, std::move(wish)));
  if (!once) co_return std::unexpected(once.error());
  const SandboxPtr sandbox = (*once)->sandbox();
  auto done = co_await run(caller, sandbox, std::move(exec), "exec", "");
  if (!done) co_return std::unexpected(done.error());
  co_return OnceView{sandbox->id, *std::move(done)};
}

}  // namespace caisson::control
