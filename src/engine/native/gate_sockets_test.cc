#include "engine/native/gate_sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "engine/native/network_socket.h"
#include "guest/protocol/way_out.h"
#include "policy/way_out.h"
#include "sys/file.h"
#include "sys/namespace.h"

namespace caisson::engine::native {
namespace {

constexpr int kPatienceMs = 5000;

// What stands inside where the gate cannot must be where the gate would be.
static_assert(wire::kWayOutPorts[0] == policy::kProxyPort);
static_assert(wire::kWayOutPorts[1] == policy::kSocksPort);
static_assert(wire::kWayOutPorts[2] == policy::kResolverPort);
static_assert(wire::kQuestionPort == policy::kResolverPort);
static_assert(std::ranges::equal(wire::kWayOutV4, policy::kSyntheticV4));
static_assert(wire::kWayOutV4Bits == policy::kSyntheticV4Bits);
static_assert(std::ranges::equal(wire::kWayOutV6, policy::kSyntheticV6));
static_assert(wire::kWayOutV6Bits == policy::kSyntheticV6Bits);

// A network as a sandbox has it, and ourselves outside of it.
class GateSocketsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: it makes network namespaces";
    auto pending = sys::PendingNamespace::start_network(sys::Mounts::Shared);
    ASSERT_TRUE(pending) << pending.error().message;
    auto made = pending->finish();
    ASSERT_TRUE(made) << made.error().message;
    network_ = std::move(*made);
  }

