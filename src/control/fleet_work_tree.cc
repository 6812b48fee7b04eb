// A tree to work on: an archive goes in by way of a box that reads it, a patch comes out by way of
// another, and in between it is searched.
#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/tar_header.h"
#include "control/fleet_impl.h"
#include "control/guest_path.h"
#include "control/patch_box.h"
#include "control/shield.h"
#include "control/spool.h"
#include "control/tree_changes.h"

namespace caisson::control {
namespace {

constexpr std::uint64_t kArchiveEntriesMax = 1'000'000;
constexpr std::uint32_t kArchiveRatioMax = 1'000;
constexpr milliseconds kBoxPatience{120'000};  // for a turn
constexpr int kClearRoundsMax = 64;
// Older kernels tell a file's last change in ticks of the clock: what is written within the tick of
// the archive would look as if it had come with it.
constexpr milliseconds kClockTick{11};
constexpr std::uint64_t kPatchInputBytesMax = 1ULL << 30U;

struct TreeBaseline final : Baseline {
  std::string sandbox;
  std::string path;
  std::shared_ptr<FileSpool> plain;  // the archive, written anew
  ShippedFiles shipped;
  Stamps stamps;
};

// Some of a baseline's files, as a tar again.
class ShippedReader {
 public:
  ShippedReader(const TreeBaseline& from, const std::vector<std::string>& names)
      : from_(from), names_(names), buffer_(kSpoolStepBytes) {}

  awaitable<Result<void>> put_into(engine::GuestWriter& writer) {
    for (const std::string& name : names_) {
      const auto at = from_.shipped.find(name);
      if (at == from_.shipped.end()) continue;
      const auto put = co_await put_one(writer, name, at->second);
      if (!put) co_return std::unexpected(put.error());
    }
    const std::string end(2 * kTarBlock, '\0');
    co_return co_await writer.write(std::as_bytes(std::span(end)));
  }

 private:
  awaitable<Result<void>> put_one(engine::GuestWriter& writer, const std::string& name,
                                  Shipped file) {
    TarHeader header{.name = name, .mode = file.mode & 0777U, .size = file.size};
    if (S_ISLNK(file.mode)) {
      if (file.size > buffer_.size()) co_return failure(Errc::Protocol, "archive: a long link");
      const auto got = co_await from_.plain->read(file.offset, std::span(buffer_).first(file.size));
      if (!got) co_return std::unexpected(got.error());
      header.type = '2';
      header.link.assign(reinterpret_cast<const char*>(buffer_.data()), *got);
      header.size = 0;
    }
    const std::string head = tar_header(header);
    const auto begun = co_await writer.write(std::as_bytes(std::span(head)));
    if (!begun) co_return std::unexpected(begun.error());
    for (std::uint64_t done = 0; done < header.size;) {
      const auto want =
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), header.size - done));
      const auto got =
          co_await from_.plain->read(file.offset + done, std::span(buffer_).first(want));
      if (!got) co_return std::unexpected(got.error());
      if (*got == 0) co_return failure(Errc::Internal, "the archive became shorter");
      const auto put = co_await writer.write(std::span(buffer_).first(*got));
      if (!put) co_return std::unexpected(put.error());
      done += *got;
    }
    const std::string padding(tar_padding(header.size), '\0');
    co_return co_await writer.write(std::as_bytes(std::span(padding)));
  }

  const TreeBaseline& from_;
  const std::vector<std::string>& names_;
  std::vector<std::byte> buffer_;
};

class HeldTurn final : public SessionTurn {
 public:
  HeldTurn(SandboxPtr sandbox, Turns::Turn turn)
      : use_(std::move(sandbox)), turn_(std::move(turn)) {}

 private:
  Use use_;
  Turns::Turn turn_;
};

std::string below(const std::string& folder, const std::string& name) {
  if (name.empty()) return folder;
  return (folder == "/" ? "" : folder) + "/" + name;
}

Result<void> check_prune(const std::vector<std::string>& prune) {
  if (prune.size() > kPruneNamesMax)
    return bad_field("exclude",
                     fmt::format("exclude: {} names, at most {}", prune.size(), kPruneNamesMax));
  for (const std::string& name : prune) {
    if (name.find('\0') != std::string::npos) return bad_field("exclude", "exclude: holds a NUL");
  }
  return {};
}

