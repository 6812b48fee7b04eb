// sys/file.h — descriptors, small files, folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

inline constexpr std::size_t kSmallFileMax = 256UL * 1024;

// Every descriptor is born O_CLOEXEC. `dir` may be AT_FDCWD.
[[nodiscard]] Result<UniqueFd> open_at(int dir, const std::string& path, int flags,
                                       unsigned mode = 0);

// Opens below `dir` and nowhere else: no symbolic link, no "..", no magic link is followed.
[[nodiscard]] Result<UniqueFd> open_beneath(int dir, const std::string& path, int flags);

// The whole of a small file; more than `max` bytes is an error, not a cut.
[[nodiscard]] Result<std::string> read_small(int dir, const std::string& path,
                                             std::size_t max = kSmallFileMax);

// Like read_small, from offset 0 of an open descriptor (kernel files are read anew each time).
[[nodiscard]] Result<std::string> read_again(int fd, std::size_t max = kSmallFileMax);

// One write() of the whole text: kernel control files take a value in one call or not at all.
[[nodiscard]] Result<void> write_once(int dir, const std::string& path, std::string_view text);
[[nodiscard]] Result<void> write_once(int fd, std::string_view text);

enum class Existing : std::uint8_t { Accept, Refuse };
[[nodiscard]] Result<void> make_dir(int dir, const std::string& path, unsigned mode,
                                    Existing existing);
[[nodiscard]] Result<void> remove_dir(int dir, const std::string& path);

// Names in a folder, without "." and "..", at most `max` of them.
[[nodiscard]] Result<std::vector<std::string>> list_dir(int dir, std::size_t max);

// Removes a tree that only we write to. Links are removed, never followed.
[[nodiscard]] Result<void> remove_tree(int dir, const std::string& name);

// A duplicate with a number of at least `lowest`. Long-lived descriptors are parked high, so that a
// child keeps the few below kParkedFdMin and drops the rest in one call, however many sandboxes are
// alive.
inline constexpr int kParkedFdMin = 128;
[[nodiscard]] Result<UniqueFd> duplicate(int fd, int lowest = 0);
[[nodiscard]] Result<UniqueFd> park(UniqueFd fd);

// While it lives, files are made with this mask of modes (umask).
class ModeMask {
 public:
  explicit ModeMask(unsigned mask) noexcept;
  ModeMask(const ModeMask&) = delete;
  ModeMask& operator=(const ModeMask&) = delete;
  ~ModeMask();

 private:
  unsigned before_;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
[[nodiscard]] Result<Pipe> make_pipe(int flags = 0);

// Anonymous memory with `content`, of file mode `mode`, sealed against every change.
[[nodiscard]] Result<UniqueFd> sealed_memfd(const char* name, std::span<const std::byte> content,
                                            unsigned mode);

// A file that is open already, for reading and from its beginning.
[[nodiscard]] Result<UniqueFd> reopen(int fd);

// Anonymous memory, empty, as a file.
[[nodiscard]] Result<UniqueFd> memory_file(const char* name);

[[nodiscard]] Result<void> random_bytes(std::span<std::byte> out);

}  // namespace caisson::sys
