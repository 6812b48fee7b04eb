// Checkpoints before calls and the way back to them; and long stacks that become short.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/id.h"
#include "control/fleet_code.h"
#include "control/fleet_impl.h"
#include "control/shield.h"
#include "control/text.h"

namespace caisson::control {
namespace {

constexpr std::uint64_t kFlattenEntriesMax = 4'000'000;
constexpr int kFlattenTries = 50;  // looks for a moment in which nobody uses the sandbox
constexpr milliseconds kFlattenPause{100};

std::vector<std::string> own_layers(const KeptSpec& kept) {
  const auto count = static_cast<std::ptrdiff_t>(kept.stack.layers.size() - kept.base_layers);
  return {kept.stack.layers.begin(), kept.stack.layers.begin() + count};
}

}  // namespace

awaitable<Result<void>> FleetImpl::before_change(SandboxPtr sandbox) {
  if (const auto up = co_await woken(sandbox); !up) co_return std::unexpected(up.error());
  if (sandbox->restacking) {
    auto turn = co_await sandbox->files->take();
    if (!turn) co_return std::unexpected(turn.error());
  }
  if (sandbox->kept.checkpoint == Checkpoints::EachCall) {
    // A caller who hangs up in the middle of a seal must not leave it half known.
    const auto kept = co_await shielded(executor_, checkpoint(sandbox));
    if (!kept) co_return std::unexpected(kept.error().within("checkpoint"));
  }
  if (sandbox->state == State::Ended) co_return std::unexpected(explain(*sandbox, Error{}));
  co_return awake(*sandbox);
}

awaitable<Result<void>> FleetImpl::checkpoint(SandboxPtr sandbox) {
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return std::unexpected(turn.error());
  SealWish want;
  want.checkpoint = true;
  want.row = SealRow::Behind;
  want.copy = false;  // no call waits for a copy of everything
  const auto made = co_await seal(sandbox, std::move(want), nullptr);
  if (!made) co_return std::unexpected(made.error());
  auto kept = files_.snapshots.checkpoints(sandbox->id);
  if (kept.size() <= kCheckpointsKept) co_return Result<void>();
  kept.resize(kept.size() - kCheckpointsKept);
  store::Store::Batch batch;
  forget_snapshots(kept, batch);
  post(std::move(batch));
  tidy_soon();
  co_return Result<void>();
}

awaitable<Result<UndoView>> FleetImpl::undo(const Caller& caller, std::string id, UndoWish wish) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, undo_now(caller, *sandbox, std::move(wish)));
}

awaitable<Result<UndoView>> FleetImpl::undo_now(Caller caller, SandboxPtr kept, UndoWish wish) {
  const Use sandbox(std::move(kept));
  Audited audit(*this, row(caller, "sandbox.undo", sandbox->id, wish.snapshot.value_or("")));
  tell_volumes(*sandbox, audit);
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<UndoView> result;
  if (const auto up = co_await woken(sandbox.ptr()); !up) {
    result = std::unexpected(up.error());
  } else {
    result = co_await go_back(sandbox.ptr(), std::move(wish), audit);
  }
  if (audit.settled()) co_return result;
  if (!result) result = std::unexpected(explain(*sandbox, result.error()));
  co_return co_await settle(audit, std::move(result));
}

