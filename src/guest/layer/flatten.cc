// A folder of the result is what all layers have of it, from the topmost down to the first that
// says "nothing lies below": an opaque folder, a whiteout, or something that is no folder. That end
// then has to be said by the result too, unless it is the lowest layer anyway.
#include "guest/layer/flatten.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "guest/layer/copy.h"
#include "guest/layer/parts.h"
#include "guest/layer/tree.h"

namespace caisson::layer {
namespace {

// One folder as one layer has it.
struct Source {
  std::size_t layer;
  UniqueFd folder;
};

struct Stack {
  std::vector<Source> sources;  // the topmost first; never empty
  bool closed = false;          // nothing below the last of them shows
};

class Flattener {
 public:
  Flattener(Meter& meter, bool lowest) : meter_(meter), lowest_(lowest) {}

  Result<void> part(const std::vector<UniqueFd>& layers, const std::string& name, int out);

 private:
  using Inode = std::tuple<std::size_t, dev_t, ino_t>;

  Result<void> fill(const Stack& stack, int to, const std::string& path, std::size_t depth);
  Result<void> take(const Stack& stack, const std::string& name, int to, const std::string& path,
                    std::size_t depth);
  Result<void> take_file(const Source& source, const std::string& name, const struct stat& facts,
                         int to, const std::string& path);
  Result<bool> linked(const Inode& inode, int to, const std::string& name);

  Meter& meter_;
  const bool lowest_;
  int part_out_ = -1;
  std::map<Inode, std::string> links_;
  std::size_t link_bytes_ = 0;
};

Result<void> Flattener::part(const std::vector<UniqueFd>& layers, const std::string& name,
                             int out) {
  Stack stack;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::optional<UniqueFd> folder = TRY(find_folder(layers[i].get(), name));
    if (folder) stack.sources.push_back({i, std::move(*folder)});
  }
  // An overlay does not look at its root's own mark, so neither do we.
  const UniqueFd made =
      TRY(make_folder_like(stack.sources.front().folder.get(), out, name, Opaque::No));
  part_out_ = made.get();
  links_.clear();
  link_bytes_ = 0;
  stack.closed = lowest_;
  TRY(fill(stack, made.get(), "", 0));
  struct stat facts{};
  if (::fstat(stack.sources.front().folder.get(), &facts) != 0) {
    return sys_failure("look at a folder", errno);
  }
  return set_times(made.get(), facts.st_mtim);
}

Result<void> Flattener::fill(const Stack& stack, int to, const std::string& path,
                             std::size_t depth) {
  if (depth > kDepthMax) {
    return failure(Errc::InvalidArgument,
                   "'" + path + "' is more than " + std::to_string(kDepthMax) + " folders deep");
  }
  std::vector<std::string> names;
  for (const Source& source : stack.sources) {
    const std::vector<std::string> more =
        TRY(list_folder(source.folder.get(), meter_.job().entries_max));
    names.insert(names.end(), more.begin(), more.end());
  }
  std::ranges::sort(names);
  const auto rest = std::ranges::unique(names);
  names.erase(rest.begin(), rest.end());
  for (const std::string& name : names) {
    TRY(take(stack, name, to, path.empty() ? name : path + "/" + name, depth));
  }
  return {};
}

Result<void> Flattener::take(const Stack& stack, const std::string& name, int to,
                             const std::string& path, std::size_t depth) {
  Stack below;
  below.closed = stack.closed;
  for (const Source& source : stack.sources) {
    const std::optional<struct stat> facts = TRY(find_entry(source.folder.get(), name));
    if (!facts) continue;
    if (!S_ISDIR(facts->st_mode)) {
      if (below.sources.empty()) {
        // A whiteout hides what lies below, and here nothing does.
        if (is_whiteout(*facts) && stack.closed) return {};
        return take_file(source, name, *facts, to, path);
      }
      below.closed = true;
      break;
    }
    UniqueFd folder = TRY(open_folder(source.folder.get(), name));
    const Attributes attributes = TRY(read_attributes(folder.get()));
    below.sources.push_back({source.layer, std::move(folder)});
    if (attributes.opaque) {
      below.closed = true;
      break;
    }
  }
  if (below.sources.empty()) return {};
  // Inside of what is closed nothing needs to be closed again.
  const bool mark = below.closed && !stack.closed;
  TRY(meter_.add_entry());
  const UniqueFd made = TRY(make_folder_like(below.sources.front().folder.get(), to, name,
                                             mark ? Opaque::Yes : Opaque::No));
  TRY(fill(below, made.get(), path, depth + 1));
  struct stat facts{};
  if (::fstat(below.sources.front().folder.get(), &facts) != 0) {
    return sys_failure("look at '" + path + "'", errno);
  }
  return set_times(made.get(), facts.st_mtim);
}

Result<void> Flattener::take_file(const Source& source, const std::string& name,
                                  const struct stat& facts, int to, const std::string& path) {
  if (S_ISSOCK(facts.st_mode)) return {};
  TRY(meter_.add_entry());
  if (is_whiteout(facts)) return make_whiteout(to, name);
  if (!S_ISREG(facts.st_mode) || facts.st_nlink < 2) {
    return copy_entry(source.folder.get(), name, facts, to, meter_);
  }
  const Inode inode{source.layer, facts.st_dev, facts.st_ino};
  if (TRY(linked(inode, to, name))) return {};
  TRY(copy_entry(source.folder.get(), name, facts, to, meter_));
  // Where the table is full the names become files of their own: larger, and not wrong.
  if (link_bytes_ + path.size() > kTableBytesMax) return {};
  link_bytes_ += path.size() + sizeof(Inode);
  links_.emplace(inode, path);
  return {};
}

Result<bool> Flattener::linked(const Inode& inode, int to, const std::string& name) {
  const auto known = links_.find(inode);
  if (known == links_.end()) return false;
  const std::size_t slash = known->second.rfind('/');
  const bool top = slash == std::string::npos;
  const std::string first = top ? known->second : known->second.substr(slash + 1);
  const UniqueFd folder =
      TRY(open_path(part_out_, top ? "" : known->second.substr(0, slash), Links::Refused));
  if (::linkat(folder.get(), first.c_str(), to, name.c_str(), 0) == 0) return true;
  return sys_failure("link '" + name + "'", errno);
}

}  // namespace

Result<wire::LayerDone> flatten_job(const Work& work, Meter& meter) {
  const std::vector<UniqueFd> layers = TRY(open_layers(work.layer_root, "in", work.job.layers));
  const UniqueFd out = TRY(open_folder(work.layer_root, "out"));
  Flattener flattener(meter, (work.job.flags & wire::kJobOpaque) != 0);
  for (const std::string& name : TRY(list_parts(layers))) {
    TRY(flattener.part(layers, name, out.get()));
  }
  return meter.done();
}

}  // namespace caisson::layer
