// engine/microvm/saved.h — a machine that stood still, as files of a folder, and what it takes to
// go on from them as often as one likes.
//
//   devices  what Monitor::save() wrote
//   memory   sparse, as large as the machine's memory
//   disk     sparse
//   about    lines "key value", written last: where it exists, everything else does
//
// The folder is root's. The monitor, which a guest may have taken over, never has one of these
// files: what it says about its devices goes through anonymous memory, and the rest is copied past
// it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/microvm/machine.h"
#include "sys/process.h"

namespace caisson::engine::microvm {

inline constexpr std::uint64_t kSavedDevicesMax = 16ULL << 20U;
// In use, of memory and disk together: everything stands still while it is copied.
inline constexpr std::uint64_t kSavedBytesMax = 4ULL << 30U;

struct SavedAbout {
  std::string runtime;     // the monitor and the kernel: others cannot go on with it
  std::string shape;       // what was asked for, as far as it is in a machine from its boot on
  std::string image;       // the root that it reads, by its name on the shelf
  std::string image_mark;  // and which of that name: see mark_of()
  // That the machine has booted with: it goes on with as many, whatever may be used of them by now.
  std::uint32_t processors = 1;

  friend bool operator==(const SavedAbout&, const SavedAbout&) = default;
};
[[nodiscard]] std::string to_text(const SavedAbout& about);
[[nodiscard]] Result<SavedAbout> parse_saved(std::string_view text);

// A file made anew under the same name has another mark.
[[nodiscard]] Result<std::string> mark_of(int file);

// What a machine is while it stands still. Everything is the caller's and only looked at.
struct StandingMachine {
  int devices = -1;
  int memory = -1;
  int disk = -1;
};
// TooLarge beyond kSavedBytesMax.
[[nodiscard]] Result<void> check_size(const StandingMachine& machine);
// Asks the monitor, whose machine is stopped.
[[nodiscard]] Result<UniqueFd> save_devices(Machine& machine, TimePoint deadline);
// Copies, as long as that takes.
[[nodiscard]] Result<void> keep(const StandingMachine& machine, const SavedAbout& about,
                                int folder);
// The same in a child process. Why it ended with another status than 0: why_not_kept().
[[nodiscard]] Result<sys::Child> begin_keeping(const StandingMachine& machine,
                                               const SavedAbout& about, int folder);
[[nodiscard]] Error why_not_kept(int folder);

struct SavedMachine {
  SavedAbout about;
  UniqueFd devices;
  UniqueFd memory;
  UniqueFd disk;
};
[[nodiscard]] Result<SavedMachine> open_saved(int folder);

}  // namespace caisson::engine::microvm