// As the sanitiser tells it: files and links; folders make themselves.
ShippedFiles shipped_of(std::vector<LayerChange>& entries) {
  ShippedFiles out;
  for (LayerChange& one : entries) {
    if (S_ISDIR(one.mode)) continue;
    out[one.path.substr(1)] = {one.offset, one.size, one.mode};
  }
  return out;
}

awaitable<Result<void>> copy(engine::GuestReader& from, engine::GuestWriter& to) {
  for (;;) {
    const auto bytes = co_await from.next();
    if (!bytes) co_return std::unexpected(bytes.error());
    if (bytes->empty()) co_return Result<void>();
    const auto put = co_await to.write(*bytes);
    if (!put) co_return std::unexpected(put.error());
  }
}

awaitable<void> pause_for(milliseconds time) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, time);
  boost::system::error_code cancelled;
  co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
}

// A folder of the box gets what `from` reads.
awaitable<Result<void>> put_tree(const PatchBox& box, std::string folder,
                                 engine::GuestReader& from) {
  const engine::TarOptions options{.parents = true};
  auto writer = co_await box.guest().tar_in(PatchBox::user(), std::move(folder), options);
  if (!writer) co_return std::unexpected(writer.error());
  const auto copied = co_await copy(from, **writer);
  if (!copied) co_return std::unexpected(copied.error());
  const auto done = co_await (*writer)->finish();
  if (!done) co_return std::unexpected(done.error());
  co_return Result<void>();
}

}  // namespace

Result<std::shared_ptr<Spool>> FleetImpl::spool(const Caller& caller) {
  if (stopping_) return failure(Errc::Gone, "the server ends");
  TRY(images_here());
  return std::shared_ptr<Spool>(
      TRY(FileSpool::make(options_.images.folder, files_.disk, files_.spools.open(caller.tenant))));
}

// ----------------------------------------------------------------------------------------------
// archives

awaitable<Result<ArchiveView>> FleetImpl::put_archive(const Caller& caller, std::string id,
                                                      ArchiveWish wish) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "archive.put", sandbox->id, wish.path));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<ArchiveView> result;
  auto path = guest_path(wish.path, kWorkspace, "path");
  if (!path) {
    result = std::unexpected(path.error());
  } else if (const auto up = co_await before_change(sandbox.ptr()); !up) {
    result = std::unexpected(up.error());
  } else {
    wish.path = *std::move(path);
    result = co_await put_sanitised(sandbox.ptr(), std::move(wish));
  }
  if (result) audit.detail["entries"] = result->entries;
  if (result && result->skipped != 0) audit.detail["skipped"] = result->skipped;
  co_return co_await settle(audit, std::move(result));
}

// Everything of it is judged before anything of it is seen inside.
awaitable<Result<LayerOutcome>> FleetImpl::sanitise(const ArchiveWish& wish,
                                                    const FileSpool& plain) {
  const auto* packed = dynamic_cast<const FileSpool*>(wish.archive.get());
  if (packed == nullptr) co_return failure(Errc::Internal, "archive: no spool of this server");
  LayerJob job;
  job.kind = wire::JobKind::Sanitise;
  if (wish.links == Links::Drop) job.flags = wire::kJobNoLinks;
  job.bytes_max = plain.room();
  job.entries_max = kArchiveEntriesMax;
  job.entries_kept = wish.baseline ? kArchiveEntriesMax : 0;
  job.ratio_max = kArchiveRatioMax;
  auto in = packed->descriptor();
  if (!in) co_return std::unexpected(in.error());
  auto out = plain.descriptor();
  if (!out) co_return std::unexpected(out.error());
  job.file = *std::move(in);
  job.out = *std::move(out);
  auto turn = co_await files_.sanitising.take(kBoxPatience);
  if (!turn) co_return std::unexpected(turn.error().within("archive"));
  auto done = co_await files_.works.run(std::move(job), *std::move(turn));
  if (done) co_return std::move(done->outcome);
  Error error = done.error();
  constexpr std::string_view kWhere = "layer: ";
  if (error.message.starts_with(kWhere)) error.message.erase(0, kWhere.size());
  // What the box says of it is about the caller's bytes.
  if (error.code == Errc::Protocol) co_return bad_field("archive", std::move(error.message));
  co_return std::unexpected(std::move(error));
}

