#include "guest/carrier/core.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "guest/carried/wires_test.h"

namespace caisson::carrier {
namespace {

using wire::ControlKind;
using wire::FrameHeader;
using wire::Kind;

template <class T>
std::string raw(const T& body) {
  return {reinterpret_cast<const char*>(&body), sizeof(body)};
}

std::string frame(Kind kind, std::uint32_t id = 0, const std::string& payload = {},
                  std::uint16_t stream = 0) {
  return raw(FrameHeader{static_cast<std::uint32_t>(payload.size()),
                         static_cast<std::uint16_t>(kind), stream, id}) +
         payload;
}

std::string word(ControlKind kind) {
  return raw(wire::ControlHeader{wire::kVersion, static_cast<std::uint32_t>(kind)});
}

std::string config() { return word(ControlKind::Config) + raw(wire::InitConfig{}); }

class World final : public Hands {
 public:
  void tell(const void* message, size_t size) override {
    told.emplace_back(static_cast<const char*>(message), size);
  }
  void ask(std::uint32_t, const wire::Endpoint&, wire::Bytes) override {}
  void drop_server() override { ++dropped; }

  std::vector<std::string> told;
  int dropped = 0;
};

class CoreTest : public testing::Test {
 protected:
  CoreTest() { EXPECT_TRUE(control(config())); }

