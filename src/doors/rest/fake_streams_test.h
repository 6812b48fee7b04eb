// doors/rest/fake_streams_test.h — for tests: what a fake fleet hands out, piece by piece.
#pragma once

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <string>
#include <vector>

#include "doors/rest/rest.h"
#include "guest/protocol/protocol.h"

namespace caisson::rest::fake {

namespace asio = boost::asio;
namespace json = boost::json;

inline const std::string kId(26, 'a');
inline const std::string kForeignId(26, 'b');

// Until cancelled.
inline awaitable<void> for_ever() {
  asio::steady_timer never(co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max());
  boost::system::error_code ec;
  co_await never.async_wait(asio::redirect_error(asio::use_awaitable, ec));
}

class Output final : public control::OutputStream {
 public:
  explicit Output(std::deque<Item> items, bool ends) : items_(std::move(items)), ends_(ends) {}
  awaitable<Result<Item>> next() override {
    if (items_.empty()) {
      if (!ends_) co_await for_ever();
      co_return failure(Errc::Gone, "the sandbox has ended");
    }
    Item item = std::move(items_.front());
    items_.pop_front();
    co_return item;
  }

 private:
  std::deque<Item> items_;
  bool ends_;
};

class Reader final : public control::ByteReader {
 public:
  explicit Reader(std::string content) : content_(std::move(content)) {}
  awaitable<Result<std::span<const std::byte>>> next() override {
    const auto piece =
        std::span(content_).subspan(at_, std::min<std::size_t>(3, content_.size() - at_));
    at_ += piece.size();
    co_return std::as_bytes(piece);
  }

 private:
  std::string content_;
  std::size_t at_ = 0;
};

class Writer final : public control::ByteWriter {
 public:
  explicit Writer(std::string& into) : into_(into) {}
  awaitable<Result<void>> write(std::span<const std::byte> bytes) override {
    pending_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    co_return Result<void>{};
  }
  awaitable<Result<Written>> finish() override {
    into_ = pending_;
    co_return Written{pending_.size(), 1};
  }

 private:
  std::string& into_;
  std::string pending_;
};

class Events final : public control::EventStream {
 public:
  awaitable<Result<control::Event>> next() override {
    if (++count_ > 1) co_return failure(Errc::Gone, "the server ends");
    control::Event event;
    event.sequence = 12;
    event.type = "sandbox.created";
    event.sandbox = kId;
    co_return event;
  }

 private:
  int count_ = 0;
};

class Watch final : public control::WatchStream {
 public:
  awaitable<Result<engine::WatchEvent>> next() override {
    if (++count_ > 2) co_return failure(Errc::Gone, "the sandbox has ended");
    engine::WatchEvent event;
    if (count_ == 2) event = {wire::kEventCreated, 0, "evil\nevent: exit\ndata: {}"};
    co_return event;
  }

 private:
  int count_ = 0;
};

}  // namespace caisson::rest::fake
