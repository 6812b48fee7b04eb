// cli/id_ranges.h — ids that are ours alone: the server's, the store's and the slots'. A host hands
// sub-ids to its users (/etc/subuid, /etc/subgid); where those meet ours, such a user could become
// the server, own the store's files, or signal and trace a sandbox.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/serve.h"
#include "engine/host/doctor.h"

namespace caisson::cli {

// `file` is the name of the text, for the message. A line that is not understood is nobody's.
[[nodiscard]] Result<void> check_sub_ids(std::string_view file, std::string_view text,
                                         std::uint64_t server_id);
// Both files of this host.
[[nodiscard]] Result<void> check_host_sub_ids(const ServerIdentity& server);
// The same for `caisson doctor`, with the ids of a server with the usual settings.
[[nodiscard]] engine::Check server_ids_check();

}  // namespace caisson::cli
