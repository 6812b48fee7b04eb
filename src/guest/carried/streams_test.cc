#include "guest/carried/streams.h"

#include <gtest/gtest.h>

#include <random>

#include "guest/carried/wires_test.h"

namespace caisson::carried {
namespace {

constexpr wire::Endpoint kProxy{{127, 0, 0, 1}, 3128, static_cast<uint16_t>(wire::Family::V4)};

// Two tables that hear each other, each with sockets of its own.
class StreamsTest : public testing::Test {
 protected:
  StreamsTest() {
    guest_.open(guest_memory_.data());
    host_.open(host_memory_.data());
  }

  // Until nobody has anything to say.
  void talk() {
    for (bool more = true; more;) {
      guest_.pump(from_guest_);
      host_.pump(from_host_);
      more = !from_guest_.bytes.empty() || !from_host_.bytes.empty();
      deliver(from_guest_.bytes, host_);
      deliver(from_host_.bytes, guest_);
    }
  }
  void deliver(std::string& bytes, Streams& to) {
    const std::string all = std::exchange(bytes, {});
    wire::Bytes left{reinterpret_cast<const uint8_t*>(all.data()), all.size()};
    while (left.size != 0) {
      wire::FrameHeader header{};
      ASSERT_EQ(wire::scan_carried_reply(left, header), wire::Scan::Frame);
      ASSERT_TRUE(to.take(header, {left.data + sizeof(header), header.size}))
          << "kind " << header.kind;
      left = {left.data + sizeof(header) + header.size, left.size - sizeof(header) - header.size};
    }
  }
  uint32_t connect() {
    const uint32_t index = guest_.allot();
    EXPECT_NE(index, Streams::kNone);
    inside_.all[index] = Wires::Wire();
    guest_.begin(index, kProxy);
    talk();
    return index;
  }

