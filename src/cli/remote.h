// cli/remote.h — the server, as the client commands see it: calls, streams and WebSockets over one
// HTTP client. An interface, so that the commands are tested without a server; remote_http.cc is
// the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace caisson::cli {

inline constexpr std::size_t kAnswerBytesMax = 64UL * 1024 * 1024;  // of a body that is collected

struct Answer {
  unsigned status = 0;
  std::string request_id;
  std::string body;  // empty when it went to a sink
  std::optional<std::uint64_t> length;

  [[nodiscard]] bool ok() const noexcept { return status >= 200 && status < 300; }
};

struct ServerEvent {  // of a text/event-stream
  std::string id;
  std::string name;
  std::string data;
};

// A WebSocket for a poll loop.
class RemoteSocket {
 public:
  struct Message {
    bool text = false;
    std::string bytes;
  };
  virtual ~RemoteSocket() = default;
  [[nodiscard]] virtual int fd() const noexcept = 0;
  // Takes it whole; it may not have left yet.
  [[nodiscard]] virtual Result<void> send(std::string_view bytes, bool text) = 0;
  // Bytes that were taken and have not left: poll for POLLOUT then and call flush().
  [[nodiscard]] virtual std::size_t waiting() const noexcept = 0;
  [[nodiscard]] virtual Result<void> flush() = 0;
  // A whole message that is here already, without waiting; nothing when there is none.
  [[nodiscard]] virtual Result<std::optional<Message>> next() = 0;
  [[nodiscard]] virtual bool closed() const noexcept = 0;  // the server has said goodbye
};

class Remote {
 public:
  using Sink = std::function<Result<void>(std::span<const std::byte>)>;
  // Fills the span, as far as it can; 0 at the end.
  using Source = std::function<Result<std::size_t>(std::span<std::byte>)>;

  virtual ~Remote() = default;
  [[nodiscard]] virtual const std::string& url() const noexcept = 0;

  // Nobody answering is LauncherGone with an errno; every HTTP status is an Answer.
  [[nodiscard]] virtual Result<Answer> call(std::string_view method, const std::string& target,
                                            const std::optional<std::string>& json) = 0;
  // The body goes to `sink` when the status says that it is what was asked for.
  // `on_length` is told how much will come, where the server says so.
  [[nodiscard]] virtual Result<Answer> download(const std::string& target,
                                                const std::function<void(std::uint64_t)>& on_length,
                                                const Sink& sink) = 0;
  [[nodiscard]] virtual Result<Answer> upload(std::string_view method, const std::string& target,
                                              std::string_view content_type,
                                              std::optional<std::uint64_t> length,
                                              const Source& source) = 0;
  // Until `take` says false or the stream ends; with `quiet`, also when nothing came for so long.
  [[nodiscard]] virtual Result<Answer> events(
      const std::string& target, std::optional<milliseconds> quiet,
      const std::function<bool(const ServerEvent&)>& take) = 0;
  // The same as the answer to a POST.
  [[nodiscard]] virtual Result<Answer> post_events(
      const std::string& target, const std::string& json,
      const std::function<bool(const ServerEvent&)>& take) = 0;
  // A refusal of the upgrade comes as the error that the server sent.
  [[nodiscard]] virtual Result<std::unique_ptr<RemoteSocket>> socket(const std::string& target) = 0;
};

// The server's error as ours: its message and its request id in one line of printable text.
[[nodiscard]] Error error_of(const Answer& answer);

struct Endpoint;
[[nodiscard]] Result<std::unique_ptr<Remote>> open_remote(const Endpoint& endpoint);

}  // namespace caisson::cli
