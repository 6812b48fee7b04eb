#include "engine/microvm/machine.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "engine/microvm/jail/jail.h"
#include "sys/file.h"
#include "sys/mount.h"
#include "sys/socket.h"

namespace caisson::engine::microvm {
namespace {

constexpr auto kLoadWait = std::chrono::seconds(5);

Result<void> never_block(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return sys_failure("set a descriptor's flags", errno);
  return {};
}

// In a file system of its own, which goes with its last user.
struct MachineMemory {
  UniqueFd mount;  // detached
  UniqueFd file;   // in it
};

// Only the monitor's jail has the place, so anybody may write there.
Result<MachineMemory> make_memory(std::uint64_t bytes) {
  const sys::ModeMask no_mask(0);
  MachineMemory memory;
  memory.mount = TRY(sys::new_mount(
      "tmpfs", {{"mode", "0555"}, {"size", std::to_string(bytes)}, {"nr_inodes", "4"}},
      sys::kMountNoSuid | sys::kMountNoDev | sys::kMountNoExec));
  UniqueFd file = TRY(
      sys::open_at(memory.mount.get(), kMemoryFile, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666));
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return sys_failure("size a machine's memory", errno);
  memory.file = TRY(sys::park(std::move(file)));
  return memory;
}

}  // namespace

Result<Machine> Machine::start(const Driver& driver, const MachineParts& parts) {
  const bool clone = parts.plan.start == Start::Clone;
  CAISSON_ASSERT((parts.state >= 0) == clone && (parts.memory_of >= 0) == clone);
  MachineMemory memory = TRY_IN("a machine's memory", make_memory(parts.plan.memory_bytes));
  sys::SocketPair talk = TRY(sys::stream_pair());
  TRY(never_block(talk.ours.get()));
  // A monitor that complains without end fills a pipe, and no disk.
  sys::Pipe complaints = TRY(sys::make_pipe(O_NONBLOCK));

  std::vector<JailFile> files{{kJailKernel, parts.kernel, {}},
                              {kJailInitramfs, -1, parts.initramfs}};
  const std::vector<JailTree> trees{{kJailMemory, memory.mount.get()}};
  std::vector<JailCopy> copies;
  if (clone) copies.push_back({parts.memory_of, memory.file.get()});
  std::vector<JailDescriptor> descriptors{{parts.null, 0},
                                          {parts.null, 1},
                                          {complaints.write.get(), 2},
                                          {parts.channel, kFdChannel},
                                          {talk.theirs.get(), kFdMonitor},
                                          {parts.image, kFdImage},
                                          {parts.upper, kFdUpper}};
  if (clone) descriptors.push_back({parts.state, kFdState});
  JailWish wish;
  wish.program = driver.program();
  wish.arguments = driver.arguments(parts.plan);
  wish.files = files;
  wish.trees = trees;
  wish.copies = copies;
  wish.descriptors = descriptors;
  wish.tasks = parts.tasks;
  wish.group = parts.group;
  wish.user_namespace = parts.user_namespace;
  wish.beside = parts.beside;
  wish.file_bytes_max = std::max(parts.disk_bytes, parts.plan.memory_bytes);
  sys::Child monitor = TRY(start_in_jail(wish));
  UniqueFd ours = TRY(sys::park(std::move(talk.ours)));
  UniqueFd words = TRY(sys::park(std::move(complaints.read)));
  Machine machine(std::move(monitor), driver.talk(std::move(ours)), std::move(words),
                  std::move(memory.file));
  if (!clone) return machine;
  if (auto loaded = machine.talk_->load(kFdState, Clock::now() + kLoadWait); !loaded) {
    if (const std::string why = machine.last_words(); !why.empty())
      return std::unexpected(loaded.error().within("monitor: " + why));
    return std::unexpected(loaded.error());
  }
  return machine;
}

Result<void> Machine::kill() const { return monitor_.signal(SIGKILL); }

std::string Machine::words_in(int complaints) {
  std::array<char, kLastWordsMax> text{};
  const ssize_t got = ::read(complaints, text.data(), text.size());
  std::string out(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) out.pop_back();
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = ' ';
  }
  return out;
}

}  // namespace caisson::engine::microvm
