// A large file into a sandbox. Its bytes go by a socket of their own, from here straight to the
// process inside that writes the file: init hands that process the reading end and sees none of
// them, and no frame is made of them.
//
// It is a socket and not a pipe. Both ends of a pipe take the same lock, and the reader holds it
// while it copies: a reader in a sandbox that has used up its processor time or its memory would
// keep our one I/O thread waiting in the kernel. A socket's reader holds only a lock of its own.
//
// The end inside can only read: ours is shut for reading before the other leaves. Whatever init
// does with it, it is init's own upload that suffers.
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "engine/channel/guest_core.h"

namespace caisson::engine {
namespace {

using boost::asio::posix::descriptor_base;

struct Ends {
  UniqueFd ours;
  UniqueFd theirs;
};

// Nothing when the host has none left: then there is the other way.
std::optional<Ends> one_way() {
  int both[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0) return std::nullopt;
  Ends ends{UniqueFd(both[0]), UniqueFd(both[1])};
  if (::shutdown(ends.ours.get(), SHUT_RD) != 0) return std::nullopt;
  // The kernel doubles what it is told, for its own headers. A smaller one only costs time.
  const int bytes = kUploadBytes / 2;
  (void)::setsockopt(ends.ours.get(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  return ends;
}

class Upload final : public GuestWriter {
 public:
  Upload(const std::shared_ptr<GuestCore>& core, const CallPtr& call, std::string what,
         boost::asio::posix::stream_descriptor socket)
      : core_(core),
        guard_(core, call, CallGuard::Kind::Operation),
        call_(call),
        what_(std::move(what)),
        socket_(std::move(socket)) {}

  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      if (call_->done) co_return early();
      const std::size_t sent = send(bytes);
      bytes = bytes.subspan(sent);
      if (sent != 0) continue;
      auto moved = co_await progress(*core_, *call_, what_);
      if (!moved) co_return std::unexpected(moved.error());
    }
    co_return Result<void>();
  }

  awaitable<Result<TarResult>> finish() override {
    if (!call_->done) {
      boost::system::error_code ignored;
      socket_.close(ignored);
      if (const auto sent = core_->link().commit(call_->id, count_); !sent)
        co_return std::unexpected(sent.error());
      core_->flush();
    }
    while (!call_->done) {
      auto moved = co_await progress(*core_, *call_, what_);
      if (!moved) co_return std::unexpected(moved.error());
    }
    if (call_->error) co_return std::unexpected(named(*call_->error, what_));
    if (call_->result.bytes != count_)
      co_return failure(Errc::Protocol, what_ + ": init counts other bytes than were sent");
    co_return TarResult{call_->result.bytes, call_->result.count};
  }

 private:
  // How many went. After 0 the call's wakeup comes when more can go, or with the answer.
  std::size_t send(std::span<const std::byte> bytes) {
    while (!broken_) {
      const ssize_t sent =
          ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      const int reason = errno;
      if (sent > 0) {
        count_ += static_cast<std::uint64_t>(sent);
        return static_cast<std::size_t>(sent);
      }
      if (sent < 0 && reason == EINTR) continue;
      if (sent < 0 && (reason == EAGAIN || reason == EWOULDBLOCK)) {
        watch();
        return 0;
      }
      broken_ = true;  // nobody reads any more: init's answer will say why
    }
    return 0;
  }

  // The handler may run when this object is gone, so it holds only the call.
  void watch() {
    auto ready = [call = call_](const boost::system::error_code& failed) {
      if (!failed) call->wakeup.wake();
    };
    socket_.async_wait(descriptor_base::wait_write, std::move(ready));
  }

  // init has answered before it had everything: only a failure does that.
  Result<void> early() {
    if (call_->error) return std::unexpected(named(*call_->error, what_));
    return failure(Errc::Protocol, what_ + ": init was done before the last byte");
  }

  std::shared_ptr<GuestCore> core_;
  CallGuard guard_;
  CallPtr call_;
  std::string what_;
  boost::asio::posix::stream_descriptor socket_;
  bool broken_ = false;
  std::uint64_t count_ = 0;
};

}  // namespace

Result<std::unique_ptr<GuestWriter>> GuestCore::begin_upload(const OpOptions& options,
                                                             const std::string& what) {
  std::unique_ptr<GuestWriter> none;
  if (!options_.passes_descriptors) return none;
  std::optional<Ends> ends = one_way();
  if (!ends) return none;
  boost::asio::posix::stream_descriptor socket(executor_);
  boost::system::error_code failed;
  socket.assign(ends->ours.get(), failed);
  if (failed) return none;
  (void)ends->ours.release();
  const CallPtr call = TRY(enlist());
  const auto passed = link_.operate_with(call->id, options, ends->theirs.get());
  if (!passed || !*passed) dismiss(*call);
  if (!passed) return std::unexpected(passed.error());
  if (!*passed) return none;
  flush();
  return std::make_unique<Upload>(shared_from_this(), call, what, std::move(socket));
}

}  // namespace caisson::engine
