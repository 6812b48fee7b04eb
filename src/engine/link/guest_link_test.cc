#include "engine/link/guest_link.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>

#include "engine/link/guest_session.h"
#include "sys/socket.h"

namespace caisson::engine {
namespace {

using wire::Kind;

// The other end of a link, played by the test.
class GuestLinkTest : public testing::Test {
 protected:
  GuestLinkTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    peer_ = UniqueFd(ends[1]);
    nonce_.fill(std::byte{7});
    link_.emplace(UniqueFd(ends[0]), nonce_);
  }

  template <class Body>
  void say(Kind kind, std::uint16_t stream, std::uint32_t id, const Body& body,
           const std::string& more = "") {
    const wire::FrameHeader header{static_cast<std::uint32_t>(sizeof(body) + more.size()),
                                   static_cast<std::uint16_t>(kind), stream, id};
    say_raw(std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
            std::string(reinterpret_cast<const char*>(&body), sizeof(body)) + more);
  }
  void say_raw(const std::string& bytes) {
    ASSERT_EQ(::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void greet() {
    wire::HelloBody hello{};
    hello.version = wire::kVersion;
    std::memcpy(hello.nonce, nonce_.data(), nonce_.size());
    say(Kind::Hello, 0, 0, hello);
  }
  Result<std::optional<Frame>> next() {
    TRY(link_->on_readable());
    return link_->next();
  }
  void expect_protocol_error() {
    auto frame = next();
    ASSERT_FALSE(frame);
    EXPECT_EQ(frame.error().code, Errc::Protocol) << frame.error().message;
    EXPECT_FALSE(link_->ping(1, {}));
  }

  UniqueFd peer_;
  Nonce nonce_{};
  std::optional<GuestLink> link_;
};

TEST_F(GuestLinkTest, NothingIsBelievedBeforeHello) {
  say(Kind::Done, 0, 1, wire::DoneBody{});
  expect_protocol_error();
}

TEST_F(GuestLinkTest, AnotherNonceIsAnotherSandbox) {
  nonce_[5] = std::byte{9};
  greet();
  expect_protocol_error();
}

TEST_F(GuestLinkTest, FramesArriveByteByByte) {
  greet();
  ASSERT_TRUE(next());
  EXPECT_TRUE(link_->greeted());
  const wire::FrameHeader header{4, static_cast<std::uint16_t>(Kind::Pong), 0, 3};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes += "data";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    say_raw(bytes.substr(i, 1));
    auto frame = next();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->has_value(), i + 1 == bytes.size());
  }
}

TEST_F(GuestLinkTest, AFrameThatIsTooLargeEndsTheLink) {
  greet();
  const wire::FrameHeader header{wire::kPayloadMax, static_cast<std::uint16_t>(Kind::Data), 1, 3};
  say_raw(std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
  expect_protocol_error();
}

TEST_F(GuestLinkTest, DataThatNobodyAskedForEndsTheLink) {
  greet();
  say(Kind::Data, 1, 3, wire::DataHeader{}, "x");
  expect_protocol_error();
}

TEST_F(GuestLinkTest, DataBeyondTheCreditEndsTheLink) {
  greet();
  OpOptions options;
  options.op = wire::OpKind::Read;
  options.path = "/f";
  options.window_bytes = 4;
  ASSERT_TRUE(link_->operate(3, options));
  say(Kind::Data, 1, 3, wire::DataHeader{}, "abcd");
  auto frame = next();
  ASSERT_TRUE(frame);
  ASSERT_TRUE(*frame);
  say(Kind::Data, 1, 3, wire::DataHeader{}, "e");
  expect_protocol_error();
}

TEST_F(GuestLinkTest, InputStaysWithinTheWindow) {
  greet();
  ASSERT_TRUE(next());
  OpOptions options;
  options.op = wire::OpKind::Write;
  options.path = "/f";
  ASSERT_TRUE(link_->operate(3, options));
  const std::vector<std::byte> large(wire::kInputWindow + 100);
  auto taken = link_->input(3, large);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, wire::kInputWindow);
  taken = link_->input(3, large);
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, 0U);
  say(Kind::Credit, 0, 3, wire::CreditBody{50, 0});
  ASSERT_TRUE(next());
  EXPECT_EQ(link_->input_window(3), 50U);
  // A guest that gives more than there is to give gets no more than the window.
  say(Kind::Credit, 0, 3, wire::CreditBody{0xffffffffU, 0});
  ASSERT_TRUE(next());
  EXPECT_EQ(link_->input_window(3), wire::kInputWindow);
}