  // errno of a connection made inside, 0 when it stands; the socket stays open.
  int connect_inside(const char* address, std::uint16_t port) {
    auto visit = sys::NetworkNamespaceVisit::begin(network_.get());
    EXPECT_TRUE(visit);
    sockaddr_in four{};
    sockaddr_in6 six{};
    const bool is_four = ::inet_pton(AF_INET, address, &four.sin_addr) == 1;
    const sockaddr* to = reinterpret_cast<const sockaddr*>(&four);
    socklen_t size = sizeof(four);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    if (!is_four) {
      EXPECT_EQ(::inet_pton(AF_INET6, address, &six.sin6_addr), 1);
      six.sin6_family = AF_INET6;
      six.sin6_port = htons(port);
      to = reinterpret_cast<const sockaddr*>(&six);
      size = sizeof(six);
    }
    client_ = UniqueFd(::socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(client_.get(), to, size) == 0 ? 0 : errno;
  }

  // Where the connection that waits at the listener was going to: "address port".
  static std::string arrival(int listener) {
    pollfd waiting{listener, POLLIN, 0};
    if (::poll(&waiting, 1, kPatienceMs) != 1) return "nobody came";
    const UniqueFd came(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    sockaddr_in6 to{};
    socklen_t size = sizeof(to);
    if (::getsockname(came.get(), reinterpret_cast<sockaddr*>(&to), &size) != 0) return "?";
    char text[INET6_ADDRSTRLEN];
    ::inet_ntop(AF_INET6, &to.sin6_addr, text, sizeof(text));
    return std::string(text) + " " + std::to_string(ntohs(to.sin6_port));
  }

  UniqueFd network_;
  UniqueFd client_;
};

TEST_F(GateSocketsTest, WithoutAGateNothingIsReached) {
  EXPECT_EQ(connect_inside("198.18.1.0", 443), ENETUNREACH);
  EXPECT_EQ(connect_inside("127.0.0.1", 3128), ECONNREFUSED);
}

TEST_F(GateSocketsTest, EveryPortOfTheRangeArrivesAtOneListener) {
  const auto gate = open_gate_in(network_.get(), {});
  ASSERT_TRUE(gate) << gate.error().message;
  ASSERT_TRUE(gate->steering) << "this kernel cannot steer";
  ASSERT_EQ(gate->listeners.size(), 1U);
  const int listener = gate->listeners.front().get();
  EXPECT_EQ(connect_inside("198.18.1.0", 443), 0);
  EXPECT_EQ(arrival(listener), "::ffff:198.18.1.0 443");
  EXPECT_EQ(connect_inside("198.19.255.255", 1), 0);
  EXPECT_EQ(arrival(listener), "::ffff:198.19.255.255 1");
  EXPECT_EQ(connect_inside("fd63:6169:7373:6f6e::100", 22), 0);
  EXPECT_EQ(arrival(listener), "fd63:6169:7373:6f6e::100 22");
  for (const std::uint16_t port : {std::uint16_t{3128}, std::uint16_t{1080}, std::uint16_t{53}}) {
    EXPECT_EQ(connect_inside("127.0.0.1", port), 0);
    EXPECT_EQ(arrival(listener), "::ffff:127.0.0.1 " + std::to_string(port));
    EXPECT_EQ(connect_inside("::1", port), 0);
    EXPECT_EQ(arrival(listener), "::1 " + std::to_string(port));
  }
}

TEST_F(GateSocketsTest, NothingElseIsSteered) {
  const auto gate = open_gate_in(network_.get(), {});
  ASSERT_TRUE(gate) << gate.error().message;
  EXPECT_EQ(connect_inside("127.0.0.1", 80), ECONNREFUSED);
  EXPECT_EQ(connect_inside("::1", 80), ECONNREFUSED);
  EXPECT_EQ(connect_inside("198.20.0.1", 443), ENETUNREACH);
  EXPECT_EQ(connect_inside("8.8.8.8", 53), ENETUNREACH);
  EXPECT_NE(connect_inside("fd63:6169:7373:6f6f::1", 443), 0);
  EXPECT_NE(connect_inside("2001:db8::1", 443), 0);
}

// A server that was killed takes its descriptors along; the next one gets new sockets.
TEST_F(GateSocketsTest, OpensAgainWhenTheFirstIsGone) {
  {
    const auto gate = open_gate_in(network_.get(), {});
    ASSERT_TRUE(gate) << gate.error().message;
    EXPECT_FALSE(open_gate_in(network_.get(), {})) << "two would share the connections";
  }
  EXPECT_EQ(connect_inside("198.18.1.0", 443), ECONNREFUSED);
  const auto again = open_gate_in(network_.get(), {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(connect_inside("198.18.1.0", 443), 0);
}

TEST_F(GateSocketsTest, AGuestThatListensInTheRangeGetsNothing) {
  const auto gate = open_gate_in(network_.get(), {});
  ASSERT_TRUE(gate) << gate.error().message;
  const auto visit = sys::NetworkNamespaceVisit::begin(network_.get());
  ASSERT_TRUE(visit);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_port = htons(443);
  ASSERT_EQ(::inet_pton(AF_INET, "198.18.1.0", &here.sin_addr), 1);
  const UniqueFd thief(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(thief.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
  ASSERT_EQ(::listen(thief.get(), 8), 0);
  EXPECT_EQ(connect_inside("198.18.1.0", 443), 0);
  EXPECT_EQ(arrival(gate->listeners.front().get()), "::ffff:198.18.1.0 443");
  EXPECT_EQ(::accept4(thief.get(), nullptr, nullptr, SOCK_CLOEXEC), -1);
}

TEST_F(GateSocketsTest, TheCallerComesBackToItsOwnNetwork) {
  const auto inode = [] {
    struct stat found{};
    EXPECT_EQ(::stat("/proc/thread-self/ns/net", &found), 0);
    return found.st_ino;
  };
  const auto before = inode();
  ASSERT_TRUE(open_gate_in(network_.get(), {}));
  EXPECT_EQ(inode(), before);
  ASSERT_TRUE(socket_in_network_of(network_.get(), AF_INET));
  EXPECT_EQ(inode(), before);
  EXPECT_FALSE(open_gate_in(-1, {}));
  EXPECT_EQ(inode(), before);
}

}  // namespace
}  // namespace caisson::engine::native
