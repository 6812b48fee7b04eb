// P29, for a dialect with a proxy of its own: it has the name and port that its clients expect, its
// token says that dialect's words, and yet each token works for one sandbox: not for a second one
// with the same words, not for the next one, and not when the sandbox is gone.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "base/base64.h"
#include "control/open_fleet.h"
#include "control/records.h"
#include "control/vault.h"
#include "egress/credentials/jwt.h"
#include "store/digest.h"
#include "tests/integration/service.h"

namespace caisson::test {
namespace {

namespace asio = boost::asio;
using namespace control;  // NOLINT(google-build-using-namespace): the room under test

constexpr int kPollMs = 100;
constexpr std::string_view kKey = "0123456789abcdef0123456789abcdef";

sockaddr_in loopback(std::uint16_t port = 0) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  out.sin_port = htons(port);
  return out;
}

// A socket on a free port of the host's loopback, and a thread that serves it.
class Stub {
 public:
  Stub(int type, std::function<void(int)> serve) : socket_(::socket(AF_INET, type, 0)) {
    sockaddr_in here = loopback();
    socklen_t size = sizeof here;
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&here), size), 0);
    if (type == SOCK_STREAM) EXPECT_EQ(::listen(socket_.get(), 16), 0);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&here), &size), 0);
    port = ntohs(here.sin_port);
    thread_ = std::thread([this, serve = std::move(serve)] {
      while (!stop_) {
        pollfd one{socket_.get(), POLLIN, 0};
        if (::poll(&one, 1, kPollMs) > 0) serve(socket_.get());
      }
    });
  }
  Stub(const Stub&) = delete;
  Stub& operator=(const Stub&) = delete;
  ~Stub() {
    stop_ = true;
    thread_.join();
  }
  std::uint16_t port = 0;

 private:
  UniqueFd socket_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

// Every name is this very host.
void answer_name(int socket) {
  char packet[512];
  sockaddr_in from{};
  socklen_t size = sizeof from;
  const ssize_t got =
      ::recvfrom(socket, packet, sizeof packet, 0, reinterpret_cast<sockaddr*>(&from), &size);
  if (got < 17) return;
  std::size_t end = 12;
  while (packet[end] != 0) end += static_cast<std::size_t>(packet[end]) + 1;
  end += 5;
  const bool wants_v4 = packet[end - 3] == 1;
  std::string out(packet, end);
  out.replace(2, 10, std::string("\x81\x80\0\1\0\0\0\0\0\0", 10));
  if (wants_v4) {
    out[7] = 1;
    out += std::string("\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x7f\0\0\1", 16);
  }
  (void)::sendto(socket, out.data(), out.size(), 0, reinterpret_cast<sockaddr*>(&from), size);
}

void answer_page(int socket) {
  const UniqueFd client(::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC));
  char bytes[4096];
  if (::read(client.get(), bytes, sizeof bytes) <= 0) return;
  constexpr std::string_view kPage =
      "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";
  (void)!::write(client.get(), kPage.data(), kPage.size());
}

class NamedProxy : public testing::Test {
 protected:
  NamedProxy() {
    me_.tenant = "red";
    me_.actor = "token";
    me_.scopes = 15;
    store::StoreOptions options;
    options.path = state_.path() + "/audit.db";
    auto store = store::Store::open(options);
    EXPECT_TRUE(store) << store.error().message;
    store_ = *std::move(store);
    open();
  }
  ~NamedProxy() override { close(); }

