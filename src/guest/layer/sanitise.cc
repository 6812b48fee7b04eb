#include "guest/layer/sanitise.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guest/layer/tar_reader.h"
#include "guest/layer/tar_writer.h"

namespace caisson::layer {
namespace {

constexpr std::size_t kShownBytesMax = 256;  // of a name, so that the reason behind it is seen too
constexpr std::uint32_t kParentMode = 0755;

std::string shown(const std::string& name) {
  return "'" + name.substr(0, kShownBytesMax) + (name.size() > kShownBytesMax ? "…'" : "'");
}

std::unexpected<Error> refused(const std::string& name, const std::string& why) {
  return failure(Errc::InvalidArgument, "the member " + shown(name) + " " + why);
}

// The next part of a path that says something; "" and "." do not. Nothing at the end.
std::optional<std::string_view> next_part(std::string_view& rest) {
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!part.empty() && part != ".") return part;
  }
  return std::nullopt;
}

std::string_view parent_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

struct timespec tame_time(const struct timespec& time, const struct timespec& now) {
  if (time.tv_sec < 0) return {};
  const bool ahead =
      time.tv_sec > now.tv_sec || (time.tv_sec == now.tv_sec && time.tv_nsec > now.tv_nsec);
  return ahead ? now : time;
}

class Sanitiser {
 public:
  Sanitiser(ArchiveStream& stream, std::uint64_t archive_bytes, int output, Meter& meter)
      : stream_(stream),
        archive_bytes_(archive_bytes),
        reader_(stream, Origin::Anybody),
        writer_(output, meter, Hashing::Unwanted),
        meter_(meter) {
    ::clock_gettime(CLOCK_REALTIME, &now_);
  }

  Result<wire::LayerDone> run();

 private:
  // What stands at a path now; the mode says what it is.
  struct Kept {
    std::uint32_t mode;
    std::uint64_t size;
    std::uint64_t offset;
  };

  Result<void> take(const TarEntry& entry);
  [[nodiscard]] bool is_wanted(const TarEntry& entry) const;
  [[nodiscard]] bool may_stand(const TarEntry& entry, const std::string& path) const;
  [[nodiscard]] bool has_way(std::string_view folder) const;
  bool stays_inside(const std::string& path, std::string_view target);
  [[nodiscard]] bool is_link(std::string_view path) const;

  Result<void> put_parents(const std::string& path, const struct timespec& mtime);
  Result<void> put_folder(const std::string& path, std::uint32_t mode,
                          const struct timespec& mtime);
  Result<void> put_file(const TarEntry& entry, const std::string& path);
  Result<void> put_link(const TarEntry& entry, const std::string& path);
  Result<void> copy(const TarEntry& entry);
  Result<void> copy_bytes(const TarEntry& entry, std::uint64_t size);
  Result<void> put_zeros(std::uint64_t size);
  Result<void> check_holes(const TarEntry& entry) const;
  Result<void> keep(const std::string& path, const Kept& kept);

  ArchiveStream& stream_;
  std::uint64_t archive_bytes_;
  TarReader reader_;
  TarWriter writer_;
  Meter& meter_;
  struct timespec now_{};
  std::map<std::string, Kept, std::less<>> kept_;
  // Paths that a kept link goes through and back up from. As links they would lead that link
  // elsewhere than its text says, so they may not become any.
  std::set<std::string, std::less<>> pinned_;
  std::string folder_;  // the last one that is known to be reached through folders only
  std::size_t name_bytes_ = 0;
  std::uint64_t left_out_ = 0;
};

Result<wire::LayerDone> Sanitiser::run() {
  for (;;) {
    const std::optional<TarEntry> entry = TRY(reader_.next());
    if (!entry) break;
    meter_.set_in(stream_.bytes_in());
    TRY(take(*entry));
  }
  // What is packed may be cut behind the end of the tar in it, and is no whole archive then.
  TRY(stream_.drain());
  meter_.set_in(stream_.bytes_in());
  TRY(writer_.finish());
  for (const auto& [path, kept] : kept_) {
    TRY(meter_.teller().entry({.mode = kept.mode, .size = kept.size, .offset = kept.offset}, path));
  }
  wire::LayerDone done = meter_.done();
  done.entries = kept_.size();
  done.conflicts = left_out_;
  return done;
}

Result<void> Sanitiser::take(const TarEntry& entry) {
  // A volume's label and the like: what stands in place of its name is none.
  const bool named = entry.kind != TarKind::Other;
  const std::string path = named ? TRY(clean_member(entry.name)) : "";
  if (path.empty()) {
    if (entry.kind != TarKind::Folder) ++left_out_;
    return {};
  }
  const bool stays = is_wanted(entry) && may_stand(entry, path) &&
                     (entry.kind != TarKind::Link || stays_inside(path, entry.link));
  if (!stays) {
    ++left_out_;
    return {};
  }
  const struct timespec mtime = tame_time(entry.mtime, now_);
  TRY(put_parents(path, mtime));
  if (entry.kind == TarKind::Folder) return put_folder(path, tame_mode(entry.mode, true), mtime);
  return entry.kind == TarKind::Link ? put_link(entry, path) : put_file(entry, path);
}