  bool control(const std::string& message) {
    return core_.control({reinterpret_cast<const std::uint8_t*>(message.data()), message.size()});
  }
  void server_says(const std::string& bytes) {
    const Piece space = core_.server_space();
    ASSERT_GE(space.size, bytes.size());
    std::memcpy(space.data, bytes.data(), bytes.size());
    core_.server_gave(bytes.size());
  }
  void init_says(const std::string& bytes) {
    const Piece space = core_.init_space();
    ASSERT_GE(space.size, bytes.size());
    std::memcpy(space.data, bytes.data(), bytes.size());
    core_.init_gave(bytes.size());
  }
  std::string init_hears() {
    const wire::Bytes bytes = core_.for_init();
    std::string text(reinterpret_cast<const char*>(bytes.data), bytes.size);
    core_.init_took(bytes.size);
    return text;
  }
  std::string server_hears() {
    const wire::Bytes bytes = core_.for_server();
    std::string text(reinterpret_cast<const char*>(bytes.data), bytes.size);
    core_.server_took(bytes.size);
    return text;
  }
  // A server that init has been told of.
  void serve() {
    (void)init_hears();
    core_.attach();
    const std::string reset = init_hears();
    init_says(frame(Kind::Resumed, 0, reset.substr(sizeof(FrameHeader))));
  }

  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(Core::kMemoryBytes);
  std::vector<std::uint8_t> connections_ =
      std::vector<std::uint8_t>(carried::Streams::kMemoryBytes);
  World world_;
  carried::Wires wires_;
  Core core_{world_, wires_, memory_.data(), connections_.data(), 7};
};

TEST_F(CoreTest, TheConfigurationComesFirstAndOnce) {
  EXPECT_EQ(init_hears(), frame(Kind::Configure, 0, config()));
  EXPECT_FALSE(control(config()));
  World other;
  std::vector<std::uint8_t> memory(Core::kMemoryBytes);
  Core fresh(other, wires_, memory.data(), connections_.data(), 1);
  const std::string hold = word(ControlKind::Hold);
  EXPECT_FALSE(fresh.control({reinterpret_cast<const std::uint8_t*>(hold.data()), hold.size()}));
}

TEST_F(CoreTest, WholeFramesPassInBothDirections) {
  serve();
  const std::string ping = frame(Kind::Ping, 3, "abc");
  server_says(ping.substr(0, 5));
  EXPECT_EQ(init_hears(), "");
  server_says(ping.substr(5));
  EXPECT_EQ(init_hears(), ping);
  const std::string pong = frame(Kind::Pong, 3, "abc");
  init_says(pong.substr(0, 13));
  EXPECT_EQ(server_hears(), "");
  init_says(pong.substr(13));
  EXPECT_EQ(server_hears(), pong);
}

TEST_F(CoreTest, NothingOfTheOldServerReachesTheNewOne) {
  serve();
  server_says(frame(Kind::Ping, 3, "abc").substr(0, 14));
  init_says(frame(Kind::Pong, 1, "old").substr(0, 13));
  core_.attach();
  const std::string reset = init_hears();
  ASSERT_EQ(reset.size(), sizeof(FrameHeader) + sizeof(wire::ResetBody));
  init_says(frame(Kind::Pong, 1, "old").substr(13) + frame(Kind::Pong, 2, "x"));
  EXPECT_EQ(server_hears(), "");
  // An answer to another Reset is none to this one.
  init_says(frame(Kind::Resumed, 0, std::string(sizeof(wire::ResetBody), 'x')));
  init_says(frame(Kind::Pong, 2, "x"));
  EXPECT_EQ(server_hears(), "");
  init_says(frame(Kind::Resumed, 0, reset.substr(sizeof(FrameHeader))));
  init_says(frame(Kind::Pong, 4, "new"));
  EXPECT_EQ(server_hears(), frame(Kind::Pong, 4, "new"));
  server_says(frame(Kind::Ping, 4, "y"));
  EXPECT_EQ(init_hears(), frame(Kind::Ping, 4, "y"));
}

TEST_F(CoreTest, AServerThatLeavesIsForgottenInside) {
  serve();
  core_.server_left();
  const std::string reset = init_hears();
  EXPECT_EQ(reset.size(), sizeof(FrameHeader) + sizeof(wire::ResetBody));
  init_says(frame(Kind::Resumed, 0, reset.substr(sizeof(FrameHeader))) + frame(Kind::Pong, 1));
  EXPECT_EQ(server_hears(), "");
  EXPECT_EQ(core_.state(), Core::State::Serving);
}

TEST_F(CoreTest, AServerThatSpeaksNonsenseIsDropped) {
  serve();
  server_says(frame(Kind::Ping, 1) + std::string(64, '\xff'));
  EXPECT_EQ(world_.dropped, 1);
  EXPECT_FALSE(core_.wants_server());
  EXPECT_TRUE(init_hears().starts_with(frame(Kind::Ping, 1)));
}

// What only the carrier may say a server may not.
TEST_F(CoreTest, AServerHasNoWordOfTheCarriers) {
  for (const Kind kind : {Kind::Configure, Kind::Hold, Kind::EndProcesses, Kind::Reset, Kind::Open,
                          Kind::Bytes, Kind::Datagram, Kind::Identity}) {
    serve();
    const int before = world_.dropped;
    server_says(frame(kind, 0, std::string(sizeof(wire::ResetBody), '\0')));
    EXPECT_EQ(world_.dropped, before + 1) << static_cast<int>(kind);
  }
}

TEST_F(CoreTest, AnInitThatSpeaksNonsenseEndsIt) {
  const std::vector<std::string> nonsense = {
      std::string(12, '\xff'), frame(Kind::Start, 1, std::string(100, 'x')),
      raw(FrameHeader{0xffffffffU, static_cast<std::uint16_t>(Kind::Data), 0, 1}),
      raw(FrameHeader{0, static_cast<std::uint16_t>(Kind::Hello), 0, 1}),
      frame(Kind::Dropped, 0, "x")};
  for (const std::string& bytes : nonsense) {
    World world;
    std::vector<std::uint8_t> memory(Core::kMemoryBytes);
    Core core(world, wires_, memory.data(), connections_.data(), 1);
    std::memcpy(core.init_space().data, bytes.data(), bytes.size());
    core.init_gave(bytes.size());
    EXPECT_EQ(core.state(), Core::State::Broken);
  }
}

TEST_F(CoreTest, AnInitThatDropsAServerIsBelieved) {
  init_says(frame(Kind::Dropped));
  EXPECT_EQ(world_.dropped, 0) << "there was none";
  serve();
  init_says(frame(Kind::Failed, 1, raw(wire::FailedBody{})) + frame(Kind::Dropped));
  EXPECT_EQ(world_.dropped, 1);
  EXPECT_FALSE(core_.wants_server());
}

TEST_F(CoreTest, AHeldInitHearsTheLauncherAlone) {
  serve();
  EXPECT_TRUE(control(word(ControlKind::Hold)));
  EXPECT_EQ(init_hears(), frame(Kind::Hold));
  server_says(frame(Kind::Ping, 1));
  EXPECT_EQ(init_hears(), "");
  EXPECT_FALSE(core_.wants_server());
  init_says(frame(Kind::Done, 0, raw(wire::DoneBody{}), static_cast<std::uint16_t>(Kind::Hold)));
  EXPECT_EQ(world_.told, std::vector{word(ControlKind::Held)});
  EXPECT_EQ(server_hears(), "");
  EXPECT_TRUE(control(word(ControlKind::Release)));
  EXPECT_EQ(init_hears(), frame(Kind::Release) + frame(Kind::Ping, 1));
}

// Its memory may be taken while it is held: what it hears then it would not know of later.
TEST_F(CoreTest, AServerThatComesToAHeldInitIsToldOfLater) {
  serve();
  EXPECT_FALSE(core_.carry());
  EXPECT_TRUE(control(word(ControlKind::Hold)));
  EXPECT_EQ(init_hears(), frame(Kind::Hold));
  EXPECT_FALSE(core_.stands());
  init_says(frame(Kind::Done, 0, raw(wire::DoneBody{}), static_cast<std::uint16_t>(Kind::Hold)));
  EXPECT_TRUE(core_.stands());
  EXPECT_TRUE(core_.carry());
  core_.attach();
  EXPECT_EQ(init_hears(), "");
  EXPECT_TRUE(control(word(ControlKind::Release)));
  EXPECT_FALSE(core_.stands());
  const std::string said = init_hears();
  EXPECT_EQ(said.substr(0, sizeof(FrameHeader)), frame(Kind::Release));
  const std::string reset = said.substr(sizeof(FrameHeader));
  EXPECT_EQ(reset.size(), sizeof(FrameHeader) + sizeof(wire::ResetBody));
  init_says(frame(Kind::Resumed, 0, reset.substr(sizeof(FrameHeader))));
  init_says(frame(Kind::Pong, 5));
  EXPECT_EQ(server_hears(), frame(Kind::Pong, 5));
}

TEST_F(CoreTest, AnInitThatCannotBeginIsTold) {
  (void)init_hears();
  const wire::FailedBody failed{13, static_cast<std::uint32_t>(wire::Step::Landlock), 0, 0};
  init_says(frame(Kind::Failed, 0, raw(failed), static_cast<std::uint16_t>(Kind::Configure)));
  EXPECT_EQ(core_.state(), Core::State::Failed);
  ASSERT_EQ(world_.told.size(), 1U);
  wire::ControlFailed told{};
  ASSERT_EQ(world_.told[0].size(), sizeof(told));
  std::memcpy(&told, world_.told[0].data(), sizeof(told));
  EXPECT_EQ(told.sys_errno, 13);
}

TEST_F(CoreTest, TheLauncherConnectsToAPortInside) {
  (void)init_hears();
  wire::ControlConnect wanted{
      {wire::kVersion, static_cast<std::uint32_t>(ControlKind::Connect)}, 8000, 4, 0};
  const auto connect = [&] {
    return core_.connect({reinterpret_cast<const std::uint8_t*>(&wanted), sizeof(wanted)});
  };
  EXPECT_EQ(connect(), wire::kCarriedMax);
  core_.pump();
  const wire::OpenBody open{{{127, 0, 0, 1}, 8000, static_cast<std::uint16_t>(wire::Family::V4)},
                            wire::kCarriedWindow};
  EXPECT_EQ(init_hears(), frame(Kind::Open, wire::kCarriedId | wire::kCarriedHostId, raw(open)));
  wanted.family = 5;
  EXPECT_EQ(connect(), carried::Streams::kNone);
  wanted.family = 6;
  wanted.port = 0;
  EXPECT_EQ(connect(), carried::Streams::kNone);
  wanted.port = 1;
  for (std::uint32_t i = 1; i < wire::kCarriedHostMax; ++i)
    EXPECT_NE(connect(), carried::Streams::kNone);
  EXPECT_EQ(connect(), carried::Streams::kNone) << "as many as there may be";
}

TEST_F(CoreTest, WhileItIsHeldNoConnectionSpeaks) {
  (void)init_hears();
  const wire::ControlConnect wanted{
      {wire::kVersion, static_cast<std::uint32_t>(ControlKind::Connect)}, 8000, 4, 0};
  (void)core_.connect({reinterpret_cast<const std::uint8_t*>(&wanted), sizeof(wanted)});
  EXPECT_TRUE(control(word(ControlKind::Hold)));
  core_.pump();
  EXPECT_EQ(init_hears(), frame(Kind::Hold));
  EXPECT_TRUE(control(word(ControlKind::Release)));
  core_.pump();
  EXPECT_TRUE(init_hears().starts_with(frame(Kind::Release)));
}

// Neither direction holds more than its buffers, and both go on when there is room.
TEST_F(CoreTest, BothDirectionsWaitForRoom) {
  serve();
  const std::string large = frame(Kind::Data, 1, std::string(wire::kPayloadMax, 'd'));
  std::size_t sent = 0;
  while (core_.wants_server()) {
    server_says(large);
    sent += large.size();
    ASSERT_LE(sent, Core::kToInitBytes + Core::kFromServerBytes);
  }
  std::string heard;
  for (std::string part = init_hears(); !part.empty(); part = init_hears()) heard += part;
  EXPECT_EQ(heard.size(), sent);
  EXPECT_TRUE(core_.wants_server());

  const std::string reply = frame(Kind::Data, 1, std::string(8 + wire::kDataMax, 'r'));
  sent = 0;
  while (core_.wants_init() && core_.init_space().size >= reply.size()) {
    init_says(reply);
    sent += reply.size();
    ASSERT_LE(sent, Core::kToServerBytes + Core::kFromInitBytes);
  }
  heard.clear();
  for (std::string part = server_hears(); !part.empty(); part = server_hears()) heard += part;
  EXPECT_EQ(heard.size(), sent);
  EXPECT_TRUE(core_.wants_init());
}

}  // namespace
}  // namespace caisson::carrier
