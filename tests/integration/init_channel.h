// A sandbox with nothing but caisson-init in it, driven by a GuestChannel as the server does it.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/channel/guest_channel.h"
#include "init_harness.h"

namespace caisson::test {

class InitChannelTest : public testing::Test {
 protected:
  InitChannelTest() {
    auto opened = run(engine::GuestChannel::open(context_.get_executor(), sandbox_.take_stream(),
                                                 sandbox_.nonce(), engine::ChannelOptions{}));
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    if (opened) channel_ = *opened;
  }
  ~InitChannelTest() override {
    if (channel_) channel_->close(Error{Errc::Gone, "the test is over", 0});
  }

  template <class T>
  std::shared_ptr<std::optional<T>> begin(boost::asio::awaitable<T> work) {
    auto value = std::make_shared<std::optional<T>>();
    boost::asio::co_spawn(context_, std::move(work),
                          [value](const std::exception_ptr& bug, T result) {
                            EXPECT_FALSE(bug);
                            *value = std::move(result);
                          });
    return value;
  }
  template <class T>
  T run(boost::asio::awaitable<T> work) {
    const auto value = begin(std::move(work));
    const TimePoint limit = Clock::now() + seconds(120);
    while (!value->has_value() && Clock::now() < limit) {
      context_.restart();
      context_.run_one_for(milliseconds(100));
    }
    EXPECT_TRUE(value->has_value()) << "it did not happen in time";
    return *std::move(*value);
  }

  engine::ExecRequest command(const std::string& script) {
    engine::ExecRequest request;
    request.argv = {"/bin/sh", "-c", script};
    request.env = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"};
    request.user = kUser;
    request.cwd = kScratch;
    return request;
  }
  std::string sh(const std::string& script) {
    auto done = run(channel_->execute(command(script)));
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    EXPECT_EQ(done ? done->err : "", "") << script;
    return done ? done->out : "";
  }
  void write(const std::string& path, const std::string& content) {
    auto writer = run(channel_->write(kUser, path, {}));
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(run((*writer)->write(std::as_bytes(std::span(content)))));
    ASSERT_TRUE(run((*writer)->finish()));
  }
  Result<std::string> read_all(Result<std::unique_ptr<engine::GuestReader>> reader) {
    if (!reader) return std::unexpected(reader.error());
    std::string all;
    for (;;) {
      auto bytes = run((*reader)->next());
      if (!bytes) return std::unexpected(bytes.error());
      if (bytes->empty()) return all;
      all.append(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
  }
  std::string read(const std::string& path) {
    auto content = read_all(run(channel_->read(kUser, path, 0, 0)));
    EXPECT_TRUE(content) << (content ? "" : content.error().message);
    return content ? *content : "";
  }

  boost::asio::io_context context_{1};
  InitSandbox sandbox_;
  std::shared_ptr<engine::GuestChannel> channel_;
};

}  // namespace caisson::test
