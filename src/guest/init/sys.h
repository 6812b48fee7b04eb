// guest/init/sys.h — the kernel calls that musl has no word for. Each returns the kernel's answer:
// -errno on failure.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct sock_fprog;  // NOLINT(readability-identifier-naming): the kernel's

namespace caisson::init {

struct CloneArgs {  // struct clone_args, version 2
  uint64_t flags;
  uint64_t pidfd;
  uint64_t child_tid;
  uint64_t parent_tid;
  uint64_t exit_signal;
  uint64_t stack;
  uint64_t stack_size;
  uint64_t tls;
  uint64_t set_tid;
  uint64_t set_tid_size;
  uint64_t cgroup;
};

constexpr int kNoGroup = -1;

// A copy of this process, born inside the v2 group whose directory `group` is. 0 in the child.
long fork_into(int group);

long close_from(unsigned first, unsigned last);
long close_on_exec_from(unsigned first);
long landlock_create_ruleset(const void* attributes, size_t size, uint32_t flags);
long landlock_add_path(int ruleset, const void* path_beneath);
long landlock_restrict_self(int ruleset);
long install_filter(const sock_fprog* program);
long keep_capabilities(uint64_t kept);  // bits by number; the ambient set goes in any case
long rename_at(int from_dir, const char* from, int to_dir, const char* to, unsigned flags);
long read_folder(int fd, void* buffer, size_t size);  // getdents64

inline uint64_t now_us() {
  timespec at{};
  clock_gettime(CLOCK_MONOTONIC, &at);
  return static_cast<uint64_t>(at.tv_sec) * 1000000U + static_cast<uint64_t>(at.tv_nsec) / 1000U;
}

// Is it a file of procfs? What stands there is about the process that reads, and a file operation's
// is init's own image: it shows where everything lies in it.
bool on_proc(int fd);

void close_fd(int& fd);  // and forgets the number

// Of the file itself, whatever the descriptor was opened for, O_PATH included.
long chmod_fd(int fd, uint32_t mode);
// Gives a folder's owner all rights to it when he lacks one of `needed`. Whoever is not the owner
// changes nothing.
void open_up_folder(int fd, uint32_t needed);

// recvmsg without waiting, errno as it leaves it. `fd` becomes the one descriptor that came along,
// or -1; what came beside it the kernel closes.
ssize_t receive_with_descriptor(int socket, void* to, size_t size, int& fd);
bool is_stream_socket(int fd);

// Memory of its own mapping, zeroed, that no child inherits. Null when there is none.
uint8_t* map_unshared(size_t bytes);
void unmap(uint8_t* at, size_t bytes);

// A table whose slots are zero until somebody fills one. A mapping of its own: slots never used
// cost no memory, the program file does not carry them, and children do not inherit them.
template <class T, size_t kCount>
class Slots {
 public:
  bool open() {
    items_ = reinterpret_cast<T*>(map_unshared(kCount * sizeof(T)));
    return items_ != nullptr;
  }
  T& operator[](size_t index) { return items_[index]; }
  const T& operator[](size_t index) const { return items_[index]; }
  T* begin() { return items_; }
  T* end() { return items_ + kCount; }
  [[nodiscard]] const T* begin() const { return items_; }
  [[nodiscard]] const T* end() const { return items_ + kCount; }

 private:
  T* items_ = nullptr;
};

template <class T>
constexpr T smaller(T a, T b) {
  return a < b ? a : b;
}
template <class T>
constexpr T larger(T a, T b) {
  return a < b ? b : a;
}

}  // namespace caisson::init
