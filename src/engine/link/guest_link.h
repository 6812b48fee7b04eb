// engine/link/guest_link.h — the host's end of the stream to a sandbox's init. No threads and no
// blocking: give it the chance to read and write when its descriptor is ready, from a poll loop or
// from Asio, and take frames from it.
//
// Every byte that arrives is hostile. A frame that the protocol does not allow at that point, Data
// beyond the credit we gave included, ends the link with Errc::Protocol; nothing is delivered
// before a Hello with the right nonce.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/base.h"
#include "engine/nonce.h"
#include "guest/protocol/codec.h"

namespace caisson::engine {

struct Frame {
  wire::Kind kind{};
  std::uint16_t stream = 0;
  std::uint32_t id = 0;
  std::span<const std::byte> payload;  // valid until the next call of on_readable()

  [[nodiscard]] wire::Bytes bytes() const noexcept {
    return {reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()};
  }
};

struct StartOptions {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // NAME=value
  std::string cwd = "/";
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;
  std::uint32_t flags = 0;  // wire::StartFlags
  wire::Mode mode = wire::Mode::Stream;
  milliseconds timeout{0};
  milliseconds grace{0};
  std::uint32_t ring_bytes = 1024 * 1024;
  std::uint32_t window_bytes = 256 * 1024;
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
};

struct OpOptions {
  wire::OpKind op{};
  std::uint32_t flags = 0;  // wire::OpFlags
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t mode = 0;
  std::uint32_t window_bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::string path;
  std::string path2;
};

class GuestLink {
 public:
  static constexpr std::size_t kQueueBytesMax = 4UL * 1024 * 1024;
  static constexpr std::size_t kReadBytes = 256UL * 1024;
  static constexpr std::size_t kFlowsMax = wire::kProcessesMax + wire::kOperationsMax;
  // Writes with a socket of their own at once; each may be on its way to an init that reads
  // nothing.
  static constexpr std::size_t kSocketsMax = 16;

  GuestLink(UniqueFd stream, const Nonce& nonce);

  [[nodiscard]] int fd() const noexcept { return stream_.get(); }
  [[nodiscard]] bool wants_write() const noexcept { return !death_ && out_begin_ < out_.size(); }
  [[nodiscard]] bool greeted() const noexcept { return greeted_; }
  [[nodiscard]] const std::optional<Error>& death() const noexcept { return death_; }

  // Each fails once the link is dead, with the reason.
  [[nodiscard]] Result<void> on_readable();
  [[nodiscard]] Result<void> on_writable();
  [[nodiscard]] Result<std::optional<Frame>> next();

  // Senders queue; on_writable() moves. The caller picks an id that is not in use, not 0.
  [[nodiscard]] Result<void> start(std::uint32_t id, const StartOptions& options);
  [[nodiscard]] Result<void> operate(std::uint32_t id, const OpOptions& options);
  // A Write whose bytes init's side reads from `socket`; commit() follows them. A descriptor goes
  // at once or not at all. False: it does not, nothing was sent, and operate() is the way.
  [[nodiscard]] Result<bool> operate_with(std::uint32_t id, const OpOptions& options, int socket);
  [[nodiscard]] Result<void> commit(std::uint32_t id, std::uint64_t bytes);
  // Takes as many bytes as the window of `id` allows and says how many that were.
  [[nodiscard]] Result<std::size_t> input(std::uint32_t id, std::span<const std::byte> bytes);
  [[nodiscard]] std::size_t input_window(std::uint32_t id) const;
  [[nodiscard]] Result<void> close_input(std::uint32_t id);
  [[nodiscard]] Result<void> credit(std::uint32_t id, wire::Stream stream, std::uint32_t bytes);
  [[nodiscard]] Result<void> signal(std::uint32_t id, int number, wire::SignalTarget target);
  [[nodiscard]] Result<void> resize(std::uint32_t id, std::uint16_t rows, std::uint16_t columns);
  [[nodiscard]] Result<void> attach(std::uint32_t id, std::array<std::uint64_t, 2> offset,
                                    std::uint32_t window_bytes);
  [[nodiscard]] Result<void> detach(std::uint32_t id);
  [[nodiscard]] Result<void> forget(std::uint32_t id);
  [[nodiscard]] Result<void> list(std::uint32_t id);
  [[nodiscard]] Result<void> cancel(std::uint32_t id);
  [[nodiscard]] Result<void> ping(std::uint32_t id, std::span<const std::byte> payload);
  [[nodiscard]] Result<void> shutdown();

 private:
  // What may still travel for one id.
  struct Flow {
    std::uint64_t credit[2] = {0, 0};
    std::uint64_t input_window = 0;
    bool auto_forget = false;
    bool collect = false;
    bool socket = false;  // its bytes go by one
    bool exited = false;
    bool eof[2] = {false, false};
  };

  std::unexpected<Error> die(Errc code, std::string message);
  [[nodiscard]] Result<void> send(wire::Kind kind, std::uint16_t stream, std::uint32_t id,
                                  std::span<const std::byte> body);
  template <class Body>
  [[nodiscard]] Result<void> send_body(wire::Kind kind, std::uint16_t stream, std::uint32_t id,
                                       const Body& body) {
    return send(kind, stream, id, std::as_bytes(std::span(&body, 1)));
  }
  [[nodiscard]] bool can_pass() const;
  [[nodiscard]] Result<void> add_flow(std::uint32_t id, const Flow& flow);
  [[nodiscard]] Result<void> check(const Frame& frame);
  [[nodiscard]] Result<void> check_hello(const Frame& frame);
  [[nodiscard]] Result<void> check_data(const Frame& frame);
  void settle(const Frame& frame);

  UniqueFd stream_;
  Nonce nonce_;
  bool greeted_ = false;
  std::optional<Error> death_;
  // Not a vector: clearing a quarter of a megabyte costs more than starting a process.
  std::unique_ptr<std::byte[]> in_;
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  std::vector<std::byte> out_;
  std::size_t out_begin_ = 0;
  std::unordered_map<std::uint32_t, Flow> flows_;
};

// What a Failed frame says, as an Error: "exec: No such file or directory".
[[nodiscard]] Error error_of(const wire::FailedView& failed);

}  // namespace caisson::engine