awaitable<Result<ArchiveView>> FleetImpl::put_sanitised(SandboxPtr sandbox, ArchiveWish wish) {
  auto made =
      FileSpool::make(options_.images.folder, files_.disk, files_.spools.open(sandbox->tenant));
  if (!made) co_return std::unexpected(made.error());
  const std::shared_ptr<FileSpool> plain = *std::move(made);
  auto outcome = co_await sanitise(wish, *plain);
  if (!outcome) co_return std::unexpected(outcome.error());
  if (const auto measured = plain->measure(); !measured)
    co_return std::unexpected(measured.error());
  ArchiveView view;
  view.entries = outcome->done.entries;
  view.skipped = outcome->done.conflicts;
  bool bare = false;
  if (wish.clear) {
    const auto cleared = co_await clear_folder(sandbox, wish.path);
    if (!cleared) co_return std::unexpected(cleared.error());
    bare = true;
  }
  auto base = std::make_shared<TreeBaseline>();
  base->sandbox = sandbox->id;
  base->path = wish.path;
  base->plain = plain;
  // What lies there already is not the archive's, and no change of this caller's either.
  if (wish.baseline && !bare) {
    const auto before = co_await sandbox->guest->scan(sandbox->user(), wish.path);
    if (!before && before.error().code != Errc::NotFound)
      co_return std::unexpected(explain(*sandbox, before.error()));
    if (before) {
      for (const engine::FileEntry& entry : before->entries)
        base->stamps[entry.name] = stamp_of(entry);
    }
  }
  const engine::TarOptions options{.parents = true, .tell = wish.baseline, .open_up = true};
  auto writer = co_await sandbox->guest->tar_in(sandbox->user(), wish.path, options);
  if (!writer) co_return std::unexpected(explain(*sandbox, writer.error()));
  std::vector<std::byte> buffer(kSpoolStepBytes);
  for (std::uint64_t at = 0; at < plain->size();) {
    const auto got = co_await plain->read(at, buffer);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) break;
    const auto put = co_await (*writer)->write(std::span(buffer).first(*got));
    if (!put) co_return std::unexpected(explain(*sandbox, put.error()));
    at += *got;
  }
  auto done = co_await (*writer)->finish();
  if (!done) co_return std::unexpected(explain(*sandbox, done.error()));
  if (wish.baseline) {
    base->shipped = shipped_of(outcome->entries);
    for (const auto& [name, where] : base->shipped) base->stamps.erase(name);
    for (const engine::FileEntry& entry : done->made) base->stamps[entry.name] = stamp_of(entry);
    view.baseline = std::move(base);
    if (host_.kernel < engine::KernelVersion{6, 13}) co_await pause_for(kClockTick);
  }
  co_return view;
}

awaitable<Result<void>> FleetImpl::clear_folder(SandboxPtr sandbox, std::string path) {
  // It also opens what its owner has closed, so that it can be removed.
  const auto listing = co_await sandbox->guest->scan(sandbox->user(), path);
  if (!listing) {
    if (listing.error().code == Errc::NotFound) co_return Result<void>();
    co_return std::unexpected(explain(*sandbox, listing.error()));
  }
  for (int round = 0; round < kClearRoundsMax; ++round) {
    const auto top = co_await sandbox->guest->list(sandbox->user(), path, false);
    if (!top) co_return std::unexpected(explain(*sandbox, top.error()));
    if (top->entries.empty()) co_return Result<void>();
    for (const engine::FileEntry& entry : top->entries) {
      const auto gone =
          co_await sandbox->guest->remove(sandbox->user(), below(path, entry.name), true);
      if (!gone && gone.error().code != Errc::NotFound)
        co_return std::unexpected(explain(*sandbox, gone.error()));
    }
  }
  co_return failure(Errc::Busy, "ephemeral: something fills the folder again while it is cleared");
}

// ----------------------------------------------------------------------------------------------
// patches

awaitable<Result<std::string>> FleetImpl::patch_since(const Caller& caller, std::string id,
                                                      std::shared_ptr<const Baseline> baseline) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "archive.patch", sandbox->id, ""));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  Result<std::string> made;
  // Each has a box of its own, and holds the list of a whole tree.
  auto turn = co_await files_.patches.take(kBoxPatience);
  if (turn) {
    made = co_await make_patch_since(sandbox.ptr(), std::move(baseline));
  } else {
    made = std::unexpected(turn.error().within("patch"));
  }
  if (made) audit.detail["bytes"] = made->size();
  co_return co_await settle(audit, std::move(made));
}