  void open() {
    const std::string at = state_.path() + "/";
    FleetOptions options;
    options.name_servers = {{*egress::IpAddress::parse("127.0.0.1"), names_.port}};
    auto vault = Vault::open({at + "secrets", at + "secrets.key", at + "authorities.key",
                              at + "tokens.key", std::string(kKey)});
    ASSERT_TRUE(vault) << vault.error().message;
    options.vault = *vault;
    Result<std::unique_ptr<RunningFleet>> opened;
    ASSERT_TRUE(eventually([&] {
      opened = run(open_fleet(context_.get_executor(), options, state_.socket(), *store_));
      return opened.has_value();
    })) << opened.error().message;
    fleet_ = *std::move(opened);
  }
  void close() {
    if (!fleet_) return;
    fleet_->leave();
    for (int i = 0; i < 50; ++i) {
      context_.restart();
      while (context_.poll() > 0) {
      }
    }
    fleet_.reset();
  }
  template <class T>
  T run(awaitable<T> work) {
    std::optional<T> value;
    asio::co_spawn(context_, std::move(work), [&value](const std::exception_ptr& bug, T result) {
      EXPECT_FALSE(bug);
      value = std::move(result);
    });
    const TimePoint limit = Clock::now() + seconds(60);
    while (!value && Clock::now() < limit) {
      context_.restart();
      context_.run_one_for(milliseconds(kPollMs));
    }
    if (!value) throw std::runtime_error("no answer");
    return *std::move(value);
  }

