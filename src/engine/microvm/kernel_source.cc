#include "engine/microvm/kernel_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>

#include "engine/microvm/kernel_image.h"
#include "sys/file.h"
#include "sys/process.h"
#include "sys/spawn.h"

namespace caisson::engine::microvm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFilesMax = 20'000;  // of modules
constexpr std::size_t kProgramOutputMax = 64UL * 1024;
// What apt calls the kernels that have no drivers of real machines, and then the ordinary ones.
constexpr std::array<const char*, 4> kPackages = {"linux-image-cloud-amd64", "linux-image-kvm",
                                                  "linux-image-virtual", "linux-image-amd64"};

Result<std::vector<std::byte>> read_bytes(const std::string& path, std::size_t most) {
  const std::string text = TRY(sys::read_small(AT_FDCWD, path, most));
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return std::vector<std::byte>(begin, begin + text.size());
}

Result<std::vector<std::byte>> read_kernel(const std::string& path, const Say& say) {
  const auto image = TRY_IN(path, read_bytes(path, kKernelBytesMax));
  auto kernel = TRY_IN(path, extract_kernel(image));
  say(fmt::format("{}: an ELF kernel of {} MiB", path, kernel.size() >> 20U));
  return kernel;
}

Result<std::map<std::string, std::string>> module_files(const std::string& folder) {
  std::map<std::string, std::string> found;
  std::error_code failed;
  std::size_t seen = 0;
  for (auto at = fs::recursive_directory_iterator(folder, failed);
       !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    if (++seen > kFilesMax)
      return failure(Errc::Exhausted, fmt::format("{}: more than {} files", folder, kFilesMax));
    const std::string path = at->path().string();
    const std::string name = module_name(path);
    if (!name.empty()) found.emplace(name, path);
  }
  if (failed) return sys_failure(folder, failed.value());
  return found;
}

