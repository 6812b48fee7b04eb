// engine/launcher/client.h — a launcher in another process, asked from many threads, each waiting
// for its answer. A server with one thread uses channel/launcher_channel.h.
// A large threaded program must not clone sandboxes itself: it starts a small `caisson launcher
// --private` once, and that ends with it.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/launcher/answers.h"
#include "engine/launcher/wire.h"
#include "sys/process.h"
#include "sys/socket.h"

namespace caisson::engine {

class LauncherClient {
 public:
  // `program` is the caisson command. Its messages for people go to our standard error.
  [[nodiscard]] static Result<std::unique_ptr<LauncherClient>> spawn(const std::string& program,
                                                                     const std::string& state_dir);
  // A launcher that serves a state directory, by its socket. It answers before the deadline, or
  // this is LauncherGone. Its sandboxes stay when we leave.
  [[nodiscard]] static Result<std::unique_ptr<LauncherClient>> attach(const std::string& socket,
                                                                      TimePoint deadline);
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
  // What connect() gives, with the nonce that init must show.
  [[nodiscard]] Result<std::pair<UniqueFd, Nonce>> join(const std::string& id);
  [[nodiscard]] Result<std::vector<Living>> living();
  [[nodiscard]] Result<UniqueFd> socket_inside(const std::string& id, int family);
  // Ends the launcher with all its sandboxes.
  [[nodiscard]] Result<void> stop();
  // Asks to be told of ends; next_ended() then waits for one.
  [[nodiscard]] Result<void> watch();
  [[nodiscard]] Result<launcher_wire::EndedNote> next_ended(TimePoint deadline);

  // Of the process that answers: a private launcher, or a worker.
  [[nodiscard]] pid_t pid() const noexcept { return greeting_.pid; }

 private:
  LauncherClient(sys::Child process, UniqueFd socket)
      : process_(std::move(process)), socket_(std::move(socket)) {}
  // One question, one answer: the body of the reply, or the error in it.
  [[nodiscard]] Result<sys::Message> ask(launcher_wire::Request kind, launcher_wire::Bytes message,
                                         std::span<const int> fds,
                                         std::optional<TimePoint> deadline = {});
  [[nodiscard]] Result<void> greet(std::optional<TimePoint> deadline);
  [[nodiscard]] Result<sys::Message> receive(std::optional<TimePoint> deadline);
  [[nodiscard]] launcher_wire::Writer begin(launcher_wire::Request kind);
  [[nodiscard]] Result<sys::Message> ask_about(launcher_wire::Request kind, const std::string& id);

  std::mutex mutex_;  // one question at a time: the launcher has one thread anyway
  std::uint32_t sequence_ = 0;
  sys::Child process_;
  UniqueFd socket_;
  launcher_wire::Greeting greeting_;
  std::deque<launcher_wire::EndedNote> ended_;  // told while we waited for something else
};

// The caisson command that belongs to this program: $CAISSON_PROGRAM, the one beside it, or the one
// in the PATH.
[[nodiscard]] std::string find_caisson_program();

}  // namespace caisson::engine
