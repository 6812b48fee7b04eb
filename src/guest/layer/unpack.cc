#include "guest/layer/unpack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "guest/layer/tar_reader.h"
#include "guest/layer/tree.h"

namespace caisson::layer {
namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kMeta = ".wh..wh.";  // what aufs kept for itself
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::uint32_t kModeMask =
    01777;  // no setuid, no setgid: nothing of an image may use them

std::unexpected<Error> refused(const TarEntry& entry, const std::string& why) {
  return failure(Errc::InvalidArgument, "'" + entry.name + "' " + why);
}

std::string join(std::span<const std::string> parts) {
  std::string path;
  for (const std::string& part : parts) {
    if (!path.empty()) path += '/';
    path += part;
  }
  return path;
}

class Unpacker {
 public:
  Unpacker(ArchiveStream& stream, int root, Meter& meter)
      : stream_(stream), reader_(stream), root_(root), meter_(meter) {}

  Result<void> run() {
    for (;;) {
      const std::optional<TarEntry> entry = TRY(reader_.next());
      if (!entry) break;
      meter_.set_in(stream_.bytes_in());
      TRY(take(*entry));
    }
    TRY(set_folder_times());
    TRY(stream_.drain());
    meter_.set_in(stream_.bytes_in());
    return {};
  }

 private:
  struct FolderTime {
    std::string path;
    struct timespec mtime;
  };

  Result<void> take(const TarEntry& entry);
  Result<void> take_root(const TarEntry& entry);
  Result<void> take_whiteout(const TarEntry& entry, int parent, const std::string& name);
  Result<void> make(const TarEntry& entry, int parent, const std::string& name);
  Result<void> make_file(const TarEntry& entry, int parent, const std::string& name);
  Result<void> make_folder(const TarEntry& entry, int parent, const std::string& name);
  Result<void> make_link(const TarEntry& entry, int parent, const std::string& name);
  Result<void> make_hard_link(const TarEntry& entry, int parent, const std::string& name);
  Result<void> make_fifo(const TarEntry& entry, int parent, const std::string& name);
  Result<void> write_content(const TarEntry& entry, int file);
  Result<void> write_region(int file, std::uint64_t offset, std::uint64_t size);
  Result<void> dress(const TarEntry& entry, int fd);

  Result<int> parent_of(const TarEntry& entry, std::span<const std::string> parts);
  Result<UniqueFd> make_parents(const TarEntry& entry, std::span<const std::string> parts);
  Result<void> clear(int parent, const std::string& name);
  Result<void> remember_time(const TarEntry& entry);
  Result<void> set_folder_times();

