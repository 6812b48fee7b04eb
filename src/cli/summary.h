// cli/summary.h — how a run ended, in one line for people or in JSON for programs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "control/egress_child.h"
#include "engine/launcher/answers.h"
#include "guest/protocol/protocol.h"

namespace caisson::cli {

struct RunReport {
  std::string sandbox_id;
  engine::Limits limits;
  milliseconds timeout{0};
  milliseconds duration{0};
  engine::Status status;
  std::optional<wire::ExitedBody> exited;
  std::string closed_output;
  std::optional<control::EgressReport> egress;  // of a run with rules
  bool no_spawn = false;                        // the capability does not grant spawn_subprocess
};

// 0 to 255: the command's own, 128 + N for a signal, 124 when its time was over, 125 when the
// sandbox failed.
[[nodiscard]] int exit_status(const RunReport& report);

// Which limit was hit, its value and the use; one line each, without a newline.
[[nodiscard]] std::vector<std::string> breaches(const RunReport& report);

// "[sandbox] finished  exit=0  duration=234ms  cpu=0.18s  mem=22.4MiB"
[[nodiscard]] std::string summary_text(const RunReport& report);
[[nodiscard]] std::string summary_json(const RunReport& report);

}  // namespace caisson::cli