bool Sanitiser::is_wanted(const TarEntry& entry) const {
  if (entry.kind == TarKind::Link) return (meter_.job().flags & wire::kJobNoLinks) == 0;
  return entry.kind == TarKind::File || entry.kind == TarKind::Folder;
}

// Whether its place is free for it, by what came before.
bool Sanitiser::may_stand(const TarEntry& entry, const std::string& path) const {
  const std::string_view parent = parent_of(path);
  if (parent != folder_ && !has_way(parent)) return false;
  if (entry.kind == TarKind::Link && pinned_.contains(path)) return false;
  const auto there = kept_.find(path);
  if (there == kept_.end()) return true;
  if (entry.kind == TarKind::Link || S_ISLNK(there->second.mode)) return false;
  return entry.kind == TarKind::Folder || S_ISREG(there->second.mode);
}

// Whether each step on the way is a folder, or nothing yet.
bool Sanitiser::has_way(std::string_view folder) const {
  for (std::size_t at = 0; at < folder.size();) {
    const std::size_t end = std::min(folder.find('/', at), folder.size());
    const auto step = kept_.find(folder.substr(0, end));
    if (step == kept_.end()) return true;  // and so nothing is below it
    if (!S_ISDIR(step->second.mode)) return false;
    at = end + 1;
  }
  return true;
}

bool Sanitiser::is_link(std::string_view path) const {
  const auto there = kept_.find(path);
  return there != kept_.end() && S_ISLNK(there->second.mode);
}

// Follows the text from the link's own folder, which is reached through folders only. The last step
// may be a link, because that one stays inside too. A link before it is none that we follow; and
// where the text goes up again behind a name, that name is kept from becoming a link later.
bool Sanitiser::stays_inside(const std::string& path, std::string_view target) {
  if (target.empty() || target.starts_with('/') || target.size() > kPathBytesMax) return false;
  std::string at(parent_of(path));
  std::vector<std::string> passed;  // names since the last ".."
  std::set<std::string, std::less<>> pins;
  std::size_t steps = 0;
  for (auto part = next_part(target); part;) {
    if (++steps > kTargetStepsMax) return false;
    const auto following = next_part(target);
    if (*part == "..") {
      if (at.empty()) return false;
      at.resize(parent_of(at).size());
      for (std::string& name : passed) pins.insert(std::move(name));
      passed.clear();
    } else {
      if (!at.empty()) at += '/';
      at += *part;
      if (following && is_link(at)) return false;
      passed.push_back(at);
    }
    part = following;
  }
  // Through itself a link leads nowhere, and where it goes up again it would lead anywhere.
  if (pins.contains(path)) return false;
  for (const std::string& name : pins) {
    if (pinned_.insert(name).second) name_bytes_ += name.size();
  }
  return true;
}

Result<void> Sanitiser::put_parents(const std::string& path, const struct timespec& mtime) {
  const std::string_view parent = parent_of(path);
  if (parent == folder_) return {};
  for (std::size_t at = 0; at < parent.size();) {
    const std::size_t end = std::min(parent.find('/', at), parent.size());
    const std::string_view step = parent.substr(0, end);
    if (!kept_.contains(step)) TRY(put_folder(std::string(step), kParentMode, mtime));
    at = end + 1;
  }
  folder_ = parent;
  return {};
}

Result<void> Sanitiser::put_folder(const std::string& path, std::uint32_t mode,
                                   const struct timespec& mtime) {
  TarItem item;
  item.name = path + "/";
  item.type = '5';
  item.mode = mode;
  item.mtime = mtime;
  TRY(meter_.add_entry());
  TRY(writer_.begin(item));
  return keep(path, {S_IFDIR | mode, 0, 0});
}

Result<void> Sanitiser::put_link(const TarEntry& entry, const std::string& path) {
  TarItem item;
  item.name = path;
  item.link = entry.link;
  item.type = '2';
  item.mode = 0777;
  item.mtime = tame_time(entry.mtime, now_);
  TRY(meter_.add_entry());
  TRY(writer_.begin(item));
  return keep(path, {S_IFLNK | item.mode, item.link.size(), writer_.link_position()});
}

Result<void> Sanitiser::put_file(const TarEntry& entry, const std::string& path) {
  TarItem item;
  item.name = path;
  item.mode = tame_mode(entry.mode, false);
  item.size = entry.size;
  item.mtime = tame_time(entry.mtime, now_);
  if (entry.sparse) TRY(check_holes(entry));
  TRY(meter_.add_entry());
  TRY(writer_.begin(item));
  TRY(keep(path, {S_IFREG | item.mode, item.size, writer_.position()}));
  TRY(copy(entry));
  return writer_.end_content();
}