  ArchiveStream& stream_;
  TarReader reader_;
  int root_;
  Meter& meter_;
  std::string path_;         // of the entry at hand, as a path
  std::string parent_path_;  // of the folder that parent_ is
  UniqueFd parent_;
  std::vector<FolderTime> folder_times_;
  std::size_t folder_bytes_ = 0;
};

Result<void> check_owner(const TarEntry& entry) {
  if (entry.uid < 0 || entry.uid > kOwnerMax) {
    return refused(entry, "belongs to the user " + std::to_string(entry.uid) +
                              ", which is not in 0…" + std::to_string(kOwnerMax));
  }
  if (entry.gid < 0 || entry.gid > kOwnerMax) {
    return refused(entry, "belongs to the group " + std::to_string(entry.gid) +
                              ", which is not in 0…" + std::to_string(kOwnerMax));
  }
  return {};
}

Result<void> Unpacker::take(const TarEntry& entry) {
  const std::vector<std::string> parts = TRY(split_path(entry.name));
  if (parts.empty()) return take_root(entry);
  const std::span<const std::string> folders = std::span(parts).first(parts.size() - 1);
  const std::string& name = parts.back();
  for (const std::string& folder : folders) {
    if (folder.starts_with(kMeta)) return {};
    if (folder.starts_with(kWhiteout)) return refused(entry, "lies in a whiteout");
  }
  const bool device = entry.kind == TarKind::CharDevice || entry.kind == TarKind::BlockDevice;
  if (device) {
    // 0:0 is an overlay's own whiteout. Others are common in images, and of no use in a sandbox.
    const bool hides =
        entry.kind == TarKind::CharDevice && entry.device_major == 0 && entry.device_minor == 0;
    return hides ? refused(entry, "is the device 0:0, which hides files") : Result<void>{};
  }
  if (name.starts_with(kMeta) && name != kOpaque) return {};
  TRY(check_owner(entry));
  path_ = join(parts);
  const int parent = TRY(parent_of(entry, folders));
  if (name.starts_with(kWhiteout)) return take_whiteout(entry, parent, name);
  TRY(meter_.add_entry());
  return make(entry, parent, name);
}

// The root itself can be dressed, and nothing else: as a link it would lead everything elsewhere.
Result<void> Unpacker::take_root(const TarEntry& entry) {
  if (entry.kind != TarKind::Folder) return refused(entry, "is the root, and not a folder");
  TRY(check_owner(entry));
  TRY(dress(entry, root_));
  path_.clear();
  return remember_time(entry);
}

// A whiteout hides what lower layers have. What this layer has of the same name stays, whichever of
// the two came first; a folder then begins anew, so it is opaque.
Result<void> Unpacker::take_whiteout(const TarEntry& entry, int parent, const std::string& name) {
  if (entry.kind != TarKind::File) return refused(entry, "is a whiteout, and not a file");
  if (name == kOpaque) {
    if (parent_path_.empty()) return refused(entry, "hides the whole root, which no layer may");
    TRY(meter_.add_entry());
    return mark_opaque(parent);
  }
  const std::string hidden = name.substr(kWhiteout.size());
  if (hidden.empty() || hidden == "." || hidden == "..") {
    return refused(entry, "is a whiteout of nothing");
  }
  TRY(meter_.add_entry());
  const std::optional<struct stat> there = TRY(find_entry(parent, hidden));
  if (!there) return make_whiteout(parent, hidden);
  if (!S_ISDIR(there->st_mode)) return {};
  const UniqueFd folder = TRY(open_folder(parent, hidden));
  return mark_opaque(folder.get());
}

Result<void> Unpacker::make(const TarEntry& entry, int parent, const std::string& name) {
  switch (entry.kind) {
    case TarKind::File:
      return make_file(entry, parent, name);
    case TarKind::Folder:
      return make_folder(entry, parent, name);
    case TarKind::Link:
      return make_link(entry, parent, name);
    case TarKind::HardLink:
      return make_hard_link(entry, parent, name);
    case TarKind::Fifo:
      return make_fifo(entry, parent, name);
    case TarKind::CharDevice:
    case TarKind::BlockDevice:
    case TarKind::Other:
      break;
  }
  return {};
}

Result<void> Unpacker::make_file(const TarEntry& entry, int parent, const std::string& name) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd file(::openat(parent, name.c_str(), kFlags, 0600));
  if (!file && errno == EEXIST) {
    TRY(clear(parent, name));
    file = UniqueFd(::openat(parent, name.c_str(), kFlags, 0600));
  }
  if (!file) return sys_failure("make '" + entry.name + "'", errno);
  TRY(write_content(entry, file.get()));
  TRY(dress(entry, file.get()));
  return set_times(file.get(), entry.mtime);
}

Result<void> Unpacker::write_content(const TarEntry& entry, int file) {
  // Holes count too: whoever copies the file elsewhere may have to write them.
  TRY(meter_.add_out(entry.size));
  if (entry.sparse) {
    for (const TarRegion& region : entry.regions) {
      TRY(write_region(file, region.offset, region.size));
    }
    if (::ftruncate(file, static_cast<off_t>(entry.size)) == 0) return {};
    return sys_failure("make '" + entry.name + "'", errno);
  }
  for (;;) {
    const std::span<const std::byte> bytes = TRY(reader_.content());
    if (bytes.empty()) return {};
    TRY(write_all(file, bytes));
  }
}

Result<void> Unpacker::write_region(int file, std::uint64_t offset, std::uint64_t size) {
  if (::lseek(file, static_cast<off_t>(offset), SEEK_SET) < 0) return sys_failure("seek", errno);
  while (size != 0) {
    const std::span<const std::byte> bytes = TRY(reader_.content(size));
    TRY(write_all(file, bytes));
    size -= bytes.size();
  }
  return {};
}

