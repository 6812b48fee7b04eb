// The network of a guest that another kernel runs: init stands inside where the gate would, the
// carrier leads each connection to the gate's places in the sandbox's own network. Here the gate is
// a test's, on sockets as the launcher opens them.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "engine/native/gate_sockets.h"
#include "init_driver.h"
#include "sys/namespace.h"

namespace caisson::test {
namespace {

using engine::ExecRequest;
using wire::ControlKind;

// Serves every connection in one thread: first says where it was going to, then gives back what it
// gets, and says "end" behind the other side's end. One whose first bytes are "flood" gets bytes
// without end.
class Gate {
 public:
  explicit Gate(engine::GateSockets sockets) : sockets_(std::move(sockets)) {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  std::atomic<std::size_t> most = 0;  // connections at once
  std::atomic<std::uint64_t> flooded = 0;

 private:
  struct Peer {
    UniqueFd fd;
    std::string out;
    bool ended = false;
    bool floods = false;
  };

  static std::string destination(int fd) {
    sockaddr_in6 to{};
    socklen_t size = sizeof(to);
    (void)::getsockname(fd, reinterpret_cast<sockaddr*>(&to), &size);
    char text[INET6_ADDRSTRLEN] = {};
    if (to.sin6_family == AF_INET) {
      const auto* four = reinterpret_cast<const sockaddr_in*>(&to);
      ::inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
    } else {
      ::inet_ntop(AF_INET6, &to.sin6_addr, text, sizeof(text));
    }
    return std::string(text) + " " + std::to_string(ntohs(to.sin6_port)) + "\n";
  }

  // False when it is over.
  bool serve_one(Peer& peer) {
    char bytes[16384];
    if (!peer.ended && peer.out.size() < 256 * 1024) {
      const ssize_t got = ::recv(peer.fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (got == 0) {
        peer.ended = true;
        peer.out += "end";
      }
      if (got < 0 && errno != EAGAIN) return false;
      const std::string_view said(bytes, got > 0 ? static_cast<std::size_t>(got) : 0);
      if (said.starts_with("flood")) peer.floods = true;
      if (!peer.floods) peer.out += said;
    }
    if (peer.floods && peer.out.empty()) peer.out.assign(65536, 'f');
    while (!peer.out.empty()) {
      const ssize_t sent =
          ::send(peer.fd.get(), peer.out.data(), peer.out.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) return true;
      if (sent < 0) return false;
      if (peer.floods) flooded += static_cast<std::uint64_t>(sent);
      peer.out.erase(0, static_cast<std::size_t>(sent));
    }
    return !peer.ended;
  }

  void answer_question() {
    char bytes[4096];
    sockaddr_in from{};
    socklen_t size = sizeof(from);
    const ssize_t got = ::recvfrom(sockets_.resolver.get(), bytes, sizeof(bytes), MSG_DONTWAIT,
                                   reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return;
    const std::string answer = "answer to " + std::string(bytes, static_cast<std::size_t>(got));
    (void)::sendto(sockets_.resolver.get(), answer.data(), answer.size(), 0,
                   reinterpret_cast<const sockaddr*>(&from), size);
  }

  void serve(const std::stop_token& stop) {
    std::vector<Peer> peers;
    while (!stop.stop_requested()) {
      std::vector<pollfd> fds{{sockets_.resolver.get(), POLLIN, 0}};
      for (const UniqueFd& listener : sockets_.listeners)
        fds.push_back({listener.get(), POLLIN, 0});
      for (const Peer& peer : peers) {
        const bool writes = !peer.out.empty() || peer.floods;
        fds.push_back({peer.fd.get(), static_cast<short>(writes ? POLLOUT | POLLIN : POLLIN), 0});
      }
      if (::poll(fds.data(), fds.size(), 20) <= 0) continue;
      if (fds[0].revents != 0) answer_question();
      std::erase_if(peers, [this](Peer& peer) { return !serve_one(peer); });
      for (const UniqueFd& listener : sockets_.listeners) {
        for (int i = 0; i < 64; ++i) {
          UniqueFd came(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
          if (!came) break;
          std::string greeting = destination(came.get());
          peers.push_back({std::move(came), std::move(greeting)});
        }
      }
      most = std::max<std::size_t>(most, peers.size());
    }
  }

  engine::GateSockets sockets_;
  std::jthread thread_;
};

class CarriedNetwork : public testing::Test {
 protected:
  void SetUp() override {
    auto pending = sys::PendingNamespace::start_network(sys::Mounts::Shared);
    ASSERT_TRUE(pending) << pending.error().message;
    auto made = pending->finish();
    ASSERT_TRUE(made) << made.error().message;
    network_ = std::move(*made);
  }
  void begin(bool gate = true) {
    const std::vector<std::uint16_t> ports{443, 8443};
    if (gate) {
      auto sockets = engine::native::open_gate_in(network_.get(), ports, 15004);
      ASSERT_TRUE(sockets) << sockets.error().message;
      gate_ = std::make_unique<Gate>(std::move(*sockets));
    }
    sandbox_ = std::make_unique<InitSandbox>(InitOptions{
        .carried = true, .open_files = 20000, .carrier_network = network_.get(), .ports = ports});
    session_ = sandbox_->session();
  }
  std::string python(const std::string& script) {
    ExecRequest request;
    request.argv = {"/usr/bin/python3", "-c", "import socket,sys,time,threading\n" + script};
    request.env = {"PATH=/usr/bin:/bin"};
    request.user = kUser;
    request.cwd = "/";
    request.timeout = seconds(60);
    auto done = session_->execute(request);
    if (!done) return done.error().message;
    return done->out + done->err.substr(done->err.size() > 300 ? done->err.size() - 300 : 0);
  }
  // A connection of the launcher's to a port inside.
  UniqueFd connect_inside(std::uint16_t port) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const wire::ControlConnect wanted{
        {wire::kVersion, static_cast<std::uint32_t>(ControlKind::Connect)},
        port,
        static_cast<std::uint16_t>(wire::Family::V4),
        0};
    EXPECT_TRUE(
        sys::send_message(sandbox_->control(), std::as_bytes(std::span(&wanted, 1)), {{ends[1]}}));
    ::close(ends[1]);
    return UniqueFd(ends[0]);
  }
  std::size_t carrier_memory_kib() {
    std::ifstream file("/proc/" + std::to_string(sandbox_->carrier()) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
    }
    return 0;
  }

  UniqueFd network_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<InitSandbox> sandbox_;
  std::unique_ptr<engine::GuestSession> session_;
};

constexpr const char* kTalk = R"(
def talk(address, port, said=b'hello', family=socket.AF_INET):
  s = socket.socket(family)
  s.settimeout(20)
  s.connect((address, port))
  s.sendall(said)
  s.shutdown(socket.SHUT_WR)
  got = b''
  while True:
    part = s.recv(65536)
    if not part: return got.decode()
    got += part
)";

TEST_F(CarriedNetwork, EveryWayOutIsFoundWithItsDestination) {
  begin();
  const std::string talk = kTalk;
  EXPECT_EQ(python(talk + "print(talk('127.0.0.1', 3128))"), "::ffff:127.0.0.1 3128\nhelloend\n");
  EXPECT_EQ(python(talk + "print(talk('127.0.0.1', 1080))"), "::ffff:127.0.0.1 1080\nhelloend\n");
  EXPECT_EQ(python(talk + "print(talk('127.0.0.1', 53))"), "::ffff:127.0.0.1 53\nhelloend\n");
  EXPECT_EQ(python(talk + "print(talk('198.18.3.4', 443))"), "::ffff:198.18.3.4 443\nhelloend\n");
  EXPECT_EQ(python(talk + "print(talk('198.19.255.1', 8443))"),
            "::ffff:198.19.255.1 8443\nhelloend\n");
  EXPECT_EQ(python(talk + "print(talk('::1', 3128, family=socket.AF_INET6))"),
            "::1 3128\nhelloend\n");
  EXPECT_EQ(python(talk + "print(talk('fd63:6169:7373:6f6e::7', 443, family=socket.AF_INET6))"),
            "fd63:6169:7373:6f6e::7 443\nhelloend\n");
}

TEST_F(CarriedNetwork, QuestionsToTheResolverAreAnswered) {
  begin();
  EXPECT_EQ(python("s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                   "s.settimeout(20)\n"
                   "for i in range(300):\n"
                   "  s.sendto(b'q%d' % i, ('127.0.0.1', 53))\n"
                   "  assert s.recv(4096) == b'answer to q%d' % i, i\n"
                   "print('all')"),
            "all\n");
}

TEST_F(CarriedNetwork, NothingElseIsReached) {
  begin();
  const std::string tries =
      "def why(a, p, f=socket.AF_INET):\n"
      "  try: socket.socket(f).connect((a, p))\n"
      "  except OSError as e: return e.strerror\n"
      "  return 'reached'\n";
  EXPECT_EQ(python(tries + "print(why('10.1.2.3', 443))"), "Network is unreachable\n");
  EXPECT_EQ(python(tries + "print(why('198.18.3.4', 9999))"), "Connection refused\n");
  EXPECT_EQ(python(tries + "print(why('127.0.0.1', 22))"), "Connection refused\n");
  // A port of the rules is one at the synthetic addresses alone.
  EXPECT_EQ(python("s = socket.create_connection(('127.0.0.1', 443))\n"
                   "try: print(s.recv(1))\n"
                   "except ConnectionError as e: print('reset')"),
            "reset\n");
}

// What rules name later is answered later.
TEST_F(CarriedNetwork, PortsMayBeAdded) {
  begin();
  const std::string talk = std::string(kTalk) +
                           "try: print(talk('198.18.3.4', 9999))\n"
                           "except OSError as e: print(e.strerror)\n";
  EXPECT_EQ(python(talk), "Connection refused\n");
  struct {
    wire::ControlHeader header{wire::kVersion, static_cast<std::uint32_t>(ControlKind::Rules)};
    wire::InitConfig config{};
    std::uint16_t port = 9999;
  } message;
  message.config.flags = wire::kConfigCarryNetwork;
  message.config.port_count = 1;
  const auto bytes =
      std::as_bytes(std::span(&message, 1))
          .first(sizeof(message.header) + sizeof(message.config) + sizeof(message.port));
  ASSERT_TRUE(sys::send_message(sandbox_->control(), bytes, {}));
  // It goes round by another stream than ours: what is asked behind it on ours comes later.
  std::string got;
  for (int round = 0; round < 100 && !got.starts_with("::ffff"); ++round) got = python(talk);
  EXPECT_EQ(got, "::ffff:198.18.3.4 9999\nhelloend\n");
}

TEST_F(CarriedNetwork, WithoutAGateConnectionsAreReset) {
  begin(false);
  EXPECT_EQ(python("s = socket.create_connection(('127.0.0.1', 3128))\n"
                   "try: print(s.recv(1))\n"
                   "except ConnectionError as e: print('reset')"),
            "reset\n");
  EXPECT_TRUE(session_->ping());
}

TEST_F(CarriedNetwork, ManyConnectionsAtOnce) {
  begin();
  EXPECT_EQ(python(std::string(kTalk) +
                   "bad = []\n"
                   "def one(i):\n"
                   "  said = (b'%d,' % i) * 4000\n"
                   "  got = talk('198.18.0.%d' % (i % 200 + 2), 443, said)\n"
                   "  want = '::ffff:198.18.0.%d 443\\n' % (i % 200 + 2) + said.decode() + 'end'\n"
                   "  if got != want: bad.append((i, len(got), len(want)))\n"
                   "ts = [threading.Thread(target=one, args=(i,)) for i in range(200)]\n"
                   "[t.start() for t in ts]\n[t.join() for t in ts]\nprint(bad)"),
            "[]\n");
}

// Who does not read stops the sender, and costs no more than his window.
TEST_F(CarriedNetwork, ASlowReaderIsBounded) {
  begin();
  const std::size_t before = carrier_memory_kib();
  EXPECT_EQ(python("s = socket.create_connection(('198.18.0.9', 443))\n"
                   "s.sendall(b'flood')\n"
                   "other = socket.create_connection(('198.18.0.10', 443))\n"
                   "for i in range(200):\n"
                   "  other.sendall(b'x' * 1000)\n"
                   "  got = 0\n"
                   "  while got < 1000: got += len(other.recv(4096))\n"
                   "got = 0\n"
                   "while got < 20000000: got += len(s.recv(1 << 20))\n"
                   "print('done')"),
            "done\n");
  EXPECT_LT(carrier_memory_kib(), before + 4096);
}

TEST_F(CarriedNetwork, TheNumberOfConnectionsIsBounded) {
  begin();
  EXPECT_EQ(python("held = []\n"
                   "for i in range(10000):\n"
                   "  s = socket.socket()\n"
                   "  s.setblocking(False)\n"
                   "  s.connect_ex(('198.18.1.1', 443))\n"
                   "  held.append(s)\n"
                   "held[0].settimeout(20)\n"
                   "print(held[0].recv(5))\n"),
            "b'::fff'\n");
  EXPECT_LE(gate_->most.load(), wire::kCarriedMax);
  // They are gone with their process, and there is room again.
  EXPECT_EQ(python(std::string(kTalk) + "print(talk('127.0.0.1', 3128))"),
            "::ffff:127.0.0.1 3128\nhelloend\n");
}

TEST_F(CarriedNetwork, TheHostConnectsToAPortInside) {
  begin();
  Driver driver(sandbox_->new_stream(), sandbox_->nonce());
  StartOptions server = shell("", wire::kStartAttach);
  server.argv = {"/usr/bin/python3", "-c",
                 "import socket\nl = socket.create_server(('127.0.0.1', 8000))\n"
                 "print('up', flush=True)\n"
                 "while True:\n"
                 "  c, _ = l.accept()\n"
                 "  got = b''\n"
                 "  while True:\n"
                 "    part = c.recv(65536)\n"
                 "    if not part: break\n"
                 "    got += part\n"
                 "  c.sendall(got[::-1])\n"
                 "  c.close()\n"};
  ASSERT_TRUE(driver.link.start(5, server));
  ASSERT_TRUE(driver.until([&] { return driver.data[{5U, kOut}] == "up\n"; }));
  for (int round = 0; round < 200; ++round) {
    const UniqueFd inside = connect_inside(8000);
    ASSERT_EQ(::send(inside.get(), "abc", 3, MSG_NOSIGNAL), 3);
    ASSERT_EQ(::shutdown(inside.get(), SHUT_WR), 0);
    std::string got(16, '\0');
    const ssize_t size = ::recv(inside.get(), got.data(), got.size(), MSG_WAITALL);
    ASSERT_EQ(size, 3) << round;
    EXPECT_EQ(got.substr(0, 3), "cba");
  }
  // Nobody is at this one: nothing but the end comes.
  const UniqueFd nobody = connect_inside(8001);
  char byte = 0;
  EXPECT_LE(::recv(nobody.get(), &byte, 1, 0), 0);
}

// A new server takes nothing from the guest's connections, and hears nothing of them.
TEST_F(CarriedNetwork, ConnectionsOutliveServers) {
  begin();
  Driver driver(sandbox_->new_stream(), sandbox_->nonce());
  StartOptions talker = shell("", wire::kStartAttach);
  talker.argv = {"/usr/bin/python3", "-c",
                 "import socket\n"
                 "s = socket.create_connection(('198.18.0.9', 443))\n"
                 "f = s.makefile()\nprint(f.readline(), end='', flush=True)\n"
                 "for i in range(3000):\n"
                 "  s.sendall(b'%d\\n' % i)\n"
                 "  assert f.readline() == '%d\\n' % i\n"
                 "print('kept', flush=True)\n"};
  ASSERT_TRUE(driver.link.start(5, talker));
  ASSERT_TRUE(driver.until([&] { return !driver.data[{5U, kOut}].empty(); }));
  for (int round = 0; round < 20; ++round) {
    Driver next(sandbox_->new_stream(), sandbox_->nonce());
    ASSERT_TRUE(next.settle());
  }
  Driver last(sandbox_->new_stream(), sandbox_->nonce());
  ASSERT_TRUE(last.link.attach(5, {0, 0}, 1 << 20));
  ASSERT_TRUE(last.until([&] { return last.exited.contains(5) && last.eof[{5U, kOut}]; }));
  EXPECT_TRUE((last.data[{5U, kOut}]).ends_with("kept\n")) << (last.data[{5U, kOut}]);
}

}  // namespace
}  // namespace caisson::test
