// engine/native/landlock_rules.h — the second wall: which trees a tenant may read and write, said
// once more to Landlock, so that a mount that is wrong is not yet an escape. Pure.
#pragma once

#include <string>
#include <vector>

#include "engine/launch_request.h"
#include "guest/protocol/protocol.h"

namespace caisson::engine::native {

struct Rule {
  wire::Access access = wire::Access::Read;
  std::string path;

  friend bool operator==(const Rule&, const Rule&) = default;
};

[[nodiscard]] std::vector<Rule> landlock_rules(const LaunchRequest& request);

}  // namespace caisson::engine::native
