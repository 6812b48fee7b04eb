// engine/native/stage.h — a place for mounts in the making, on kernels that need one.
//
// Before Linux 6.15 a detached mount can be neither copied nor used as a layer of an overlay: it
// must be attached somewhere in the caller's own namespace. There the launcher attaches each such
// mount on one folder of its trimmed root, one above the other, hands detached copies to the child,
// and takes them all off again when the launch is done. Newer kernels need none of it, and every
// function here does nothing.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "engine/host/features.h"

namespace caisson::engine::native {

class Stage {
 public:
  static constexpr const char* kFolder = "/stage";
  [[nodiscard]] static bool needed(const HostFeatures& host) noexcept {
    return host.kernel < KernelVersion{6, 15};
  }

  explicit Stage(bool needed) noexcept : needed_(needed) {}

  [[nodiscard]] bool needed() const noexcept { return needed_; }
  [[nodiscard]] Result<void> attach(int mount);

  // Takes off what was attached since it was made.
  class Scope {
   public:
    explicit Scope(Stage& stage) noexcept : stage_(stage), depth_(stage.depth_) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { stage_.clear(depth_); }

   private:
    Stage& stage_;
    std::size_t depth_;
  };

 private:
  void clear(std::size_t depth) noexcept;
  bool needed_;
  std::size_t depth_ = 0;
};

}  // namespace caisson::engine::native
