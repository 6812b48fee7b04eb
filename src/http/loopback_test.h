// http/loopback_test.h — for tests: a server on a thread of its own, and a client that sends bytes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "http/http.h"
#include "http/server.h"

namespace caisson::http::test {

using Function = std::function<awaitable<void>(Exchange&)>;

class FunctionHandler final : public Handler {
 public:
  explicit FunctionHandler(Function function) : function_(std::move(function)) {}
  awaitable<void> handle(Exchange& exchange) override { return function_(exchange); }

 private:
  Function function_;
};

// All of the body; more than `bytes_max` is TooLarge, and not read at all when its length says so.
inline awaitable<Result<std::string>> read_all(Exchange& exchange, std::size_t bytes_max) {
  if (exchange.request().content_length.value_or(0) > bytes_max) {
    co_return failure(Errc::TooLarge, "the body is too large");
  }
  std::string body;
  std::array<std::byte, 16384> piece{};
  for (;;) {
    const auto got = co_await exchange.read_some(piece);
    if (!got) co_return std::unexpected(got.error());
    if (*got == 0) co_return body;
    body.append(reinterpret_cast<const char*>(piece.data()), *got);
    if (body.size() > bytes_max) co_return failure(Errc::TooLarge, "the body is too large");
  }
}

inline std::string error_shape(unsigned status, const Error& error, std::string_view id) {
  return R"({"error":{"code":")" + std::string(to_string(error.code)) + R"(","message":")" +
         error.message + R"(","request_id":")" + std::string(id) + R"(","status":)" +
         std::to_string(status) + "}}";
}

inline UniqueFd listen_v4(std::uint16_t& port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::listen(fd.get(), 512), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  port = ntohs(address.sin_port);
  return fd;
}

class LoopbackServer {
 public:
  explicit LoopbackServer(Function function, const Limits& limits = {})
      : handler_(std::move(function)),
        server_(Server::make(context_.get_executor(), handler_, limits, error_shape)) {
    EXPECT_TRUE(server_->listen(listen_v4(port_)));
    thread_ = std::thread([this] { context_.run(); });
  }
  ~LoopbackServer() {
    on_thread([this] { server_.reset(); });
    context_.stop();
    thread_.join();
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;
  LoopbackServer(LoopbackServer&&) = delete;
  LoopbackServer& operator=(LoopbackServer&&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void on_thread(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(context_, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  [[nodiscard]] ServerCounters counters() {
    ServerCounters counters;
    on_thread([&] { counters = server_->counters(); });
    return counters;
  }
  // Asks the server's thread again and again; each answer is an event of its loop.
  [[nodiscard]] bool wait_until(const std::function<bool(const ServerCounters&)>& holds) {
    const TimePoint limit = Clock::now() + seconds(20);
    do {
      if (holds(counters())) return true;
    } while (Clock::now() < limit);
    return false;
  }
  Server& server() { return *server_; }

 private:
  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      context_.get_executor()};
  FunctionHandler handler_;
  std::unique_ptr<Server> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// A bound on every wait, far above what any of them needs.
inline constexpr int kWaitMilliseconds = 30000;

struct Reply {
  unsigned status = 0;
  std::string head;
  std::string body;
  [[nodiscard]] bool has(std::string_view text) const {
    return head.find(text) != std::string::npos;
  }
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      (void)::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // Small pieces in a row must not wait for the other side's acknowledgement.
    const int on = 1;
    (void)::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  explicit RawClient(UniqueFd fd) : fd_(std::move(fd)) {}

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // False: the end, a reset, or nothing within the bound.
  bool more(int milliseconds = kWaitMilliseconds) {
    pollfd look{fd_.get(), POLLIN, 0};
    if (::poll(&look, 1, milliseconds) <= 0) return false;
    char bytes[16384];
    const ssize_t got = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (got <= 0) {
      ended_ = true;
      return false;
    }
    in_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }
  std::string until(std::string_view mark) {
    std::size_t at = 0;
    while ((at = in_.find(mark)) == std::string::npos) {
      if (!more()) return {};
    }
    std::string out = in_.substr(0, at + mark.size());
    in_.erase(0, out.size());
    return out;
  }
  std::string take(std::size_t size) {
    while (in_.size() < size && more()) {
    }
    std::string out = in_.substr(0, size);
    in_.erase(0, out.size());
    return out;
  }
  // Whatever comes next; empty at the end.
  std::string any() {
    if (in_.empty()) (void)more();
    return std::exchange(in_, {});
  }
  std::string rest() {
    while (more()) {
    }
    return std::exchange(in_, {});
  }
  // One answer with a Content-Length; `head_only` for HEAD.
  Reply reply(bool head_only = false) {
    Reply reply;
    reply.head = until("\r\n\r\n");
    if (reply.head.size() < 12) return reply;
    reply.status = static_cast<unsigned>(std::stoul(reply.head.substr(9, 3)));
    const std::size_t at = reply.head.find("Content-Length: ");
    if (at != std::string::npos && !head_only)
      reply.body = take(std::stoul(reply.head.substr(at + 16)));
    return reply;
  }
  Reply ask(std::string_view bytes) {
    send(bytes);
    return reply();
  }
  // Whether the peer closes: waits for it.
  bool closed() {
    while (more()) {
    }
    return ended_;
  }
  void finish() { (void)::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::string in_;
  bool ended_ = false;
};

}  // namespace caisson::http::test
