// Large uploads: which way they take, and every way in which they end early.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "engine/channel/guest_channel.h"
#include "engine/link/guest_link.h"

namespace caisson::engine {
namespace {

namespace asio = boost::asio;
using wire::Kind;

constexpr GuestUser kUser{1000, 1000};

struct Request {
  Kind kind{};
  std::uint32_t id = 0;
  std::string payload;
  UniqueFd fd;

  [[nodiscard]] wire::OpView op() const {
    wire::OpView view{};
    const wire::Bytes bytes{reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()};
    EXPECT_EQ(wire::parse_op(bytes, view), wire::Check::Ok);
    return view;
  }
  [[nodiscard]] std::uint64_t count() const {
    wire::CommitBody body{};
    EXPECT_EQ(payload.size(), sizeof(body));
    std::memcpy(&body, payload.data(), std::min(sizeof(body), payload.size()));
    return body.bytes;
  }
};

// A channel whose init is the test itself.
class GuestUploadTest : public testing::Test {
 protected:
  GuestUploadTest() { connect({}); }
  ~GuestUploadTest() override {
    writer_.reset();
    if (channel_) channel_->close(Error{Errc::Gone, "the test is over", 0});
    context_.restart();
    context_.poll();
  }

  void connect(const ChannelOptions& options) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    peer_ = UniqueFd(ends[1]);
    in_.clear();
    Nonce nonce{};
    wire::HelloBody hello{};
    hello.version = wire::kVersion;
    say(Kind::Hello, Kind{}, 0, hello);
    auto opened =
        run(GuestChannel::open(context_.get_executor(), UniqueFd(ends[0]), nonce, options));
    ASSERT_TRUE(opened) << opened.error().message;
    channel_ = *opened;
  }

  template <class Condition>
  void until(Condition condition) {
    const TimePoint limit = Clock::now() + seconds(20);
    while (!condition()) {
      context_.restart();
      context_.run_one_for(milliseconds(5));
      if (Clock::now() > limit) FAIL() << "it did not happen in time";
    }
  }
  template <class T>
  std::shared_ptr<std::optional<T>> begin(awaitable<T> work) {
    auto value = std::make_shared<std::optional<T>>();
    asio::co_spawn(context_, std::move(work), [value](const std::exception_ptr& bug, T result) {
      EXPECT_FALSE(bug);
      *value = std::move(result);
    });
    return value;
  }
  template <class T>
  T run(awaitable<T> work) {
    const auto value = begin(std::move(work));
    until([&] { return value->has_value(); });
    return *std::move(*value);
  }

