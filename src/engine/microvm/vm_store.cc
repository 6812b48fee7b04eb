#include "engine/microvm/vm_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/id.h"
#include "engine/microvm/cpio.h"
#include "engine/microvm/kernel_image.h"
#include "engine/microvm/sha256.h"
#include "guest/boot_blob.h"
#include "guest/init_blob.h"
#include "guest/protocol/boot_record.h"
#include "sys/file.h"

namespace caisson::engine::microvm {
namespace {

constexpr const char* kFolder = "vm";
constexpr const char* kAbout = "about";
constexpr const char* kKernel = "kernel";
constexpr const char* kModules = "modules";
constexpr const char* kDisks = "disks";
constexpr const char* kInitramfs = "initramfs-";
constexpr std::size_t kModulesBytesMax = 64UL << 20U;
constexpr std::size_t kProgramsBytesMax = 4UL << 20U;
constexpr std::size_t kEntriesMax = 4096;
constexpr std::size_t kDigestShown = 32;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

Result<void> write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return sys_failure("write a file", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

// Under another name until it is whole and on the disk.
Result<void> put_file(int folder, const std::string& name, std::span<const std::byte> content) {
  const std::string making = "making-" + TRY(SandboxId::random()).str();
  const UniqueFd file =
      TRY(sys::open_at(folder, making, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  auto put = write_all(file.get(), content);
  if (put && (::fchmod(file.get(), 0444) != 0 || ::fdatasync(file.get()) != 0 ||
              ::renameat(folder, making.c_str(), folder, name.c_str()) != 0))
    put = sys_failure("write '" + name + "'", errno);
  if (!put) (void)::unlinkat(folder, making.c_str(), 0);
  return put;
}

Result<UniqueFd> open_folder(int state_dir) {
  // Whoever knows a name may look: a server asks whether there is a kernel.
  TRY(sys::make_dir(state_dir, kFolder, 0711, sys::Existing::Accept));
  UniqueFd folder = TRY(sys::open_at(state_dir, kFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(sys::make_dir(folder.get(), kDisks, 0700, sys::Existing::Accept));
  return folder;
}

Result<void> remove_all(int folder) {
  const auto gone = [&](const char* name) -> Result<void> {
    if (::unlinkat(folder, name, 0) != 0 && errno != ENOENT)
      return sys_failure(std::string("remove ") + name, errno);
    return {};
  };
  TRY(gone(kAbout));  // first: from here on nothing is set up
  for (const std::string& name : TRY(sys::list_dir(folder, kEntriesMax))) {
    if (name != kDisks) TRY(gone(name.c_str()));
  }
  return {};
}

}  // namespace

std::string to_text(const KernelAbout& about) {
  std::string text =
      fmt::format("version {}\nrelease {}\nsource {}\nkernel {}\nmodules {}\n", kVmStoreVersion,
                  about.release, about.source, about.kernel_sha256, about.modules_sha256);
  for (const std::string& module : about.modules) text += fmt::format("module {}\n", module);
  return text;
}

Result<KernelAbout> parse_about(std::string_view text) {
  KernelAbout about;
  std::string version;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) break;
    const std::string_view key = line.substr(0, space);
    std::string value(line.substr(space + 1));
    if (key == "version") version = std::move(value);
    if (key == "release") about.release = std::move(value);
    if (key == "source") about.source = std::move(value);
    if (key == "kernel") about.kernel_sha256 = std::move(value);
    if (key == "modules") about.modules_sha256 = std::move(value);
    if (key == "module") about.modules.push_back(std::move(value));
  }
  if (version != std::to_string(kVmStoreVersion) || about.kernel_sha256.empty() ||
      about.modules_sha256.empty()) {
    return failure(Errc::Unsupported,
                   "the kernel for microVMs is of another version: run 'caisson vm setup' again");
  }
  return about;
}

std::vector<std::byte> archive_modules(const std::vector<Module>& modules) {
  CpioWriter out;
  out.add_folder("modules");
  std::string order;
  for (const Module& module : modules) {
    const std::string file = module.name + ".ko";
    out.add_file("modules/" + file, module.content, 0400);
    order += (module.may_fail ? "-" : "") + file + "\n";
  }
  out.add_file("modules/order", order, 0400);
  return std::move(out).finish();
}

std::vector<std::byte> archive_programs(std::span<const std::byte> boot,
                                        std::span<const std::byte> init) {
  CpioWriter out;
  out.add_file("init", boot, 0500);
  // Executed by init's own id.
  out.add_file("caisson-init", init, 0111);
  return std::move(out).finish();
}

Result<KernelAbout> VmStore::install(int state_dir, const KernelParts& parts) {
  const UniqueFd folder = TRY(open_folder(state_dir));
  TRY(remove_all(folder.get()));
  const std::vector<std::byte> modules = archive_modules(parts.modules);
  if (modules.size() > kModulesBytesMax)
    return failure(Errc::TooLarge, "the kernel's modules have more than 64 MiB");
  KernelAbout about{parts.release, parts.source, sha256(parts.kernel), sha256(modules), {}};
  for (const Module& module : parts.modules) about.modules.push_back(module.name);
  TRY(put_file(folder.get(), kKernel, parts.kernel));
  TRY(put_file(folder.get(), kModules, modules));
  TRY(put_file(folder.get(), kAbout, bytes_of(to_text(about))));
  return about;
}

Result<VmStore> VmStore::open(int state_dir) {
  VmStore store;
  const auto missing = [] {
    return failure(Errc::Unsupported,
                   "no kernel for microVMs is set up here: run 'caisson vm setup'");
  };
  auto folder = sys::open_at(state_dir, kFolder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!folder) return missing();
  store.folder_ = TRY(sys::park(std::move(*folder)));
  const auto text = sys::read_small(store.folder_.get(), kAbout);
  if (!text) return missing();
  store.about_ = TRY(parse_about(*text));
  UniqueFd disks =
      TRY(sys::open_at(store.folder_.get(), kDisks, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  store.disks_ = TRY(sys::park(std::move(disks)));
  return store;
}

Result<UniqueFd> VmStore::kernel() const {
  return sys::open_at(folder_.get(), kKernel, O_RDONLY | O_NOFOLLOW);
}

Result<UniqueFd> VmStore::initramfs() const {
  const std::vector<std::byte> programs =
      archive_programs(guest::boot_program(), guest::init_program());
  const std::string name =
      kInitramfs +
      sha256(bytes_of(about_.modules_sha256 + sha256(programs))).substr(0, kDigestShown);
  auto there = sys::open_at(folder_.get(), name, O_RDONLY | O_NOFOLLOW);
  if (there || there.error().sys_errno != ENOENT) return there;
  const std::string modules = TRY(sys::read_small(folder_.get(), kModules, kModulesBytesMax));
  std::vector<std::byte> whole = programs;
  const auto rest = bytes_of(modules);
  whole.insert(whole.end(), rest.begin(), rest.end());
  for (const std::string& old : TRY(sys::list_dir(folder_.get(), kEntriesMax))) {
    // Of another version of this program; a machine that boots from it has it open.
    if (old.starts_with(kInitramfs)) (void)::unlinkat(folder_.get(), old.c_str(), 0);
  }
  TRY_IN("what a machine boots first", put_file(folder_.get(), name, whole));
  return sys::open_at(folder_.get(), name, O_RDONLY | O_NOFOLLOW);
}

Result<std::vector<std::byte>> VmStore::initramfs_with(std::span<const std::byte> record) const {
  const UniqueFd common = TRY(initramfs());
  std::vector<std::byte> whole =
      bytes_of(TRY(sys::read_again(common.get(), kModulesBytesMax + kProgramsBytesMax)));
  CpioWriter own;
  own.add_file(wire::kBootFile, record, 0400);
  const std::vector<std::byte> rest = std::move(own).finish();
  whole.insert(whole.end(), rest.begin(), rest.end());
  return whole;
}

Result<void> VmStore::verify() const {
  const auto same = [&](const char* name, std::size_t most,
                        const std::string& digest) -> Result<void> {
    const std::string content = TRY(sys::read_small(folder_.get(), name, most));
    if (sha256(bytes_of(content)) == digest) return {};
    return failure(Errc::Denied,
                   fmt::format("'{}' is not what was set up: run 'caisson vm setup'", name));
  };
  TRY(same(kKernel, kKernelBytesMax, about_.kernel_sha256));
  return same(kModules, kModulesBytesMax, about_.modules_sha256);
}

}  // namespace caisson::engine::microvm
