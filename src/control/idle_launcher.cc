#include "control/idle_launcher.h"

#include <algorithm>

#include "engine/launcher/client.h"

namespace caisson::control {
namespace {

constexpr seconds kAnswerMax{10};

}  // namespace

void end_idle_launcher(const std::string& socket) {
  const auto launcher = engine::LauncherClient::attach(socket, Clock::now() + kAnswerMax);
  if (!launcher) return;
  const auto living = (*launcher)->living();
  if (!living || !std::ranges::all_of(*living, &engine::Living::ended)) return;
  (void)(*launcher)->stop();
}

}  // namespace caisson::control
