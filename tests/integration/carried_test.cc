// init behind a carrier, as under another kernel: one stream for life, whatever becomes of servers;
// what the launcher says travels on it; and a hostile init meets the carrier's end.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>

#include "init_driver.h"

namespace caisson::test {
namespace {

using engine::ExecRequest;
using engine::GuestSession;
using wire::ControlKind;

const InitOptions kCarried{.carried = true};

wire::ControlHeader word(ControlKind kind) {
  return {wire::kVersion, static_cast<std::uint32_t>(kind)};
}

template <class Message>
void say(const InitSandbox& sandbox, const Message& message, const std::string& tail = {}) {
  std::string bytes(reinterpret_cast<const char*>(&message), sizeof(message));
  bytes += tail;
  ASSERT_TRUE(sys::send_message(sandbox.control(), std::as_bytes(std::span(bytes)), {}));
}

// The next message of the carrier to the launcher; empty when it has closed.
std::string hear(const InitSandbox& sandbox) {
  pollfd fd{sandbox.control(), POLLIN, 0};
  if (::poll(&fd, 1, 10000) != 1) return "nothing in time";
  auto message = sys::receive_message(sandbox.control(), wire::kControlMax);
  if (!message) return message.error().message;
  return {reinterpret_cast<const char*>(message->bytes.data()), message->bytes.size()};
}

template <class Body>
std::string raw(const Body& body) {
  return {reinterpret_cast<const char*>(&body), sizeof(body)};
}

ExecRequest shell_request(std::string script) {
  ExecRequest request;
  request.argv = {"/bin/sh", "-c", std::move(script)};
  request.env = {"PATH=/usr/bin:/bin"};
  request.user = kUser;
  request.cwd = kScratch;
  return request;
}

TEST(Carried, CommandsAndLargeFiles) {
  InitSandbox sandbox(kCarried);
  auto session = sandbox.session();
  auto done = session->execute(shell_request("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->out, "out\n");
  EXPECT_EQ(done->err, "err\n");
  EXPECT_EQ(done->exit_code, 3);
  std::string content(32 << 20, '\0');
  std::minstd_rand random(1);
  for (std::size_t i = 0; i < content.size(); i += 4)
    std::memcpy(content.data() + i, std::array{random()}.data(), 4);
  ASSERT_TRUE(session->write_file(kUser, "/mnt/large", content));
  auto read = session->read_file(kUser, "/mnt/large");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(*read == content);
  auto sum = session->execute(shell_request("stat -c %s large"));
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->out, "33554432\n");
}

// Whatever a server had said or heard by half when it was cut off, the next one begins at a frame,
// and what a process printed in the meantime is there by its offsets.
TEST(Carried, ServersMayBeCutOffAnywhere) {
  constexpr int kRounds = 200;
  constexpr std::uint32_t kCounter = 77;
  constexpr std::size_t kLine = 8;
  InitSandbox sandbox(kCarried);
  std::minstd_rand random(20260101);
  const auto up_to = [&](std::size_t most) { return random() % (most + 1); };
  {
    Driver first(sandbox.take_stream(), sandbox.nonce());
    StartOptions counter =
        shell("i=0; while :; do printf '%07d\\n' $i; i=$((i+1)); done", wire::kStartAttach);
    counter.window_bytes = 1 << 20;
    ASSERT_TRUE(first.link.start(kCounter, counter));
    ASSERT_TRUE(first.until([&] { return first.started.contains(kCounter); }));
  }
  std::uint64_t seen = 0;
  for (int round = 0; round < kRounds; ++round) {
    // One that breaks off, in the middle of what it says and of what it hears.
    {
      const UniqueFd stream = sandbox.new_stream();
      std::string bytes;
      const auto add = [&](Kind kind, std::uint32_t id, const std::string& payload) {
        bytes += raw(wire::FrameHeader{static_cast<std::uint32_t>(payload.size()),
                                       static_cast<std::uint16_t>(kind), 0, id}) +
                 payload;
      };
      add(Kind::Attach, kCounter, raw(wire::AttachBody{{0, 0}, 1U << 20U, 0}));
      wire::OpBody op{};
      op.op = static_cast<std::uint32_t>(wire::OpKind::Write);
      op.uid = op.gid = kUser.uid;
      const std::string path = "/mnt/half" + std::to_string(round % 8);
      op.path_size = static_cast<std::uint32_t>(path.size());
      add(Kind::Op, 5, raw(op) + path);
      add(Kind::Data, 5, std::string(up_to(60000), 'x'));
      add(Kind::Ping, 6, "ping");
      bytes.resize(up_to(bytes.size()));
      ASSERT_EQ(::send(stream.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(bytes.size()));
      std::string heard(up_to(40000), '\0');
      while (!heard.empty() && up_to(3) != 0) {
        pollfd fd{stream.get(), POLLIN, 0};
        if (::poll(&fd, 1, 5) != 1) break;
        if (::recv(stream.get(), heard.data(), heard.size(), MSG_DONTWAIT) <= 0) break;
      }
    }
    // One that stays for a while: what it hears is whole frames, and every byte stands at its
    // place.
    Driver driver(sandbox.new_stream(), sandbox.nonce());
    driver.auto_credit = false;
    ASSERT_TRUE(driver.link.attach(kCounter, {seen, 0}, 64 * 1024));
    ASSERT_TRUE(driver.settle()) << round << ": "
                                 << (driver.link.death() ? driver.link.death()->message : "late");
    ASSERT_TRUE(driver.until([&] { return driver.data[{kCounter, kOut}].size() >= kLine; }));
    const std::string& text = driver.data[{kCounter, kOut}];
    const std::uint64_t offset = driver.first_offset[{kCounter, kOut}];
    ASSERT_GE(offset, seen);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::uint64_t at = offset + i;
      char line[kLine + 1];
      std::snprintf(line, sizeof(line), "%07llu\n",
                    static_cast<unsigned long long>(at / kLine % 10000000));
      ASSERT_EQ(text[i], line[at % kLine]) << "round " << round << ", byte " << at;
    }
    seen = offset;
  }
  auto session = sandbox.session();
  auto left = session->execute(shell_request("ls -A"));
  ASSERT_TRUE(left);
  EXPECT_EQ(left->out.find(".caisson"), std::string::npos) << "a half upload left its file";
  auto killed = session->execute(shell_request("kill -9 -1"));
  EXPECT_TRUE(killed);
}

TEST(Carried, APeerThatSpeaksNonsenseIsCutOffAndTheNextIsServed) {
  InitSandbox sandbox(kCarried);
  for (int round = 0; round < 5; ++round) {
    Driver driver(round == 0 ? sandbox.take_stream() : sandbox.new_stream(), sandbox.nonce());
    ASSERT_TRUE(driver.settle());
    // To the carrier no frame; to init one that is never right.
    const std::string bytes =
        round % 2 == 0 ? std::string(40, '\xff')
                       : raw(wire::FrameHeader{0, static_cast<std::uint16_t>(Kind::Eof), 1, 9});
    ASSERT_EQ(::send(driver.link.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    EXPECT_FALSE(driver.until([] { return false; }));
    EXPECT_TRUE(driver.link.death());
  }
  EXPECT_TRUE(sandbox.session()->ping());
}

TEST(Carried, HeldInitStartsNobodyUntilReleased) {
  InitSandbox sandbox(kCarried);
  Driver driver(sandbox.take_stream(), sandbox.nonce());
  ASSERT_TRUE(driver.settle());
  say(sandbox, word(ControlKind::Hold));
  EXPECT_EQ(hear(sandbox), raw(word(ControlKind::Held)));
  const std::size_t pongs = driver.pongs;
  ASSERT_TRUE(driver.link.ping(1, {}));
  ASSERT_TRUE(driver.link.on_writable());
  pollfd fd{driver.link.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 50), 0) << "it answers while it is held";
  say(sandbox, word(ControlKind::Release));
  EXPECT_TRUE(driver.until([&] { return driver.pongs > pongs; }));
}

TEST(Carried, ACopyGetsAnotherNonceAndANewIdentity) {
  InitSandbox sandbox(kCarried);
  auto session = sandbox.session();
  wire::ControlIdentity identity{};
  identity.header = word(ControlKind::Identity);
  for (std::uint8_t& byte : identity.body.seed) byte = 0x5a;
  identity.body.hostname_size = 4;
  say(sandbox, identity, "copy");
  const std::string answer = hear(sandbox);
  ASSERT_EQ(answer.size(), sizeof(wire::ControlRenewed));
  wire::ControlRenewed renewed{};
  std::memcpy(&renewed, answer.data(), sizeof(renewed));
  EXPECT_EQ(renewed.header.kind, static_cast<std::uint32_t>(ControlKind::Renewed));
  // The test's init has no right to any of it, and says so.
  EXPECT_EQ(renewed.done, 0U);
  EXPECT_TRUE(session->ping());
}

TEST(Carried, EndProcessesKillsEverybodyButInit) {
  InitSandbox sandbox(kCarried);
  Driver driver(sandbox.take_stream(), sandbox.nonce());
  ASSERT_TRUE(driver.link.start(
      5, shell("setsid sh -c 'echo in; sleep 1000' & echo out; sleep 1000", wire::kStartAttach)));
  ASSERT_TRUE(driver.until([&] { return driver.data[{5U, kOut}].size() == 7; }));
  say(sandbox, word(ControlKind::EndProcesses));
  ASSERT_TRUE(driver.until([&] { return driver.exited.contains(5) && driver.eof[{5U, kOut}]; }));
  EXPECT_EQ(driver.exited[5].signal, SIGKILL);
  EXPECT_TRUE(driver.settle());
}

// A tenant borrows init's memory until its exec, and may be stopped there by whoever has its id:
// init and its siblings go on, and it can be ended.
TEST(Carried, AStoppedNewbornHoldsUpNobody) {
  InitSandbox sandbox(kCarried);
  Driver driver(sandbox.take_stream(), sandbox.nonce());
  StartOptions stopper = shell("", wire::kStartAttach);
  stopper.argv = {"/usr/bin/python3", "-c",
                  "import os,signal\nprint('up', flush=True)\n"
                  "while True:\n  try: os.kill(-1, signal.SIGSTOP)\n  except OSError: pass\n"};
  ASSERT_TRUE(driver.link.start(1, stopper));
  ASSERT_TRUE(driver.until([&] { return driver.data[{1U, kOut}] == "up\n"; }));
  constexpr std::uint32_t kFirst = 100;
  constexpr std::uint32_t kCount = 40;
  for (std::uint32_t id = kFirst; id < kFirst + kCount; ++id) {
    StartOptions options = shell("", wire::kStartAttach | wire::kStartQuiet);
    options.argv = {"/bin/true"};
    options.ring_bytes = wire::kRingBytesMin;
    ASSERT_TRUE(driver.link.start(id, options));
    ASSERT_TRUE(driver.settle());
  }
  // Of another id, who cannot be stopped by it.
  StartOptions other = shell("echo other", wire::kStartAttach);
  other.uid = other.gid = kUser.uid + 1;
  ASSERT_TRUE(driver.link.start(2, other));
  ASSERT_TRUE(driver.until([&] { return driver.exited.contains(2); }));
  EXPECT_EQ((driver.data[{2U, kOut}]), "other\n");
  ASSERT_TRUE(driver.link.signal(1, SIGKILL, wire::SignalTarget::Process));
  for (std::uint32_t id = kFirst; id < kFirst + kCount; ++id)
    ASSERT_TRUE(driver.link.signal(id, SIGKILL, wire::SignalTarget::Process));
  ASSERT_TRUE(driver.until([&] { return driver.exited.size() == kCount + 2; }))
      << driver.exited.size();
}

TEST(Carried, ManyBirthsAtOnceKeepTheirArguments) {
  InitSandbox sandbox(kCarried);
  Driver driver(sandbox.take_stream(), sandbox.nonce());
  constexpr std::uint32_t kCount = 120;
  for (std::uint32_t id = 1; id <= kCount; ++id) {
    StartOptions options = shell("", wire::kStartAttach | wire::kStartQuiet);
    options.ring_bytes = wire::kRingBytesMin;
    options.argv = {"/bin/echo", std::string(id * 7, 'a'), std::to_string(id)};
    ASSERT_TRUE(driver.link.start(id, options));
  }
  ASSERT_TRUE(driver.until([&] {
    for (std::uint32_t id = 1; id <= kCount; ++id) {
      if (!driver.exited.contains(id) || !driver.eof[{id, kOut}]) return false;
    }
    return true;
  }));
  for (std::uint32_t id = 1; id <= kCount; ++id)
    EXPECT_EQ((driver.data[{id, kOut}]),
              std::string(id * 7, 'a') + " " + std::to_string(id) + "\n");
}

TEST(Carried, ShutdownEndsInitAndThenTheCarrier) {
  InitSandbox sandbox(kCarried);
  EXPECT_TRUE(sandbox.session()->ping());
  say(sandbox, word(ControlKind::Shutdown));
  EXPECT_EQ(sandbox.wait_for_end(), 0);
  EXPECT_EQ(sandbox.wait_for_carrier(), 0);
}

TEST(Carried, TheDeathOfInitEndsTheCarrier) {
  InitSandbox sandbox(kCarried);
  auto session = sandbox.session();
  ::kill(sandbox.pid(), SIGKILL);
  EXPECT_EQ(sandbox.wait_for_carrier(), 0);
  EXPECT_FALSE(session->ping());
}

TEST(Carried, TheDeathOfTheCarrierEndsInit) {
  InitSandbox sandbox(kCarried);
  EXPECT_TRUE(sandbox.session()->ping());
  ::kill(sandbox.carrier(), SIGKILL);
  EXPECT_EQ(sandbox.wait_for_end(), 0);
}

TEST(Carried, AnInitThatCannotBeginSaysWhy) {
  InitSandbox sandbox({.carried = true, .landlock_base = true});
  const std::string answer = hear(sandbox);
  ASSERT_EQ(answer.size(), sizeof(wire::ControlFailed));
  wire::ControlFailed failed{};
  std::memcpy(&failed, answer.data(), sizeof(failed));
  EXPECT_EQ(failed.header.kind, static_cast<std::uint32_t>(ControlKind::Failed));
  EXPECT_EQ(failed.step, static_cast<std::uint32_t>(wire::Step::Landlock));
  EXPECT_NE(sandbox.wait_for_carrier(), 0);
}

// A port, as a virtual machine has one: that a read gives nothing means that nobody is there now.
TEST(Carried, APortWhereNobodyIsIsWaitedAt) {
  const std::string folder = testing::TempDir() + "caisson-port-" + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const std::string in = folder + "/in";
  const std::string out = folder + "/out";
  ASSERT_EQ(::mkfifo(in.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(out.c_str(), 0600), 0);
  const UniqueFd reads(::open(in.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const UniqueFd heard(::open(out.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  const UniqueFd writes(::open(out.c_str(), O_WRONLY | O_CLOEXEC));
  InitSandbox sandbox({.carried = true, .carried_end = reads.get(), .port_output = writes.get()});
  const auto frame = [](Kind kind, const std::string& payload) {
    return raw(wire::FrameHeader{static_cast<std::uint32_t>(payload.size()),
                                 static_cast<std::uint16_t>(kind), 0, 0}) +
           payload;
  };
  // The next frame of init's: its kind and payload.
  const auto next = [&]() -> std::pair<Kind, std::string> {
    const auto take = [&](std::size_t size) {
      std::string bytes;
      while (bytes.size() < size) {
        pollfd fd{heard.get(), POLLIN, 0};
        if (::poll(&fd, 1, 10000) != 1) break;
        char byte = 0;
        if (::read(heard.get(), &byte, 1) == 1) bytes += byte;
      }
      return bytes;
    };
    const std::string head = take(sizeof(wire::FrameHeader));
    wire::FrameHeader header{};
    if (head.size() != sizeof(header)) return {};
    std::memcpy(&header, head.data(), sizeof(header));
    return {static_cast<Kind>(header.kind), take(header.size)};
  };
  for (int visit = 0; visit < 3; ++visit) {
    // Nobody is there; somebody comes, and goes again.
    const UniqueFd visitor(::open(in.c_str(), O_WRONLY | O_CLOEXEC));
    std::string said;
    if (visit == 0) {
      said = frame(Kind::Configure, raw(word(ControlKind::Config)) + raw(wire::InitConfig{}));
    }
    const std::string token(sizeof(wire::ResetBody), static_cast<char>('a' + visit));
    said += frame(Kind::Reset, token);
    ASSERT_EQ(::write(visitor.get(), said.data(), said.size()), static_cast<ssize_t>(said.size()));
    if (visit == 0) EXPECT_EQ(next().first, Kind::Done);
    EXPECT_EQ(next(), std::pair(Kind::Resumed, token));
    EXPECT_EQ(next().first, Kind::Hello);
    const std::string ping = frame(Kind::Ping, "here");
    ASSERT_EQ(::write(visitor.get(), ping.data(), ping.size()), static_cast<ssize_t>(ping.size()));
    EXPECT_EQ(next(), std::pair(Kind::Pong, std::string("here")));
  }
  sandbox.close_control();
  std::filesystem::remove_all(folder);
}

// The carrier with an init that a test plays.
class HostileInit : public testing::Test {
 protected:
  // Gives the carrier `bytes` as init's words, and how the carrier ended.
  int carrier_after(const std::string& bytes) {
    InitSandbox sandbox({.carried = true, .plays_init = true});
    const UniqueFd init = sandbox.take_init_end();
    // It may have heard enough before we are done.
    (void)::send(init.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ::shutdown(init.get(), SHUT_WR);
    return sandbox.wait_for_carrier();
  }
};

TEST_F(HostileInit, NonsenseEndsTheCarrierCleanly) {
  std::minstd_rand random(7);
  for (int round = 0; round < 60; ++round) {
    std::string bytes;
    if (round % 3 == 1)
      bytes = raw(wire::FrameHeader{0xfffffff0U, static_cast<std::uint16_t>(Kind::Data), 1, 1});
    if (round % 3 == 2)
      bytes = raw(wire::FrameHeader{12, static_cast<std::uint16_t>(64 + round % 40), 1, 1});
    for (std::size_t i = random() % 5000; i > 0; --i) bytes += static_cast<char>(random());
    const int status = carrier_after(bytes);
    EXPECT_TRUE(WIFEXITED(status)) << "round " << round << ": " << status;
  }
}

}  // namespace
}  // namespace caisson::test
