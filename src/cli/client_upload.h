// cli/client_upload.h — a file or a folder of this machine as the body of a request, with a bar.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/client_session.h"

namespace caisson::cli {

struct UploadTarget {
  std::string_view method;
  std::string target;
};

// `size` bytes of `file`, which people know as `name`; a file that became shorter is an error.
[[nodiscard]] Result<Answer> upload_bytes(const Session& session, const UploadTarget& to,
                                          std::string_view type, int file, const std::string& name,
                                          std::uint64_t size);

// As a tar. What is neither a file nor a folder nor a link is left out, and `command` says so.
[[nodiscard]] Result<Answer> upload_packed(const Session& session, const UploadTarget& to,
                                           const std::string& folder, std::string_view command);

}  // namespace caisson::cli
