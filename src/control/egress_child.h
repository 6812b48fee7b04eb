// control/egress_child.h — the process that serves the way out of a single run: `caissond egress`,
// which has no privilege and no file of ours. It is started before the sandbox is made, so that it
// is ready when the sockets are; it ends when we do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "control/network_rules.h"
#include "engine/gate.h"
#include "sys/process.h"

namespace caisson::control {

// What went out and what was refused.
struct EgressReport {
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::vector<std::string> refused;  // one line each, as many as are told
};

class EgressChild {
 public:
  // `command` is the caisson command; empty: this very program.
  [[nodiscard]] static Result<EgressChild> spawn(const std::string& command = {});

  // Before the launch: the certificate that the sandbox must trust, where a rule looks into TLS,
  // else nothing. The values of the secrets go from their files to it, and not through us.
  struct SecretFile {
    std::string name;
    UniqueFd file;
  };
  [[nodiscard]] Result<std::string> prepare(const EgressRules& rules,
                                            const std::vector<SecretFile>& secrets);
  // Hands it the rules and the sockets inside; returns when it serves them. `name_servers` are
  // asked instead of this host's.
  [[nodiscard]] Result<void> serve(const EgressRules& rules,
                                   const std::vector<std::string>& name_servers,
                                   engine::GateSockets sockets);
  // The last word.
  [[nodiscard]] Result<EgressReport> finish();

 private:
  EgressChild(sys::Child process, UniqueFd socket) noexcept
      : process_(std::move(process)), socket_(std::move(socket)) {}
  [[nodiscard]] Result<std::string> answer(milliseconds patience);

  sys::Child process_;
  UniqueFd socket_;
};

}  // namespace caisson::control
