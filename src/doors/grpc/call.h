// doors/grpc/call.h — one call on its way through the door: messages in, messages out, one status.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "doors/grpc/frame.h"
#include "doors/grpc/grpc.h"
#include "doors/grpc/sessions.h"
#include "doors/grpc/status.h"
#include "doors/shared/budget.h"
#include "doors/shared/text.h"

namespace caisson::grpc {

// Streams of Health/Watch, which need no token and never end: of one address, and of all.
inline constexpr std::size_t kWatchersPerPeerMax = 64;
inline constexpr std::size_t kWatchersMax = 1024;

struct Services {
  control::Fleet& fleet;
  control::Access& access;
  const GrpcOptions& options;
  doors::Budget& budget;
  Sessions sessions{};
  bool closed = false;                                         // the server ends
  std::map<std::string, std::size_t, std::less<>> watchers{};  // by address
};

enum class Dialect : std::uint8_t { Native, Web };

class Call;
struct Method {
  std::string_view path;  // "/package.Service/Name"
  store::Scope need = store::Scope::Use;
  // Whoever leaves, or whose time is up, ends what he has asked for.
  bool cancellable = false;
  bool streams_in = false;  // reads its messages itself
  // Anybody may: it says nothing about sandboxes.
  bool open = false;
  awaitable<Status> (*run)(Call& call) = nullptr;
  std::size_t request_bytes_max = 0;  // of each message; 0: what the options say
};

// It lives in the frame of Door::handle, as long as its method runs.
class Call {
 public:
  Call(http::Exchange& exchange, Services& services)
      : request_bytes_max(services.options.message_bytes_max),
        exchange_(exchange),
        services_(services) {}
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] const http::Request& request() const noexcept { return exchange_.request(); }
  [[nodiscard]] http::Exchange& exchange() noexcept { return exchange_; }
  [[nodiscard]] Services& services() const noexcept { return services_; }
  [[nodiscard]] control::Fleet& fleet() const noexcept { return services_.fleet; }
  [[nodiscard]] const GrpcOptions& options() const noexcept { return services_.options; }
  [[nodiscard]] doors::Budget::Hold& hold() {
    if (!held_) held_ = services_.budget.open(caller.tenant);
    return *held_;
  }

  // The next message of the body; nothing at its end.
  awaitable<Outcome<std::optional<std::string>>> read();
  // The one message of a call that has one, into `message`.
  awaitable<Status> read_only();
  // And what was parsed is not kept beside what came of it.
  [[nodiscard]] Status parse(google::protobuf::Message& into);

  // For a stream: sent at once.
  awaitable<Result<void>> write(const google::protobuf::MessageLite& what);
  // Frames that are made already.
  awaitable<Result<void>> write_frames(std::string_view frames);
  // For a call with one answer: sent with its status.
  void reply(const google::protobuf::MessageLite& what);
  awaitable<void> finish(const Status& status);

  control::Caller caller{};
  Dialect dialect = Dialect::Native;
  std::string content_type = "application/grpc";
  std::string message{};
  std::size_t request_bytes_max;

 private:
  awaitable<Result<void>> begin();
  awaitable<void> read_away(std::size_t bytes);

  http::Exchange& exchange_;
  Services& services_;
  std::unique_ptr<doors::Budget::Hold> held_{};
  std::unique_ptr<MessageCutter> cutter_{};
  bool body_over_ = false;
  std::string reply_{};
};

// methods.cc. Null when there is none.
[[nodiscard]] const Method* find_method(std::string_view path);

}  // namespace caisson::grpc
