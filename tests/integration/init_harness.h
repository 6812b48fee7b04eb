// A sandbox with nothing but caisson-init in it: process 1 of new user, pid, mount and ipc
// namespaces, with the same descriptors, ids and capabilities as the launcher gives it, and no
// launcher. Carried, it has one stream for life instead of control socket and streams, and
// caisson-carrier, a process of its own, plays init towards us. Needs root.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/base.h"
#include "engine/link/guest_session.h"
#include "sys/socket.h"

namespace caisson::test {

inline constexpr std::uint32_t kIdBase = 3'500'000;
inline constexpr std::uint32_t kInitId = 65535;
inline constexpr engine::GuestUser kUser{1000, 1000};
inline constexpr const char* kScratch = "/mnt";  // a tmpfs of the guest's own

struct InitOptions {
  bool groups = true;
  bool carried = std::getenv("CAISSON_INIT_CARRIED") != nullptr;
  bool landlock = false;
  bool landlock_base = false;  // asks for what needs Landlock, without it: init cannot begin
  bool plays_init = false;     // carried: take_init_end() instead of an init
  int carried_end = -1;        // an init on this stream, whose carrier is somebody else's
  int port_output = -1;        // a port: carried_end is what it reads, this what it writes to
  bool filter = false;         // one that allows everything: installing it is what is tested
  bool single_id = false;
  bool raise_oom_score = false;
  std::string oom_file{};  // stands for memory.events
  std::uint32_t open_files = 256;
  // Carried: init has an empty network of its own, and the carrier is in this one.
  int carrier_network = -1;
  std::vector<std::uint16_t> ports{};  // of the synthetic addresses
};

inline std::string program_path(const std::string& name) {
  if (const char* folder = std::getenv("CAISSON_BIN"); folder != nullptr)
    return std::string(folder) + "/" + name;
  const auto self = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto beside = self / name;
  return std::filesystem::exists(beside) ? beside : self / "../bin" / name;
}

inline std::string init_path() {
  if (const char* path = std::getenv("CAISSON_INIT"); path != nullptr) return path;
  return program_path("caisson-init");
}

// The v2 hierarchy, which a hybrid host keeps in a corner.
inline std::string group_root() {
  constexpr long kCgroup2Magic = 0x63677270;
  for (const char* at : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    struct statfs info{};
    if (::statfs(at, &info) == 0 && info.f_type == kCgroup2Magic) return at;
  }
  return {};
}

class InitSandbox {
 public:
  explicit InitSandbox(const InitOptions& options = {}) : options_(options) {
    for (std::size_t i = 0; i < nonce_.size(); ++i) nonce_[i] = static_cast<std::byte>(i * 7 + 1);
    if (options_.carried) options_.groups = false;
    if (options_.groups) make_group();
    int control[2];
    int stream[2];
    int gate[2];
    int carried[2] = {-1, -1};
    must(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) == 0, "control");
    must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream) == 0, "stream");
    must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) == 0, "gate");
    control_ = UniqueFd(control[0]);
    stream_ = UniqueFd(stream[0]);
    send_config();
    if (options_.carried_end >= 0) {
      carried[1] = ::fcntl(options_.carried_end, F_DUPFD_CLOEXEC, 0);
    } else if (options_.carried) {
      must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, carried) == 0, "carried");
      start_carrier(control[1], stream[1], carried[0]);
      ::close(carried[0]);
    }
    if (options_.plays_init) {
      init_end_ = UniqueFd(carried[1]);
      for (const int fd : {control[1], stream[1], gate[0], gate[1]}) ::close(fd);
      return;
    }
    const UniqueFd program = sealed_program();
    pid_ = static_cast<int>(
        ::syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | SIGCHLD, 0, 0, 0, 0));
    must(pid_ >= 0, "clone");
    if (pid_ == 0) become_init(control[1], stream[1], carried[1], gate[1], program.get());
    if (carried[1] >= 0) ::close(carried[1]);
    ::close(control[1]);
    ::close(stream[1]);
    ::close(gate[1]);
    char byte = 0;
    must(::read(gate[0], &byte, 1) == 1, "the child's first word");
    write_file("/proc/" + std::to_string(pid_) + "/uid_map",
               "0 " + std::to_string(kIdBase) + " 65536");
    write_file("/proc/" + std::to_string(pid_) + "/gid_map",
               "0 " + std::to_string(kIdBase) + " 65536");
    if (!group_.empty()) write_file(group_ + "/cgroup.procs", std::to_string(pid_));
    must(::write(gate[0], "g", 1) == 1, "go");
    ::close(gate[0]);
  }

  ~InitSandbox() {
    control_.reset();
    for (const int pid : {pid_, carrier_}) {
      if (pid <= 0) continue;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    remove_group();
  }
  InitSandbox(const InitSandbox&) = delete;
  InitSandbox& operator=(const InitSandbox&) = delete;

  [[nodiscard]] int pid() const { return pid_; }
  [[nodiscard]] int carrier() const { return carrier_; }
  [[nodiscard]] int control() const { return control_.get(); }
  [[nodiscard]] const engine::Nonce& nonce() const { return nonce_; }
  [[nodiscard]] UniqueFd take_stream() { return std::move(stream_); }
  [[nodiscard]] UniqueFd take_init_end() { return std::move(init_end_); }
  [[nodiscard]] const std::string& group() const { return group_; }
  void close_control() { control_.reset(); }

  // A new stream that takes the place of the old one.
  [[nodiscard]] UniqueFd new_stream() {
    int ends[2];
    must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "stream");
    const wire::ControlHeader header{wire::kVersion,
                                     static_cast<std::uint32_t>(wire::ControlKind::Attach)};
    must(sys::send_message(control_.get(), std::as_bytes(std::span(&header, 1)), {{ends[1]}})
             .has_value(),
         "attach");
    ::close(ends[1]);
    return UniqueFd(ends[0]);
  }

  [[nodiscard]] std::unique_ptr<engine::GuestSession> session() {
    auto made = engine::GuestSession::connect(stream_ ? take_stream() : new_stream(), nonce_);
    must(made.has_value(), made ? "" : made.error().message.c_str());
    return std::move(*made);
  }

  // Waits for process 1 to end; its wait status.
  [[nodiscard]] int wait_for_end() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

  [[nodiscard]] int wait_for_carrier() {
    int status = 0;
    ::waitpid(carrier_, &status, 0);
    carrier_ = -1;
    return status;
  }

  // Processes in the groups of execs: everything that init started and that still lives.
  [[nodiscard]] int tenants() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(group_)) {
      if (!entry.is_directory()) continue;
      std::ifstream file(entry.path() / "cgroup.procs");
      for (std::string line; std::getline(file, line);) ++count;
    }
    return count;
  }

 private:
  static void must(bool holds, const char* what) {
    if (holds) return;
    std::perror(what);
    std::abort();
  }

  static void write_file(const std::string& path, const std::string& text) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    must(fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()),
         path.c_str());
  }

  // As the launcher does it: nobody inside can read the program, so init is not dumpable from its
  // first instruction.
  static UniqueFd sealed_program() {
    std::ifstream file(init_path(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)),
                            std::istreambuf_iterator<char>());
    must(!bytes.empty(), "caisson-init");
    UniqueFd program(static_cast<int>(::syscall(SYS_memfd_create, "init", MFD_CLOEXEC)));
    must(::write(program.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
         "memfd");
    must(::fchmod(program.get(), 0111) == 0, "fchmod");
    // A descriptor that may write keeps the file from being executed.
    const std::string path = "/proc/self/fd/" + std::to_string(program.get());
    UniqueFd readable(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    must(static_cast<bool>(readable), "memfd again");
    return readable;
  }

  void make_group() {
    static int counter = 0;
    const std::string root = group_root();
    must(!root.empty(), "no cgroup v2 hierarchy");
    group_ =
        root + "/caisson-init-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
    must(::mkdir(group_.c_str(), 0755) == 0, group_.c_str());
    const std::string procs = group_ + "/cgroup.procs";
    must(::chown(group_.c_str(), kIdBase + kInitId, kIdBase + kInitId) == 0, "chown");
    must(::chown(procs.c_str(), kIdBase + kInitId, kIdBase + kInitId) == 0, "chown");
  }

  void remove_group() const {
    if (group_.empty()) return;
    std::error_code ignored;
    for (int i = 0; i < 300; ++i) ::rmdir((group_ + "/e" + std::to_string(i)).c_str());
    ::rmdir(group_.c_str());
  }

  void send_config() const {
    struct {
      wire::ControlHeader header{wire::kVersion,
                                 static_cast<std::uint32_t>(wire::ControlKind::Config)};
      wire::InitConfig config{};
    } message;
    message.config.flags = options_.groups ? wire::kConfigGroups : 0U;
    if (options_.single_id) message.config.flags |= wire::kConfigSingleId;
    if (options_.raise_oom_score) message.config.flags |= wire::kConfigRaiseOomScore;
    if (!options_.oom_file.empty()) message.config.flags |= wire::kConfigOom;
    if (options_.carrier_network >= 0) {
      message.config.flags |= wire::kConfigCarryNetwork;
      message.config.port_count = static_cast<std::uint32_t>(options_.ports.size());
    }
    if (options_.landlock_base) message.config.flags |= wire::kConfigScopeSockets;
    message.config.filter_count = options_.filter ? 1 : 0;
    message.config.open_files = options_.open_files;
    std::memcpy(message.config.nonce, nonce_.data(), nonce_.size());
    std::string bytes(reinterpret_cast<const char*>(&message), sizeof(message));
    constexpr std::uint64_t kAllowAll = 0x7fff000000000006;  // BPF: return SECCOMP_RET_ALLOW
    if (options_.filter) bytes.append(reinterpret_cast<const char*>(&kAllowAll), sizeof(kAllowAll));
    if (options_.landlock) {
      auto* config =
          reinterpret_cast<wire::InitConfig*>(bytes.data() + sizeof(wire::ControlHeader));
      config->flags |= wire::kConfigLandlock | wire::kConfigScopeSockets;
      const std::vector<std::pair<wire::Access, std::string>> rules = {
          {wire::Access::Read, "/usr"},   {wire::Access::Read, "/bin"},
          {wire::Access::Read, "/lib"},   {wire::Access::Read, "/lib64"},
          {wire::Access::Read, "/etc"},   {wire::Access::Read, "/proc"},
          {wire::Access::Device, "/dev"}, {wire::Access::Write, kScratch}};
      config->rule_count = static_cast<std::uint32_t>(rules.size());
      for (const auto& [access, path] : rules) {
        const wire::LandlockRule rule{static_cast<std::uint32_t>(access),
                                      static_cast<std::uint32_t>(path.size())};
        bytes.append(reinterpret_cast<const char*>(&rule), sizeof(rule));
        bytes += path;
      }
    }
    bytes.append(reinterpret_cast<const char*>(options_.ports.data()),
                 options_.ports.size() * sizeof(std::uint16_t));
    must(
        ::send(control_.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "config");
  }

  static void child_must(bool holds, const char* what) {
    if (holds) return;
    std::perror(what);
    ::_exit(99);
  }

  static void make_mounts() {
    child_must(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private");
    child_must(::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0,
               "proc");
    const std::string pts =
        "newinstance,ptmxmode=0666,mode=0620,gid=" + std::to_string(kIdBase + 5);
    child_must(::mount("devpts", "/dev/pts", "devpts", 0, pts.c_str()) == 0, "devpts");
    const std::string scratch =
        "mode=0777,uid=" + std::to_string(kIdBase) + ",gid=" + std::to_string(kIdBase);
    child_must(::mount("tmpfs", kScratch, "tmpfs", MS_NOSUID | MS_NODEV, scratch.c_str()) == 0,
               "tmpfs");
  }

  void take_ids() const {
    std::vector<int> kept = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER,
                             CAP_KILL,  CAP_SETGID,       CAP_SETUID};
    if (options_.carrier_network >= 0) {
      kept.push_back(CAP_NET_ADMIN);
      kept.push_back(CAP_NET_BIND_SERVICE);
    }
    child_must(::setgroups(0, nullptr) == 0, "setgroups");
    child_must(::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0, "keepcaps");
    child_must(::setresgid(kInitId, kInitId, kInitId) == 0, "setresgid");
    child_must(::setresuid(kInitId, kInitId, kInitId) == 0, "setresuid");
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    for (const int cap : kept) {
      data[0].effective |= 1U << cap;
    }
    data[0].permitted = data[0].inheritable = data[0].effective;
    child_must(::syscall(SYS_capset, &header, data) == 0, "capset");
    for (const int cap : kept) {
      child_must(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) == 0, "ambient");
    }
    child_must(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  }

  void start_carrier(int control, int stream, int carried) {
    const std::string path = program_path("caisson-carrier");
    carrier_ = ::fork();
    must(carrier_ >= 0, "fork");
    if (carrier_ != 0) return;
    if (options_.carrier_network >= 0)
      child_must(::setns(options_.carrier_network, CLONE_NEWNET) == 0, "network of the carrier");
    const int wanted[] = {control, stream, carried};
    int moved[3];
    for (int i = 0; i < 3; ++i) moved[i] = ::fcntl(wanted[i], F_DUPFD, 50);
    for (int i = 0; i < 3; ++i) ::dup2(moved[i], wire::kFdControl + i);
    ::syscall(SYS_close_range, wire::kFdCarried + 1, ~0U, 0);
    char name[] = "caisson-carrier";
    char* argv[] = {name, nullptr};
    char* envp[] = {nullptr};
    ::execve(path.c_str(), argv, envp);
    ::_exit(98);
  }

  [[noreturn]] void become_init(int control, int stream, int carried, int gate, int program) const {
    make_mounts();
    const int oom =
        options_.oom_file.empty() ? -1 : ::open(options_.oom_file.c_str(), O_RDONLY | O_CLOEXEC);
    const int group =
        group_.empty() ? -1 : ::open(group_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    child_must(::unshare(CLONE_NEWUSER) == 0, "user namespace");
    char byte = 'r';
    child_must(::write(gate, &byte, 1) == 1 && ::read(gate, &byte, 1) == 1, "gate");
    if (options_.carrier_network >= 0) child_must(::unshare(CLONE_NEWNET) == 0, "network of init");
    take_ids();
    ::setsid();
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    // First out of the way, then to the numbers that init expects.
    const bool alone = options_.carried;
    const int wanted[] = {alone ? carried : control, alone ? options_.port_output : stream, group,
                          oom};
    int moved[4] = {-1, -1, -1, -1};
    for (int i = 0; i < 4; ++i) {
      if (wanted[i] >= 0) moved[i] = ::fcntl(wanted[i], F_DUPFD, 50);
    }
    const int high = ::fcntl(program, F_DUPFD_CLOEXEC, 60);
    for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
    ::syscall(SYS_close_range, 3, 49, 0);
    for (int i = 0; i < 4; ++i) {
      if (moved[i] >= 0 && !(alone && i < 2)) ::dup2(moved[i], wire::kFdControl + i);
    }
    const bool port = moved[1] >= 0;
    if (alone) ::dup2(moved[0], 0);
    if (alone) ::dup2(moved[port ? 1 : 0], 1);
    ::syscall(SYS_close_range, 7, high - 1, 0);
    ::syscall(SYS_close_range, high + 1, ~0U, 0);
    char name[] = "caisson-init";
    char word[] = "carried";
    char how[] = "port";
    char* argv[] = {name, alone ? word : nullptr, alone && port ? how : nullptr, nullptr};
    char* envp[] = {nullptr};
    ::syscall(SYS_execveat, high, "", argv, envp, AT_EMPTY_PATH);
    ::_exit(98);
  }

  InitOptions options_;
  engine::Nonce nonce_{};
  std::string group_;
  UniqueFd control_;
  UniqueFd stream_;
  UniqueFd init_end_;
  int pid_ = -1;
  int carrier_ = -1;
};

}  // namespace caisson::test
