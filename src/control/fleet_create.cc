// From a wish to a running sandbox, or back to nothing.
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "control/fleet_code.h"
#include "control/fleet_impl.h"
#include "control/sandbox_spec.h"
#include "control/shield.h"
#include "engine/plan.h"

namespace caisson::control {

Reservation::Reservation(std::weak_ptr<FleetImpl*> fleet, std::string tenant, std::string token,
                         std::string name)
    : fleet_(std::move(fleet)),
      tenant_(std::move(tenant)),
      token_(std::move(token)),
      name_(std::move(name)) {
  FleetImpl& all = **fleet_.lock();
  ++all.places_;
  ++all.tenant_places_[tenant_];
  ++all.token_places_[token_];
  if (!name_.empty()) all.names_.emplace(tenant_, name_);
}

Reservation::~Reservation() {
  const auto alive = fleet_.lock();
  if (!alive) return;
  FleetImpl& all = **alive;
  --all.places_;
  if (--all.tenant_places_[tenant_] == 0) all.tenant_places_.erase(tenant_);
  if (--all.token_places_[token_] == 0) all.token_places_.erase(token_);
  if (!name_.empty()) all.names_.erase({tenant_, name_});
}

Result<std::unique_ptr<Reservation>> FleetImpl::reserve(const Caller& caller,
                                                        const std::string& name) {
  const auto full = [](std::string message) {
    return failure(Errc::Exhausted, std::move(message) + "; destroy one first");
  };
  const auto count = [](const auto& places, const std::string& key) {
    const auto at = places.find(key);
    return at == places.end() ? std::size_t{0} : at->second;
  };
  if (options_.max_per_tenant != 0 &&
      count(tenant_places_, caller.tenant) >= options_.max_per_tenant)
    return full(fmt::format("max_per_tenant: {} sandboxes are there", options_.max_per_tenant));
  const auto of_token = static_cast<std::size_t>(std::max<std::int64_t>(0, caller.max_sandboxes));
  if (of_token != 0 && count(token_places_, caller.actor) >= of_token)
    return full(fmt::format("max_sandboxes of this token: {} sandboxes are there", of_token));
  // How many others have is none of a tenant's business, nor is the sum.
  if (places_ >= options_.max_concurrent)
    return failure(Errc::Exhausted, "the server has no room for another sandbox; try again later");
  if (!name.empty() && names_.contains({caller.tenant, name}))
    return std::unexpected(
        Error{Errc::AlreadyExists, "name: a sandbox '" + name + "' lives already", 0, "name"});
  return std::make_unique<Reservation>(alive_, caller.tenant, caller.actor, name);
}

awaitable<Result<SandboxView>> FleetImpl::create(const Caller& caller, CreateWish wish) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  co_return co_await shielded(executor_, create_now(caller, std::move(wish)));
}

