#include "guest/layer/merge.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "guest/layer/compare.h"
#include "guest/layer/copy.h"
#include "guest/layer/parts.h"
#include "guest/layer/touched.h"
#include "guest/layer/tree.h"

namespace caisson::layer {
namespace {

using wire::EntryKind;

// A folder of the new layer, made when the first change below it is written.
class Target {
 public:
  explicit Target(UniqueFd out) : made_(std::move(out)) {}
  // `like` is the folder of a state whose owner, mode and attributes it gets; it stays open.
  Target(Target& parent, std::string name, int like, Opaque opaque)
      : parent_(&parent), name_(std::move(name)), like_(like), opaque_(opaque) {}

  Result<int> make() {
    if (made_) return made_.get();
    const int parent = TRY(parent_->make());
    made_ = TRY(make_folder_like(like_, parent, name_, opaque_));
    return made_.get();
  }

  // Its time, once nothing is put into it any more.
  Result<void> finish() {
    if (!made_ || parent_ == nullptr) return {};
    struct stat facts{};
    if (::fstat(like_, &facts) != 0) return sys_failure("look at '" + name_ + "'", errno);
    return set_times(made_.get(), facts.st_mtim);
  }

 private:
  Target* parent_ = nullptr;
  std::string name_;
  int like_ = -1;
  Opaque opaque_ = Opaque::No;
  UniqueFd made_;
};

// One folder in the three states; -1 where it is none.
struct Place {
  int base;
  int a;
  int b;
  bool lost_in_a;  // base and b have this folder and a does not: there is nothing to put changes in
};

struct Spots {
  Spot base;
  Spot a;
  Spot b;
};

class Merger {
 public:
  Merger(Meter& meter, const LayerSet& layers, std::vector<std::string> prefix)
      : meter_(meter), layers_(layers), prefix_(std::move(prefix)) {}

  // `touched` is null where everything below has to be compared.
  Result<void> folder(const Touched* touched, const Place& at, Target& to, const std::string& path,
                      std::size_t depth);
  [[nodiscard]] std::uint64_t conflicts() const noexcept { return conflicts_; }

  // Where a top folder with a part of its own goes. Set once, before the walk.
  void set_out(Target& out) noexcept { out_ = &out; }

 private:
  Result<void> entry(const Touched* touched, const Place& at, Target& to, const std::string& name,
                     const std::string& path, std::size_t depth);
  Result<void> both_folders(const Touched* touched, const Spots& spots, Target& to,
                            const std::string& name, const std::string& path, std::size_t depth);
  Result<void> new_folder(const Place& at, const Spots& spots, Target& to, const std::string& name,
                          const std::string& path, std::size_t depth);
  Result<void> lost_folder(const Spots& spots, Target& to, const std::string& name,
                           const std::string& path);
  Result<void> file(const Place& at, const Spots& spots, Target& to, const std::string& name,
                    const std::string& path);

  Result<void> write(const Spots& spots, Target& to, const std::string& name);
  Result<void> tell(EntryKind kind, const Spot& spot, const std::string& path);
  Result<void> conflict(const Spots& spots, const std::string& path);
  Result<void> tell_removed(int folder, const std::string& path, std::size_t depth);
  Result<bool> adds_to(int base, int a, std::size_t depth);

