// engine/launcher/client.h — a launcher in another process, asked from many threads.
// A large threaded program must not clone sandboxes itself: it starts a small `caisson launcher
// --private` once, and that ends with it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launcher/core.h"
#include "engine/launcher/wire.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace caisson::engine {

class LauncherClient {
 public:
  // `program` is the caisson command. Its messages for people go to our standard error.
  [[nodiscard]] static Result<std::unique_ptr<LauncherClient>> spawn(const std::string& program,
                                                                     const std::string& state_dir);
  LauncherClient(const LauncherClient&) = delete;
  LauncherClient& operator=(const LauncherClient&) = delete;
  // Hangs up and waits until the launcher has taken all its sandboxes away.
  ~LauncherClient();

  [[nodiscard]] Result<LaunchReply> launch(const LaunchRequest& request,
                                           const std::vector<UniqueFd>& folders);
  [[nodiscard]] Result<UniqueFd> connect(const std::string& id);
  [[nodiscard]] Result<Status> destroy(const std::string& id);
  [[nodiscard]] Result<Status> status(const std::string& id);
  [[nodiscard]] Result<void> freeze(const std::string& id);
  [[nodiscard]] Result<void> thaw(const std::string& id);
  [[nodiscard]] Result<void> set_limits(const std::string& id, const Limits& limits);
  [[nodiscard]] Result<std::vector<std::string>> list();

  [[nodiscard]] pid_t pid() const noexcept { return process_.pid(); }

 private:
  LauncherClient(sys::Child process, UniqueFd socket)
      : process_(std::move(process)), socket_(std::move(socket)) {}
  // One question, one answer: the body of the reply, or the error in it.
  [[nodiscard]] Result<sys::Message> ask(launcher_wire::Request kind, launcher_wire::Bytes message,
                                         std::span<const int> fds);
  [[nodiscard]] launcher_wire::Writer begin(launcher_wire::Request kind);
  [[nodiscard]] Result<sys::Message> ask_about(launcher_wire::Request kind, const std::string& id);

  std::mutex mutex_;  // one question at a time: the launcher has one thread anyway
  std::uint32_t sequence_ = 0;
  sys::Child process_;
  UniqueFd socket_;
};

// The caisson command that belongs to this program: $CAISSON_PROGRAM, the one beside it, or the one
// in the PATH.
[[nodiscard]] std::string find_caisson_program();

}  // namespace caisson::engine
