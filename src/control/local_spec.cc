#include "control/local_spec.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "sys/file.h"

namespace caisson::control {
namespace {

using engine::FolderMode;
using engine::is_below;

constexpr const char* kNeverShown[] = {"/etc", "/var", "/root", "/proc",
                                       "/sys", "/dev", "/boot", "/run"};

// Places that exist in every sandbox, private to it: a grant of one of these is never the host's.
constexpr const char* kOwnPlaces[] = {"/tmp", "/run", "/dev/shm", "/workspace"};

struct Opened {
  UniqueFd fd;
  std::string real_path;
};

Result<Opened> open_folder(const std::string& path) {
  UniqueFd fd = TRY(sys::open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY));
  std::array<char, 4096> target{};
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd.get())).c_str(),
                                  target.data(), target.size());
  if (size <= 0) return sys_failure("resolve " + path, errno);
  return Opened{std::move(fd), std::string(target.data(), static_cast<std::size_t>(size))};
}

bool is_own_place(std::string_view path) {
  return std::ranges::any_of(kOwnPlaces, [&](std::string_view own) { return path == own; });
}

// As the kernel would name it: folders are judged by their real paths, so what they are compared
// with must be real too, behind links and whatever the caller typed.
std::string resolved(const std::string& path) {
  std::error_code failed;
  std::string real = std::filesystem::weakly_canonical(path, failed).string();
  if (failed || path.empty()) return path;
  if (real.size() > 1 && real.ends_with('/')) real.pop_back();
  return real;
}

class Builder {
 public:
  explicit Builder(const LocalWish& wish)
      : wish_(wish), home_(resolved(wish.home)), state_dir_(resolved(wish.state_dir)) {
    out_.spec = wish.capability ? engine::spec_of(*wish.capability) : engine::default_spec();
    out_.workdir = "/workspace";
  }

  Result<LocalSpec> build() {
    TRY(add_current_folder());
    for (const std::string& path : wish_.writable) TRY(add_grant(path, "--writable"));
    if (wish_.capability && mode() == policy::FilesystemMode::ReadWrite) {
      for (const std::string& path : wish_.capability->filesystem_config.writable_paths)
        TRY(add_capability_path(path));
    }
    if (mode() == policy::FilesystemMode::None) out_.workdir = "/";
    return std::move(out_);
  }

 private:
  [[nodiscard]] policy::FilesystemMode mode() const {
    return wish_.capability ? wish_.capability->filesystem_config.mode
                            : policy::FilesystemMode::ReadWrite;
  }
  [[nodiscard]] bool everything_writable() const {
    return !wish_.capability || (mode() == policy::FilesystemMode::ReadWrite &&
                                 wish_.capability->filesystem_config.writable_paths.empty());
  }

  void add(Opened opened, FolderMode folder_mode) {
    auto& folders = out_.spec.request.folders;
    const auto same = std::ranges::find(folders, opened.real_path, &engine::Folder::at);
    if (same != folders.end()) {  // granted twice: the wider grant holds
      same->mode = folder_mode;
      out_.folders[static_cast<std::size_t>(same - folders.begin())] = std::move(opened.fd);
      return;
    }
    folders.push_back({opened.real_path, folder_mode});
    out_.folders.push_back(std::move(opened.fd));
  }

  Result<void> add_current_folder() {
    if (!wish_.current_folder || mode() == policy::FilesystemMode::None) return {};
    Opened opened = TRY_IN("current folder", open_folder(*wish_.current_folder));
    if (const auto why = refusal(opened.real_path, home_, state_dir_)) {
      out_.remarks.push_back("the current folder is not shown inside: " + opened.real_path + " " +
                             *why + "; the command runs in an empty /workspace");
      return {};
    }
    out_.workdir = opened.real_path;
    folder_shown_ = true;
    add(std::move(opened), everything_writable() ? FolderMode::PrivateCopy : FolderMode::ReadOnly);
    return {};
  }