  std::vector<uint8_t> guest_memory_ = std::vector<uint8_t>(Streams::kMemoryBytes);
  std::vector<uint8_t> host_memory_ = std::vector<uint8_t>(Streams::kMemoryBytes);
  Wires inside_;
  Wires outside_;
  Streams guest_{Side::Guest, inside_};
  Streams host_{Side::Host, outside_};
  Frames from_guest_;
  Frames from_host_;
};

TEST_F(StreamsTest, BytesGoBothWaysAndTheEndOfEach) {
  const uint32_t index = connect();
  EXPECT_EQ(outside_.all[index].to.port, 3128);
  inside_.all[index].in = "question";
  guest_.readable(index);
  talk();
  EXPECT_EQ(outside_.all[index].out, "question");
  inside_.all[index].ended = true;
  guest_.readable(index);
  talk();
  EXPECT_TRUE(outside_.all[index].shut);
  EXPECT_FALSE(inside_.all[index].closed);
  outside_.all[index].in = "answer";
  outside_.all[index].ended = true;
  host_.readable(index);
  talk();
  EXPECT_EQ(inside_.all[index].out, "answer");
  EXPECT_TRUE(inside_.all[index].shut);
  EXPECT_TRUE(inside_.all[index].closed);
  EXPECT_TRUE(outside_.all[index].closed);
  EXPECT_FALSE(inside_.all[index].reset || outside_.all[index].reset);
  EXPECT_EQ(guest_.count(), 0U);
  EXPECT_EQ(host_.count(), 0U);
}

TEST_F(StreamsTest, ARefusalResets) {
  outside_.answer = -ECONNREFUSED;
  const uint32_t index = connect();
  EXPECT_TRUE(inside_.all[index].closed);
  EXPECT_TRUE(inside_.all[index].reset);
  EXPECT_EQ(guest_.count(), 0U);
  EXPECT_EQ(host_.count(), 0U);
}

TEST_F(StreamsTest, ADialMayTakeItsTime) {
  outside_.answer = -EINPROGRESS;
  const uint32_t index = connect();
  EXPECT_TRUE(outside_.all[index].writes);
  inside_.all[index].in = "early";
  host_.dialled(index, 0);
  talk();
  EXPECT_EQ(outside_.all[index].out, "early");
}

// A reader that takes nothing stops the writer: no more than a window is under way.
TEST_F(StreamsTest, ASlowReaderStopsTheSource) {
  const uint32_t index = connect();
  outside_.all[index].takes = 0;
  const std::string all(1 << 20, 's');
  inside_.all[index].in = all;
  guest_.readable(index);
  talk();
  EXPECT_EQ(all.size() - inside_.all[index].in.size(), wire::kCarriedWindow);
  EXPECT_FALSE(inside_.all[index].reads);
  for (int round = 0; round < 2000 && outside_.all[index].out.size() < all.size(); ++round) {
    outside_.all[index].takes = 1000;
    host_.writable(index);
    talk();
  }
  EXPECT_TRUE(outside_.all[index].out == all);
}

// What a side has already given to this one is not lost because it closes in order.
TEST_F(StreamsTest, TheLastBytesReachASlowReader) {
  const uint32_t index = connect();
  inside_.all[index].ended = true;
  guest_.readable(index);
  talk();
  inside_.all[index].takes = 0;
  outside_.all[index].in = "last words";
  outside_.all[index].ended = true;
  host_.readable(index);
  talk();
  EXPECT_FALSE(inside_.all[index].closed);
  inside_.all[index].takes = 100;
  guest_.writable(index);
  talk();
  EXPECT_EQ(inside_.all[index].out, "last words");
  EXPECT_FALSE(inside_.all[index].reset);
  EXPECT_EQ(guest_.count(), 0U);
}

TEST_F(StreamsTest, TheNumberOfConnectionsIsBoundedOnEachSide) {
  for (uint32_t i = 0; i < wire::kCarriedMax; ++i) (void)connect();
  EXPECT_EQ(guest_.allot(), Streams::kNone);
  EXPECT_NE(host_.allot(), Streams::kNone);
  inside_.all[7].ended = outside_.all[7].ended = true;
  guest_.readable(7);
  host_.readable(7);
  talk();
  EXPECT_EQ(guest_.allot(), 7U);
}

TEST_F(StreamsTest, TheHostConnectsToPortsInside) {
  const uint32_t index = host_.allot();
  ASSERT_GE(index, wire::kCarriedMax);
  outside_.all[index] = Wires::Wire();
  host_.begin(index, kProxy);
  talk();
  outside_.all[index].in = "GET /";
  host_.readable(index);
  talk();
  EXPECT_EQ(inside_.all[index].out, "GET /");
}

TEST_F(StreamsTest, ForgottenConnectionsAreReset) {
  const uint32_t index = connect();
  guest_.forget();
  EXPECT_TRUE(inside_.all[index].reset);
  EXPECT_EQ(guest_.allot(), 0U);
}

TEST_F(StreamsTest, WhatBreaksTheRulesIsRefused) {
  const uint32_t index = connect();
  const uint32_t id = wire::kCarriedId | index;
  const auto refused = [&](wire::Kind kind, uint32_t whose, const std::string& payload) {
    const wire::FrameHeader header{static_cast<uint32_t>(payload.size()),
                                   static_cast<uint16_t>(kind), 0, whose};
    return !host_.take(header, {reinterpret_cast<const uint8_t*>(payload.data()), payload.size()});
  };
  const auto raw = [](const auto& body) {
    return std::string(reinterpret_cast<const char*>(&body), sizeof(body));
  };
  EXPECT_TRUE(refused(wire::Kind::Bytes, id, std::string(wire::kCarriedWindow + 1, 'x')));
  EXPECT_TRUE(refused(wire::Kind::Window, id, raw(wire::CreditBody{1, 0}))) << "beyond the most";
  EXPECT_TRUE(refused(wire::Kind::Opened, id, raw(wire::CreditBody{1, 0}))) << "it stands";
  EXPECT_TRUE(refused(wire::Kind::Open, id, raw(wire::OpenBody{kProxy, 1}))) << "it is taken";
  EXPECT_TRUE(refused(wire::Kind::Bytes, id + 1, "x")) << "there is none";
  EXPECT_TRUE(refused(wire::Kind::Bytes, index, "x")) << "no id of a connection";
  EXPECT_TRUE(refused(wire::Kind::Open, wire::kCarriedId | wire::kCarriedMax,
                      raw(wire::OpenBody{kProxy, 1})));
  EXPECT_TRUE(refused(wire::Kind::Open, wire::kCarriedId | wire::kCarriedHostId,
                      raw(wire::OpenBody{kProxy, 1})))
      << "the host's own";
  wire::Endpoint nowhere = kProxy;
  nowhere.family = 9;
  EXPECT_TRUE(refused(wire::Kind::Open, id + 1, raw(wire::OpenBody{nowhere, 1})));
  EXPECT_FALSE(refused(wire::Kind::End, id, ""));
  EXPECT_TRUE(refused(wire::Kind::End, id, "")) << "twice";
  EXPECT_TRUE(refused(wire::Kind::Bytes, id, "x")) << "behind the end";
}

// Two tables with sockets that do anything, and little room for frames: every byte arrives, in
// order.
TEST_F(StreamsTest, NothingIsLostWhateverTheOrder) {
  std::minstd_rand random(5);
  struct Pair {
    std::string sent;
    std::string got;
  };
  std::map<uint32_t, Pair> up;
  for (int i = 0; i < 20; ++i) up[connect()];
  for (int round = 0; round < 30000; ++round) {
    const uint32_t index = random() % 20;
    switch (random() % 5) {
      case 0: {
        const std::string bytes(random() % 5000, static_cast<char>('a' + random() % 26));
        if (up[index].sent.size() > 200000) break;
        up[index].sent += bytes;
        inside_.all[index].in += bytes;
        guest_.readable(index);
        break;
      }
      case 1:
        outside_.all[index].takes = random() % 4000;
        host_.writable(index);
        break;
      case 2:
        from_guest_.room = random() % 70000;
        guest_.pump(from_guest_);
        break;
      case 3:
        from_host_.room = random() % 200;
        host_.pump(from_host_);
        break;
      default:
        deliver(from_guest_.bytes, host_);
        deliver(from_host_.bytes, guest_);
    }
  }
  from_guest_.room = from_host_.room = ~size_t{0};
  for (auto& [index, pair] : up) {
    outside_.all[index].takes = ~size_t{0};
    host_.writable(index);
  }
  talk();
  for (auto& [index, pair] : up)
    EXPECT_TRUE(outside_.all[index].out == pair.sent)
        << index << " " << pair.sent.size() << " " << outside_.all[index].out.size();
}

}  // namespace
}  // namespace caisson::carried