awaitable<Result<std::string>> FleetImpl::make_patch_since(
    SandboxPtr sandbox, std::shared_ptr<const Baseline> baseline) {
  const auto* base = dynamic_cast<const TreeBaseline*>(baseline.get());
  if (base == nullptr || base->sandbox != sandbox->id)
    co_return failure(Errc::InvalidArgument, "baseline: it is of another sandbox");
  if (const auto up = co_await woken(sandbox); !up) co_return std::unexpected(up.error());
  const auto now = co_await sandbox->guest->scan(sandbox->user(), base->path);
  if (!now) co_return std::unexpected(explain(*sandbox, now.error()));
  if (now->truncated)
    co_return failure(Errc::TooLarge, "patch: there are more than 400,000 files to look at");
  TreeChanges changes = find_changes(base->shipped, base->stamps, now->entries);
  if (changes.old_files.empty() && changes.fresh.empty()) co_return std::string();
  auto end = [alive = alive()](std::string box) {
    const auto fleet = alive.lock();
    if (!fleet || (**fleet).stopping_) return;
    FleetImpl& self = **fleet;
    boost::asio::co_spawn(self.executor_, self.clear_away(std::move(box)), boost::asio::detached);
  };
  auto box = co_await PatchBox::open(executor_, *launcher_, std::move(end));
  if (!box) co_return std::unexpected(box.error());
  const auto left = co_await drop_ignored(**box, sandbox, base->path, changes);
  if (!left) co_return std::unexpected(left.error());
  if (changes.old_files.empty() && changes.fresh.empty()) co_return std::string();
  if (changes.all_bytes() > kPatchInputBytesMax)
    co_return failure(Errc::TooLarge,
                      fmt::format("patch: {} bytes have changed, at most {} are compared",
                                  changes.all_bytes(), kPatchInputBytesMax));
  const engine::TarOptions options{.parents = true};
  auto old_side = co_await (*box)->guest().tar_in(PatchBox::user(), PatchBox::kOldFolder, options);
  if (!old_side) co_return std::unexpected(old_side.error());
  ShippedReader reader(*base, changes.old_files);
  const auto shipped = co_await reader.put_into(**old_side);
  if (!shipped) co_return std::unexpected(shipped.error());
  const auto done = co_await (*old_side)->finish();
  if (!done) co_return std::unexpected(done.error());
  std::vector<std::string> names = std::move(changes.kept);
  names.insert(names.end(), changes.fresh.begin(), changes.fresh.end());
  auto packed = co_await sandbox->guest->pack(sandbox->user(), base->path, std::move(names));
  if (!packed) co_return std::unexpected(explain(*sandbox, packed.error()));
  const auto put = co_await put_tree(**box, PatchBox::kNewFolder, **packed);
  if (!put) co_return std::unexpected(explain(*sandbox, put.error()));
  co_return co_await (*box)->compare();
}

// New files that the tree's own rules keep out of a repository are nobody's change. Those that came
// with the archive are, whatever the rules say.
awaitable<Result<void>> FleetImpl::drop_ignored(PatchBox& box, SandboxPtr sandbox, std::string path,
                                                TreeChanges& changes) {
  if (changes.ignores.empty() || changes.fresh.empty()) co_return Result<void>();
  auto rules = co_await sandbox->guest->pack(sandbox->user(), std::move(path), changes.ignores);
  if (!rules) co_return std::unexpected(explain(*sandbox, rules.error()));
  const auto put = co_await put_tree(box, PatchBox::kIgnoreFolder, **rules);
  if (!put) co_return std::unexpected(explain(*sandbox, put.error()));
  const auto ignored = co_await box.ignored(changes.fresh);
  if (!ignored) co_return std::unexpected(ignored.error());
  changes.drop({ignored->begin(), ignored->end()});
  co_return Result<void>();
}

// ----------------------------------------------------------------------------------------------
// searches

