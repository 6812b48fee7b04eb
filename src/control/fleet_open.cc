// Connecting, adopting what is there, the launcher's messages, the last words.
#include <fcntl.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <unordered_map>

#include "control/await_store.h"
#include "control/fleet_code.h"
#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/text.h"
#include "engine/host/parse.h"
#include "sys/file.h"

namespace caisson::control {
namespace {

using engine::EndReason;

// One that is being saved when a server begins: a few gigabytes are written to the disk.
constexpr seconds kSaveWait{120};
constexpr milliseconds kSaveLook{50};

std::string reason_of(const engine::Status& status) {
  switch (status.end) {
    case EndReason::Life:
      return "expired";
    case EndReason::CpuTime:
      return "its CPU time was used up";
    case EndReason::OutOfMemory:
      return "out of memory";
    case EndReason::Exited:
      return "exited";
    case EndReason::Destroyed:
      return "destroyed";
    default:
      return status.detail.empty() ? "its init died" : "its init died: " + status.detail;
  }
}

// What the launcher can do on this host. It is privileged and we are not, so what the probe says of
// our own powers is not asked.
engine::HostFeatures launcher_host() {
  engine::HostFeatures host = engine::probe_host();
  if (host.privileged) return host;
  host.privileged = true;
  host.user_namespaces = true;
  if (host.cgroup_v2_root.empty()) return host;
  const auto controllers = sys::read_small(AT_FDCWD, host.cgroup_v2_root + "/cgroup.controllers");
  if (controllers) host.v2_controllers = engine::parse_controllers(*controllers);
  return host;
}

}  // namespace

FleetImpl::FleetImpl(boost::asio::any_io_executor executor, FleetOptions options,
                     Blocklist blocklist, store::Store& store)
    : executor_(std::move(executor)),
      options_(std::move(options)),
      host_(options_.host ? *options_.host : launcher_host()),
      blocklist_(std::move(blocklist)),
      store_(store),
      events_(executor_),
      alive_(std::make_shared<FleetImpl*>(this)),
      expiry_(executor_) {}

FleetImpl::~FleetImpl() {
  leave();
  alive_.reset();
}

awaitable<Result<void>> FleetImpl::begin(LauncherOpener opener) {
  engine::LauncherChannel::Watcher watcher;
  watcher.on_ended = [this](const std::string& id, const engine::Status& status) {
    const auto at = living_.find(id);
    if (at != living_.end()) end(SandboxPtr(at->second), reason_of(status), "launcher");
  };
  watcher.on_lost = [this] { launcher_lost(); };
  watcher.on_back = [this] {
    events_.add("launcher.back", "", "");
    boost::asio::co_spawn(executor_, clear_orphans(), boost::asio::detached);
  };
  auto opened = opener(std::move(watcher));
  if (!opened) co_return std::unexpected(opened.error());
  launcher_ = *std::move(opened);
  files_.works.use(*launcher_);
  files_.works.on_release([this](const std::string& layer) {
    if (files_.layers.contains(layer) && !layer.starts_with("sha256-")) tidy_soon();
  });
  if (const auto loaded = open_files(); !loaded) co_return std::unexpected(loaded.error());
  auto adopted = co_await adopt();
  if (!adopted) co_return adopted;
  auto checked = co_await check_files();
  serving_ = true;
  co_return checked;
}

// The store knows what was promised, the launcher what is there. Both: it goes on. Only the
// launcher: nobody knows whose it is. Only the store: it is lost, or it is stopped.
awaitable<Result<void>> FleetImpl::adopt() {
  auto there = co_await launcher_->living();
  if (!there) co_return std::unexpected(there.error().within("adopt"));
  const auto known = store_.living();
  if (!known) co_return std::unexpected(known.error().within("adopt"));
  std::unordered_map<std::string, const engine::Living*> by_id;
  for (const engine::Living& one : *there) by_id.emplace(one.id, &one);
  store::Store::Batch lost;
  for (const store::SandboxRecord& old : *known) {
    const auto at = by_id.find(old.id);
    co_await adopt_or_bury(old, at == by_id.end() ? nullptr : at->second, lost);
    const bool buried = !lost.sandboxes.empty() && lost.sandboxes.back().id == old.id &&
                        lost.sandboxes.back().state == store::RecordState::Ended;
    if (!buried) by_id.erase(old.id);
  }
  for (const auto& [id, living] : by_id) co_await clear_away(id);
  if (lost.sandboxes.empty()) co_return Result<void>();
  co_return co_await record(std::move(lost));
}

awaitable<void> FleetImpl::adopt_or_bury(store::SandboxRecord old, const engine::Living* there,
                                         store::Store::Batch& batch) {
  std::string why = there == nullptr ? "lost" : "ended while no server ran";
  const bool stopped = old.state == store::RecordState::Stopped;
  if (!stopped && there != nullptr && !there->ended) {
    auto adopted = co_await adopt_one(old, *there);
    if (adopted) {
      publish(*adopted);
      co_return;
    }
    why = "lost: " + adopted.error().message;
  }
  const auto kept = parse_kept_spec(old.spec);
  if (!kept) {
    // Its files are not ours to give away: it is left for somebody who can read it.
    files_.unsure = true;
    events_.add("files.refused", old.tenant, old.id, {{"message", kept.error().message}});
    if (there != nullptr) co_await stop_away(old.id);
    co_return;
  }
  if (stopped || kept->persistent) {
    if (const auto resting = co_await adopt_stopped(old, there != nullptr, batch); resting)
      co_return;
  }
  leftovers_ = leftovers_ || kept->storage == engine::Storage::Disk;
  store::AuditEvent event;
  event.tenant = old.tenant;
  event.actor = "server";
  event.action = "sandbox.end";
  event.sandbox = old.id;
  event.object = why;
  old.state = store::RecordState::Ended;
  old.ended = store::wall_now();
  old.end_reason = std::move(why);
  batch.sandboxes.push_back(std::move(old));
  batch.audit.push_back(std::move(event));
}

awaitable<Result<SandboxPtr>> FleetImpl::adopt_one(const store::SandboxRecord& old,
                                                   const engine::Living& living) {
  auto kept = parse_kept_spec(old.spec);
  if (!kept) co_return std::unexpected(kept.error());
  auto sandbox = std::make_shared<Sandbox>();
  sandbox->id = old.id;
  sandbox->tenant = old.tenant;
  sandbox->token = old.token;
  sandbox->created = old.created;
  sandbox->kept = *std::move(kept);
  sandbox->limits = living.limits;
  if (sandbox->limits.life_us != 0) sandbox->limits.life_us += sandbox->kept.lived_us;
  if (sandbox->limits.cpu_time_us != 0) sandbox->limits.cpu_time_us += sandbox->kept.cpu_used_us;
  sandbox->record = living.record;
  sandbox->files = std::make_shared<Turns>(executor_, 1);
  sandbox->waking = std::make_shared<Turns>(executor_, 1);
  sandbox->kept.stack = living.stack;
  sandbox->kept.storage = living.storage;
  sandbox->started =
      Clock::now() -
      microseconds(static_cast<std::int64_t>(living.age_us + sandbox->kept.lived_us));
  sandbox->place = std::make_unique<Reservation>(alive_, old.tenant, old.token, sandbox->kept.name);
  open_budget(*sandbox);
  if (auto opened = co_await reopen_gate(sandbox); !opened)
    co_return std::unexpected(opened.error());
  if (living.frozen && !sandbox->kept.paused) {
    // A server died while it copied its files.
    const auto thawed = co_await launcher_->thaw(sandbox->id);
    if (!thawed) co_return std::unexpected(thawed.error());
  } else if (living.frozen) {
    // Its init cannot say a word before resume().
    sandbox->state = State::Paused;
    co_return sandbox;
  }
  if (living.standing) {  // a server died while it kept its memory
    leftovers_ = true;    // what was saved is nobody's now
    const auto on = co_await go_on_once_saved(sandbox->id);
    if (!on) co_return std::unexpected(on.error());
  }
  sandbox->kept.paused = false;
  auto joined = co_await rejoin(sandbox);
  if (!joined) co_return std::unexpected(joined.error());
  co_return sandbox;
}

// It may be in the middle of being saved: the launcher ends that, whoever asked for it.
awaitable<Result<void>> FleetImpl::go_on_once_saved(std::string id) {
  const TimePoint deadline = Clock::now() + kSaveWait;
  for (;;) {
    auto on = co_await launcher_->go_on(id);
    if (on || on.error().code != Errc::Busy || Clock::now() >= deadline) co_return on;
    boost::asio::steady_timer pause(executor_, kSaveLook);
    co_await pause.async_wait(boost::asio::use_awaitable);
  }
}

awaitable<Result<void>> FleetImpl::rejoin(SandboxPtr sandbox) {
  auto joined = co_await launcher_->join(sandbox->id);
  if (!joined) co_return std::unexpected(joined.error());
  engine::ChannelOptions options;
  options.adopt = true;
  options.passes_descriptors = sandbox->kept.tier == policy::SandboxTier::Native;
  auto guest = co_await engine::GuestChannel::open(executor_, std::move(joined->stream),
                                                   joined->nonce, options);
  if (!guest) co_return std::unexpected(guest.error());
  sandbox->guest = *guest;
  co_await recall_commands(sandbox);
  co_await FleetCode::bury(*this, sandbox);
  co_return Result<void>();
}

// init knows a process by the name of its program; what was asked for stands in the audit. Only
// processes that are there now count: what the guest does not tell is simply not remembered.
awaitable<void> FleetImpl::recall_commands(SandboxPtr sandbox) {
  store::AuditQuery query;
  query.tenant = sandbox->tenant;
  query.sandbox = sandbox->id;
  query.action = "process.start";
  query.outcome = store::Outcome::Allowed;
  query.before = INT64_MAX;
  query.limit = store::kPageRowsMax;
  auto ask = [this, query] { return store_.audit(query); };
  const auto rows = co_await on_worker(readers_, std::move(ask));
  if (!rows || rows->empty()) co_return;
  const auto there = co_await sandbox->guest->processes();
  if (!there) co_return;
  for (const store::AuditRow& one : *rows) {
    boost::system::error_code wrong;
    const auto detail = boost::json::parse(one.event.detail, wrong);
    const auto* number = wrong                ? nullptr
                         : detail.is_object() ? detail.get_object().if_contains("process")
                                              : nullptr;
    if (number == nullptr || !number->is_int64()) continue;
    const auto id = static_cast<std::uint32_t>(number->get_int64());
    // The newest row of an id comes first, and stays.
    if (std::ranges::find(*there, id, &engine::GuestProcess::id) != there->end())
      sandbox->commands.try_emplace(id, cut_text(one.event.object, kProcessNameBytesMax));
  }
}

void FleetImpl::launcher_lost() {
  store::Store::Batch batch;
  const auto all = living_;
  for (const auto& [id, sandbox] : all) {
    if (sandbox->state == State::Stopped) continue;
    const bool stays = sandbox->kept.persistent;
    if (stays) {
      halt(sandbox, "launcher ended");
    } else {
      retire(sandbox, "launcher ended");
      sandbox->place.reset();
      orphans_.insert(id);
    }
    batch.sandboxes.push_back(stored(*sandbox));
    batch.audit.push_back(
        own_row(*sandbox, "launcher", stays ? "sandbox.stop" : "sandbox.end", sandbox->end_reason));
  }
  events_.add("launcher.lost", "", "");
  if (!batch.audit.empty()) post(std::move(batch));
}

// The launcher is back. Usually it is a new one and has nothing. When only the connection was lost,
// what was written down as ended lives on over there, and so may something whose launch was never
// answered: nobody will ask for either again. A stranger could also be of a create that is under
// way now, so it has the time to be published.
awaitable<void> FleetImpl::clear_orphans() {
  const std::weak_ptr<FleetImpl*> alive = alive_;  // we may be gone at the end of any wait
  const auto there = co_await launcher_->living();
  if (!there || alive.expired() || stopping_) co_return;
  std::vector<std::string> strangers;
  for (const engine::Living& one : *there) {
    const auto at = living_.find(one.id);
    if (at != living_.end() && at->second->state == State::Stopped) {
      co_await stop_away(one.id);
      if (alive.expired()) co_return;
      continue;
    }
    if (at != living_.end() || files_.works.owns(one.id)) continue;
    if (orphans_.contains(one.id)) {
      co_await clear_away(one.id);
      if (alive.expired()) co_return;
    } else {
      strangers.push_back(one.id);
    }
  }
  orphans_.clear();
  if (settles()) (void)co_await look();
  if (alive.expired() || strangers.empty()) co_return;
  boost::asio::steady_timer grace(executor_, kLaunchGrace);
  boost::system::error_code ignored;
  co_await grace.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  for (const std::string& id : strangers) {
    if (alive.expired() || stopping_) co_return;
    if (!living_.contains(id)) co_await clear_away(id);
  }
}

awaitable<void> FleetImpl::look_at_death(SandboxPtr sandbox, Error error) {
  if (stopping_ || sandbox->state == State::Stopped) co_return;
  const auto status = co_await launcher_->status(sandbox->id);
  if (sandbox->state == State::Ended || sandbox->state == State::Stopped || stopping_) co_return;
  const bool over = status && status->end != EndReason::Running;
  end(sandbox, over ? reason_of(*status) : "its init is out of reach: " + error.message,
      over ? "launcher" : "server");
}

Result<void> FleetImpl::reload(FleetOptions options) {
  TRY(check_options(options));
  Blocklist blocklist = TRY(Blocklist::compile(options.command_blocklist));
  options.host = options_.host;
  options_ = std::move(options);
  blocklist_ = std::move(blocklist);
  return {};
}

awaitable<void> FleetImpl::stop(std::string reason) {
  stopping_ = true;
  store::Store::Batch batch;
  const auto all = living_;
  for (const auto& [id, sandbox] : all) {
    if (sandbox->state == State::Stopped) continue;
    const bool stays = sandbox->kept.persistent;
    if (stays) {
      halt(sandbox, reason);
      if (launcher_) (void)co_await launcher_->stop(id);
    } else {
      retire(sandbox, reason);
    }
    batch.sandboxes.push_back(stored(*sandbox));
    batch.audit.push_back(
        own_row(*sandbox, "server", stays ? "sandbox.stop" : "sandbox.end", reason));
  }
  events_.close();
  if (!batch.audit.empty()) (void)co_await record(std::move(batch));
  // What was sealed outlives the launcher, and a power cut that comes right behind.
  const auto undurable = [](const auto& one) { return !one.second.durable; };
  if (launcher_ && std::ranges::any_of(files_.snapshots.all(), undurable))
    (void)co_await launcher_->sync_store();
  if (launcher_) (void)co_await launcher_->stop_launcher();
}

void FleetImpl::leave() {
  stopping_ = true;
  files_.works.close();
  events_.close();
  const auto all = std::exchange(living_, {});
  for (const auto& [id, sandbox] : all) {
    close_gate(*sandbox);
    if (sandbox->guest) sandbox->guest->close(Error{Errc::Gone, "the server ends", 0});
  }
  deadlines_.clear();
  expiry_.cancel();
}

std::size_t FleetImpl::busy_calls() const {
  std::size_t count = 0;
  for (const auto& [id, sandbox] : living_) count += static_cast<std::size_t>(sandbox->uses);
  return count;
}

awaitable<Result<std::unique_ptr<RunningFleet>>> open_fleet(boost::asio::any_io_executor executor,
                                                            FleetOptions options,
                                                            LauncherOpener opener,
                                                            store::Store& store) {
  if (const auto good = check_options(options); !good) co_return std::unexpected(good.error());
  auto blocklist = Blocklist::compile(options.command_blocklist);
  if (!blocklist) co_return std::unexpected(blocklist.error());
  auto fleet = std::make_unique<FleetImpl>(std::move(executor), std::move(options),
                                           *std::move(blocklist), store);
  auto begun = co_await fleet->begin(std::move(opener));
  if (!begun) co_return std::unexpected(begun.error());
  co_return fleet;
}

awaitable<Result<std::unique_ptr<RunningFleet>>> open_fleet(boost::asio::any_io_executor executor,
                                                            FleetOptions options,
                                                            std::string launcher_socket,
                                                            store::Store& store) {
  LauncherOpener opener = [executor, launcher_socket](engine::LauncherChannel::Watcher watcher) {
    return engine::LauncherChannel::open(executor, launcher_socket, std::move(watcher));
  };
  co_return co_await open_fleet(executor, std::move(options), std::move(opener), store);
}

}  // namespace caisson::control
