#include "guest/layer/diff.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "guest/layer/compare.h"
#include "guest/layer/copy.h"
#include "guest/layer/touched.h"
#include "guest/layer/tree.h"

namespace caisson::layer {
namespace {

using wire::EntryKind;

// One side of the changes, for a program that compares files: content, and whether it can be run.
class Stage {
 public:
  Stage(int out, const std::string& name, Meter& meter) : out_(out), name_(name), meter_(meter) {}

  Result<void> open() {
    if (::mkdirat(out_, name_.c_str(), 0755) != 0) return sys_failure("make the stage", errno);
    root_ = TRY(open_folder(out_, name_));
    return set_owner(root_.get(), 0, 0, 0755);
  }

  Result<void> put(const Spot& spot, const std::string& name, const std::string& path) {
    if (!spot.exists()) return {};
    const bool file = S_ISREG(spot.facts->st_mode);
    if (!file && !S_ISLNK(spot.facts->st_mode)) return {};
    const UniqueFd folder = TRY(make_parents(path));
    if (!file) {
      const std::string target = TRY(read_link(spot.folder, name));
      if (::symlinkat(target.c_str(), folder.get(), name.c_str()) == 0) return {};
      return sys_failure("stage '" + path + "'", errno);
    }
    const UniqueFd from = TRY(open_file(spot.folder, name));
    const UniqueFd to(::openat(folder.get(), name.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!to) return sys_failure("stage '" + path + "'", errno);
    const auto size = static_cast<std::uint64_t>(spot.facts->st_size);
    TRY(copy_content(from.get(), to.get(), size, meter_));
    return set_owner(to.get(), 0, 0, (spot.facts->st_mode & 0111U) != 0 ? 0755 : 0644);
  }

 private:
  Result<UniqueFd> make_parents(const std::string& path) {
    UniqueFd at = TRY(open_path(root_.get(), "", Links::Refused));
    for (std::size_t from = 0;;) {
      const std::size_t slash = path.find('/', from);
      if (slash == std::string::npos) return at;
      const std::string part = path.substr(from, slash - from);
      if (::mkdirat(at.get(), part.c_str(), 0755) != 0 && errno != EEXIST) {
        return sys_failure("stage '" + path + "'", errno);
      }
      at = TRY(open_folder(at.get(), part));
      from = slash + 1;
    }
  }

  int out_;
  std::string name_;
  Meter& meter_;
  UniqueFd root_;
};

class Differ {
 public:
  Differ(Meter& meter, std::vector<std::string> prefix, Stage* stage_a, Stage* stage_b)
      : meter_(meter), prefix_(std::move(prefix)), stage_a_(stage_a), stage_b_(stage_b) {}

  // `touched` is null where everything below has to be compared.
  Result<void> folder(const Touched* touched, int a, int b, const std::string& path,
                      std::size_t depth);

 private:
  Result<void> entry(const Touched* touched, int a, int b, const std::string& name,
                     const std::string& path, std::size_t depth);
  Result<void> tell(const Spot& a, const Spot& b, const std::string& name, const std::string& path);
  Result<std::optional<EntryKind>> kind_of(const Spot& a, const Spot& b, const std::string& name);

  Meter& meter_;
  std::vector<std::string> prefix_;
  Stage* stage_a_;
  Stage* stage_b_;
};

Result<void> Differ::folder(const Touched* touched, int a, int b, const std::string& path,
                            std::size_t depth) {
  if (depth > kDepthMax) {
    return failure(Errc::InvalidArgument,
                   "'" + path + "' is more than " + std::to_string(kDepthMax) + " folders deep");
  }
  std::vector<std::string> names;
  if (depth < prefix_.size()) {
    names.push_back(prefix_[depth]);
  } else if (touched != nullptr) {
    names = TRY(touched->names(meter_.job().entries_max));
  } else {
    names = TRY(list_both(a, b, meter_.job().entries_max));
  }
  for (const std::string& name : names) {
    TRY(entry(touched, a, b, name, path.empty() ? name : path + "/" + name, depth));
  }
  return {};
}

Result<void> Differ::entry(const Touched* touched, int a, int b, const std::string& name,
                           const std::string& path, std::size_t depth) {
  const Spot before = TRY(look(a, name));
  const Spot after = TRY(look(b, name));
  if (!before.exists() && !after.exists()) return {};
  if (depth + 1 >= prefix_.size()) TRY(tell(before, after, name, path));
  if (!before.is_folder() && !after.is_folder()) return {};
  const UniqueFd inner_a = TRY(enter(before, name));
  const UniqueFd inner_b = TRY(enter(after, name));
  if (touched == nullptr) return folder(nullptr, inner_a.get(), inner_b.get(), path, depth + 1);
  const Touched inner = TRY(touched->enter(name));
  const bool whole = inner.whole() || !before.is_folder() || !after.is_folder();
  return folder(whole ? nullptr : &inner, inner_a.get(), inner_b.get(), path, depth + 1);
}

Result<std::optional<EntryKind>> Differ::kind_of(const Spot& a, const Spot& b,
                                                 const std::string& name) {
  if (!a.exists()) return EntryKind::Added;
  if (!b.exists()) return EntryKind::Removed;
  if (!same_type(a, b)) return EntryKind::TypeChanged;
  if (!TRY(same_content(a, b, name, meter_))) return EntryKind::Modified;
  if (!same_mode(a, b)) return EntryKind::Mode;
  return std::nullopt;
}

Result<void> Differ::tell(const Spot& a, const Spot& b, const std::string& name,
                          const std::string& path) {
  const std::optional<EntryKind> kind = TRY(kind_of(a, b, name));
  if (!kind) return {};
  TRY(meter_.add_entry());
  const struct stat& facts = b.exists() ? *b.facts : *a.facts;
  const std::uint64_t size = S_ISREG(facts.st_mode) ? static_cast<std::uint64_t>(facts.st_size) : 0;
  TRY(meter_.teller().entry({.kind = *kind, .mode = facts.st_mode, .size = size}, path));
  if (stage_a_ != nullptr) TRY(stage_a_->put(a, name, path));
  if (stage_b_ != nullptr) TRY(stage_b_->put(b, name, path));
  return {};
}

}  // namespace

Result<wire::LayerDone> diff_job(const Work& work, Meter& meter) {
  std::vector<std::string> prefix = TRY_IN("prefix", split_path(work.prefix));
  LayerSet layers;
  TRY(layers.add(work.layer_root, "a.in", work.job.a_layers));
  TRY(layers.add(work.layer_root, "b.in", work.job.b_layers));
  TRY(layers.close());
  const Touched touched = TRY(Touched::root(layers));
  const UniqueFd a = TRY(open_folder(work.layer_root, "a"));
  const UniqueFd b = TRY(open_folder(work.layer_root, "b"));
  const bool staged = (work.job.flags & wire::kJobStage) != 0;
  UniqueFd out;
  if (staged) out = TRY(open_folder(work.layer_root, "out"));
  Stage stage_a(out.get(), "a", meter);
  Stage stage_b(out.get(), "b", meter);
  if (staged) {
    TRY(stage_a.open());
    TRY(stage_b.open());
  }
  Differ differ(meter, std::move(prefix), staged ? &stage_a : nullptr, staged ? &stage_b : nullptr);
  TRY(differ.folder(&touched, a.get(), b.get(), "", 0));
  return meter.done();
}

}  // namespace caisson::layer