Result<void> Unpacker::make_folder(const TarEntry& entry, int parent, const std::string& name) {
  bool opaque = false;
  if (::mkdirat(parent, name.c_str(), 0700) != 0) {
    if (errno != EEXIST) return sys_failure("make '" + entry.name + "'", errno);
    const std::optional<struct stat> there = TRY(find_entry(parent, name));
    // A folder that is there already keeps what is in it.
    if (!there || !S_ISDIR(there->st_mode)) {
      opaque = there && is_whiteout(*there);
      TRY(clear(parent, name));
      if (::mkdirat(parent, name.c_str(), 0700) != 0) {
        return sys_failure("make '" + entry.name + "'", errno);
      }
    }
  }
  const UniqueFd folder = TRY(open_folder(parent, name));
  if (opaque) TRY(mark_opaque(folder.get()));
  TRY(dress(entry, folder.get()));
  return remember_time(entry);
}

Result<void> Unpacker::make_link(const TarEntry& entry, int parent, const std::string& name) {
  const bool fits = !entry.link.empty() && entry.link.size() <= kPathBytesMax &&
                    entry.link.find('\0') == std::string::npos;
  if (!fits) return refused(entry, "is a link without a good target");
  if (::symlinkat(entry.link.c_str(), parent, name.c_str()) != 0) {
    if (errno != EEXIST) return sys_failure("make '" + entry.name + "'", errno);
    TRY(clear(parent, name));
    if (::symlinkat(entry.link.c_str(), parent, name.c_str()) != 0) {
      return sys_failure("make '" + entry.name + "'", errno);
    }
  }
  TRY(set_entry_owner(parent, name, static_cast<std::uint32_t>(entry.uid),
                      static_cast<std::uint32_t>(entry.gid)));
  return set_entry_times(parent, name, entry.mtime);
}

Result<void> Unpacker::make_hard_link(const TarEntry& entry, int parent, const std::string& name) {
  const std::vector<std::string> target = TRY(split_path(entry.link));
  if (target.empty()) return refused(entry, "is a hard link to the root");
  const Result<UniqueFd> folder =
      open_path(root_, join(std::span(target).first(target.size() - 1)), Links::Refused);
  const Result<std::optional<struct stat>> facts =
      folder ? find_entry(folder->get(), target.back()) : std::optional<struct stat>();
  if (!facts || !*facts || !S_ISREG((*facts)->st_mode)) {
    return refused(entry, "is a hard link to '" + entry.link + "', which is no file of this layer");
  }
  const std::optional<struct stat> there = TRY(find_entry(parent, name));
  if (there) {
    const bool same = there->st_dev == (*facts)->st_dev && there->st_ino == (*facts)->st_ino;
    if (same) return {};
    // A folder that stands in the way could hold the very file.
    if (S_ISDIR(there->st_mode)) return refused(entry, "is a hard link in the place of a folder");
    TRY(clear(parent, name));
  }
  if (::linkat(folder->get(), target.back().c_str(), parent, name.c_str(), 0) == 0) return {};
  return sys_failure("link '" + entry.name + "'", errno);
}

Result<void> Unpacker::make_fifo(const TarEntry& entry, int parent, const std::string& name) {
  const mode_t mode = S_IFIFO | 0600;
  if (::mknodat(parent, name.c_str(), mode, 0) != 0) {
    if (errno != EEXIST) return sys_failure("make '" + entry.name + "'", errno);
    TRY(clear(parent, name));
    if (::mknodat(parent, name.c_str(), mode, 0) != 0) {
      return sys_failure("make '" + entry.name + "'", errno);
    }
  }
  TRY(set_entry_owner(parent, name, static_cast<std::uint32_t>(entry.uid),
                      static_cast<std::uint32_t>(entry.gid)));
  // It is ours and new: nobody else can have put a link in its place.
  if (::fchmodat(parent, name.c_str(), entry.mode & kModeMask, 0) != 0) {
    return sys_failure("set the mode of '" + entry.name + "'", errno);
  }
  return set_entry_times(parent, name, entry.mtime);
}

