// doors/daiv/fake_exchange_test.h — a request that a test wrote, and a memory of the answer.
#pragma once

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "http/field.h"
#include "http/http.h"

namespace caisson::daiv::fake {

namespace asio = boost::asio;
using boost::asio::awaitable;

inline awaitable<void> for_ever() {
  asio::steady_timer never(co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max());
  boost::system::error_code ec;
  co_await never.async_wait(asio::redirect_error(asio::use_awaitable, ec));
}

class Exchange final : public http::Exchange {
 public:
  http::Request wanted;
  std::string body_in;
  // Instead of body_in: more and more, until it is empty.
  std::function<std::string()> source;
  bool hangs_up = false;
  std::size_t read = 0;  // bytes of the body

  unsigned code = 0;
  std::vector<http::Field> fields;
  std::string type;
  std::string body;
  bool streamed = false;
  bool ended = false;
  bool closing = false;

  [[nodiscard]] std::string field(std::string_view name) const {
    for (const auto& one : fields) {
      if (http::same_name(one.name, name)) return one.value;
    }
    return {};
  }
  [[nodiscard]] const http::Request& request() const noexcept override { return wanted; }
  awaitable<Result<std::size_t>> read_some(std::span<std::byte> out) override {
    if (source && taken_ == body_in.size()) {
      body_in = source();
      taken_ = 0;
    }
    const std::size_t count = std::min(out.size(), body_in.size() - taken_);
    std::memcpy(out.data(), body_in.data() + taken_, count);
    taken_ += count;
    read += count;
    co_return count;
  }
  void set(std::string_view name, std::string_view value) override {
    fields.push_back({std::string(name), std::string(value)});
  }
  awaitable<void> respond(unsigned status, std::string_view content_type,
                          std::string text) override {
    code = status;
    type = content_type;
    body = std::move(text);
    ended = true;
    co_return;
  }
  awaitable<Result<void>> begin(unsigned status, std::string_view content_type,
                                std::optional<std::uint64_t>) override {
    code = status;
    type = content_type;
    streamed = true;
    co_return Result<void>{};
  }
  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    co_return Result<void>{};
  }
  awaitable<Result<void>> end() override {
    ended = true;
    co_return Result<void>{};
  }
  [[nodiscard]] bool begun() const noexcept override { return code != 0; }
  [[nodiscard]] unsigned status() const noexcept override { return code; }
  void close_after() override { closing = true; }
  void cut() override {}
  awaitable<void> wait_for_hangup() override {
    if (!hangs_up) co_await for_ever();
  }
  awaitable<Result<std::unique_ptr<http::WebSocket>>> accept_websocket(std::string_view) override {
    co_return failure(Errc::Unsupported, "not in this test");
  }
  awaitable<Result<std::size_t>> raw_read(std::span<std::byte>) override {
    co_return std::size_t{0};
  }
  awaitable<Result<void>> raw_write(std::span<const std::byte>) override {
    co_return Result<void>{};
  }

 private:
  std::size_t taken_ = 0;
};

}  // namespace caisson::daiv::fake
