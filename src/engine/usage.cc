#include "engine/usage.h"

namespace caisson::engine {

const char* to_string(EndReason reason) noexcept {
  switch (reason) {
    case EndReason::Running:
      return "running";
    case EndReason::Exited:
      return "exited";
    case EndReason::Destroyed:
      return "destroyed";
    case EndReason::CpuTime:
      return "cpu_time";
    case EndReason::Life:
      return "life";
    case EndReason::InitDied:
      return "init_died";
    case EndReason::OutOfMemory:
      return "out_of_memory";
  }
  return "running";
}

}  // namespace caisson::engine