awaitable<Result<SandboxView>> FleetImpl::create_now(Caller caller, CreateWish wish) {
  Audited audit(*this, row(caller, "sandbox.create", "", wish.name));
  if (wish.profile) audit.detail["profile"] = *wish.profile;
  if (wish.memory.value_or(false)) {
    auto ready = co_await store_works(audit);
    if (!ready) co_return std::unexpected(ready.error());
    co_return co_await create_with_memory(caller, std::move(wish), audit);
  }
  const auto refuse = [this](const Error& error) -> Result<SandboxView> {
    ++counters_.failed;
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  auto launched = co_await make(caller, wish, audit);
  if (!launched) co_return co_await settle(audit, refuse(launched.error()));
  co_return co_await enroll(launched->sandbox, audit, "sandbox.created");
}

awaitable<Result<Made>> FleetImpl::make(const Caller& caller, const CreateWish& wish,
                                        Audited& audit) {
  const auto base = co_await find_base(caller, wish);
  if (!base) co_return std::unexpected(base.error());
  Made made{nullptr, files_.works.hold(base->stack.layers), {}};
  auto plan = plan_sandbox(
      wish, options_, caller.may(store::Scope::Admin) ? Trust::Operator : Trust::Caller, *base);
  if (!plan) co_return std::unexpected(plan.error());
  if (const auto mounted = mount_volumes(caller.tenant, *plan); !mounted)
    co_return std::unexpected(mounted.error());
  if (const auto strong = raise_tier(caller.tenant, *plan, audit); !strong)
    co_return std::unexpected(strong.error());
  made.volumes = hold_volumes(caller.tenant, *plan);
  auto place = reserve(caller, plan->name);
  if (!place) co_return std::unexpected(place.error());
  auto launched = co_await launch(caller, std::move(*plan), std::move(*place));
  if (!launched) co_return std::unexpected(launched.error());
  made.sandbox = *std::move(launched);
  co_return made;
}

// At least the tier that the settings want: by a refusal, or where they say so by giving it.
Result<void> FleetImpl::raise_tier(const std::string& tenant, SandboxPlan& plan,
                                   Audited& audit) const {
  const Minimum least = minimum_of(options_.minimum, tenant, plan.image, plan.profile);
  if (plan.spec.tier < least.tier && options_.minimum.raise) {
    plan.spec.tier = least.tier;
    audit.detail["raised_to"] = engine::tier_name(least.tier);
  }
  return check_minimum(least, plan.spec.tier, "name that tier or a stronger one");
}

// An image, a snapshot, or the host: by name, of this tenant.
awaitable<Result<SandboxBase>> FleetImpl::find_base(const Caller& caller, const CreateWish& wish) {
  if (wish.snapshot) {
    if (wish.image)
      co_return bad_field("snapshot", "snapshot: it brings its own image; leave base_image out");
    const auto snapshot = usable_snapshot(caller, *wish.snapshot);
    if (!snapshot) co_return std::unexpected(snapshot.error());
    SandboxBase base;
    base.image = snapshot->image;
    base.stack = snapshot->stack;
    base.base_layers = snapshot->base_layers;
    if (snapshot->image != "host") base.defaults = snapshot->defaults;
    base.parent = snapshot->id;
    base.head = snapshot->id;
    co_return base;
  }
  auto image = image_of(wish, options_);
  if (!image) co_return std::unexpected(image.error());
  if (*image == "host") co_return SandboxBase();
  co_return co_await base_of_image(caller, *std::move(image));
}

void FleetImpl::describe(const Sandbox& sandbox, Audited& audit) const {
  audit.row.sandbox = sandbox.id;
  audit.detail["memory_bytes"] = sandbox.limits.memory_bytes;
  audit.detail["cpu_millis"] = sandbox.limits.cpu_millis;
  audit.detail["life_us"] = sandbox.limits.life_us;
  if (sandbox.kept.image != "host") audit.detail["image"] = sandbox.kept.image;
  if (!sandbox.kept.parent.empty()) audit.detail["parent"] = sandbox.kept.parent;
  if (!sandbox.kept.network.empty()) audit.detail["network"] = to_json(sandbox.kept.network);
}

awaitable<Result<SandboxView>> FleetImpl::enroll(SandboxPtr sandbox, Audited& audit,
                                                 std::string event) {
  describe(*sandbox, audit);
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*sandbox));
  Result<void> usable = co_await record(std::move(batch));
  audit.written();
  if (usable && !sandbox->guest->alive())
    usable = failure(Errc::Gone, "the sandbox ended while it was made");
  if (usable && stopping_) usable = failure(Errc::Gone, "the server ends");
  if (!usable) {
    close_gate(*sandbox);
    sandbox->guest->close(usable.error());
    co_await clear_away(sandbox->id);
    ++counters_.failed;
    co_return std::unexpected(usable.error());
  }
  publish(sandbox);
  ++counters_.created;
  events_.add(std::move(event), sandbox->tenant, sandbox->id,
              {{"name", sandbox->kept.name},
               {"profile", sandbox->kept.profile},
               {"parent", sandbox->kept.parent}});
  co_return view(*sandbox);
}

