// The stream itself: terminals, rings, windows, reconnecting, and peers that do not speak the
// protocol.
#include <gtest/gtest.h>

#include "init_driver.h"

namespace caisson::test {
namespace {

class InitStream : public testing::Test {
 protected:
  InitSandbox sandbox_;
  std::unique_ptr<Driver> driver_ =
      std::make_unique<Driver>(sandbox_.take_stream(), sandbox_.nonce());

  // What process `id` printed so far holds `text`.
  bool sees(std::uint32_t id, const std::string& text) {
    return driver_->until(
        [&] { return driver_->data[{id, kOut}].find(text) != std::string::npos; });
  }
};

TEST_F(InitStream, ATerminalEchoesResizesAndInterrupts) {
  ASSERT_TRUE(driver_->link.start(
      5, shell("tty; stty size; trap 'echo got-int' INT; trap 'stty size' WINCH; echo up; "
               "while :; do read line && echo \"line=$line\"; done",
               wire::kStartPty | wire::kStartAttach)));
  ASSERT_TRUE(sees(5, "up\r\n")) << driver_->data[std::pair(5U, kOut)];
  EXPECT_GT(driver_->started[5], 1);
  EXPECT_TRUE(sees(5, "/dev/pts/"));
  EXPECT_TRUE(sees(5, "24 80\r\n"));
  ASSERT_TRUE(driver_->link.input(5, bytes_of("hello\n")));
  EXPECT_TRUE(sees(5, "hello\r\nline=hello\r\n"));
  ASSERT_TRUE(driver_->link.resize(5, 40, 100));
  EXPECT_TRUE(sees(5, "40 100\r\n"));
  ASSERT_TRUE(driver_->link.input(5, bytes_of("\x03")));
  EXPECT_TRUE(sees(5, "got-int"));
  ASSERT_TRUE(driver_->link.signal(5, SIGKILL, wire::SignalTarget::Tree));
  EXPECT_TRUE(driver_->until(
      [&] { return driver_->exited.contains(5) && driver_->eof[std::pair(5U, kOut)]; }));
  EXPECT_EQ(driver_->exited[5].signal, SIGKILL);
}

TEST_F(InitStream, EndOfInputReachesATerminal) {
  ASSERT_TRUE(driver_->link.start(5, shell("cat; echo bye", wire::kStartPty | wire::kStartAttach)));
  ASSERT_TRUE(driver_->link.input(5, bytes_of("x\n")));
  ASSERT_TRUE(sees(5, "x\r\nx\r\n"));
  ASSERT_TRUE(driver_->link.close_input(5));
  EXPECT_TRUE(sees(5, "bye\r\n"));
}

// Without credit the process stands still; its ring is full and nothing is lost.
TEST_F(InitStream, BackPressureStopsAProcessAndLosesNothing) {
  StartOptions options =
      shell("i=0; while [ $i -lt 40000 ]; do echo $i; i=$((i+1)); done", wire::kStartAttach);
  options.window_bytes = 1000;
  options.ring_bytes = 8192;
  driver_->auto_credit = false;
  ASSERT_TRUE(driver_->link.start(5, options));
  const std::pair key(5U, kOut);
  ASSERT_TRUE(driver_->until([&] { return driver_->data[key].size() == 1000; }));
  ASSERT_TRUE(driver_->settle());
  EXPECT_EQ(driver_->data[key].size(), 1000U);
  EXPECT_FALSE(driver_->exited.contains(5));
  driver_->auto_credit = true;
  ASSERT_TRUE(driver_->link.credit(5, Stream::Output, 1000));
  ASSERT_TRUE(driver_->until([&] { return driver_->exited.contains(5) && driver_->eof[key]; }));
  std::string expected;
  for (int i = 0; i < 40000; ++i) expected += std::to_string(i) + "\n";
  EXPECT_EQ(driver_->data[key], expected);
  EXPECT_EQ(driver_->exited[5].end_offset[0], expected.size());
  EXPECT_EQ(driver_->exited[5].lost[0], 0U);
}

// The peer goes, the process goes on, the ring keeps the newest bytes, and the next peer sees the
// gap.
TEST_F(InitStream, ARingOutlivesItsPeer) {
  StartOptions options =
      shell("read go; i=0; while [ $i -lt 10000 ]; do echo $i; i=$((i+1)); done; echo end; read x",
            wire::kStartAttach | wire::kStartStdin);
  options.ring_bytes = 4096;
  ASSERT_TRUE(driver_->link.start(5, options));
  ASSERT_TRUE(driver_->until([&] { return driver_->started.contains(5); }));
  ASSERT_TRUE(driver_->link.detach(5));
  ASSERT_TRUE(driver_->link.input(5, bytes_of("go\n")));
  ASSERT_TRUE(driver_->settle());
  driver_ = std::make_unique<Driver>(sandbox_.new_stream(), sandbox_.nonce());
  auto listed = [&] {
    auto session_free = driver_->link.list(9);
    return session_free && driver_->until([&] { return driver_->done.contains({9, Kind::List}); });
  };
  ASSERT_TRUE(listed());
  EXPECT_EQ((driver_->done[{9, Kind::List}].count), 1U);
  // The loop is over when its last line is in the ring.
  std::string expected;
  for (int i = 0; i < 10000; ++i) expected += std::to_string(i) + "\n";
  expected += "end\n";
  ASSERT_TRUE(driver_->link.attach(5, {0, 0}, 1 << 20));
  ASSERT_TRUE(sees(5, "end\n"));
  const std::string& got = driver_->data[std::pair(5U, kOut)];
  EXPECT_TRUE(expected.ends_with(got.substr(got.size() - std::min<std::size_t>(got.size(), 1000))));
  ASSERT_TRUE(driver_->link.input(5, bytes_of("x\n")));
  ASSERT_TRUE(driver_->until([&] { return driver_->exited.contains(5); }));
  EXPECT_EQ(driver_->exited[5].end_offset[0], expected.size());
  ASSERT_TRUE(driver_->link.forget(5));
  EXPECT_TRUE(driver_->until([&] { return driver_->done.contains({5, Kind::Forget}); }));
}

TEST_F(InitStream, ReattachAtAnOffset) {
  ASSERT_TRUE(driver_->link.start(5, shell("printf 0123456789; exit 7", wire::kStartAttach)));
  ASSERT_TRUE(driver_->until([&] { return driver_->exited.contains(5); }));
  driver_ = std::make_unique<Driver>(sandbox_.new_stream(), sandbox_.nonce());
  ASSERT_TRUE(driver_->link.attach(5, {4, 0}, 4096));
  ASSERT_TRUE(driver_->until(
      [&] { return driver_->exited.contains(5) && driver_->eof[std::pair(5U, kOut)]; }));
  EXPECT_EQ((driver_->data[{5U, kOut}]), "456789");
  EXPECT_EQ((driver_->first_offset[{5U, kOut}]), 4U);
  EXPECT_EQ(driver_->exited[5].code, 7);
}

// A collected exec whose peer went is still there for the next one.
TEST_F(InitStream, CollectedOutputWaitsForTheNextPeer) {
  StartOptions options = shell("echo kept", wire::kStartAutoForget | wire::kStartQuiet);
  options.mode = wire::Mode::Collect;
  ASSERT_TRUE(driver_->link.start(5, options));
  ASSERT_TRUE(driver_->link.on_writable());
  driver_ = std::make_unique<Driver>(sandbox_.new_stream(), sandbox_.nonce());
  ASSERT_TRUE(driver_->link.attach(5, {0, 0}, 0));
  ASSERT_TRUE(
      driver_->until([&] { return driver_->exited.contains(5) || driver_->failed.contains(5); }));
  // The first peer may have been served before it was replaced; then the record is gone, and that
  // is said.
  if (driver_->exited.contains(5)) EXPECT_EQ((driver_->data[{5U, kOut}]), "kept\n");
}

TEST_F(InitStream, UnknownThingsAreRefusedByName) {
  ASSERT_TRUE(driver_->link.signal(77, SIGTERM, wire::SignalTarget::Process));
  ASSERT_TRUE(driver_->until([&] { return driver_->failed.contains(77); }));
  EXPECT_EQ(driver_->failed[77], ESRCH);
  ASSERT_TRUE(driver_->link.start(5, shell("exec sleep 1000", wire::kStartAttach)));
  ASSERT_TRUE(driver_->until([&] { return driver_->started.contains(5); }));
  ASSERT_TRUE(driver_->link.forget(5));
  ASSERT_TRUE(driver_->until([&] { return driver_->failed.contains(5); }));
  EXPECT_EQ(driver_->failed[5], EBUSY);
  ASSERT_TRUE(driver_->link.resize(5, 1, 1));
  ASSERT_TRUE(driver_->until([&] { return driver_->failed[5] == ENOTTY; }));
}

TEST_F(InitStream, TheTableHasAnEnd) {
  StartOptions options = shell("exec sleep 1000", wire::kStartQuiet);
  options.ring_bytes = 4096;
  for (std::uint32_t i = 0; i < wire::kProcessesMax; ++i)
    ASSERT_TRUE(driver_->link.start(100 + i, options));
  ASSERT_TRUE(driver_->settle());
  EXPECT_TRUE(driver_->failed.empty());
  // The host's own limit is larger: it holds operations too.
  ASSERT_TRUE(driver_->link.start(9000, options));
  ASSERT_TRUE(driver_->until([&] { return driver_->failed.contains(9000); }));
  EXPECT_EQ(driver_->failed[9000], EAGAIN);
}

// Whatever a peer sends, init drops it and serves the next one.
TEST(InitHostile, GarbageEndsTheStreamAndNothingElse) {
  InitSandbox sandbox;
  std::vector<std::string> attacks = {std::string(100, '\xff'), std::string(12, '\0'),
                                      std::string("\0\0\0\x7f", 4)};
  wire::FrameHeader header{4, static_cast<std::uint16_t>(Kind::Signal), 0, 1};
  attacks.push_back(std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + "abcd");
  header = {wire::kPayloadMax + 1, static_cast<std::uint16_t>(Kind::Data), 0, 1};
  attacks.emplace_back(reinterpret_cast<const char*>(&header), sizeof(header));
  UniqueFd stream = sandbox.take_stream();
  for (const std::string& attack : attacks) {
    std::string sent = attack + std::string(8192, 'x');
    (void)::send(stream.get(), sent.data(), sent.size(), MSG_NOSIGNAL);
    // init's Hello, then the end of the stream.
    std::string got;
    char buffer[4096];
    for (ssize_t n = ::read(stream.get(), buffer, sizeof(buffer)); n > 0;
         n = ::read(stream.get(), buffer, sizeof(buffer))) {
      got.append(buffer, static_cast<std::size_t>(n));
    }
    // A carrier may be quicker than init's Hello.
    if (sandbox.carrier() < 0 || !got.empty())
      EXPECT_EQ(got.size(), sizeof(wire::FrameHeader) + sizeof(wire::HelloBody));
    stream = sandbox.new_stream();
  }
  Driver driver(std::move(stream), sandbox.nonce());
  EXPECT_TRUE(driver.settle());
}

TEST(InitHostile, AMalformedStartIsRefusedAndTheStreamLives) {
  InitSandbox sandbox;
  Driver driver(sandbox.take_stream(), sandbox.nonce());
  ASSERT_TRUE(driver.settle());
  wire::StartBody body{};
  body.argc = 1;
  body.cwd_size = 4000;  // more than there is
  const wire::FrameHeader header{sizeof(body), static_cast<std::uint16_t>(Kind::Start), 0, 6};
  std::string raw(reinterpret_cast<const char*>(&header), sizeof(header));
  raw.append(reinterpret_cast<const char*>(&body), sizeof(body));
  ASSERT_EQ(::send(driver.link.fd(), raw.data(), raw.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(raw.size()));
  ASSERT_TRUE(driver.until([&] { return driver.failed.contains(6); }));
  EXPECT_EQ(driver.failed[6], EINVAL);
  EXPECT_TRUE(driver.settle());
}

TEST(InitHostile, AWrongNonceIsNotBelieved) {
  InitSandbox sandbox;
  engine::Nonce other = sandbox.nonce();
  other[3] ^= std::byte{1};
  auto session = engine::GuestSession::connect(sandbox.take_stream(), other);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Errc::Protocol);
}

}  // namespace
}  // namespace caisson::test