Result<std::set<std::string>> builtin_modules(const std::string& folder) {
  std::set<std::string> names;
  const auto text = sys::read_small(AT_FDCWD, folder + "/modules.builtin", 4UL << 20U);
  if (!text) return names;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    names.insert(module_name(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

Result<std::vector<Module>> modules_in(const std::string& folder, const Say& say) {
  const auto files = TRY(module_files(folder));
  const auto builtin = TRY(builtin_modules(folder));
  const FindModule find =
      [&](const std::string& name) -> Result<std::optional<std::vector<std::byte>>> {
    const auto at = files.find(name);
    if (at == files.end()) return std::nullopt;
    const auto packed = TRY(read_bytes(at->second, kModuleBytesMax));
    return TRY_IN(at->second, unpack(packed, kModuleBytesMax));
  };
  auto modules = TRY_IN(folder, needed_modules(find, builtin));
  std::string names;
  for (const Module& module : modules) names += " " + module.name;
  say("modules:" + names);
  return modules;
}

bool is_there(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

// The newest release below `root`/lib/modules that has a kernel in `root`/boot.
Result<std::vector<std::string>> releases_in(const std::string& root) {
  const auto folder = sys::open_at(AT_FDCWD, root + "/lib/modules", O_RDONLY | O_DIRECTORY);
  std::vector<std::string> out;
  if (!folder) return out;
  for (std::string& name : TRY(sys::list_dir(folder->get(), 1024))) {
    if (is_there(fmt::format("{}/boot/vmlinuz-{}", root, name))) out.push_back(std::move(name));
  }
  std::ranges::sort(out, std::greater<>());
  return out;
}

Result<KernelParts> kernel_of_release(const std::string& root, const std::string& release,
                                      const std::string& source, const Say& say) {
  KernelParts parts{release, source, {}, {}};
  parts.modules = TRY(modules_in(fmt::format("{}/lib/modules/{}", root, release), say));
  parts.kernel = TRY(read_kernel(fmt::format("{}/boot/vmlinuz-{}", root, release), say));
  return parts;
}

// What a program of the host prints, when it ends well.
Result<std::string> output_of(const std::string& program,
                              const std::vector<std::string>& arguments) {
  sys::Pipe pipe = TRY(sys::make_pipe());
  const std::array<sys::HandedFd, 3> handed{
      {{"/dev/null", -1, 0}, {nullptr, pipe.write.get(), 1}, {"/dev/null", -1, 2}}};
  auto child = sys::spawn(program, arguments, handed, sys::Session::Shared);
  if (!child) return failure(Errc::Unsupported, fmt::format("'{}' is not installed here", program));
  pipe.write.reset();
  std::string out;
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(pipe.read.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (out.size() < kProgramOutputMax) out.append(piece.data(), static_cast<std::size_t>(got));
  }
  const sys::ExitStatus ended = TRY(child->wait());
  if (ended.code != 0) return failure(Errc::Internal, fmt::format("'{}' failed", program));
  return out;
}

// "linux-image-cloud-amd64" stands for the package of one release.
std::string package_behind(const std::string& meta) {
  const auto text = output_of("apt-cache", {"depends", meta});
  if (!text) return {};
  constexpr std::string_view kWord = "Depends: linux-image-";
  const std::size_t at = text->find(kWord);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + kWord.size() - std::string_view("linux-image-").size();
  return text->substr(begin, text->find_first_of(" \n", begin) - begin);
}

Result<void> fetch(const std::string& package, const std::string& folder, const Say& say) {
  say("fetching " + package);
  // apt writes into its working folder: a shell would be the only other way to choose it.
  TRY_IN("fetch " + package, output_of("env", {"-C", folder, "apt-get", "download", "-q", "-o",
                                               "APT::Sandbox::User=root", package}));
  return {};
}

Result<void> unpack_packages(const std::string& folder, const std::string& root, const Say& say) {
  const UniqueFd dir = TRY(sys::open_at(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY));
  for (const std::string& name : TRY(sys::list_dir(dir.get(), 64))) {
    if (!name.ends_with(".deb")) continue;
    say("unpacking " + name);
    TRY_IN("unpack " + name, output_of("dpkg-deb", {"-x", folder + "/" + name, root}));
  }
  return {};
}

Result<KernelParts> fetch_and_unpack(const std::string& package, const std::string& work,
                                     const Say& say) {
  const std::string release = package.substr(std::string_view("linux-image-").size());
  TRY(fetch(package, work, say));
  // Some distributions keep the modules in a package of their own.
  const std::string extra = "linux-modules-" + release;
  if (output_of("apt-cache", {"show", extra})) TRY(fetch(extra, work, say));
  const std::string root = work + "/root";
  TRY(unpack_packages(work, root, say));
  return kernel_of_release(root, release, "package " + package, say);
}

}  // namespace

Result<KernelParts> kernel_in(const std::string& folder, const Say& say) {
  const auto releases = TRY(releases_in(folder));
  if (!releases.empty()) return kernel_of_release(folder, releases.front(), folder, say);
  const std::string kernel =
      is_there(folder + "/vmlinux") ? folder + "/vmlinux" : folder + "/vmlinuz";
  if (!is_there(kernel) || !is_there(folder + "/modules")) {
    return failure(Errc::NotFound, fmt::format("{} has no kernel: neither boot/vmlinuz-RELEASE and "
                                               "lib/modules/RELEASE, nor vmlinux and modules",
                                               folder));
  }
  KernelParts parts{"unknown", folder, {}, {}};
  if (const auto release = sys::read_small(AT_FDCWD, folder + "/release"); release)
    parts.release = release->substr(0, release->find('\n'));
  parts.modules = TRY(modules_in(folder + "/modules", say));
  parts.kernel = TRY(read_kernel(kernel, say));
  return parts;
}

Result<KernelParts> kernel_of_host(const Say& say) {
  std::vector<std::string> releases = TRY(releases_in(""));
  utsname running{};
  if (::uname(&running) == 0) {
    const auto own = std::ranges::find(releases, std::string(running.release));
    if (own != releases.end()) std::rotate(releases.begin(), own, own + 1);
  }
  Error last{Errc::NotFound, "no kernel is installed below /boot with its modules"};
  for (const std::string& release : releases) {
    auto parts = kernel_of_release("", release, "this host's /boot", say);
    if (parts) return parts;
    say(fmt::format("{} does not fit: {}", release, parts.error().message));
    last = std::move(parts.error());
  }
  return std::unexpected(std::move(last));
}

Result<KernelParts> kernel_of_package(const std::string& work, const Say& say) {
  const UniqueFd above = TRY(sys::open_at(AT_FDCWD, work, O_RDONLY | O_DIRECTORY));
  for (const char* meta : kPackages) {
    const std::string package = package_behind(meta);
    if (package.empty()) continue;
    TRY(sys::make_dir(above.get(), "unpacked", 0700, sys::Existing::Refuse));
    auto parts = fetch_and_unpack(package, work + "/unpacked", say);
    TRY(sys::remove_tree(above.get(), "unpacked"));
    return parts;
  }
  return failure(Errc::Unsupported,
                 "apt knows no kernel package here: name an unpacked one with --from FOLDER");
}

}  // namespace caisson::engine::microvm