  Result<void> add_grant(const std::string& path, std::string_view field) {
    auto opened = open_folder(path);
    if (!opened) return std::unexpected(opened.error().within(std::string(field)));
    if (const auto why = refusal(opened->real_path, home_, state_dir_)) {
      return failure(Errc::Denied, std::string(field) + ": " + opened->real_path + " " + *why +
                                       "; name a folder of its own");
    }
    add(std::move(*opened), FolderMode::Writable);
    return {};
  }

  // A path of the capability file: the host's own folder where there is one, a private one
  // otherwise.
  Result<void> add_capability_path(const std::string& path) {
    const bool relative = !path.starts_with('/');
    const std::string whole = relative ? out_.workdir + "/" + path : path;
    const std::string canonical =
        TRY_IN("filesystem_config.writable_paths", engine::canonical_guest_path(whole));
    const bool exists = ::access(canonical.c_str(), F_OK) == 0;
    const bool in_shown_folder = folder_shown_ && is_below(canonical, out_.workdir);
    // A relative path means the working folder: when that is the private /workspace, a folder of
    // the host with the same name is another one.
    const bool in_private_folder = relative && !folder_shown_;
    if (exists && !in_private_folder && !is_own_place(canonical))
      return add_grant(canonical, "filesystem_config.writable_paths");
    if (in_shown_folder && !exists) {
      return failure(Errc::NotFound, "filesystem_config.writable_paths: '" + canonical +
                                         "' does not exist; make the folder first");
    }
    out_.spec.request.writable.push_back(canonical);
    return {};
  }

  const LocalWish& wish_;
  const std::string home_;
  const std::string state_dir_;
  LocalSpec out_;
  bool folder_shown_ = false;
};

std::string variable(const char* name) {
  const char* value =
      std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody here changes the environment
  return value != nullptr ? value : "";
}

}  // namespace

std::optional<std::string> refusal(const std::string& real_path, const std::string& home,
                                   const std::string& state_dir) {
  if (real_path == "/") return "is the whole machine";
  if (!home.empty() && real_path == home) return "is a home folder";
  const bool in_home = is_below(real_path, "/home");
  if (in_home && std::ranges::count(real_path, '/') <= 2)
    return "is a home folder, or holds them all";
  for (const std::string_view folder : kNeverShown) {
    if (is_below(real_path, folder)) return "lies in " + std::string(folder);
  }
  if (is_below(real_path, state_dir) || is_below(state_dir, real_path))
    return "holds caisson's own state";
  return std::nullopt;
}

Result<LocalSpec> local_spec(const LocalWish& wish) { return Builder(wish).build(); }

std::vector<std::string> base_environment(const engine::LaunchRequest& request,
                                          const std::string& workdir) {
  const bool scratch = request.scratch == engine::ScratchMode::Writable ||
                       request.root == engine::RootMode::Writable;
  return {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
          std::string("HOME=") + (scratch ? "/tmp" : "/workspace"),
          std::string("USER=") + (request.uid == 0      ? "root"
                                  : request.uid == 1000 ? "agent"
                                                        : "nobody"),
          "LANG=C.UTF-8", "PWD=" + workdir};
}

void set_variables(std::vector<std::string>& environment, const std::vector<std::string>& more) {
  for (const std::string& entry : more) {
    const std::string name = entry.substr(0, entry.find('=')) + "=";
    const auto same = std::ranges::find_if(
        environment, [&](const std::string& one) { return one.starts_with(name); });
    if (same != environment.end()) {
      *same = entry;
    } else {
      environment.push_back(entry);
    }
  }
}

std::string default_state_dir(unsigned euid) {
  if (const std::string named = variable("CAISSON_STATE_DIR"); !named.empty()) return named;
  if (euid == 0) return "/var/lib/caisson";
  if (const std::string state = variable("XDG_STATE_HOME"); !state.empty())
    return state + "/caisson";
  const std::string home = variable("HOME");
  return (home.empty() || home == "/" ? "/tmp/caisson-" + std::to_string(euid)
                                      : home + "/.local/state/caisson");
}

}  // namespace caisson::control