namespace {

KeptSpec kept_of(SandboxPlan& plan, const engine::LaunchRequest& request) {
  KeptSpec kept;
  kept.name = std::move(plan.name);
  kept.profile = std::move(plan.profile);
  kept.image = std::move(plan.image);
  kept.tools = std::move(plan.tools);
  kept.labels = std::move(plan.labels);
  kept.environment = std::move(plan.environment);
  kept.workdir = std::move(plan.workdir);
  kept.idle_seconds = plan.idle_seconds;
  kept.rest_seconds = plan.rest_seconds;
  kept.root = request.root;
  kept.uid = request.uid;
  kept.gid = request.gid;
  kept.root_capabilities = request.root_capabilities;
  kept.network = std::move(plan.spec.egress);
  kept.models = plan.models;
  kept.token = plan.token;
  kept.proxy = std::move(plan.proxy);
  kept.budget.max_tokens = plan.budget.max_tokens;
  if (plan.budget.max_cost_usd)
    kept.budget.max_cost_nano_usd = egress::nano_usd(*plan.budget.max_cost_usd);
  kept.budget.stop = plan.budget.stop.value_or(false);
  kept.hostname = request.hostname;
  kept.folders = request.writable;
  kept.aliases = request.aliases;
  kept.tier = request.tier;
  if (engine::is_carried(request) && request.gate) kept.ports_inside = request.gate_ports;
  kept.storage = request.storage;
  kept.persistent = plan.persistent;
  kept.checkpoint = plan.checkpoint;
  kept.volumes = std::move(plan.volumes);
  kept.interpreters = std::move(plan.interpreters);
  kept.parent = std::move(plan.base.parent);
  kept.head = std::move(plan.base.head);
  kept.payer = std::move(plan.payer);
  kept.stack = request.stack;
  kept.base_layers = plan.base.base_layers;
  if (plan.base.defaults) kept.defaults = *plan.base.defaults;
  if (kept.persistent) kept.limits = request.limits;
  return kept;
}

// A machine that another kernel boots in, on a busy host.
constexpr milliseconds kBootWait{60'000};
constexpr milliseconds kImageLook{200};
constexpr milliseconds kImageWait{600'000};

// A microVM reads its root from an image, which may have to be made first: the launcher is busy
// with that beside everything else.
template <class Launcher>
awaitable<Result<engine::LaunchReply>> launch_patiently(Launcher& launcher,
                                                        const engine::LaunchRequest& request) {
  const TimePoint deadline = Clock::now() + kImageWait;
  for (;;) {
    std::vector<UniqueFd> no_folders;
    auto reply = co_await launcher.launch(request, std::move(no_folders));
    const bool again = !reply && reply.error().code == Errc::Busy &&
                       request.tier == policy::SandboxTier::Microvm && Clock::now() < deadline;
    if (!again) co_return reply;
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, kImageLook);
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
}

}  // namespace

awaitable<Result<SandboxPtr>> FleetImpl::launch(const Caller& caller, SandboxPlan plan,
                                                std::unique_ptr<Reservation> place,
                                                SandboxPtr again) {
  std::optional<KeptAuthority> kept;
  Result<std::shared_ptr<egress::Authority>> authority;
  if (again && again->kept.authority) {
    kept = again->kept.authority;
    const auto restored = restore_authority(*again);
    if (!restored) co_return std::unexpected(restored.error());
    authority = again->authority;
  } else {
    authority = make_authority(plan, kept);
  }
  if (!authority) co_return std::unexpected(authority.error());
  if (kept) plan.spec.request.trust = kept->certificate;
  plan.spec.request.persistent = plan.persistent;
  auto planned = engine::plan(plan.spec, host_);
  if (!planned) co_return std::unexpected(planned.error());
  if (const std::string& memory = planned->request.memory.name; !memory.empty()) {
    const auto measured = co_await launcher_->measure(memory);
    if (!measured) co_return std::unexpected(measured.error().within("memory"));
  }
  auto reply = co_await launch_patiently(*launcher_, planned->request);
  if (!reply) co_return std::unexpected(reply.error().within("create"));
  auto sandbox = std::make_shared<Sandbox>();
  sandbox->id = reply->id;
  sandbox->tenant = caller.tenant;
  sandbox->token = caller.actor;
  sandbox->created = store::wall_now();
  sandbox->limits = planned->request.limits;
  sandbox->record = reply->record;
  sandbox->place = std::move(place);
  sandbox->files = std::make_shared<Turns>(executor_, 1);
  sandbox->waking = std::make_shared<Turns>(executor_, 1);
  auto files = std::move(plan.files);
  const bool make_workdir = plan.make_workdir;
  sandbox->kept = kept_of(plan, planned->request);
  if (sandbox->kept.hostname.empty()) sandbox->kept.hostname = sandbox->id;
  sandbox->kept.authority = std::move(kept);
  sandbox->authority = *std::move(authority);
  open_budget(*sandbox);
  engine::ChannelOptions channel;
  channel.passes_descriptors = !engine::is_carried(planned->request);
  if (planned->request.tier == policy::SandboxTier::Microvm) channel.hello = kBootWait;
  if (!planned->request.memory.name.empty()) {
    channel.hello = kBootWait;
    channel.adopt = true;  // of its processes, those that nobody waits for are ended
    sandbox->commands = std::move(plan.commands);
  }
  auto guest = co_await engine::GuestChannel::open(executor_, std::move(reply->stream),
                                                   reply->nonce, channel);
  Result<void> made = give_token(*sandbox);
  if (made && planned->request.gate) made = open_gate(sandbox, std::move(reply->gate));
  if (made && guest) {
    sandbox->guest = *guest;
    if (make_workdir) made = co_await make_image_workdir(*sandbox);
    if (made) made = co_await write_files(*sandbox, std::move(files));
  } else if (made) {
    made = std::unexpected(guest.error().within("create"));
  }
  if (!made) {
    close_gate(*sandbox);
    if (guest) (*guest)->close(made.error());
    // What was there before stays.
    if (planned->request.resume) {
      co_await stop_away(sandbox->id);
    } else {
      co_await clear_away(sandbox->id);
    }
    co_return std::unexpected(made.error());
  }
  co_return sandbox;
}

// As the image's builder would have it: made inside its root, by its root user, when it is missing.
awaitable<Result<void>> FleetImpl::make_image_workdir(const Sandbox& sandbox) {
  const engine::GuestUser root{0, 0};
  const std::string path = sandbox.kept.workdir;
  const auto there = co_await sandbox.guest->stat(root, path, true);
  if (there && there->type == wire::EntryType::Folder) co_return Result<void>();
  if (there)
    co_return failure(Errc::Protocol, "workdir: '" + path + "' of the image is not a folder");
  const auto made = co_await sandbox.guest->make_folder(root, path, true, 0);
  if (!made && made.error().code != Errc::AlreadyExists)
    co_return std::unexpected(made.error().within("workdir"));
  co_return Result<void>();
}

awaitable<Result<void>> FleetImpl::write_files(
    const Sandbox& sandbox, std::vector<std::pair<std::string, std::string>> files) {
  const engine::WriteOptions options{.mode = 0, .parents = true, .exclusive = false};
  for (const auto& [path, content] : files) {
    auto writer = co_await sandbox.guest->write(sandbox.user(), path, options);
    if (!writer) co_return std::unexpected(writer.error().within("files"));
    auto written = co_await (*writer)->write(std::as_bytes(std::span(content)));
    if (!written) co_return std::unexpected(written.error().within("files"));
    auto done = co_await (*writer)->finish();
    if (!done) co_return std::unexpected(done.error().within("files"));
  }
  co_return Result<void>();
}

void FleetImpl::publish(const SandboxPtr& sandbox) {
  living_[sandbox->id] = sandbox;
  sandbox->last_use = Clock::now();
  follow_guest(sandbox);
  schedule(*sandbox);
  FleetCode::warm(*this, sandbox);
}

// The stream broke by itself: usually init is dead and the launcher says why a moment later.
void FleetImpl::follow_guest(const SandboxPtr& sandbox) {
  if (!sandbox->guest) return;
  auto died = [alive = alive(), weak = std::weak_ptr<Sandbox>(sandbox)](const Error& error) {
    const auto fleet = alive.lock();
    const auto kept = weak.lock();
    if (!fleet || !kept || kept->state == State::Ended) return;
    FleetImpl& self = **fleet;
    boost::asio::co_spawn(self.executor_, self.look_at_death(kept, error), boost::asio::detached);
  };
  sandbox->guest->on_death(std::move(died));
}

}  // namespace caisson::control