awaitable<Result<UndoView>> FleetImpl::go_back(SandboxPtr sandbox, UndoWish wish, Audited& audit) {
  if (wish.calls.has_value() == wish.snapshot.has_value())
    co_return bad_field("calls", "calls, snapshot: want exactly one of them");
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return std::unexpected(turn.error());
  if (const auto same = still(*sandbox); !same) co_return std::unexpected(same.error());
  const auto steps = files_.snapshots.checkpoints(sandbox->id);
  const SnapshotRecord* target = nullptr;
  UndoView out;
  if (wish.calls) {
    if (*wish.calls == 0) co_return bad_field("calls", "calls is 0: want 1 or more");
    if (*wish.calls > steps.size())
      co_return bad_field("calls",
                          fmt::format("calls is {}: {} can be undone{}", *wish.calls, steps.size(),
                                      sandbox->kept.checkpoint == Checkpoints::EachCall
                                          ? ""
                                          : "; create the sandbox with checkpoint: each_call"));
    target = files_.snapshots.find(steps[steps.size() - *wish.calls]);
  } else {
    target = files_.snapshots.find(sandbox->tenant, *wish.snapshot);
    if (target == nullptr || target->sandbox != sandbox->id)
      co_return failure(Errc::NotFound, fmt::format("snapshot '{}' is none of this sandbox",
                                                    cut_text(*wish.snapshot, 64)));
  }
  if (target->broken) co_return failure(Errc::Gone, "undo: a layer of it is missing");
  SnapshotRecord goal = *target;
  const auto hold = files_.works.hold(goal.stack.layers);
  sandbox->restacking = true;
  (void)co_await FleetCode::rest(sandbox);
  const auto done = co_await launcher_->restack(sandbox->id, goal.stack, wish.end_processes);
  sandbox->restacking = false;
  FleetCode::warm(*this, sandbox);
  if (!done) co_return std::unexpected(done.error());
  sandbox->kept.stack = goal.stack;
  sandbox->kept.base_layers = goal.base_layers;
  sandbox->kept.head = goal.id;
  // Calls after it are undone with it. Its own checkpoint is used up, and stays only as the place
  // where the sandbox stands now.
  std::vector<std::string> over;
  for (const std::string& step : steps) {
    if (step != goal.id && files_.snapshots.find(step)->created >= goal.created)
      over.push_back(step);
  }
  out.calls = static_cast<std::uint32_t>(over.size());
  store::Store::Batch batch;
  if (goal.checkpoint) {
    ++out.calls;
    goal.checkpoint = false;
    goal.hidden = true;
    files_.snapshots.put(goal);
    batch.files.push_back(sealed_row(goal));
  }
  forget_snapshots(over, batch);
  out.snapshot = goal.id;
  out.left = steps.size() - out.calls;
  audit.detail["snapshot"] = goal.id;
  audit.detail["calls"] = out.calls;
  audit.judge(nullptr);
  batch.audit.push_back(audit.row);
  if (sandbox->state != State::Ended) batch.sandboxes.push_back(stored(*sandbox));
  const auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) co_return std::unexpected(written.error());
  events_.add("sandbox.undone", sandbox->tenant, sandbox->id, {{"snapshot", goal.id}});
  tidy_soon();
  co_return out;
}

// ----------------------------------------------------------------------------------------------
// long stacks

void FleetImpl::flatten_soon(const SandboxPtr& sandbox) {
  if (sandbox->flattening || stopping_) return;
  if (own_layers(sandbox->kept).size() <= kStackFlattenAt) return;
  sandbox->flattening = true;
  boost::asio::co_spawn(executor_, flatten(sandbox), boost::asio::detached);
}

// Its own layers become one, beside it; then it is put on that one in a moment when nothing is
// going on. What does not work out changes nothing, and the next seal tries again.
awaitable<void> FleetImpl::flatten(SandboxPtr sandbox) {
  const std::weak_ptr<FleetImpl*> alive = alive_;
  const std::vector<std::string> run = own_layers(sandbox->kept);
  const auto hold = files_.works.hold(run);
  const auto layer = SandboxId::random();
  if (layer) {
    const auto held = files_.works.hold({layer->str()});
    const std::string root = wire::kLayerRoot;
    LayerJob job;
    job.kind = wire::JobKind::Flatten;
    job.flags = sandbox->kept.base_layers == 0 && !sandbox->kept.stack.host
                    ? static_cast<std::uint32_t>(wire::kJobOpaque)
                    : 0;
    job.bytes_max = options_.images.layer_bytes_max;
    job.entries_max = kFlattenEntriesMax;
    job.layers = static_cast<std::uint32_t>(run.size());
    job.layer = layer->str();
    for (std::size_t i = 0; i < run.size(); ++i) {
      engine::StoreMount mount;
      mount.kind = engine::StoreMount::Kind::Layer;
      mount.at = fmt::format("{}/in/{}", root, i);
      mount.name = run[i];
      job.mounts.push_back(std::move(mount));
    }
    engine::StoreMount target;
    target.kind = engine::StoreMount::Kind::Target;
    target.at = root + "/out";
    target.bytes_max = options_.images.layer_bytes_max;
    job.mounts.push_back(std::move(target));
    const auto made = co_await files_.works.run(std::move(job));
    if (alive.expired()) co_return;
    if (made) {
      files_.layers.insert(layer->str());
      for (int i = 0; i < kFlattenTries; ++i) {
        const auto swapped = co_await swap_run(sandbox, run, layer->str());
        if (alive.expired()) co_return;
        if (swapped || swapped.error().code != Errc::Busy) break;
        boost::asio::steady_timer pause(executor_, kFlattenPause);
        boost::system::error_code ignored;
        co_await pause.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
        if (alive.expired() || stopping_) co_return;
      }
    }
  }
  sandbox->flattening = false;
  tidy_soon();
}