  template <class Body>
  void say(Kind kind, Kind about, std::uint32_t id, const Body& body) {
    const wire::FrameHeader header{sizeof(body), static_cast<std::uint16_t>(kind),
                                   static_cast<std::uint16_t>(about), id};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes.append(reinterpret_cast<const char*>(&body), sizeof(body));
    ASSERT_EQ(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void done(std::uint32_t id, std::uint64_t bytes) {
    say(Kind::Done, Kind::Op, id, wire::DoneBody{bytes, 1});
  }
  void failed(std::uint32_t id, int sys_errno) {
    say(Kind::Failed, Kind::Op, id,
        wire::FailedBody{sys_errno, static_cast<std::uint32_t>(wire::Step::Io), 0, 0});
  }

  // Reads what is there; the last descriptor that came stays in fd_.
  void receive() {
    char room[4096];
    iovec part{room, sizeof(room)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(peer_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) return;
    in_.append(room, static_cast<std::size_t>(got));
    const cmsghdr* rights = CMSG_FIRSTHDR(&message);
    if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(rights), sizeof(fd));
    fd_ = UniqueFd(fd);
    // init takes a descriptor for the request that ends where it came.
    EXPECT_EQ(in_.size(), whole_frame());
  }
  [[nodiscard]] std::size_t whole_frame() const {
    wire::FrameHeader header{};
    const wire::Bytes all{reinterpret_cast<const std::uint8_t*>(in_.data()), in_.size()};
    const bool whole = wire::scan_request(all, header) == wire::Scan::Frame;
    return whole ? sizeof(header) + header.size : 0;
  }
  Request request() {
    until([this] {
      if (whole_frame() == 0) receive();
      return whole_frame() != 0;
    });
    wire::FrameHeader header{};
    const std::size_t size = whole_frame();
    std::memcpy(&header, in_.data(), std::min(sizeof(header), in_.size()));
    Request request{static_cast<Kind>(header.kind), header.id,
                    in_.substr(sizeof(header), size - sizeof(header)), std::move(fd_)};
    in_.erase(0, size);
    return request;
  }

  // The request of an upload that was just begun. `writer_` is its host's end.
  Request begin_upload() {
    auto writer = run(channel_->write(kUser, "/workspace/a", {.bulk = true}));
    EXPECT_TRUE(writer) << writer.error().message;
    if (writer) writer_ = *std::move(writer);
    return request();
  }
  // Until the host has closed it, or `max` bytes are there.
  std::string drain(const UniqueFd& fd, std::size_t max = std::string::npos) {
    std::string all;
    bool ended = false;
    until([&] {
      char room[65536];
      const ssize_t got =
          ::recv(fd.get(), room, std::min(sizeof(room), max - all.size()), MSG_DONTWAIT);
      if (got > 0) all.append(room, static_cast<std::size_t>(got));
      ended = got == 0 || all.size() == max;
      return ended;
    });
    return all;
  }

  asio::io_context context_{1};
  UniqueFd peer_;
  std::string in_;
  UniqueFd fd_;
  std::shared_ptr<GuestChannel> channel_;
  std::unique_ptr<GuestWriter> writer_;
};

std::string content(std::size_t size) {
  std::string out;
  for (std::size_t i = 0; out.size() < size; ++i) out += std::to_string(i * i);
  out.resize(size);
  return out;
}

TEST_F(GuestUploadTest, TheBytesGoPastInit) {
  const std::string bytes = content(5 * kUploadBytes + 7);
  const Request op = begin_upload();
  ASSERT_EQ(op.kind, Kind::Op);
  EXPECT_NE(op.op().body.flags & wire::kOpSocket, 0U);
  ASSERT_TRUE(op.fd);
  const auto written = begin(writer_->write(std::as_bytes(std::span(bytes))));
  EXPECT_EQ(drain(op.fd, bytes.size()), bytes);
  until([&] { return written->has_value(); });
  ASSERT_TRUE(**written);
  const auto finished = begin(writer_->finish());
  const Request commit = request();  // the very next one: no byte was a frame
  EXPECT_EQ(commit.kind, Kind::Commit);
  EXPECT_EQ(commit.id, op.id);
  EXPECT_EQ(commit.count(), bytes.size());
  EXPECT_EQ(drain(op.fd), "");
  EXPECT_FALSE(finished->has_value());  // before init has answered nothing is done
  done(op.id, bytes.size());
  until([&] { return finished->has_value(); });
  ASSERT_TRUE(**finished);
  EXPECT_EQ((**finished)->bytes, bytes.size());
}

TEST_F(GuestUploadTest, TheEndInsideCanOnlyRead) {
  const Request op = begin_upload();
  ASSERT_TRUE(op.fd);
  struct stat info{};
  ASSERT_EQ(::fstat(op.fd.get(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(::send(op.fd.get(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(GuestUploadTest, WhatNobodyReadsStopsTheWriter) {
  const Request op = begin_upload();
  const std::string bytes = content(4 * kUploadBytes);
  const auto written = begin(writer_->write(std::as_bytes(std::span(bytes))));
  for (int i = 0; i < 100; ++i) {
    context_.restart();
    context_.poll();
  }
  EXPECT_FALSE(written->has_value());
  // What is there to be read is bounded by what we gave the socket.
  std::string all(bytes.size(), '\0');
  const ssize_t got = ::recv(op.fd.get(), all.data(), all.size(), MSG_DONTWAIT);
  EXPECT_GT(got, 0);
  constexpr std::size_t kLastPiece = 64UL * 1024;  // begun while there was room
  EXPECT_LE(got, static_cast<ssize_t>(kUploadBytes + kLastPiece));
  drain(op.fd, bytes.size() - static_cast<std::size_t>(got));
  until([&] { return written->has_value(); });
  EXPECT_TRUE(**written);
}

TEST_F(GuestUploadTest, ADroppedUploadIsCancelledAndNeverCommitted) {
  const Request op = begin_upload();
  ASSERT_TRUE(run(writer_->write(std::as_bytes(std::span(std::string_view("half"))))));
  writer_.reset();
  const Request next = request();
  EXPECT_EQ(next.kind, Kind::Cancel);
  EXPECT_EQ(next.id, op.id);
  EXPECT_EQ(drain(op.fd), "half");
}

TEST_F(GuestUploadTest, AReaderThatFailsAnswersTheWriter) {
  Request op = begin_upload();
  const std::string bytes = content(4 * kUploadBytes);
  const auto written = begin(writer_->write(std::as_bytes(std::span(bytes))));
  (void)drain(op.fd, 1000);
  op.fd.reset();
  for (int i = 0; i < 100; ++i) {
    context_.restart();
    context_.poll();
  }
  EXPECT_FALSE(written->has_value());  // a broken socket alone says nothing: the answer does
  failed(op.id, ENOSPC);
  until([&] { return written->has_value(); });
  ASSERT_FALSE(**written);
  EXPECT_EQ((**written).error().sys_errno, ENOSPC);
  EXPECT_EQ((**written).error().code, Errc::Exhausted);
}

TEST_F(GuestUploadTest, AnUploadEndsWithItsSandbox) {
  const Request op = begin_upload();
  const std::string bytes = content(4 * kUploadBytes);
  const auto written = begin(writer_->write(std::as_bytes(std::span(bytes))));
  (void)drain(op.fd, 1000);
  peer_.reset();
  until([&] { return written->has_value(); });
  ASSERT_FALSE(**written);
  EXPECT_EQ((**written).error().code, Errc::Gone);
}

TEST_F(GuestUploadTest, AnInitThatCountsOtherwiseIsNotBelieved) {
  const Request op = begin_upload();
  ASSERT_TRUE(run(writer_->write(std::as_bytes(std::span(std::string_view("12345"))))));
  const auto finished = begin(writer_->finish());
  EXPECT_EQ(request().count(), 5U);
  done(op.id, 4);
  until([&] { return finished->has_value(); });
  ASSERT_FALSE(**finished);
  EXPECT_EQ((**finished).error().code, Errc::Protocol);
}

TEST_F(GuestUploadTest, AnAnswerBeforeTheLastByteIsNoSuccess) {
  const Request op = begin_upload();
  const std::string bytes = content(4 * kUploadBytes);
  const auto written = begin(writer_->write(std::as_bytes(std::span(bytes))));
  done(op.id, bytes.size());
  until([&] { return written->has_value(); });
  ASSERT_FALSE(**written);
  EXPECT_EQ((**written).error().code, Errc::Protocol);
}

TEST_F(GuestUploadTest, AnUploadWithoutProgressIsGivenUp) {
  ChannelOptions options;
  options.idle_transfer = milliseconds(1);
  connect(options);
  const Request op = begin_upload();
  const std::string bytes = content(4 * kUploadBytes);
  const auto written = run(writer_->write(std::as_bytes(std::span(bytes))));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Errc::TimedOut);
}

TEST_F(GuestUploadTest, WhereDescriptorsCannotPassItGoesThroughInit) {
  ChannelOptions options;
  options.passes_descriptors = false;
  connect(options);
  const Request op = begin_upload();
  EXPECT_EQ(op.op().body.flags & wire::kOpSocket, 0U);
  EXPECT_FALSE(op.fd);
  ASSERT_TRUE(run(writer_->write(std::as_bytes(std::span(std::string_view("abc"))))));
  const Request data = request();
  EXPECT_EQ(data.kind, Kind::Data);
  EXPECT_EQ(data.payload, "abc");
}

TEST_F(GuestUploadTest, MoreThanTheLimitGoThroughInit) {
  std::vector<std::unique_ptr<GuestWriter>> writers;
  for (std::size_t i = 0; i < GuestLink::kSocketsMax; ++i) {
    const Request op = begin_upload();
    EXPECT_TRUE(op.fd) << i;
    writers.push_back(std::move(writer_));
  }
  EXPECT_FALSE(begin_upload().fd);
}

}  // namespace
}  // namespace caisson::engine
