// cli/mcp_private_server.h — a server for one `caisson mcp` alone, which leaves nothing behind.
//
// It listens on a unix socket that root and the server's own user can open, so it asks for no
// token; its state is in a temporary folder. Between this process and the server stands a guardian:
// it holds one end of a pipe of ours, and when that closes, however we end, it stops the server,
// waits until the launcher has gone too, and removes the folder.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::cli {

class PrivateServer {
 public:
  // `config`: settings of its sandboxes, or nothing. Returns when it listens.
  [[nodiscard]] static Result<PrivateServer> start(const std::optional<std::string>& config);
  PrivateServer(PrivateServer&&) noexcept = default;
  PrivateServer& operator=(PrivateServer&&) = delete;
  // Waits until nothing of it is left.
  ~PrivateServer();

  [[nodiscard]] const std::string& url() const noexcept { return url_; }

 private:
  PrivateServer(std::string url, UniqueFd alive, pid_t guardian)
      : url_(std::move(url)), alive_(std::move(alive)), guardian_(guardian) {}

  std::string url_;
  UniqueFd alive_;  // its end is what the guardian waits for
  pid_t guardian_ = -1;
};

}  // namespace caisson::cli
