// A kernel for machines, set up once for a test program from what tests/vm/prepare fetched, and
// machines without a launcher: a jail, a monitor, and caisson-init at the other end of a stream.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/link/guest_session.h"
#include "engine/microvm/boot_words.h"
#include "engine/microvm/clock_rate.h"
#include "engine/microvm/disks.h"
#include "engine/microvm/driver.h"
#include "engine/microvm/jail/jail.h"
#include "engine/microvm/kernel_source.h"
#include "engine/microvm/machine.h"
#include "engine/microvm/vm_store.h"
#include "sys/file.h"
#include "sys/socket.h"
#include "sys/spawn.h"

namespace caisson::test {

namespace microvm = engine::microvm;

inline std::string test_kernel() {
  if (const char* named = std::getenv("CAISSON_VM_CACHE"); named != nullptr) return named;
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/root") + "/.cache/caisson-vm";
}

// Why there can be no machine here, or nothing.
inline std::string no_machines() {
  if (::geteuid() != 0) return "machines need root";
  if (const auto driver = microvm::qemu_driver().look(); !driver) return driver.error().message;
  if (!std::filesystem::exists(test_kernel() + "/release"))
    return test_kernel() + " holds no kernel: ./dev setup fetches it";
  if (::access("/usr/bin/mkfs.erofs", X_OK) != 0) return "mkfs.erofs is not installed";
  return {};
}

template <class T>
T must_have(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// The state directory of a test program, with a kernel and an image of a tiny root in it.
class MachineKit {
 public:
  static MachineKit& get() {
    static MachineKit kit;
    return kit;
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int state() const { return state_.get(); }
  [[nodiscard]] const microvm::VmStore& store() const { return *store_; }
  [[nodiscard]] int null() const { return null_.get(); }
  [[nodiscard]] int image() const { return image_.get(); }
  [[nodiscard]] std::uint32_t khz() { return rate_.khz(); }

  ~MachineKit() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MachineKit(const MachineKit&) = delete;
  MachineKit& operator=(const MachineKit&) = delete;

 private:
  MachineKit() {
    path_ = testing::TempDir() + "caisson-microvm-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no temporary folder");
    state_ = must_have(sys::open_at(AT_FDCWD, path_, O_RDONLY | O_DIRECTORY));
    const auto quiet = [](std::string_view) {};
    const auto parts = must_have(microvm::kernel_in(test_kernel(), quiet));
    must_have(microvm::VmStore::install(state_.get(), parts));
    store_ = must_have(microvm::VmStore::open(state_.get()));
    make_image();
  }

  void make_image() {
    namespace fs = std::filesystem;
    const std::string root = path_ + "/root";
    for (const char* folder : {"bin", "etc", "tmp", "proc", "sys", "dev", "usr"})
      fs::create_directories(root + "/" + folder);
    fs::copy_file("/bin/busybox", root + "/bin/busybox");
    for (const char* name :
         {"sh", "cat",  "echo", "id", "ls",    "mount", "sleep", "dd",    "hostname", "head",
          "od", "kill", "true", "wc", "touch", "sync",  "rm",    "mkdir", "grep",     "tail"})
      fs::create_symlink("busybox", root + "/bin/" + name);
    const std::string image = path_ + "/image.erofs";
    const std::array<sys::HandedFd, 3> quiet{
        {{"/dev/null", -1, 0}, {"/dev/null", -1, 1}, {"/dev/null", -1, 2}}};
    auto child = must_have(sys::spawn("/usr/bin/mkfs.erofs", {"-T0", "--all-root", image, root},
                                      quiet, sys::Session::Own));
    if (must_have(child.wait()).code != 0) throw std::runtime_error("mkfs.erofs failed");
    image_ = must_have(sys::open_at(AT_FDCWD, image, O_RDONLY));
  }

  std::string path_;
  UniqueFd state_;
  std::optional<microvm::VmStore> store_;
  UniqueFd image_;
  UniqueFd null_ = must_have(sys::open_at(AT_FDCWD, "/dev/null", O_RDWR));
  microvm::ClockRate rate_;
};

inline bool read_exactly(int from, void* out, std::size_t size, TimePoint deadline) {
  auto* at = static_cast<char*>(out);
  while (size > 0) {
    const auto ready = sys::wait_ready(from, POLLIN, deadline);
    if (!ready || !*ready) return false;
    const ssize_t got = ::recv(from, at, size, 0);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

// What a carrier says to an init before it passes anything on: a configuration, and Reset.
class BareMachine {
 public:
  struct Options {
    engine::LaunchRequest request{};
    microvm::Start start = microvm::Start::Cold;
    int memory_of = -1;
    int upper = -1;
    int state = -1;
  };

  explicit BareMachine(const Options& options) {
    MachineKit& kit = MachineKit::get();
    engine::LaunchRequest request = options.request;
    if (request.limits.memory_bytes == 0) request.limits.memory_bytes = 256ULL << 20U;
    auto plan =
        must_have(microvm::plan_machine(request.limits, microvm::Accelerator::Emulated, kit.khz()));
    plan.start = options.start;
    given_upper_ = options.upper;
    if (options.upper < 0) {
      upper_ = must_have(microvm::make_disk(kit.store().disks(), request.limits.disk_bytes,
                                            request.limits.disk_files, kit.null()));
    }
    microvm::BootSeed seed{};
    must_have(sys::random_bytes(seed));
    const auto record = must_have(microvm::boot_record(request, seed));
    const auto initramfs = must_have(kit.store().initramfs_with(record));
    const UniqueFd kernel = must_have(kit.store().kernel());
    auto stream = must_have(sys::stream_pair());
    stream_ = std::move(stream.ours);
    microvm::MachineParts parts;
    parts.plan = plan;
    parts.kernel = kernel.get();
    parts.initramfs = initramfs;
    parts.memory_of = options.memory_of;
    parts.null = kit.null();
    parts.image = kit.image();
    parts.upper = options.upper < 0 ? upper_.get() : options.upper;
    parts.state = options.state;
    parts.channel = stream.theirs.get();
    parts.disk_bytes = request.limits.disk_bytes;
    machine_.emplace(must_have(microvm::Machine::start(microvm::qemu_driver(), parts)));
  }

  [[nodiscard]] microvm::Machine& machine() { return *machine_; }
  [[nodiscard]] int stream() const { return stream_.get(); }
  [[nodiscard]] int upper() const { return upper_ ? upper_.get() : given_upper_; }

  // init's configuration, and its answer; what went wrong, or nothing.
  std::string configure(TimePoint deadline) {
    for (std::size_t i = 0; i < nonce_.size(); ++i) nonce_[i] = static_cast<std::byte>(i * 5 + 3);
    const wire::ControlHeader header{wire::kVersion,
                                     static_cast<std::uint32_t>(wire::ControlKind::Config)};
    wire::InitConfig config{};
    config.flags = wire::kConfigGroups | wire::kConfigOom | wire::kConfigRaiseOomScore;
    config.open_files = 256;
    std::memcpy(config.nonce, nonce_.data(), nonce_.size());
    std::array<char, sizeof(header) + sizeof(config)> body{};
    std::memcpy(body.data(), &header, sizeof(header));
    std::memcpy(body.data() + sizeof(header), &config, sizeof(config));
    if (!say(wire::Kind::Configure, body)) return "the stream takes nothing";
    return expect(wire::Kind::Done, deadline);
  }

  [[nodiscard]] bool say(wire::Kind kind, std::span<const char> body) const {
    const wire::FrameHeader header{static_cast<std::uint32_t>(body.size()),
                                   static_cast<std::uint16_t>(kind), 0, 0};
    std::string frame(sizeof(header), '\0');
    std::memcpy(frame.data(), &header, sizeof(header));
    frame.append(body.data(), body.size());
    return ::send(stream_.get(), frame.data(), frame.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(frame.size());
  }

  // One frame of this kind; what came instead, or nothing.
  std::string expect(wire::Kind kind, TimePoint deadline) {
    wire::FrameHeader header{};
    std::vector<char> body;
    if (!read_exactly(stream_.get(), &header, sizeof(header), deadline))
      return "no answer; " + machine_->last_words();
    if (header.size > wire::kPayloadMax) return "no frame";
    body.resize(header.size);
    if (!read_exactly(stream_.get(), body.data(), body.size(), deadline)) return "half an answer";
    if (header.kind == static_cast<std::uint16_t>(kind)) return {};
    // What a copy says to the server of the original, as a carrier knows.
    if (header.kind == static_cast<std::uint16_t>(wire::Kind::Dropped))
      return expect(kind, deadline);
    return "another frame, " + std::to_string(header.kind) + ": " +
           std::string(body.data(), body.size());
  }

  std::unique_ptr<engine::GuestSession> session(TimePoint deadline) {
    const std::array<char, sizeof(wire::ResetBody)> token{};
    if (!say(wire::Kind::Reset, token)) return nullptr;
    if (!expect(wire::Kind::Resumed, deadline).empty()) return nullptr;
    // The machine has one stream for life: ours stays behind the session's.
    auto made = engine::GuestSession::connect(must_have(sys::duplicate(stream_.get())), nonce_);
    return made ? std::move(*made) : nullptr;
  }

 private:
  UniqueFd upper_;
  int given_upper_ = -1;
  UniqueFd stream_;
  engine::Nonce nonce_{};
  std::optional<microvm::Machine> machine_;
};

}  // namespace caisson::test
