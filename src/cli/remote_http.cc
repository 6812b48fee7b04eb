// The real server, behind http/client.h.
#include <array>

#include "cli/client_config.h"
#include "cli/client_session.h"
#include "cli/remote.h"
#include "http/client.h"
#include "http/event_stream.h"

namespace caisson::cli {
namespace {

Answer answer_of(http::ClientAnswer&& from) {
  Answer answer;
  answer.status = from.status;
  answer.request_id = from.field("X-Request-Id");
  answer.length = from.length;
  answer.body = std::move(from.body);
  return answer;
}

Result<Answer> answer_of(Result<http::ClientAnswer>&& from) {
  if (!from) return std::unexpected(std::move(from).error());
  return answer_of(std::move(*from));
}

class HttpSocket final : public RemoteSocket {
 public:
  explicit HttpSocket(std::unique_ptr<http::ClientSocket> socket) : socket_(std::move(socket)) {}

  [[nodiscard]] int fd() const noexcept override { return socket_->fd(); }
  Result<void> send(std::string_view bytes, bool text) override {
    return socket_->send(bytes, text);
  }
  [[nodiscard]] std::size_t waiting() const noexcept override { return socket_->waiting(); }
  Result<void> flush() override { return socket_->flush(); }
  Result<std::optional<Message>> next() override {
    auto message = TRY(socket_->next());
    if (!message) return std::nullopt;
    return Message{message->text, std::move(message->bytes)};
  }
  [[nodiscard]] bool closed() const noexcept override { return socket_->closed(); }

 private:
  std::unique_ptr<http::ClientSocket> socket_;
};

class HttpRemote final : public Remote {
 public:
  HttpRemote(std::string url, http::Client client)
      : url_(std::move(url)), client_(std::move(client)) {}

  [[nodiscard]] const std::string& url() const noexcept override { return url_; }

  Result<Answer> call(std::string_view method, const std::string& target,
                      const std::optional<std::string>& json) override {
    const std::array<http::Field, 1> fields = {{{"Content-Type", "application/json"}}};
    const std::span<const http::Field> given(fields.data(), json ? 1 : 0);
    return answer_of(
        client_.request(method, target, given, json ? *json : std::string(), kAnswerBytesMax));
  }

  Result<Answer> download(const std::string& target,
                          const std::function<void(std::uint64_t)>& on_length,
                          const Sink& sink) override {
    const auto on_head = [&on_length](const http::ClientAnswer& head) {
      if (head.ok() && head.length) on_length(*head.length);
    };
    return answer_of(client_.download("GET", target, {}, "", on_head, sink));
  }

  Result<Answer> upload(std::string_view method, const std::string& target,
                        std::string_view content_type, std::optional<std::uint64_t> length,
                        const Source& source) override {
    const std::array<http::Field, 1> fields = {{{"Content-Type", std::string(content_type)}}};
    return answer_of(client_.upload(method, target, fields, length, source));
  }

  Result<Answer> events(const std::string& target, std::optional<milliseconds> quiet,
                        const std::function<bool(const ServerEvent&)>& take) override {
    return answer_of(client_.events(target, {}, quiet, [&take](const http::ClientEvent& event) {
      return take(ServerEvent{event.id, event.name, event.data});
    }));
  }

  Result<Answer> post_events(const std::string& target, const std::string& json,
                             const std::function<bool(const ServerEvent&)>& take) override {
    const std::array<http::Field, 2> fields = {
        {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}}};
    http::EventStream stream;
    const auto hand_over = [&take](const http::ClientEvent& event) {
      return take(ServerEvent{event.id, event.name, event.data});
    };
    bool left = false;
    const auto sink = [&](std::span<const std::byte> bytes) -> Result<void> {
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      left = !TRY(stream.feed(text, hand_over));
      if (left) return failure(Errc::Gone, "enough was heard");  // ends the connection, too
      return {};
    };
    const auto on_head = [](const http::ClientAnswer&) {};
    auto answer = client_.download("POST", target, fields, json, on_head, sink);
    if (!answer && left) {
      Answer heard;
      heard.status = 200;
      return heard;
    }
    return answer_of(std::move(answer));
  }

  Result<std::unique_ptr<RemoteSocket>> socket(const std::string& target) override {
    auto upgrade = TRY(client_.websocket(target, {}, ""));
    if (!upgrade.socket) return std::unexpected(error_of(answer_of(std::move(upgrade.answer))));
    return std::make_unique<HttpSocket>(std::move(upgrade.socket));
  }

 private:
  std::string url_;
  http::Client client_;
};

}  // namespace

Result<std::unique_ptr<Remote>> open_remote(const Endpoint& endpoint) {
  http::ClientOptions options;
  options.token = endpoint.token;
  http::Client client = TRY(http::Client::make(endpoint.url, std::move(options)));
  return std::make_unique<HttpRemote>(endpoint.url, std::move(client));
}

}  // namespace caisson::cli
