// Two states against each other: what differs, as a list or as a patch, and what of one is put into
// another. A sandbox's present state is sealed first, so that what is compared stands still.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <csignal>

#include "base/id.h"
#include "control/fleet_code.h"
#include "control/fleet_impl.h"
#include "control/guest_path.h"
#include "control/shield.h"
#include "control/text.h"

namespace caisson::control {
namespace {

constexpr std::uint64_t kToldEntriesMax = 10 * kDiffEntriesMax;  // beyond it a job gives up
constexpr std::uint64_t kStageBytesMax = 1ULL << 30U;
constexpr std::uint64_t kMergeBytesMax = 16ULL << 30U;
constexpr std::uint64_t kPatchMemoryBytes = 1ULL << 30U;
constexpr seconds kPatchTime{300};
constexpr milliseconds kEndWait{5'000};  // for one process that was killed

ChangeKind kind_of(wire::EntryKind kind) {
  switch (kind) {
    case wire::EntryKind::Added:
      return ChangeKind::Added;
    case wire::EntryKind::Removed:
      return ChangeKind::Removed;
    case wire::EntryKind::TypeChanged:
      return ChangeKind::TypeChanged;
    case wire::EntryKind::Mode:
      return ChangeKind::Mode;
    default:
      return ChangeKind::Modified;
  }
}

std::vector<Change> changes_of(const std::vector<LayerChange>& entries) {
  std::vector<Change> out;
  out.reserve(entries.size());
  for (const LayerChange& one : entries)
    out.push_back({kind_of(one.kind), to_utf8(one.path), one.mode, one.size});
  std::ranges::sort(out, {}, &Change::path);
  return out;
}

engine::StoreMount mount(engine::StoreMount::Kind kind, std::string_view at) {
  engine::StoreMount out;
  out.kind = kind;
  out.at = fmt::format("{}/{}", wire::kLayerRoot, at);
  return out;
}

void add_view(LayerJob& job, std::string_view at, const engine::LayerStack& stack) {
  auto view = mount(engine::StoreMount::Kind::View, at);
  view.stack = stack;
  job.mounts.push_back(std::move(view));
}

// The layers of a state above the lowest `shared`; how many.
std::uint32_t add_layers(LayerJob& job, std::string_view at, const engine::LayerStack& stack,
                         std::size_t shared) {
  const std::size_t count = stack.layers.size() - shared;
  for (std::size_t i = 0; i < count; ++i) {
    auto layer = mount(engine::StoreMount::Kind::Layer, fmt::format("{}/{}", at, i));
    layer.name = stack.layers[i];
    job.mounts.push_back(std::move(layer));
  }
  return static_cast<std::uint32_t>(count);
}

void add_target(LayerJob& job, std::string layer, std::uint64_t bytes_max) {
  auto target = mount(engine::StoreMount::Kind::Target, "out");
  target.bytes_max = bytes_max;
  job.mounts.push_back(std::move(target));
  job.layer = std::move(layer);
}

Result<void> check_pair(const engine::LayerStack& a, const engine::LayerStack& b,
                        const LayerJob& job) {
  if (a.host != b.host)
    return failure(Errc::Unsupported,
                   "one of the states stands on the host's programs and the other on an image: "
                   "they have nothing to compare; take two with the same base");
  if (job.mounts.size() > engine::kStoreMountsMax)
    return failure(Errc::Busy,
                   "the states have too many layers to compare at once; try again when "
                   "they have become fewer");
  return {};
}

// As a job has it: no slash at its front.
Result<std::string> prefix_of(const std::string& path) {
  const std::string whole = TRY(guest_path(path.empty() ? "/" : path, "/", "path"));
  return whole.substr(1);
}

engine::LaunchRequest patch_request(const std::string& stage) {
  engine::LaunchRequest request;
  request.hostname = "patch";
  request.uid = kUidDefault;
  request.gid = kUidDefault;
  request.limits.memory_bytes = kPatchMemoryBytes;
  request.limits.processes = 64;
  request.limits.disk_bytes = 4 * kPatchBytesMax;
  request.limits.life_us =
      static_cast<std::uint64_t>(duration_cast<microseconds>(2 * kPatchTime).count());
  engine::StoreMount layer;
  layer.kind = engine::StoreMount::Kind::Layer;
  layer.at = "/diff";
  layer.name = stage;
  request.store_mounts.push_back(std::move(layer));
  return request;
}

// The folders are called a and b, so their names are what `git apply` strips. Nothing of a user's
// or the host's configuration has a word in it.
engine::ExecRequest patch_command() {
  engine::ExecRequest request;
  request.argv = {"/bin/sh", "-c",
                  "exec git -c core.quotePath=true -c core.autocrlf=false -c core.safecrlf=false "
                  "-c core.fileMode=true -c core.symlinks=true diff --no-index --no-color "
                  "--no-ext-diff --no-textconv --binary --no-renames --no-prefix a b >/tmp/patch"};
  request.env = {"PATH=/usr/local/bin:/usr/bin:/bin",
                 "HOME=/nonexistent",
                 "LC_ALL=C",
                 "GIT_CONFIG_NOSYSTEM=1",
                 "GIT_CONFIG_GLOBAL=/dev/null",
                 "GIT_ATTR_NOSYSTEM=1",
                 "GIT_PAGER=cat"};
  request.cwd = "/diff";
  request.user = {kUidDefault, kUidDefault};
  request.timeout = kPatchTime;
  return request;
}

// The patch, out of the box that made it; the box goes with it.
class PatchReader final : public ByteReader {
 public:
  explicit PatchReader(std::function<void()> end) : end_(std::move(end)) {}
  ~PatchReader() override {
    reader.reset();
    if (guest) guest->close(Error{Errc::Gone, "the patch was read", 0});
    end_();
  }
  PatchReader(const PatchReader&) = delete;
  PatchReader& operator=(const PatchReader&) = delete;

  awaitable<Result<std::span<const std::byte>>> next() override {
    if (!reader) co_return std::span<const std::byte>();
    co_return co_await reader->next();
  }

  std::shared_ptr<engine::GuestChannel> guest;
  std::unique_ptr<engine::GuestReader> reader;  // none: nothing differs

 private:
  std::function<void()> end_;
};

}  // namespace

awaitable<Result<StatePoint>> FleetImpl::state_point(const Caller& caller, std::string state,
                                                     std::string field) {
  const auto colon = state.find(':');
  const std::string kind = state.substr(0, colon);
  const std::string what = colon == std::string::npos ? "" : state.substr(colon + 1);
  StatePoint out;
  if (kind == "sandbox") {
    auto found = find(caller, what);
    if (!found) co_return std::unexpected(found.error().within(field));
    const Use sandbox(*found);
    auto turn = co_await sandbox->files->take();
    if (!turn) co_return std::unexpected(turn.error());
    SealWish want;
    want.hidden = true;
    const auto made = co_await seal(sandbox.ptr(), std::move(want), nullptr);
    if (!made) co_return std::unexpected(explain(*sandbox, made.error()).within(field));
    out = {"snapshot:" + made->id, made->stack, made->id, made->image, {}};
  } else if (kind == "snapshot") {
    const auto found = usable_snapshot(caller, what);
    if (!found) co_return std::unexpected(found.error().within(field));
    out = {"snapshot:" + found->id, found->stack, found->id, found->image, {}};
  } else if (state == "image:host") {
    out = {state, engine::LayerStack{}, "", "host", {}};
  } else if (kind == "image") {
    const auto reference = image::Reference::parse(what);
    if (!reference) co_return std::unexpected(reference.error().within(field));
    const ImageRecord* found = files_.images.find(caller.tenant, *reference);
    if (found == nullptr)
      co_return failure(Errc::NotFound,
                        fmt::format("{}: image '{}' is not here", field, cut_text(what, 200)));
    out = {"image:" + found->view.reference,
           engine::LayerStack{found->stack, false},
           "",
           found->view.reference,
           {}};
  } else {
    co_return bad_field(field, fmt::format("{} is '{}': want sandbox:ID, snapshot:ID or "
                                           "image:REFERENCE",
                                           field, cut_text(state, 100)));
  }
  out.hold = files_.works.hold(out.stack.layers);
  co_return out;
}

// `stage`: the name of a layer with the files themselves; empty: only what differs is told.
awaitable<Result<LayerResult>> FleetImpl::compare(const StatePoint& from, const StatePoint& to,
                                                  std::string path, std::string stage) {
  auto prefix = prefix_of(path);
  if (!prefix) co_return std::unexpected(prefix.error());
  LayerJob job;
  job.kind = wire::JobKind::Diff;
  job.bytes_max = kStageBytesMax;
  job.entries_max = kToldEntriesMax;
  job.entries_kept = kDiffEntriesMax;
  job.prefix = *std::move(prefix);
  const std::size_t shared = shared_layers(from.stack, to.stack);
  add_view(job, "a", from.stack);
  add_view(job, "b", to.stack);
  job.a_layers = add_layers(job, "a.in", from.stack, shared);
  job.b_layers = add_layers(job, "b.in", to.stack, shared);
  if (!stage.empty()) {
    job.flags = wire::kJobStage;
    add_target(job, std::move(stage), kStageBytesMax);
  }
  if (const auto fits = check_pair(from.stack, to.stack, job); !fits)
    co_return std::unexpected(fits.error());
  co_return co_await files_.works.run(std::move(job));
}

awaitable<Result<DiffView>> FleetImpl::diff(const Caller& caller, DiffWish wish) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  co_return co_await shielded(executor_, diff_now(caller, std::move(wish)));
}

awaitable<Result<DiffView>> FleetImpl::diff_now(Caller caller, DiffWish wish) {
  Audited audit(*this, row(caller, "state.diff", "", wish.from + " " + wish.to));
  const auto refuse = [](const Error& error) -> Result<DiffView> { return std::unexpected(error); };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  const auto from = co_await state_point(caller, wish.from, "from");
  if (!from) co_return co_await settle(audit, refuse(from.error()));
  const auto to = co_await state_point(caller, wish.to, "to");
  if (!to) co_return co_await settle(audit, refuse(to.error()));
  auto compared = co_await compare(*from, *to, wish.path, "");
  tidy_soon();
  if (!compared) co_return co_await settle(audit, refuse(compared.error()));
  DiffView out;
  out.truncated = compared->outcome.truncated;
  out.changes = changes_of(compared->outcome.entries);
  co_return co_await settle(audit, Result<DiffView>(std::move(out)));
}

awaitable<Result<std::unique_ptr<ByteReader>>> FleetImpl::patch(const Caller& caller,
                                                                DiffWish wish) {
  if (stopping_) co_return failure(Errc::Gone, "the server ends");
  co_return co_await shielded(executor_, patch_now(caller, std::move(wish)));
}

awaitable<Result<std::unique_ptr<ByteReader>>> FleetImpl::patch_now(Caller caller, DiffWish wish) {
  Audited audit(*this, row(caller, "state.patch", "", wish.from + " " + wish.to));
  const auto refuse = [](const Error& error) -> Result<std::unique_ptr<ByteReader>> {
    return std::unexpected(error);
  };
  auto works = co_await store_works(audit);
  if (!works) co_return refuse(works.error());
  const auto from = co_await state_point(caller, wish.from, "from");
  if (!from) co_return co_await settle(audit, refuse(from.error()));
  const auto to = co_await state_point(caller, wish.to, "to");
  if (!to) co_return co_await settle(audit, refuse(to.error()));
  const auto stage = SandboxId::random();
  if (!stage) co_return co_await settle(audit, refuse(stage.error()));
  // No record ever names this layer: it goes with the garbage as soon as nobody holds it.
  auto hold = std::make_shared<LayerWorks::Hold>(files_.works.hold({stage->str()}));
  const auto staged = co_await compare(*from, *to, wish.path, stage->str());
  if (staged) files_.layers.insert(stage->str());
  tidy_soon();
  if (!staged) co_return co_await settle(audit, refuse(staged.error()));
  auto made = co_await make_patch(stage->str(), std::move(hold));
  tidy_soon();
  co_return co_await settle(audit, std::move(made));
}

awaitable<Result<std::unique_ptr<ByteReader>>> FleetImpl::make_patch(
    std::string stage, std::shared_ptr<LayerWorks::Hold> hold) {
  std::vector<UniqueFd> no_folders;
  auto reply = co_await launcher_->launch(patch_request(stage), std::move(no_folders));
  if (!reply) co_return std::unexpected(reply.error().within("patch"));
  auto end = [alive = alive(), id = reply->id, hold = std::move(hold)]() mutable {
    const auto fleet = alive.lock();
    if (!fleet) return;
    FleetImpl& self = **fleet;
    auto clear = [](FleetImpl& all, std::string box,
                    std::shared_ptr<LayerWorks::Hold> kept) -> awaitable<void> {
      co_await all.clear_away(std::move(box));
      kept.reset();
      all.tidy_soon();
    };
    if (!self.stopping_)
      boost::asio::co_spawn(self.executor_, clear(self, id, std::move(hold)),
                            boost::asio::detached);
  };
  auto out = std::make_unique<PatchReader>(std::move(end));
  auto guest =
      co_await engine::GuestChannel::open(executor_, std::move(reply->stream), reply->nonce);
  if (!guest) co_return std::unexpected(guest.error().within("patch"));
  out->guest = *guest;
  const auto done = co_await out->guest->execute(patch_command());
  if (!done) co_return std::unexpected(done.error().within("patch"));
  if (done->exit_code == 127)
    co_return failure(Errc::Unsupported, "patch: this host has no git, which writes it");
  if (done->timed_out) co_return failure(Errc::TimedOut, "patch: git took too long");
  if (done->exit_code > 1)
    co_return failure(Errc::Internal, "patch: git failed: " + cut_text(to_utf8(done->err), 500));
  const engine::GuestUser user{kUidDefault, kUidDefault};
  const auto entry = co_await out->guest->stat(user, "/tmp/patch", false);
  if (!entry) co_return std::unexpected(entry.error().within("patch"));
  if (entry->size > kPatchBytesMax)
    co_return failure(Errc::TooLarge, fmt::format("patch: it has {} bytes, at most {} are given "
                                                  "out; name a path, or ask for the list",
                                                  entry->size, kPatchBytesMax));
  if (entry->size == 0) co_return out;
  auto reader = co_await out->guest->read(user, "/tmp/patch", 0, entry->size);
  if (!reader) co_return std::unexpected(reader.error().within("patch"));
  out->reader = *std::move(reader);
  co_return out;
}

// ----------------------------------------------------------------------------------------------
// merge

awaitable<Result<MergeView>> FleetImpl::merge(const Caller& caller, std::string id,
                                              MergeWish wish) {
  auto sandbox = find(caller, id);
  if (!sandbox) co_return std::unexpected(sandbox.error());
  co_return co_await shielded(executor_, merge_now(caller, *sandbox, std::move(wish)));
}

awaitable<Result<MergeView>> FleetImpl::merge_now(Caller caller, SandboxPtr kept, MergeWish wish) {
  const Use sandbox(std::move(kept));
  Audited audit(*this, row(caller, "sandbox.merge", sandbox->id, wish.from));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<MergeView> result;
  if (const auto up = co_await woken(sandbox.ptr()); !up) {
    result = std::unexpected(up.error());
  } else {
    result = co_await merge_into(caller, sandbox.ptr(), std::move(wish), audit);
  }
  sandbox->restacking = false;
  FleetCode::warm(*this, sandbox.ptr());
  tidy_soon();
  if (audit.settled()) co_return result;
  if (!result) result = std::unexpected(explain(*sandbox, result.error()));
  co_return co_await settle(audit, std::move(result));
}

// The nearest snapshot that both come from, or the image under both.
Result<StatePoint> FleetImpl::merge_base(const StatePoint& ours, const StatePoint& theirs) const {
  if (const auto common = files_.snapshots.common(ours.head, theirs.head)) {
    const SnapshotRecord* found = files_.snapshots.find(*common);
    if (found->broken) return failure(Errc::Gone, "merge: what both come from misses a layer");
    return StatePoint{"snapshot:" + found->id, found->stack, found->id, found->image,
                      files_.works.hold(found->stack.layers)};
  }
  const SnapshotRecord* own = files_.snapshots.find(ours.head);
  if (ours.image != theirs.image || own == nullptr)
    return failure(Errc::Unsupported,
                   "merge: the two states have no snapshot and no image in common; fork one from "
                   "the other first");
  engine::LayerStack stack = own->stack;
  stack.layers.erase(stack.layers.begin(),
                     stack.layers.end() - static_cast<std::ptrdiff_t>(own->base_layers));
  auto hold = files_.works.hold(stack.layers);
  return StatePoint{"image:" + ours.image, std::move(stack), "", ours.image, std::move(hold)};
}

LayerJob FleetImpl::merge_job(const StatePoint& ours, const StatePoint& theirs,
                              const StatePoint& base, std::string layer) {
  LayerJob job;
  job.kind = wire::JobKind::Merge;
  job.bytes_max = kMergeBytesMax;
  job.entries_max = kToldEntriesMax;
  job.entries_kept = kDiffEntriesMax;
  const std::size_t shared =
      std::min({shared_layers(ours.stack, theirs.stack), shared_layers(ours.stack, base.stack),
                shared_layers(theirs.stack, base.stack)});
  add_view(job, "a", ours.stack);
  add_view(job, "b", theirs.stack);
  add_view(job, "base", base.stack);
  job.a_layers = add_layers(job, "a.in", ours.stack, shared);
  job.b_layers = add_layers(job, "b.in", theirs.stack, shared);
  add_target(job, std::move(layer), kMergeBytesMax);
  job.keep = [](const LayerOutcome& outcome) -> Result<bool> {
    const auto clash = [](const LayerChange& one) { return one.kind == wire::EntryKind::Conflict; };
    return outcome.done.conflicts == 0 && !std::ranges::any_of(outcome.entries, clash);
  };
  return job;
}

// What they have written is merged, so they end before the seal and not behind it.
awaitable<Result<void>> FleetImpl::end_guest_processes(SandboxPtr sandbox) {
  const auto guest = sandbox->guest;
  if (!guest) co_return failure(Errc::Busy, "merge: the sandbox is paused; resume it first");
  const auto there = co_await guest->processes();
  if (!there) co_return std::unexpected(there.error().within("end_processes"));
  for (const engine::GuestProcess& one : *there) {
    if (!one.running) continue;
    const auto sent = co_await guest->signal(one.id, SIGKILL, wire::SignalTarget::Tree);
    if (!sent && sent.error().code != Errc::NotFound)
      co_return std::unexpected(sent.error().within("end_processes"));
    const auto over = co_await guest->wait(one.id, kEndWait);
    if (!over && over.error().code != Errc::NotFound)
      co_return std::unexpected(over.error().within("end_processes"));
  }
  co_return Result<void>();
}

// Only a seal that takes the writable layer itself has everything: with a copy, something runs that
// can write behind it, and the new stack would lose that. Files in memory have no other way than a
// copy; there the launcher refuses the new stack while something runs.
awaitable<Result<SnapshotRecord>> FleetImpl::seal_for_merge(SandboxPtr sandbox) {
  SealWish want;
  want.hidden = true;
  want.copy = sandbox->kept.storage == engine::Storage::Memory;
  auto sealed = co_await seal(sandbox, std::move(want), nullptr);
  const bool busy = sealed ? sealed->kind == engine::SnapshotKind::Cow
                           : sealed.error().code == Errc::Busy && sandbox->state == State::Running;
  if (busy)
    co_return failure(Errc::Busy,
                      "merge: processes run in the sandbox; let them end, or say end_processes");
  co_return sealed;
}

awaitable<Result<MergeView>> FleetImpl::merge_into(Caller caller, SandboxPtr sandbox,
                                                   MergeWish wish, Audited& audit) {
  const auto theirs = co_await state_point(caller, wish.from, "from");
  if (!theirs) co_return std::unexpected(theirs.error());
  auto turn = co_await sandbox->files->take();
  if (!turn) co_return std::unexpected(turn.error());
  if (const auto same = still(*sandbox); !same) co_return std::unexpected(same.error());
  if (sandbox->uses > 1 && !wish.end_processes)
    co_return failure(Errc::Busy,
                      "merge: calls are under way in the sandbox; wait for them, or say "
                      "end_processes");
  sandbox->restacking = true;  // nothing is written between the seal and the new stack
  if (wish.end_processes) {
    const auto ended = co_await end_guest_processes(sandbox);
    if (!ended) co_return std::unexpected(ended.error());
  }
  (void)co_await FleetCode::rest(sandbox);
  const auto sealed = co_await seal_for_merge(sandbox);
  if (!sealed) co_return std::unexpected(sealed.error());
  const StatePoint ours{"snapshot:" + sealed->id, sealed->stack, sealed->id, sealed->image,
                        files_.works.hold(sealed->stack.layers)};
  const auto base = merge_base(ours, *theirs);
  if (!base) co_return std::unexpected(base.error());
  if (ours.stack.layers.size() >= engine::kLayersMax)
    co_return failure(Errc::Busy, "merge: its stack has as many layers as it may have");
  const auto layer = SandboxId::random();
  if (!layer) co_return std::unexpected(layer.error());
  const auto hold = files_.works.hold({layer->str()});
  LayerJob job = merge_job(ours, *theirs, *base, layer->str());
  if (const auto fits = check_pair(ours.stack, theirs->stack, job); !fits)
    co_return std::unexpected(fits.error());
  auto merged = co_await files_.works.run(std::move(job));
  if (!merged) co_return std::unexpected(merged.error());
  MergeView out;
  out.base = base->name;
  for (const LayerChange& one : merged->outcome.entries) {
    if (one.kind == wire::EntryKind::Conflict) out.conflicts.push_back(to_utf8(one.path));
  }
  std::ranges::sort(out.conflicts);
  audit.detail["from"] = wish.from;
  audit.detail["base"] = out.base;
  audit.detail["conflicts"] = merged->outcome.done.conflicts;
  if (!merged->kept) co_return out;
  files_.layers.insert(layer->str());
  engine::LayerStack stack = ours.stack;
  stack.layers.insert(stack.layers.begin(), layer->str());
  co_return co_await apply_merge(std::move(sandbox), *std::move(merged), std::move(stack),
                                 std::move(out), audit);
}

awaitable<Result<MergeView>> FleetImpl::apply_merge(SandboxPtr sandbox, LayerResult merged,
                                                    engine::LayerStack stack, MergeView out,
                                                    Audited& audit) {
  const auto stacked = co_await launcher_->restack(sandbox->id, stack, false);
  if (!stacked) co_return std::unexpected(stacked.error());
  sandbox->kept.stack = std::move(stack);
  out.applied = changes_of(merged.outcome.entries);
  audit.detail["applied"] = out.applied.size();
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  if (sandbox->state != State::Ended) batch.sandboxes.push_back(stored(*sandbox));
  const auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) co_return std::unexpected(written.error());
  events_.add("sandbox.merged", sandbox->tenant, sandbox->id, {{"base", out.base}});
  co_return out;
}

}  // namespace caisson::control