awaitable<Result<void>> FleetImpl::swap_run(SandboxPtr sandbox, std::vector<std::string> run,
                                            std::string layer) {
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return std::unexpected(turn.error());
  if (sandbox->uses > 0 || sandbox->state != State::Running || sandbox->rest != Rest::None)
    co_return failure(Errc::Busy, "somebody uses it");
  if (engine::LayerStack probe = sandbox->kept.stack; !replace_run(probe, run, layer))
    co_return failure(Errc::NotFound, "it stands on other layers by now");
  const auto top = SandboxId::random();
  const auto id = SandboxId::random();
  if (!top || !id) co_return std::unexpected(top ? id.error() : top.error());
  if (const auto looked = co_await look(); !looked) co_return std::unexpected(looked.error());
  SnapshotRecord made = draft(*sandbox, id->str(), top->str());
  made.hidden = true;
  const auto held = files_.works.hold({top->str()});
  files_.snapshots.put(made);
  sandbox->restacking = true;
  Result<engine::Sealed> sealed;
  const auto intended = co_await intend(*sandbox, made);
  (void)co_await FleetCode::rest(sandbox);
  if (intended) sealed = co_await launcher_->seal(sandbox->id, top->str());
  if (!intended) sealed = failure(Errc::StoreFull, intended.error().message);
  Result<void> done;
  if (sealed) {
    done = co_await shorten(sandbox, std::move(made), sealed->kind, std::move(run), layer);
  } else {
    give_up(*sandbox, made, sealed.error());
    done = std::unexpected(sealed.error());
  }
  sandbox->restacking = false;
  FleetCode::warm(*this, sandbox);
  co_return done;
}

// The row of the seal goes in the same moment in which the new stack is on record: before it, the
// old layers and the new one below the writable layer are what the sandbox's files are.
awaitable<Result<void>> FleetImpl::shorten(SandboxPtr sandbox, SnapshotRecord made,
                                           engine::SnapshotKind kind, std::vector<std::string> run,
                                           std::string layer) {
  const auto old = files_.works.hold(made.stack.layers);
  files_.layers.insert(made.stack.layers.front());
  Result<void> done;
  if (kind != engine::SnapshotKind::Stacked) {
    done = failure(Errc::Unsupported, "something runs in it");
  } else {
    sandbox->kept.stack = made.stack;
    engine::LayerStack shorter = made.stack;
    if (replace_run(shorter, run, layer)) {
      done = co_await launcher_->restack(sandbox->id, shorter, false);
      if (done) sandbox->kept.stack = std::move(shorter);
    }
  }
  files_.snapshots.remove(made.id);
  store::Store::Batch batch;
  batch.forgotten_files.push_back(made.key());
  if (done) {
    for (const SnapshotRecord& one : files_.snapshots.replace_run(run, layer))
      batch.files.push_back(sealed_row(one));
  }
  if (sandbox->state != State::Ended) batch.sandboxes.push_back(stored(*sandbox));
  const auto written = co_await record(std::move(batch));
  // On record are the old layers still, and a server that starts again goes by the record.
  if (!written) files_.on_record.push_back(files_.works.hold(made.stack.layers));
  co_return done;
}

}  // namespace caisson::control