TEST_F(GuestLinkTest, TheQueueHasALimit) {
  greet();
  ASSERT_TRUE(next());
  StartOptions options;
  options.argv = {"true", std::string(200000, 'a')};
  Result<void> sent;
  std::uint32_t id = 1;
  while (sent && id < 100) sent = link_->start(id++, options);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, Errc::Exhausted);
}

TEST_F(GuestLinkTest, ADescriptorGoesAtOnceOrNotAtAll) {
  OpOptions op;
  op.op = wire::OpKind::Write;
  op.path = "/a";
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto before = link_->operate_with(1, op, null.get());
  ASSERT_TRUE(before);
  EXPECT_FALSE(*before);  // init has not said Hello: it may be an older one
  greet();
  ASSERT_TRUE(next());
  ASSERT_TRUE(link_->ping(9, {}));
  const auto behind = link_->operate_with(1, op, null.get());
  ASSERT_TRUE(behind);
  EXPECT_FALSE(*behind);  // something waits: the frame would not be the message's only one
  ASSERT_TRUE(link_->on_writable());
  for (std::uint32_t id = 1; id <= GuestLink::kSocketsMax; ++id) {
    const auto passed = link_->operate_with(id, op, null.get());
    ASSERT_TRUE(passed) << passed.error().message;
    EXPECT_TRUE(*passed) << id;
    EXPECT_FALSE(link_->wants_write());
  }
  const auto beyond = link_->operate_with(100, op, null.get());
  ASSERT_TRUE(beyond);
  EXPECT_FALSE(*beyond);
  say(Kind::Done, static_cast<std::uint16_t>(Kind::Op), 1, wire::DoneBody{});
  ASSERT_TRUE(next());
  EXPECT_TRUE(*link_->operate_with(100, op, null.get()));
  op.op = wire::OpKind::TarIn;
  EXPECT_FALSE(link_->operate_with(101, op, null.get()).value_or(false));
}

// What a guest sends beside its frames is closed by the kernel: no room is given for it.
TEST_F(GuestLinkTest, ADescriptorFromInsideDoesNotArrive) {
  greet();
  ASSERT_TRUE(next());
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd kept(ends[0]);
  UniqueFd sent(ends[1]);
  const wire::FrameHeader header{0, static_cast<std::uint16_t>(Kind::Pong), 0, 1};
  ASSERT_TRUE(
      sys::send_message(peer_.get(), std::as_bytes(std::span(&header, 1)), std::array{sent.get()}));
  sent.reset();
  const auto frame = next();
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ((*frame)->kind, Kind::Pong);
  char byte = 0;
  EXPECT_EQ(::recv(kept.get(), &byte, 1, MSG_DONTWAIT), 0);  // nobody holds the other end
}

TEST_F(GuestLinkTest, BadRequestsNeverLeave) {
  StartOptions options;
  EXPECT_EQ(link_->start(1, options).error().code, Errc::InvalidArgument);
  options.argv = {"a"};
  options.cwd = "here";
  EXPECT_EQ(link_->start(1, options).error().code, Errc::InvalidArgument);
  OpOptions op;
  op.op = wire::OpKind::Stat;
  op.path = "relative";
  EXPECT_EQ(link_->operate(1, op).error().code, Errc::InvalidArgument);
  EXPECT_FALSE(link_->wants_write());
}

TEST_F(GuestLinkTest, TextFromInsideIsQuoted) {
  const std::string text = "a\x1b[2J'\n";
  wire::FailedView failed{};
  failed.body.sys_errno = ENOENT;
  failed.body.step = static_cast<std::uint32_t>(wire::Step::Io);
  failed.text = {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  EXPECT_EQ(error_of(failed).message, "input or output 'a?[2J?\?': No such file or directory");
  failed.body.step = 4711;  // a step of another version
  EXPECT_EQ(error_of(failed).code, Errc::NotFound);
  failed.body.sys_errno = ENXIO;  // a socket opened as a file: the caller's mistake, not ours
  EXPECT_EQ(error_of(failed).code, Errc::InvalidArgument);
}

TEST_F(GuestLinkTest, ASessionAnswersWhenThePeerGoes) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ::close(ends[1]);
  auto session = GuestSession::connect(UniqueFd(ends[0]), nonce_);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Errc::Gone);
}

}  // namespace
}  // namespace caisson::engine
