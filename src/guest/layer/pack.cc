#include "guest/layer/pack.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "guest/layer/parts.h"
#include "guest/layer/tar_writer.h"
#include "guest/layer/tree.h"

namespace caisson::layer {
namespace {

class Packer {
 public:
  Packer(int fd, Meter& meter) : meter_(meter), writer_(fd, meter), buffer_(kPieceBytes) {}

  // The part's own folder, at its place, and what is in it; `covered` are the names at its top that
  // other parts stand for.
  Result<void> part(int folder, const std::string& path, std::set<std::string> covered);
  Result<std::array<std::uint8_t, 32>> finish() { return writer_.finish(); }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1024} * 1024;

  Result<void> put_folder(int folder, const std::string& path, std::size_t depth);
  Result<void> put_entry(int folder, const std::string& name, const std::string& parent,
                         std::size_t depth);
  Result<void> put_file(int folder, const std::string& name, const struct stat& facts,
                        TarItem item);
  Result<void> put_mark(const std::string& path);
  bool put_as_link(const struct stat& facts, TarItem& item);

  Meter& meter_;
  TarWriter writer_;
  std::vector<std::byte> buffer_;
  std::set<std::string> covered_;
  std::map<std::pair<dev_t, ino_t>, std::string> links_;
  std::size_t link_bytes_ = 0;
};

TarItem item_of(const struct stat& facts, std::string name) {
  TarItem item;
  item.name = std::move(name);
  item.mode = facts.st_mode & 07777U;
  item.uid = facts.st_uid;
  item.gid = facts.st_gid;
  item.mtime = facts.st_mtim;
  return item;
}

Result<void> Packer::part(int folder, const std::string& path, std::set<std::string> covered) {
  covered_ = std::move(covered);
  links_.clear();
  link_bytes_ = 0;
  return put_folder(folder, path, path.empty() ? 0 : 1);
}

// `path` is "" for the root.
Result<void> Packer::put_folder(int folder, const std::string& path, std::size_t depth) {
  if (depth > kDepthMax) {
    return failure(Errc::InvalidArgument,
                   "'" + path + "' is more than " + std::to_string(kDepthMax) + " folders deep");
  }
  struct stat facts{};
  if (::fstat(folder, &facts) != 0) return sys_failure("look at '" + path + "'", errno);
  Attributes attributes = TRY(read_attributes(folder));
  TarItem item = item_of(facts, path.empty() ? "./" : path + "/");
  item.type = '5';
  item.attributes = std::move(attributes.kept);
  TRY(meter_.add_entry());
  TRY(writer_.begin(item));
  const std::string inside = path.empty() ? "" : path + "/";
  if (attributes.opaque && !path.empty()) TRY(put_mark(inside + ".wh..wh..opq"));
  for (const std::string& name : TRY(list_folder(folder, meter_.job().entries_max))) {
    if (path.empty() && covered_.contains(name)) continue;
    TRY(put_entry(folder, name, inside, depth));
  }
  return {};
}

Result<void> Packer::put_entry(int folder, const std::string& name, const std::string& parent,
                               std::size_t depth) {
  const std::string path = parent + name;
  const std::optional<struct stat> facts = TRY(find_entry(folder, name));
  if (!facts) return failure(Errc::Internal, "'" + path + "' went away");
  if (is_whiteout(*facts)) return put_mark(parent + ".wh." + name);
  // In an archive this name would hide another file.
  if (name.starts_with(".wh.")) {
    return failure(Errc::InvalidArgument,
                   "'" + path + "' cannot be packed: in an image such a name hides a file");
  }
  if (path.size() > kPathBytesMax) {
    return failure(Errc::InvalidArgument, "a name has " + std::to_string(path.size()) +
                                              " bytes, at most " + std::to_string(kPathBytesMax));
  }
  if (S_ISDIR(facts->st_mode)) {
    const UniqueFd inner = TRY(open_folder(folder, name));
    return put_folder(inner.get(), path, depth + 1);
  }
  TarItem item = item_of(*facts, path);
  if (S_ISREG(facts->st_mode)) return put_file(folder, name, *facts, std::move(item));
  if (S_ISLNK(facts->st_mode)) {
    item.type = '2';
    item.mode = 0777;
    item.link = TRY(read_link(folder, name));
  } else if (S_ISFIFO(facts->st_mode)) {
    item.type = '6';
  } else {
    return {};  // a socket means something to a living process only
  }
  TRY(meter_.add_entry());
  return writer_.begin(item);
}

Result<void> Packer::put_file(int folder, const std::string& name, const struct stat& facts,
                              TarItem item) {
  TRY(meter_.add_entry());
  if (put_as_link(facts, item)) return writer_.begin(item);
  const UniqueFd file = TRY(open_file(folder, name));
  Attributes attributes = TRY(read_attributes(file.get()));
  item.attributes = std::move(attributes.kept);
  item.size = static_cast<std::uint64_t>(facts.st_size);
  // Before anything is read: a file of holes may claim any size.
  if (item.size > meter_.job().bytes_max) {
    return failure(Errc::TooLarge,
                   "'" + item.name + "' has " + std::to_string(item.size) + " bytes");
  }
  TRY(writer_.begin(item));
  for (std::uint64_t left = item.size; left != 0;) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left, buffer_.size()));
    const ssize_t got = ::read(file.get(), buffer_.data(), want);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read '" + item.name + "'", errno);
    if (got == 0) return failure(Errc::Internal, "'" + item.name + "' became shorter");
    TRY(writer_.content(std::span(buffer_).first(static_cast<std::size_t>(got))));
    left -= static_cast<std::uint64_t>(got);
    meter_.add_in(static_cast<std::uint64_t>(got));
  }
  return writer_.end_content();
}

// The second name of a file, as a link to the first.
bool Packer::put_as_link(const struct stat& facts, TarItem& item) {
  if (facts.st_nlink < 2) return false;
  const auto [known, is_first] = links_.try_emplace({facts.st_dev, facts.st_ino}, item.name);
  if (is_first) {
    link_bytes_ += item.name.size() + sizeof(*known);
    // Where the table is full the names become files of their own: larger, and not wrong.
    if (link_bytes_ > kTableBytesMax) links_.erase(known);
    return false;
  }
  item.type = '1';
  item.link = known->second;
  return true;
}

// A whiteout says all by its name; the rest is the same in each.
Result<void> Packer::put_mark(const std::string& path) {
  TarItem item;
  item.name = path;
  TRY(meter_.add_entry());
  return writer_.begin(item);
}

}  // namespace

Result<wire::LayerDone> pack_job(const Work& work, Meter& meter) {
  if (work.job.layers != 1) {
    return failure(Errc::InvalidArgument,
                   "a layer is packed alone, and the job has " + std::to_string(work.job.layers));
  }
  const std::vector<UniqueFd> layers = TRY(open_layers(work.layer_root, "in", 1));
  const std::vector<std::string> parts = TRY(list_parts(layers));
  std::set<std::string> covered;
  for (const std::string& part : parts) {
    if (part != wire::kPartRoot) covered.emplace(top_of_part(part));
  }
  Packer packer(work.descriptor, meter);
  for (const std::string& part : parts) {
    const UniqueFd folder = TRY(open_folder(layers[0].get(), part));
    TRY(packer.part(folder.get(), std::string(top_of_part(part)), covered));
  }
  const std::array<std::uint8_t, 32> digest = TRY(packer.finish());
  wire::LayerDone done = meter.done();
  std::ranges::copy(digest, done.digest);
  return done;
}

}  // namespace caisson::layer
