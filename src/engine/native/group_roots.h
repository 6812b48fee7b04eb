// engine/native/group_roots.h — where control groups are made on this host, opened once.
//
// A sandbox's group is `caisson-<id>` at the top of each hierarchy that is used (rootless: in our
// own, delegated v2 group). No common folder of ours stands above them: it would have to be made
// and removed around every single run, and two launchers would race for it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/host/features.h"

namespace caisson::engine::native {

enum class Controller : std::uint8_t { Memory, Pids, Cpu };
inline constexpr std::size_t kControllers = 3;
inline constexpr Controller kAllControllers[] = {Controller::Memory, Controller::Pids,
                                                 Controller::Cpu};

class GroupRoots {
 public:
  // Where v2 has controllers they are switched on for what is made there.
  [[nodiscard]] static Result<GroupRoots> open(const HostFeatures& host);

  [[nodiscard]] static std::string group_name(const std::string& id) { return "caisson-" + id; }

  [[nodiscard]] bool has(Controller controller) const noexcept {
    return on_v2(controller) || v1(controller) >= 0;
  }
  [[nodiscard]] bool on_v2(Controller controller) const noexcept {
    return unified_[index_of(controller)];
  }
  [[nodiscard]] bool swap_accounting() const noexcept { return swap_accounting_; }
  // Folders in which groups are made; -1: none on this host.
  [[nodiscard]] int v2() const noexcept { return v2_.get(); }
  [[nodiscard]] int v1(Controller controller) const noexcept {
    return v1_[index_of(controller)].get();
  }

  [[nodiscard]] static constexpr std::size_t index_of(Controller controller) noexcept {
    return static_cast<std::size_t>(controller);
  }

 private:
  [[nodiscard]] Result<void> open_v2(const HostFeatures& host);
  [[nodiscard]] Result<void> open_v1(const HostFeatures& host);

  UniqueFd v2_;
  std::array<UniqueFd, kControllers> v1_;
  std::array<bool, kControllers> unified_{};
  bool swap_accounting_ = false;
};

}  // namespace caisson::engine::native