  Meter& meter_;
  const LayerSet& layers_;
  std::vector<std::string> prefix_;
  Target* out_ = nullptr;
  std::uint64_t conflicts_ = 0;
};

Result<void> check_depth(const std::string& path, std::size_t depth) {
  if (depth <= kDepthMax) return {};
  return failure(Errc::InvalidArgument,
                 "'" + path + "' is more than " + std::to_string(kDepthMax) + " folders deep");
}

Result<void> Merger::folder(const Touched* touched, const Place& at, Target& to,
                            const std::string& path, std::size_t depth) {
  TRY(check_depth(path, depth));
  std::vector<std::string> names;
  if (depth < prefix_.size()) {
    names.push_back(prefix_[depth]);
  } else if (touched != nullptr) {
    names = TRY(touched->names(meter_.job().entries_max));
  } else {
    names = TRY(list_both(at.base, at.b, meter_.job().entries_max));
  }
  for (const std::string& name : names) {
    TRY(entry(touched, at, to, name, path.empty() ? name : path + "/" + name, depth));
  }
  return {};
}

Result<void> Merger::entry(const Touched* touched, const Place& at, Target& to,
                           const std::string& name, const std::string& path, std::size_t depth) {
  Spots spots;
  spots.base = TRY(look(at.base, name));
  spots.a = TRY(look(at.a, name));
  spots.b = TRY(look(at.b, name));
  if (!spots.base.exists() && !spots.b.exists()) return {};
  if (spots.base.is_folder() && spots.b.is_folder()) {
    return both_folders(touched, spots, to, name, path, depth);
  }
  if (spots.b.is_folder()) return new_folder(at, spots, to, name, path, depth);
  if (depth + 1 < prefix_.size()) {
    // To take this over would change more than was asked for.
    return failure(Errc::InvalidArgument,
                   "the prefix lies in '" + path + "', which is no folder any more");
  }
  if (spots.base.is_folder()) return lost_folder(spots, to, name, path);
  return file(at, spots, to, name, path);
}

// b has kept the folder: its own mode is one question, what is in it another.
Result<void> Merger::both_folders(const Touched* touched, const Spots& spots, Target& to,
                                  const std::string& name, const std::string& path,
                                  std::size_t depth) {
  const bool in_scope = depth + 1 >= prefix_.size();
  const UniqueFd a = TRY(enter(spots.a, name));
  const UniqueFd b = TRY(enter(spots.b, name));
  const bool changed = in_scope && !same_mode(spots.base, spots.b);
  const bool taken = changed && spots.a.is_folder() && same_mode(spots.base, spots.a);
  const bool alike = changed && spots.a.is_folder() && same_mode(spots.a, spots.b);
  if (taken) TRY(tell(EntryKind::Mode, spots.b, path));
  if (changed && !taken && !alike) TRY(conflict(spots, path));
  // A top folder with a part of its own lies beside the root's part, not in it.
  const bool own_part = depth == 0 && layers_.tops().contains(name);
  Target inner(own_part ? *out_ : to, own_part ? part_of_top(name) : name,
               taken || !a ? b.get() : a.get(), Opaque::No);
  if (taken && conflicts_ == 0) TRY(inner.make());
  const UniqueFd base = TRY(enter(spots.base, name));
  const Place at{base.get(), a.get(), b.get(), !spots.a.is_folder()};
  if (touched == nullptr) {
    TRY(folder(nullptr, at, inner, path, depth + 1));
  } else {
    const Touched below = TRY(touched->enter(name));
    TRY(folder(below.whole() ? nullptr : &below, at, inner, path, depth + 1));
  }
  return inner.finish();
}

// b has a folder where base has none.
Result<void> Merger::new_folder(const Place& at, const Spots& spots, Target& to,
                                const std::string& name, const std::string& path,
                                std::size_t depth) {
  const UniqueFd b = TRY(enter(spots.b, name));
  if (spots.a.is_folder()) {
    if (!same_mode(spots.a, spots.b)) return conflict(spots, path);
    const UniqueFd a = TRY(enter(spots.a, name));
    Target inner(to, name, a.get(), Opaque::No);
    TRY(folder(nullptr, Place{-1, a.get(), b.get(), false}, inner, path, depth + 1));
    return inner.finish();
  }
  const bool untouched = TRY(same_entry(spots.base, spots.a, name, meter_));
  if (!untouched || at.lost_in_a) return conflict(spots, path);
  TRY(tell(spots.base.exists() ? EntryKind::TypeChanged : EntryKind::Added, spots.b, path));
  // Lower layers of a may have a folder of this name that a does not show.
  Target inner(to, name, b.get(), Opaque::Yes);
  if (conflicts_ == 0) TRY(inner.make());
  TRY(folder(nullptr, Place{-1, -1, b.get(), false}, inner, path, depth + 1));
  return inner.finish();
}

// b has removed a folder, or put something else in its place.
Result<void> Merger::lost_folder(const Spots& spots, Target& to, const std::string& name,
                                 const std::string& path) {
  if (!spots.a.is_folder()) {
    const bool alike = TRY(same_entry(spots.a, spots.b, name, meter_));
    return alike ? Result<void>{} : conflict(spots, path);
  }
  const UniqueFd base = TRY(enter(spots.base, name));
  const UniqueFd a = TRY(enter(spots.a, name));
  const bool changed = !same_mode(spots.base, spots.a) || TRY(adds_to(base.get(), a.get(), 0));
  if (changed) return conflict(spots, path);
  if (spots.b.exists()) {
    TRY(tell(EntryKind::TypeChanged, spots.b, path));
  } else {
    TRY(tell(EntryKind::Removed, spots.a, path));
  }
  TRY(tell_removed(a.get(), path, 0));
  return write(spots, to, name);
}

Result<void> Merger::file(const Place& at, const Spots& spots, Target& to, const std::string& name,
                          const std::string& path) {
  if (TRY(same_entry(spots.base, spots.b, name, meter_))) return {};
  if (!spots.a.is_folder() && TRY(same_entry(spots.a, spots.b, name, meter_))) return {};
  const bool untouched = !spots.a.is_folder() && TRY(same_entry(spots.base, spots.a, name, meter_));
  if (!untouched || at.lost_in_a) return conflict(spots, path);
  EntryKind kind = EntryKind::Modified;
  if (!spots.base.exists()) {
    kind = EntryKind::Added;
  } else if (!spots.b.exists()) {
    kind = EntryKind::Removed;
  } else if (!same_type(spots.base, spots.b)) {
    kind = EntryKind::TypeChanged;
  } else if (TRY(same_content(spots.base, spots.b, name, meter_))) {
    kind = EntryKind::Mode;
  }
  TRY(tell(kind, spots.b.exists() ? spots.b : spots.a, path));
  return write(spots, to, name);
}

// What b has at this name, or a whiteout where it has nothing.
Result<void> Merger::write(const Spots& spots, Target& to, const std::string& name) {
  if (conflicts_ != 0) return {};
  const int folder = TRY(to.make());
  if (!spots.b.exists()) return make_whiteout(folder, name);
  return copy_entry(spots.b.folder, name, *spots.b.facts, folder, meter_);
}

Result<void> Merger::tell(EntryKind kind, const Spot& spot, const std::string& path) {
  TRY(meter_.add_entry());
  const struct stat& facts = *spot.facts;
  const std::uint64_t size = S_ISREG(facts.st_mode) ? static_cast<std::uint64_t>(facts.st_size) : 0;
  return meter_.teller().entry({.kind = kind, .mode = facts.st_mode, .size = size}, path);
}

Result<void> Merger::conflict(const Spots& spots, const std::string& path) {
  ++conflicts_;
  const Spot& shown = spots.b.exists() ? spots.b : spots.a.exists() ? spots.a : spots.base;
  return tell(EntryKind::Conflict, shown, path);
}

Result<void> Merger::tell_removed(int folder, const std::string& path, std::size_t depth) {
  TRY(check_depth(path, depth));
  for (const std::string& name : TRY(list_folder(folder, meter_.job().entries_max))) {
    const Spot spot = TRY(look(folder, name));
    if (!spot.exists()) continue;
    const std::string below = path + "/" + name;
    TRY(tell(EntryKind::Removed, spot, below));
    if (!spot.is_folder()) continue;
    const UniqueFd inner = TRY(enter(spot, name));
    TRY(tell_removed(inner.get(), below, depth + 1));
  }
  return {};
}

// Whether a has anything in this folder that base has not. What a has removed as well is no reason
// to keep the rest.
Result<bool> Merger::adds_to(int base, int a, std::size_t depth) {
  TRY(check_depth("a removed folder", depth));
  for (const std::string& name : TRY(list_folder(a, meter_.job().entries_max))) {
    const Spot before = TRY(look(base, name));
    const Spot now = TRY(look(a, name));
    if (!now.exists()) continue;
    if (!TRY(same_entry(before, now, name, meter_))) return true;
    if (!now.is_folder()) continue;
    const UniqueFd inner_base = TRY(enter(before, name));
    const UniqueFd inner_a = TRY(enter(now, name));
    if (TRY(adds_to(inner_base.get(), inner_a.get(), depth + 1))) return true;
  }
  return false;
}

}  // namespace

Result<wire::LayerDone> merge_job(const Work& work, Meter& meter) {
  std::vector<std::string> prefix = TRY_IN("prefix", split_path(work.prefix));
  LayerSet layers;
  TRY(layers.add(work.layer_root, "b.in", work.job.b_layers));
  TRY(layers.close());
  const Touched touched = TRY(Touched::root(layers));
  const UniqueFd base = TRY(open_folder(work.layer_root, "base"));
  const UniqueFd a = TRY(open_folder(work.layer_root, "a"));
  const UniqueFd b = TRY(open_folder(work.layer_root, "b"));
  const UniqueFd out = TRY(open_folder(work.layer_root, "out"));
  Target top(TRY(open_folder(work.layer_root, "out")));
  Target root(top, wire::kPartRoot, a.get(), Opaque::No);
  TRY(root.make());
  Merger merger(meter, layers, std::move(prefix));
  merger.set_out(top);
  TRY(merger.folder(&touched, Place{base.get(), a.get(), b.get(), false}, root, "", 0));
  TRY(root.finish());
  if (merger.conflicts() != 0) TRY(remove_content(out.get()));
  wire::LayerDone done = meter.done();
  done.conflicts = merger.conflicts();
  return done;
}

}  // namespace caisson::layer
