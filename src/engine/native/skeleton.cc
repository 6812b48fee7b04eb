#include "engine/native/skeleton.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <iterator>
#include <string_view>

#include "base/id.h"
#include "base/unique_fd.h"
#include "engine/native/trash.h"
#include "sys/file.h"

namespace caisson::engine::native {
namespace {

constexpr std::string_view kFormat = "2";  // change it when what is written below changes
constexpr std::size_t kCopiedFilesMax = 20'000;
constexpr std::uint64_t kCopiedBytesMax = 64ULL << 20U;
constexpr int kCopiedDepthMax = 8;

constexpr const char* kRootNames[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

// Who needs it: the dynamic linker; update-alternatives; TLS clients; time; name look-ups without a
// network; shells; interpreters whose start-up files Debian keeps in /etc.
constexpr const char* kCopied[] = {"ld.so.cache",
                                   "ld.so.conf",
                                   "ld.so.conf.d",
                                   "alternatives",
                                   "ssl/certs",
                                   "ssl/openssl.cnf",
                                   "pki/tls/certs",
                                   "ca-certificates.conf",
                                   "localtime",
                                   "timezone",
                                   "protocols",
                                   "services",
                                   "rpc",
                                   "ethertypes",
                                   "mime.types",
                                   "magic",
                                   "host.conf",
                                   "gai.conf",
                                   "shells",
                                   "profile",
                                   "bash.bashrc",
                                   "inputrc",
                                   "terminfo",
                                   "debian_version",
                                   "os-release",
                                   "lsb-release",
                                   "fonts",
                                   "perl",
                                   "python3",
                                   "python3.11",
                                   "python3.12",
                                   "python3.13",
                                   "java-11-openjdk",
                                   "java-17-openjdk",
                                   "java-21-openjdk",
                                   "maven",
                                   "php",
                                   "R",
                                   "skel",
                                   "vim",
                                   "manpath.config",
                                   "groff"};

struct Folder {
  const char* path;
  unsigned mode;
};
constexpr Folder kFolders[] = {
    {"dev", 0755},     {"etc", 0755},     {"home", 0755},    {"media", 0755}, {"mnt", 0755},
    {"opt", 0755},     {"proc", 0555},    {"root", 0700},    {"run", 0755},   {"srv", 0755},
    {"sys", 0555},     {"tmp", 01777},    {"usr", 0755},     {"var", 0755},   {"var/cache", 0755},
    {"var/lib", 0755}, {"var/log", 0755}, {"var/tmp", 01777}};

struct Text {
  const char* path;
  const char* content;
};
constexpr Text kTexts[] = {
    {"etc/passwd",
     "root:x:0:0:root:/root:/bin/sh\n"
     "agent:x:1000:1000:agent:/workspace:/bin/sh\n"
     "nobody:x:65534:65534:nobody:/workspace:/bin/sh\n"},
    {"etc/group", "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n"},
    {"etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"},
    {"etc/hostname", "caisson\n"},
    // Nobody answers there, unless the sandbox has a way out.
    {"etc/resolv.conf", "nameserver 127.0.0.1\n"},
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n"},
    {"etc/fstab", ""},
};

// One skeleton in the making.
class Builder {
 public:
  Builder(int root, std::optional<std::uint32_t> owner) : root_(root), owner_(owner) {}

  Result<void> folder(const std::string& path, unsigned mode) {
    TRY(sys::make_dir(root_, path, 0700, sys::Existing::Accept));
    return finish(path, mode);
  }

  Result<void> text(const std::string& path, std::string_view content) {
    const UniqueFd file =
        TRY(sys::open_at(root_, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
    if (!content.empty()) TRY(sys::write_once(file.get(), content));
    return finish(path, 0644);
  }

  Result<void> link(const std::string& path, const std::string& target) {
    if (::symlinkat(target.c_str(), root_, path.c_str()) != 0)
      return sys_failure("link " + path, errno);
    return own(path);
  }

  // What the host lets everyone read; the rest of its /etc is nobody's business in here.
  Result<void> copy(int source_dir, const std::string& name, const std::string& path, int depth);

 private:
  Result<void> own(const std::string& path) {
    if (owner_ && ::fchownat(root_, path.c_str(), *owner_, *owner_, AT_SYMLINK_NOFOLLOW) != 0) {
      return sys_failure("own " + path, errno);
    }
    return {};
  }
  Result<void> finish(const std::string& path, unsigned mode) {
    TRY(own(path));
    if (::fchmodat(root_, path.c_str(), mode, 0) != 0) return sys_failure("chmod " + path, errno);
    return {};
  }
  Result<void> copy_link(int source_dir, const std::string& name, const std::string& path);
  Result<void> copy_file(int source_dir, const std::string& name, const std::string& path,
                         const struct stat& facts);
  Result<void> copy_folder(int source_dir, const std::string& name, const std::string& path,
                           int depth);

  int root_;
  std::optional<std::uint32_t> owner_;
  std::size_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

Result<void> Builder::copy_link(int source_dir, const std::string& name, const std::string& path) {
  std::array<char, 4096> target{};
  const ssize_t size = ::readlinkat(source_dir, name.c_str(), target.data(), target.size());
  if (size < 0) return sys_failure("read link " + path, errno);
  return link(path, std::string(target.data(), static_cast<std::size_t>(size)));
}

Result<void> Builder::copy_file(int source_dir, const std::string& name, const std::string& path,
                                const struct stat& facts) {
  bytes_ += static_cast<std::uint64_t>(facts.st_size);
  if (bytes_ > kCopiedBytesMax)
    return failure(Errc::Exhausted, "host skeleton: more than 64 MiB in /etc");
  const auto content = TRY(sys::read_small(source_dir, name, kCopiedBytesMax));
  return text(path, content);
}

Result<void> Builder::copy_folder(int source_dir, const std::string& name, const std::string& path,
                                  int depth) {
  if (depth > kCopiedDepthMax)
    return failure(Errc::Exhausted, "host skeleton: " + path + " is nested too deeply");
  const UniqueFd dir = TRY(sys::open_at(source_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(folder(path, 0755));
  const auto names = TRY(sys::list_dir(dir.get(), kCopiedFilesMax));
  const std::string below = path + "/";
  for (const std::string& entry : names) TRY(copy(dir.get(), entry, below + entry, depth + 1));
  return {};
}

Result<void> Builder::copy(int source_dir, const std::string& name, const std::string& path,
                           int depth) {
  struct stat facts{};
  if (::fstatat(source_dir, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0)
    return {};  // this host has none
  if (++files_ > kCopiedFilesMax)
    return failure(Errc::Exhausted, "host skeleton: more than 20000 files in /etc");
  if (S_ISLNK(facts.st_mode)) return copy_link(source_dir, name, path);
  if (S_ISDIR(facts.st_mode) && (facts.st_mode & S_IROTH) != 0)
    return copy_folder(source_dir, name, path, depth);
  if (S_ISREG(facts.st_mode) && (facts.st_mode & S_IROTH) != 0)
    return copy_file(source_dir, name, path, facts);
  return {};
}

class Fingerprint {
 public:
  void add(std::string_view bytes) noexcept {
    for (const char byte : bytes)
      value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL;
  }
  void add_file(int dir, const char* path) {
    struct stat facts{};
    add(path);
    if (::fstatat(dir, path, &facts, AT_SYMLINK_NOFOLLOW) != 0) return;
    const std::array<std::int64_t, 4> key{facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec,
                                          facts.st_size, static_cast<std::int64_t>(facts.st_mode)};
    add({reinterpret_cast<const char*>(key.data()), sizeof(key)});
  }
  [[nodiscard]] std::string hex() const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4)
      text.push_back(kDigits[(value_ >> static_cast<unsigned>(shift)) & 15U]);
    return text;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

std::string layer_name(int etc) {
  Fingerprint print;
  print.add(kFormat);
  for (const char* name : kRootNames) print.add_file(AT_FDCWD, (std::string("/") + name).c_str());
  for (const char* name : kCopied) print.add_file(etc, name);
  return "host-" + print.hex();
}

Result<void> copy_root_names(Builder& builder) {
  const UniqueFd root = TRY(sys::open_at(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY));
  for (const char* name : kRootNames) {
    struct stat facts{};
    if (::fstatat(root.get(), name, &facts, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(facts.st_mode)) {
      TRY(builder.folder(name, 0755));  // the host's own is mounted here
    } else {
      TRY(builder.copy(root.get(), name, name, 0));
    }
  }
  return {};
}

Result<void> copy_etc(Builder& builder, int etc) {
  for (const char* parent : {"etc/ssl", "etc/pki", "etc/pki/tls"})
    TRY(builder.folder(parent, 0755));
  for (const char* name : kCopied) TRY(builder.copy(etc, name, std::string("etc/") + name, 0));
  TRY(builder.link("etc/mtab", "/proc/self/mounts"));
  TRY(builder.link("var/run", "/run"));
  return builder.link("var/lock", "/run/lock");
}

Result<void> build(int root, std::optional<std::uint32_t> owner, int etc) {
  Builder builder(root, owner);
  for (const Folder& folder : kFolders) TRY(builder.folder(folder.path, folder.mode));
  TRY(copy_root_names(builder));
  for (const Text& text : kTexts) TRY(builder.text(text.path, text.content));
  TRY(copy_etc(builder, etc));
  return builder.folder(".", 0755);
}

}  // namespace

std::vector<std::string> host_system_folders() {
  std::vector<std::string> folders{"/usr"};
  for (const char* name : kRootNames) {
    struct stat facts{};
    const std::string path = std::string("/") + name;
    if (::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode)) folders.push_back(path);
  }
  return folders;
}

namespace {

// Below an image's layers would be the image's own: what every sandbox needs at a known place lies
// above them, and hides whatever an image has there, be it a link to somewhere else.
constexpr Folder kSeamFolders[] = {{"dev", 0755}, {"etc", 0755}, {"proc", 0555},
                                   {"run", 0755}, {"sys", 0555}, {"tmp", 01777}};
constexpr const char* kSeamOpaque[] = {"dev", "proc", "run", "sys", "tmp"};
constexpr std::string_view kSeamTexts[] = {"etc/hosts", "etc/hostname", "etc/resolv.conf"};
constexpr const char* kSeamName = "layers/seam-1";  // another number when what is above changes

Result<void> build_seam(int root, std::optional<std::uint32_t> owner) {
  Builder builder(root, owner);
  for (const Folder& folder : kSeamFolders) TRY(builder.folder(folder.path, folder.mode));
  for (const char* name : kSeamOpaque) {
    const UniqueFd folder = TRY(sys::open_at(root, name, O_RDONLY | O_DIRECTORY));
    if (::fsetxattr(folder.get(), "user.overlay.opaque", "y", 1, 0) != 0)
      return sys_failure(std::string("mark ") + name, errno);
  }
  for (const Text& text : kTexts) {
    if (std::ranges::find(kSeamTexts, std::string_view(text.path)) != std::end(kSeamTexts))
      TRY(builder.text(text.path, text.content));
  }
  TRY(builder.link("etc/mtab", "/proc/self/mounts"));
  return builder.folder(".", 0755);
}

using Build = std::function<Result<void>(int root)>;

// Made under another name and moved when whole: whoever looks sees all of it or none.
Result<std::string> ensure_layer(int store_dir, const std::string& layer, const Build& build) {
  std::string ready = layer + "/fs";
  if (::faccessat(store_dir, ready.c_str(), F_OK, 0) == 0) return ready;
  const UniqueFd lock = TRY(lock_trash(store_dir));
  if (::faccessat(store_dir, ready.c_str(), F_OK, 0) == 0) return ready;  // made while we waited
  const SandboxId random = TRY(SandboxId::random());
  const std::string making = "trash/making-" + random.str();
  TRY(sys::make_dir(store_dir, making, 0711, sys::Existing::Refuse));
  TRY(sys::make_dir(store_dir, making + "/fs", 0755, sys::Existing::Refuse));
  const UniqueFd root = TRY(sys::open_at(store_dir, making + "/fs", O_RDONLY | O_DIRECTORY));
  const auto built = build(root.get());
  if (built && ::renameat(store_dir, making.c_str(), store_dir, layer.c_str()) == 0) return ready;
  const int reason = errno;
  (void)sys::remove_tree(store_dir, making);
  if (!built) return std::unexpected(built.error().within("make " + layer));
  if (reason == EEXIST || reason == ENOTEMPTY) return ready;  // another launcher was first
  return sys_failure("name " + layer, reason);
}

}  // namespace

Result<std::string> ensure_host_skeleton(int store_dir, std::optional<std::uint32_t> owner) {
  const UniqueFd etc = TRY(sys::open_at(AT_FDCWD, "/etc", O_RDONLY | O_DIRECTORY));
  return ensure_layer(store_dir, "layers/" + layer_name(etc.get()),
                      [&](int root) { return build(root, owner, etc.get()); });
}

Result<std::string> ensure_image_seam(int store_dir, std::optional<std::uint32_t> owner) {
  return ensure_layer(store_dir, kSeamName, [&](int root) { return build_seam(root, owner); });
}

}  // namespace caisson::engine::native