Result<void> Unpacker::dress(const TarEntry& entry, int fd) {
  TRY(write_attributes(fd, entry.attributes));
  return set_owner(fd, static_cast<std::uint32_t>(entry.uid), static_cast<std::uint32_t>(entry.gid),
                   entry.mode & kModeMask);
}

// Most entries lie in the folder of the one before them, so it stays open.
Result<int> Unpacker::parent_of(const TarEntry& entry, std::span<const std::string> parts) {
  const std::string path = join(parts);
  if (parent_ && path == parent_path_) return parent_.get();
  Result<UniqueFd> found = open_path(root_, path, Links::InRoot);
  if (!found) found = make_parents(entry, parts);
  if (!found) return std::unexpected(found.error());
  parent_ = std::move(*found);
  parent_path_ = path;
  return parent_.get();
}

// Step by step from the root, links included: what is missing becomes a folder of root's.
Result<UniqueFd> Unpacker::make_parents(const TarEntry& entry, std::span<const std::string> parts) {
  UniqueFd at = TRY(open_path(root_, "", Links::InRoot));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Result<UniqueFd> next = open_path(root_, join(parts.first(i + 1)), Links::InRoot);
    if (!next) {
      const std::optional<struct stat> there = TRY(find_entry(at.get(), parts[i]));
      const bool hidden = there && is_whiteout(*there);
      if (there && !hidden) return refused(entry, "lies in '" + parts[i] + "', which is no folder");
      TRY(meter_.add_entry());
      if (hidden) TRY(clear(at.get(), parts[i]));
      if (::mkdirat(at.get(), parts[i].c_str(), 0755) != 0) {
        return sys_failure("make the folder '" + parts[i] + "'", errno);
      }
      next = open_folder(at.get(), parts[i]);
      if (!next) return next;
      if (hidden) TRY(mark_opaque(next->get()));
      TRY(set_owner(next->get(), 0, 0, 0755));
    }
    at = std::move(*next);
  }
  return at;
}

Result<void> Unpacker::clear(int parent, const std::string& name) {
  TRY(remove_entry(parent, name));
  // The folder of the last entries may have gone with it, or a link that led there. The descriptor
  // stays open for who uses it now; the name is forgotten.
  parent_path_ = "/";
  return {};
}

// A folder's time changes with each entry in it, so it is set last.
Result<void> Unpacker::remember_time(const TarEntry& entry) {
  folder_bytes_ += path_.size() + sizeof(FolderTime);
  if (folder_bytes_ > kTableBytesMax) {
    return failure(Errc::TooLarge, "the archive has too many folders with long names");
  }
  folder_times_.push_back({path_, entry.mtime});
  return {};
}

Result<void> Unpacker::set_folder_times() {
  for (const FolderTime& one : folder_times_) {
    // What has become something else since has its own time.
    const Result<UniqueFd> folder = open_path(root_, one.path, Links::InRoot);
    if (folder) TRY(set_times(folder->get(), one.mtime));
  }
  return {};
}

}  // namespace

Result<void> unpack(ArchiveStream& stream, int root, Meter& meter) {
  return Unpacker(stream, root, meter).run();
}

Result<wire::LayerDone> unpack_job(const Work& work, Meter& meter) {
  struct stat facts{};
  if (::fstat(work.descriptor, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return failure(Errc::InvalidArgument, "the archive is not a regular file");
  }
  const UniqueFd out = TRY(open_folder(work.layer_root, "out"));
  if (::mkdirat(out.get(), wire::kPartRoot, 0755) != 0) return sys_failure("make the root", errno);
  const UniqueFd root = TRY(open_folder(out.get(), wire::kPartRoot));
  TRY(set_owner(root.get(), 0, 0, 0755));
  ArchiveStream stream(work.descriptor, {work.job.bytes_max, work.job.ratio_max});
  TRY(unpack(stream, root.get(), meter));
  wire::LayerDone done = meter.done();
  const std::array<std::uint8_t, 32> digest = stream.digest();
  std::ranges::copy(digest, done.digest);
  return done;
}

}  // namespace caisson::layer