awaitable<Result<std::vector<FileView>>> FleetImpl::find_files(const Caller& caller, std::string id,
                                                               FindWish wish) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto path = guest_path(wish.path, kWorkspace, "path");
  if (!path) co_return std::unexpected(path.error());
  if (const auto good = check_prune(wish.prune); !good) co_return std::unexpected(good.error());
  auto listing = co_await sandbox->guest->find(sandbox->user(), *path, std::move(wish.pattern),
                                               std::move(wish.prune));
  if (!listing) co_return std::unexpected(explain(*sandbox, listing.error()));
  if (listing->truncated)
    co_return failure(Errc::TooLarge, "pattern: more than 100,000 paths match; say more of them");
  std::vector<FileView> out;
  out.reserve(listing->entries.size());
  for (engine::FileEntry& entry : listing->entries) {
    FileView view;
    view.path = below(*path, entry.name);
    view.entry = std::move(entry);
    out.push_back(std::move(view));
  }
  co_return out;
}

awaitable<Result<GrepView>> FleetImpl::grep_files(const Caller& caller, std::string id,
                                                  GrepWish wish) {
  auto found = co_await running(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  auto path = guest_path(wish.path, kWorkspace, "path");
  if (!path) co_return std::unexpected(path.error());
  if (const auto good = check_prune(wish.prune); !good) co_return std::unexpected(good.error());
  auto matches = co_await sandbox->guest->grep(sandbox->user(), *path, std::move(wish.pattern),
                                               std::move(wish.glob), std::move(wish.prune),
                                               std::min(wish.matches_max, kSearchMatchesMax));
  if (!matches) co_return std::unexpected(explain(*sandbox, matches.error()));
  GrepView out;
  out.truncated = matches->truncated;
  out.unreadable = matches->unreadable;
  out.matches.reserve(matches->lines.size());
  for (engine::MatchedLine& line : matches->lines)
    out.matches.push_back({below(*path, line.name), line.line, std::move(line.text)});
  co_return out;
}

// ----------------------------------------------------------------------------------------------
// sessions

awaitable<Result<std::unique_ptr<SessionTurn>>> FleetImpl::session_turn(const Caller& caller,
                                                                        std::string id,
                                                                        milliseconds wait) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const SandboxPtr sandbox = *found;
  if (!sandbox->session) sandbox->session = std::make_shared<Turns>(executor_, 1);
  if (sandbox->session->waiting() >= kSessionWaitersMax)
    co_return failure(Errc::Busy, "session: too many calls wait for it");
  auto turn = co_await sandbox->session->take(wait);
  if (!turn) co_return std::unexpected(turn.error());
  // It may have ended, or begun anew, while this call waited.
  const auto still = find(caller, id);
  if (!still) co_return std::unexpected(still.error());
  co_return std::make_unique<HeldTurn>(*still, *std::move(turn));
}

awaitable<Result<SandboxView>> FleetImpl::set_labels(const Caller& caller, std::string id,
                                                     std::map<std::string, std::string> labels) {
  auto found = find(caller, id);
  if (!found) co_return std::unexpected(found.error());
  const Use sandbox(*found);
  Audited audit(*this, row(caller, "sandbox.labels", sandbox->id, ""));
  auto works = co_await store_works(audit);
  if (!works) co_return std::unexpected(works.error());
  const auto turn = co_await unmoved(sandbox.ptr());
  if (!turn) co_return co_await settle(audit, Result<SandboxView>(std::unexpected(turn.error())));
  auto wanted = sandbox->kept.labels;
  for (auto& [name, value] : labels) {
    if (value.empty()) {
      wanted.erase(name);
    } else {
      wanted[name] = std::move(value);
    }
  }
  if (const auto good = check_name_and_labels("", wanted); !good)
    co_return co_await settle(audit, Result<SandboxView>(std::unexpected(good.error())));
  std::swap(sandbox->kept.labels, wanted);
  audit.judge(nullptr);
  store::Store::Batch batch;
  batch.audit.push_back(audit.row);
  batch.sandboxes.push_back(stored(*sandbox));
  const auto written = co_await record(std::move(batch));
  audit.written();
  if (!written) {
    sandbox->kept.labels = std::move(wanted);
    co_return std::unexpected(written.error());
  }
  events_.add("sandbox.labels", sandbox->tenant, sandbox->id);
  co_return view(*sandbox);
}

}  // namespace caisson::control
