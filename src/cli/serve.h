// cli/serve.h — `caisson serve`: from root's shell to an unprivileged server under the same pid.
//
// In this order: the settings are read and judged; the state directory's folders are made; the lock
// is taken, so that there is one server per state directory; a living launcher is found or a new
// pair is started, in a session of its own; the addresses are bound; every privilege is dropped;
// caissond is executed with the descriptors it needs. Nothing here runs beside the server.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/settings/settings.h"

namespace caisson::cli {

// As they were typed.
struct ServeFlags {
  policy::SettingFlags settings;
  std::optional<std::string> config;
  std::optional<double> drain_seconds;
  std::int64_t orphan_grace_seconds = 600;
  std::uint64_t store_bytes = 0;
  bool new_admin_token = false;
};

struct ServeOptions {
  ServeFlags flags;
  policy::Settings settings;
};

// The file, then the environment, then the flags. $CAISSON_STATE_DIR, which every command knows,
// counts where neither the flag nor $CAISSON_SERVER_STATE_DIR says more.
[[nodiscard]] Result<ServeOptions> resolve(const ServeFlags& flags, std::string_view config_text,
                                           std::span<const std::string> environment);

struct ServerIdentity {
  uid_t uid = 0;
  gid_t gid = 0;
};
// Whom the server becomes: `user` of this passwd text, or, for the usual name on a host without it,
// an id that belongs to nobody.
[[nodiscard]] Result<ServerIdentity> server_identity(const std::string& user,
                                                     std::string_view passwd);
inline constexpr uid_t kNobodysId = 999'999;

// Descriptors that a service manager has opened for this process: 3 and on. None when it meant
// another one.
[[nodiscard]] Result<std::vector<int>> handed_descriptors(std::span<const std::string> environment,
                                                          pid_t self);

// The server's command line. Descriptors are numbers, everything else is handed through as it was
// typed.
struct HandOver {
  std::vector<int> listeners;
  int lock = -1;
  std::string launcher_socket;
  std::vector<int> grpc{};  // listeners as well
};
[[nodiscard]] std::vector<std::string> server_arguments(const ServeOptions& options,
                                                        const HandOver& hand_over);

}  // namespace caisson::cli
