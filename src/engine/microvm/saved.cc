#include "engine/microvm/saved.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "sys/file.h"
#include "sys/file_clone.h"
#include "sys/raw.h"

namespace caisson::engine::microvm {
namespace {

constexpr int kVersion = 2;
constexpr const char* kAbout = "about";
constexpr const char* kDevices = "devices";
constexpr const char* kMemory = "memory";
constexpr const char* kDisk = "disk";
constexpr const char* kFailed = "failed";  // of a child: the kernel's number of the reason
constexpr std::uint64_t kBlock = 512;      // that st_blocks counts

Result<struct stat> facts_of(int file) {
  struct stat facts{};
  if (::fstat(file, &facts) != 0) return sys_failure("look at a file", errno);
  return facts;
}

Result<std::uint64_t> bytes_in_use(int file) {
  return static_cast<std::uint64_t>(TRY(facts_of(file)).st_blocks) * kBlock;
}

Result<UniqueFd> new_file(int folder, const char* name) {
  return sys::open_at(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
}

Result<void> keep_file(int folder, const char* name, int from) {
  const UniqueFd to = TRY_IN(name, new_file(folder, name));
  return sys::clone_file(from, to.get());
}

Result<UniqueFd> open_part(int folder, const char* name) {
  UniqueFd file = TRY(sys::open_at(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  if (!S_ISREG(TRY(facts_of(file.get())).st_mode))
    return failure(Errc::InvalidArgument, fmt::format("'{}' is no file", name));
  return file;
}

}  // namespace

std::string to_text(const SavedAbout& about) {
  return fmt::format("version {}\nruntime {}\nshape {}\nimage {}\nmark {}\nprocessors {}\n",
                     kVersion, about.runtime, about.shape, about.image, about.image_mark,
                     about.processors);
}

Result<SavedAbout> parse_saved(std::string_view text) {
  SavedAbout about;
  about.processors = 0;
  std::string version;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) break;
    const std::string_view key = line.substr(0, space);
    const std::string_view value = line.substr(space + 1);
    if (key == "version") version = value;
    if (key == "runtime") about.runtime = value;
    if (key == "shape") about.shape = value;
    if (key == "image") about.image = value;
    if (key == "mark") about.image_mark = value;
    if (key == "processors")
      (void)std::from_chars(value.data(), value.data() + value.size(), about.processors);
  }
  if (version != std::to_string(kVersion) || about.runtime.empty() || about.shape.empty() ||
      about.image.empty() || about.image_mark.empty() || about.processors == 0 ||
      about.processors > kProcessorsMax)
    return failure(Errc::Unsupported, "the saved machine is of another version");
  return about;
}

Result<std::string> mark_of(int file) {
  struct statx facts{};
  if (::statx(file, "", AT_EMPTY_PATH, STATX_INO | STATX_SIZE | STATX_BTIME, &facts) != 0)
    return sys_failure("look at a file", errno);
  return fmt::format("{}.{}.{}.{}", facts.stx_ino, facts.stx_size, facts.stx_btime.tv_sec,
                     facts.stx_btime.tv_nsec);
}

Result<void> check_size(const StandingMachine& machine) {
  std::uint64_t bytes = TRY(bytes_in_use(machine.memory));
  bytes += TRY(bytes_in_use(machine.disk));
  if (bytes <= kSavedBytesMax) return {};
  return failure(Errc::TooLarge,
                 fmt::format("memory: the machine has {} MiB of memory and disk in use, and {} MiB "
                             "is the most that can be kept; free some, or snapshot a smaller one",
                             bytes >> 20U, kSavedBytesMax >> 20U));
}

Result<UniqueFd> save_devices(Machine& machine, TimePoint deadline) {
  UniqueFd devices = TRY(sys::memory_file("caisson-machine"));
  TRY(machine.save(devices.get(), deadline));
  if (static_cast<std::uint64_t>(TRY(facts_of(devices.get())).st_size) > kSavedDevicesMax)
    return failure(Errc::Protocol, "the monitor says too much about its devices");
  return devices;
}

Result<void> keep(const StandingMachine& machine, const SavedAbout& about, int folder) {
  TRY(keep_file(folder, kDevices, machine.devices));
  TRY(keep_file(folder, kMemory, machine.memory));
  TRY(keep_file(folder, kDisk, machine.disk));
  const UniqueFd words = TRY(new_file(folder, kAbout));
  return sys::write_once(words.get(), to_text(about));
}

Result<sys::Child> begin_keeping(const StandingMachine& machine, const SavedAbout& about,
                                 int folder) {
  const std::array<int, 4> needed{machine.devices, machine.memory, machine.disk, folder};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_failure("fork", errno);
  if (pid == 0) {
    sys::become_errand(parent, needed);
    const auto kept = keep(machine, about, folder);
    if (kept) ::_exit(0);
    if (const auto file = new_file(folder, kFailed))
      (void)sys::write_once(file->get(), std::to_string(kept.error().sys_errno));
    ::_exit(1);
  }
  UniqueFd pidfd(sys::raw::pidfd_open(pid));
  if (!pidfd) return sys_failure("watch a child", errno);
  return sys::Child::adopt(pid, TRY(sys::park(std::move(pidfd))));
}

Error why_not_kept(int folder) {
  constexpr std::size_t kNumberMax = 16;
  int reason = EIO;
  if (const auto text = sys::read_small(folder, kFailed, kNumberMax))
    (void)std::from_chars(text->data(), text->data() + text->size(), reason);
  return sys_failure("keep a machine's memory and disk in the store", reason).error();
}

Result<SavedMachine> open_saved(int folder) {
  SavedMachine saved;
  const std::string text = TRY(sys::read_small(folder, kAbout));
  saved.about = TRY(parse_saved(text));
  saved.devices = TRY(open_part(folder, kDevices));
  saved.memory = TRY(open_part(folder, kMemory));
  saved.disk = TRY(open_part(folder, kDisk));
  return saved;
}

}  // namespace caisson::engine::microvm
