// http/client.h — a blocking HTTP/1.1 and WebSocket client for the command line. Start at
// Client::make(). Plain sockets, no Asio and no TLS, because it is linked into a program that
// starts in a millisecond. One connection is kept and used again.
//
// The server is ours but its bytes are not trusted: heads, messages and events have limits.
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
#include "http/client_socket.h"
#include "http/field.h"

namespace caisson::http {

inline constexpr std::size_t kAnswerHeadBytesMax = 64UL * 1024;
inline constexpr std::size_t kAnswerBodyBytesMax = 64UL * 1024 * 1024;  // of one that is collected

struct ClientOptions {
  std::string token;  // sent as a bearer token unless empty
  milliseconds connect_timeout{10000};
  std::optional<milliseconds> stall_timeout;  // of any read or write; by default none
};

struct ClientAnswer {
  unsigned status = 0;
  std::vector<Field> fields;
  std::optional<std::uint64_t> length;  // as the server announced it
  std::string body;                     // empty when it went to a sink

  [[nodiscard]] bool ok() const noexcept { return status >= 200 && status < 300; }
  // The first value of that name, or nothing.
  [[nodiscard]] std::string_view field(std::string_view name) const noexcept;
};

struct ClientEvent {  // of a text/event-stream
  std::string id;
  std::string name;
  std::string data;
};

class ClientLink;

class Client {
 public:
  using Sink = std::function<Result<void>(std::span<const std::byte>)>;
  // Fills the span as far as it can; 0 at the end.
  using Source = std::function<Result<std::size_t>(std::span<std::byte>)>;
  // Sees status, fields and length before the body comes.
  using OnHead = std::function<void(const ClientAnswer&)>;

  // "http://host:port" or "unix:/path". Connects with the first call.
  [[nodiscard]] static Result<Client> make(std::string_view url, ClientOptions options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // Every status is an answer. A server that cannot be reached is LauncherGone with an errno, one
  // that leaves in the middle is Gone.
  [[nodiscard]] Result<ClientAnswer> request(std::string_view method, std::string_view target,
                                             std::span<const Field> fields, std::string_view body,
                                             std::size_t bytes_max = kAnswerBodyBytesMax);
  // The body of a 2xx goes to `sink`, whose error ends it; another status has its body collected.
  [[nodiscard]] Result<ClientAnswer> download(std::string_view method, std::string_view target,
                                              std::span<const Field> fields, std::string_view body,
                                              const OnHead& on_head, const Sink& sink);
  // With a length, or chunked without. An answer that comes early ends the upload.
  [[nodiscard]] Result<ClientAnswer> upload(std::string_view method, std::string_view target,
                                            std::span<const Field> fields,
                                            std::optional<std::uint64_t> length,
                                            const Source& source);
  // Until `take` says false or the stream ends; with `quiet`, also when nothing came for so long.
  [[nodiscard]] Result<ClientAnswer> events(std::string_view target, std::span<const Field> fields,
                                            std::optional<milliseconds> quiet,
                                            const std::function<bool(const ClientEvent&)>& take);
  // A connection of its own. A refusal is handed over as the answer that it was.
  struct Upgrade {
    std::unique_ptr<ClientSocket> socket;  // nothing when refused
    ClientAnswer answer;
  };
  [[nodiscard]] Result<Upgrade> websocket(std::string_view target, std::span<const Field> fields,
                                          std::string_view protocol);

 private:
  struct Place;
  Client(std::unique_ptr<Place> place, ClientOptions options);
  [[nodiscard]] Result<std::unique_ptr<ClientLink>> connect();
  [[nodiscard]] Result<void> ready();
  [[nodiscard]] Result<std::string> head_of(std::string_view method, std::string_view target,
                                            std::span<const Field> fields,
                                            std::string_view framing) const;
  [[nodiscard]] Result<void> send_body(std::optional<std::uint64_t> length, const Source& source);
  [[nodiscard]] Result<ClientAnswer> receive(std::string_view method, const OnHead& on_head,
                                             const Sink& sink);

  std::unique_ptr<Place> place_;
  ClientOptions options_;
  std::unique_ptr<ClientLink> link_;
};

}  // namespace caisson::http
