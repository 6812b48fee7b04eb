// engine/microvm/driver.h — what a monitor must be able to do. QEMU is the first; another one
// (Firecracker, Cloud Hypervisor) is another driver, with the same plan, jail, disks and init.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/microvm/vm_plan.h"

namespace caisson::engine::microvm {

enum class RunState : std::uint8_t { Running, Stopped, Starting, Ended, Other };

// A talk with one running monitor. Its answers are hostile, and each question has a deadline.
class Monitor {
 public:
  virtual ~Monitor() = default;
  [[nodiscard]] virtual Result<void> stop(TimePoint deadline) = 0;
  [[nodiscard]] virtual Result<void> go_on(TimePoint deadline) = 0;
  [[nodiscard]] virtual Result<RunState> run_state(TimePoint deadline) = 0;
  // Writes the machine's devices to `file`; the machine must stand still, its memory lies in a
  // file.
  [[nodiscard]] virtual Result<void> save(int file, TimePoint deadline) = 0;
  // Of a monitor that waits with an empty machine: takes what save() wrote from descriptor `number`
  // of the monitor's own, and goes on.
  [[nodiscard]] virtual Result<void> load(int number, TimePoint deadline) = 0;
};

struct DriverFacts {
  std::string name;
  std::string program;
  std::string version;
};

class Driver {
 public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  // Below /usr, which is all of the host that the jail has.
  [[nodiscard]] virtual std::string program() const = 0;
  [[nodiscard]] virtual std::vector<std::string> arguments(const VmPlan& plan) const = 0;
  [[nodiscard]] virtual std::unique_ptr<Monitor> talk(UniqueFd socket) const = 0;
  // Unsupported, with the remedy, where the program is missing.
  [[nodiscard]] virtual Result<DriverFacts> look() const = 0;
};

// The drivers of this version.
[[nodiscard]] const Driver& qemu_driver();

}  // namespace caisson::engine::microvm
