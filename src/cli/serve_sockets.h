// cli/serve_sockets.h — the sockets on which a server listens, bound while we are still root.
#pragma once

#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/serve.h"
#include "policy/settings/listen_address.h"

namespace caisson::cli {

// A unix socket belongs to the server, mode 0660; one that a dead server left is replaced.
[[nodiscard]] Result<UniqueFd> listen_on(const policy::ListenAddress& address,
                                         const ServerIdentity& server);

// Where a socket that somebody else has opened listens.
[[nodiscard]] Result<policy::ListenAddress> address_of(int socket);

}  // namespace caisson::cli