// Holes cost their writer nothing, so they have to fit before the first zero is written: within the
// limits that decompressed bytes have.
Result<void> Sanitiser::check_holes(const TarEntry& entry) const {
  const wire::Job& job = meter_.job();
  const std::uint64_t before = writer_.position();
  if (entry.size > job.bytes_max || before > job.bytes_max - entry.size) {
    return failure(Errc::TooLarge,
                   "the sparse file " + shown(entry.name) + " has " + std::to_string(entry.size) +
                       " bytes, and the archive at most " + std::to_string(job.bytes_max));
  }
  const std::uint64_t after = before + entry.size;
  const bool bomb =
      job.ratio_max != 0 && after > kRatioFreeBytes && after / job.ratio_max > archive_bytes_;
  if (!bomb) return {};
  return failure(Errc::TooLarge, "the sparse file " + shown(entry.name) +
                                     " makes the archive more than " +
                                     std::to_string(job.ratio_max) + " times its size");
}

Result<void> Sanitiser::copy(const TarEntry& entry) {
  if (!entry.sparse) return copy_bytes(entry, entry.size);
  std::uint64_t at = 0;
  for (const TarRegion& region : entry.regions) {
    TRY(put_zeros(region.offset - at));
    TRY(copy_bytes(entry, region.size));
    at = region.offset + region.size;
  }
  return put_zeros(entry.size - at);
}

Result<void> Sanitiser::copy_bytes(const TarEntry& entry, std::uint64_t size) {
  while (size != 0) {
    const auto bytes = reader_.content(size);
    if (!bytes) return std::unexpected(bytes.error().within(shown(entry.name)));
    TRY(writer_.content(*bytes));
    size -= bytes->size();
  }
  return {};
}

Result<void> Sanitiser::put_zeros(std::uint64_t size) {
  static constexpr std::array<std::byte, 64UL * 1024> kZeros{};
  while (size != 0) {
    const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(size, kZeros.size()));
    TRY(writer_.content(std::span(kZeros).first(part)));
    size -= part;
  }
  return {};
}

Result<void> Sanitiser::keep(const std::string& path, const Kept& kept) {
  if (kept_.insert_or_assign(path, kept).second) name_bytes_ += path.size();
  if (name_bytes_ <= kTableBytesMax) return {};
  return failure(Errc::TooLarge, "the archive's names have more than " +
                                     std::to_string(kTableBytesMax) + " bytes together");
}

}  // namespace

Result<std::string> clean_member(const std::string& name) {
  std::string_view rest = name;
  while (rest.starts_with("./")) rest.remove_prefix(2);
  if (rest.starts_with('/')) return refused(name, "has an absolute name");
  if (rest.find('\0') != std::string_view::npos) return refused(name, "has a NUL in its name");
  std::string path;
  std::size_t depth = 0;
  for (auto part = next_part(rest); part; part = next_part(rest)) {
    if (*part == "..") return refused(name, "has a '..' in its name");
    if (part->size() > kNameBytesMax) {
      return refused(name, "has a name of " + std::to_string(part->size()) + " bytes, at most " +
                               std::to_string(kNameBytesMax));
    }
    if (!path.empty()) path += '/';
    path += *part;
    ++depth;
  }
  if (depth > kMemberDepthMax) {
    return refused(name, "is " + std::to_string(depth) + " folders deep, at most " +
                             std::to_string(kMemberDepthMax));
  }
  if (path.size() > kMemberBytesMax) {
    return refused(name, "has a path of " + std::to_string(path.size()) + " bytes, at most " +
                             std::to_string(kMemberBytesMax));
  }
  return path;
}

std::uint32_t tame_mode(std::uint32_t mode, bool folder) noexcept {
  const std::uint32_t readable = (mode & 0777U) | 0644U;
  return folder || (mode & 0111U) != 0 ? readable | 0111U : readable;
}

Result<wire::LayerDone> sanitise_job(const Work& work, Meter& meter) {
  struct stat archive{};
  if (::fstat(work.descriptor, &archive) != 0 || !S_ISREG(archive.st_mode)) {
    return failure(Errc::InvalidArgument, "the archive is not a regular file");
  }
  struct stat output{};
  if (::fstat(work.output, &output) != 0 || !S_ISREG(output.st_mode) || output.st_size != 0) {
    return failure(Errc::InvalidArgument, "what is to be written is not an empty regular file");
  }
  // Both may have been in somebody's hands before.
  if (::lseek(work.descriptor, 0, SEEK_SET) != 0 || ::lseek(work.output, 0, SEEK_SET) != 0) {
    return sys_failure("seek", errno);
  }
  ArchiveStream stream(work.descriptor, {work.job.bytes_max, work.job.ratio_max}, Origin::Anybody);
  Sanitiser sanitiser(stream, static_cast<std::uint64_t>(archive.st_size), work.output, meter);
  return sanitiser.run();
}

}  // namespace caisson::layer