  // What a door for that dialect asks for.
  [[nodiscard]] CreateWish wish(const std::string& session = "one",
                                const std::vector<std::string>& hosts = {"good.test"}) const {
    CreateWish out;
    NetworkWish& network = out.network;
    network.rules.emplace();
    for (const std::string& host : hosts) {
      policy::NetworkEgressRule rule;
      rule.domain = host;
      rule.ports = {web_.port};
      rule.granted_addresses = {"127.0.0.1"};
      network.rules->push_back(rule);
    }
    network.token = true;
    network.proxy = ProxyPlace{"egress-proxy", 15004};
    network.words = TokenWords{session, std::nullopt, {"good.test"}};
    return out;
  }
  std::string create(const CreateWish& wanted) {
    const auto made = run(fleet_->create(me_, wanted));
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->id : "";
  }
  std::string sh(const std::string& id, std::string script) {
    ExecWish exec;
    exec.command = std::move(script);
    const auto done = run(fleet_->exec(me_, id, std::move(exec)));
    return done ? done->out + done->err : "failed: " + done.error().message;
  }
  std::string token_of(const std::string& id) {
    const std::string said = sh(id, "printf %s \"$HTTP_PROXY\"");
    const std::string front = "http://sandbox:jwt_";
    const std::string back = "@egress-proxy:15004";
    EXPECT_TRUE(said.starts_with(front) && said.ends_with(back)) << said;
    if (said.size() < front.size() + back.size()) return "";
    return said.substr(front.size(), said.size() - front.size() - back.size());
  }
  [[nodiscard]] std::string page(const std::string& host = "good.test") const {
    return " http://" + host + ":" + std::to_string(web_.port) + "/";
  }
  // The status that a client in this sandbox is told when it shows this token.
  std::string with(const std::string& id, const std::string& token) {
    return sh(id, "curl -s -o /dev/null -w %{http_code} -x 'http://sandbox:jwt_" + token +
                      "@egress-proxy:15004'" + page());
  }
  // The same of the proxy on the host; the fleet runs meanwhile.
  std::string on_the_host(const std::string& token) {
    if (host_port_ == 0) host_port_ = *fleet_->serve_host_port("127.0.0.1", 0);
    const UniqueFd link(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in there = loopback(host_port_);
    EXPECT_EQ(::connect(link.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
    const std::string url = page().substr(1);
    const std::string host = url.substr(7, url.size() - 8);
    const std::string request = "GET " + url + " HTTP/1.1\r\nHost: " + host +
                                "\r\nProxy-Authorization: Basic " +
                                to_base64("sandbox:jwt_" + token) + "\r\n\r\n";
    EXPECT_EQ(::send(link.get(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string said;
    const TimePoint limit = Clock::now() + seconds(30);
    while (said.size() < 12 && Clock::now() < limit) {
      context_.restart();
      context_.run_one_for(milliseconds(10));
      char bytes[64];
      const ssize_t got = ::recv(link.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got == 0) break;
      if (got > 0) said.append(bytes, static_cast<std::size_t>(got));
    }
    return said.size() < 12 ? "" : said.substr(9, 3);
  }

  Stub names_{SOCK_DGRAM, answer_name};
  Stub web_{SOCK_STREAM, answer_page};
  StateFolder state_;
  LauncherService launcher_{state_};
  asio::io_context context_{1};
  Caller me_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<RunningFleet> fleet_;
  std::uint16_t host_port_ = 0;
};

TEST_F(NamedProxy, WithoutATokenOrWithAnothersNothingLeaves) {
  const std::string one = create(wish());
  const std::string two = create(wish());  // of another tenant's session of the same name
  const std::string plain = "curl -s -o /dev/null -w '%{http_code} ' -x http://egress-proxy:15004";
  EXPECT_EQ(sh(one, plain + page() + ";" + plain + " -p" + page()), "407 000 ");
  EXPECT_EQ(sh(one, "curl -s -o /dev/null -w %{http_code} -x http://127.0.0.1:3128" + page()),
            "407");
  EXPECT_EQ(with(one, "x.y.z"), "407");
  const std::string first = token_of(one);
  const std::string second = token_of(two);
  ASSERT_NE(first, second);
  EXPECT_EQ(with(two, first), "403");
  EXPECT_EQ(with(one, second), "403");
  EXPECT_EQ(with(one, first), "200");
  EXPECT_EQ(with(two, second), "200");
  ASSERT_TRUE(run(fleet_->destroy(me_, one)));
  const std::string next = create(wish());
  EXPECT_EQ(with(next, first), "403");
  EXPECT_EQ(with(two, first), "403");
}

TEST_F(NamedProxy, WhoIgnoresTheVariablesGetsNoFurther) {
  const std::string id = create(wish());
  const std::string bare = "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy; ";
  EXPECT_EQ(sh(id, bare + "curl -s" + page("other.test") + " || echo none"), "none\n");
  EXPECT_EQ(sh(id, bare + "curl -s http://192.0.2.1/ || echo none"), "none\n");
  EXPECT_EQ(sh(id, bare + "curl -s" + page("127.0.0.1") + " || echo none"), "none\n");
  EXPECT_EQ(sh(id, bare + "curl -s" + page("egress-proxy") + " || echo none"), "none\n");
  EXPECT_EQ(sh(id, bare + "curl -s" + page()), "hello\n");  // as the rule says, by its address
}

TEST_F(NamedProxy, TheProxyIsWhereTheVariablesSay) {
  const std::string id = create(wish());
  const std::string all = "http://sandbox:jwt_" + token_of(id) + "@egress-proxy:15004\n";
  EXPECT_EQ(
      sh(id, "env | grep -i proxy | LC_ALL=C sort"),
      "HTTPS_PROXY=" + all + "HTTP_PROXY=" + all + "http_proxy=" + all + "https_proxy=" + all);
  EXPECT_EQ(sh(id, "curl -s" + page()), "hello\n");
  EXPECT_EQ(sh(id, "curl -s -p" + page()), "hello\n");
  EXPECT_EQ(sh(id, "curl -s" + page("other.test") + " | head -1"),
            "Host not allowed: other.test\n");
  EXPECT_EQ(sh(id, "getent ahosts egress-proxy | cut -d' ' -f1 | sort -u"), "127.0.0.1\n");
  EXPECT_EQ(sh(id,
               "python3 -c 'import socket\n"
               "try: print(socket.getaddrinfo(\"egress-proxy\", 1, socket.AF_INET6))\n"
               "except socket.gaierror: print(\"none\")'"),
            "none\n");
}

TEST_F(NamedProxy, WithoutRulesItSaysNoToEverything) {
  const std::string id = create(wish("one", {}));
  EXPECT_EQ(sh(id, "curl -s" + page() + " | head -1"), "Host not allowed: good.test\n");
  EXPECT_EQ(sh(id, "curl -s --noproxy '*'" + page() + " || echo none"), "none\n");
}

TEST_F(NamedProxy, ThereMayBeNoVariables) {
  CreateWish wanted = wish();
  wanted.network.token.reset();
  wanted.network.proxy.reset();
  wanted.network.variables = false;
  const std::string id = create(wanted);
  EXPECT_EQ(sh(id, "env | grep -ic proxy"), "0\n");
  EXPECT_EQ(sh(id, "curl -s" + page()), "hello\n");
}

TEST_F(NamedProxy, WhatWasSaidAtTheCreationStays) {
  const std::string id = create(wish());
  const std::string token = token_of(id);
  NetworkWish later;
  later.rules = wish("one", {"other.test"}).network.rules;
  ASSERT_TRUE(run(fleet_->set_network(me_, id, later)));
  EXPECT_EQ(token_of(id), token);
  EXPECT_EQ(sh(id, "curl -s" + page("other.test")), "hello\n");
  EXPECT_EQ(sh(id, "curl -s" + page() + " | head -1"), "Host not allowed: good.test\n");
  later.proxy = ProxyPlace{"egress-proxy", 15005};
  EXPECT_EQ(run(fleet_->set_network(me_, id, later)).error().field, "network.proxy");
}

TEST_F(NamedProxy, TheNextServerKnowsTheTokensOfTheLast) {
  const std::string id = create(wish());
  const std::string token = token_of(id);
  close();
  open();
  EXPECT_EQ(with(id, token), "200");
  EXPECT_EQ(token_of(id), token);
  const std::string other = create(wish());
  EXPECT_EQ(with(other, token), "403");
  EXPECT_EQ(on_the_host(token), "200");
}

// An older server gave out as many as are kept, none of them with an hour left.
TEST_F(NamedProxy, ACommandThatStartsLateGetsATokenThatIsGood) {
  const std::string id = create(wish());
  close();
  const auto key = egress::Secret::copy_of(kKey);
  ASSERT_TRUE(key);
  auto records = store_->living();
  ASSERT_TRUE(records && records->size() == 1);
  auto kept = parse_kept_spec(records->front().spec);
  ASSERT_TRUE(kept);
  kept->proxy_tokens.clear();
  std::vector<std::string> old;
  for (int i = 1; i <= 8; ++i) {
    const egress::ProxyClaims claims{"one", std::nullopt, {"good.test"}, ::time(nullptr) + 300 * i};
    old.push_back(*egress::mint_token(*key, claims));
    kept->proxy_tokens.push_back({store::to_hex(store::sha256(old.back())), claims.expires});
  }
  records->front().spec = to_json(*kept);
  store::Store::Batch batch;
  batch.sandboxes = *records;
  store_->write(std::move(batch), [](const Result<void>& written) { EXPECT_TRUE(written); });
  ASSERT_TRUE(store_->flush());
  open();
  const std::string fresh = token_of(id);
  EXPECT_EQ(std::ranges::find(old, fresh), old.end());
  EXPECT_EQ(with(id, fresh), "200");
  EXPECT_EQ(with(id, old.front()), "403");  // the oldest had to go
  EXPECT_EQ(with(id, old[1]), "200");
  EXPECT_EQ(with(id, old.back()), "200");
  close();
  open();
  EXPECT_EQ(token_of(id), fresh);
}

TEST_F(NamedProxy, OnTheHostATokenLeadsToItsOwnSandbox) {
  const std::string one = create(wish());
  const std::string two = create(wish("one", {}));
  const std::string first = token_of(one);
  EXPECT_EQ(on_the_host(first), "200");
  EXPECT_EQ(on_the_host(token_of(two)), "403");
  ASSERT_TRUE(run(fleet_->destroy(me_, one)));
  EXPECT_EQ(on_the_host(first), "407");
}

// The claims of an ordinary token are its sandbox's id: nobody may have words that are one.
TEST_F(NamedProxy, NoSessionIsCalledLikeASandbox) {
  CreateWish ordinary = wish();
  ordinary.network.proxy.reset();
  ordinary.network.words.reset();
  const std::string id = create(ordinary);
  const auto refused = run(fleet_->create(me_, wish(id)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().field, "network.words.session_id");
}

}  // namespace
}  // namespace caisson::test
