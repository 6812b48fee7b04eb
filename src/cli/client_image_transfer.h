// cli/client_image_transfer.h — images on their way to the server and back: pull, import, export.
#pragma once

#include <string>

#include "cli/client_session.h"

namespace caisson::cli {

struct PullWords {
  std::string reference, platform, username;
  bool password_stdin = false;
  bool keep = false;  // what is there already will do
  bool quiet = false;
};

// Each ends with an exit status, and has said what went wrong.
[[nodiscard]] int pull_image(const Session& session, const PullWords& words, bool json);
// `source` is an archive, or a folder that is sent as one.
[[nodiscard]] int import_image(const Session& session, const std::string& source,
                               const std::string& reference, const std::string& pick, bool json);
// "-" is standard output.
[[nodiscard]] int export_image(const Session& session, const std::string& reference,
                               const std::string& target);

// "?reference=…"
[[nodiscard]] std::string image_query(const std::string& reference);

}  // namespace caisson::cli
