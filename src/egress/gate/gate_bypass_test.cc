// What must not work: every way around the decision that was thought of, through real sockets.
#include <fmt/format.h>

#include <algorithm>

#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

bool is_told(const std::vector<Passage>& passages, Reason reason) {
  return std::ranges::any_of(passages,
                             [&](const Passage& one) { return one.verdict.reason == reason; });
}

}  // namespace

TEST(GateBypass, HostWithoutRule) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside inside({rule("good.example", host.port())});
  inside.names.set("evil.example", {"127.0.0.1"});
  const auto reply = inside.ask(get("evil.example", host.port()));
  EXPECT_EQ(reply.status, 403U);
  EXPECT_TRUE(reply.body.starts_with("Host not allowed: evil.example\n")) << reply.body;
  EXPECT_EQ(inside.ask(connect_line(fmt::format("evil.example:{}", host.port()))).status, 403U);
  EXPECT_EQ(inside.ask(get("good.example", 81)).status, 403U);
  EXPECT_EQ(host.connections(), 0);
  EXPECT_TRUE(inside.names.asked().empty());
  const auto passages = inside.passages();
  ASSERT_EQ(passages.size(), 3U);
  EXPECT_EQ(passages[0].verdict.reason, Reason::NoRuleForHost);
  EXPECT_EQ(passages[2].verdict.reason, Reason::PortNotAllowed);
  EXPECT_EQ(passages[0].sandbox, "sb_test");
}

// Every spelling of an address is refused, and nothing is resolved or dialled for it.
TEST(GateBypass, AddressLiterals) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  auto all = rule("*.example", host.port());
  Inside inside({all, rule("localhost.example", host.port())});
  for (const std::string text : {"127.0.0.1",
                                 "127.1",
                                 "127.0.1",
                                 "2130706433",
                                 "0x7f000001",
                                 "0x7f.1",
                                 "0177.0.0.1",
                                 "017700000001",
                                 "0",
                                 "0.0.0.0",
                                 "[::1]",
                                 "[::]",
                                 "[::ffff:127.0.0.1]",
                                 "[::ffff:7f00:1]",
                                 "[0:0:0:0:0:0:0:1]",
                                 "[::127.0.0.1]",
                                 "127.0.0.1.",
                                 "127.000.000.001",
                                 "0x7f.0x0.0x0.0x1",
                                 "00000177.1",
                                 "127.0x1",
                                 "1",
                                 "127.255.255.254",
                                 "[fe80::1%25lo]",
                                 "[::1%lo]",
                                 "169.254.169.254",
                                 "[64:ff9b::7f00:1]",
                                 "[2002:7f00:1::]",
                                 "198.18.1.0",
                                 "0x7F000001",
                                 "127。0。0。1"}) {
    for (const bool connect : {false, true}) {
      const std::string bytes =
          connect ? connect_line(fmt::format("{}:{}", text, host.port())) : get(text, host.port());
      const auto reply = inside.ask(bytes);
      EXPECT_TRUE(reply.status == 403 || reply.status == 400) << text << " " << reply.status;
    }
  }
  EXPECT_EQ(host.connections(), 0);
  EXPECT_TRUE(inside.names.asked().empty());
}

TEST(GateBypass, TricksWithTargets) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string port = std::to_string(host.port());
  const auto line = [&](const std::string& target, const std::string& field) {
    return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", target, field);
  };
  const std::string good = "good.example:" + port;
  for (const std::string& bytes : {
           line("http://good.example@evil.example:" + port + "/", good),
           line("http://evil.example:" + port + "/@good.example", good),
           line("http://good.example:" + port + "#@evil.example/", good),
           line("http://evil.example#good.example/", good),
           line(std::string("http://good.example\0.evil.example/", 34), good),
           line("http://good.example%00.evil.example/", good),
           line("http://good.example.:" + port + "/", good),
           line("http://good.example.evil.example:" + port + "/", good),
           line("http://notgood.example:" + port + "/", good),
           line("https://good.example:" + port + "/", good),
           line("ftp://good.example:" + port + "/", good),
           line("//good.example:" + port + "/", good),
           line("/", good),
           line("*", good),
           line("http://good.example:" + port + "/", "evil.example"),
           line("http://good.example:" + port + "/", good + ", evil.example"),
           line("http://good.example:" + port + "/", good + "\r\nHost: evil.example"),
           line("http://good.example:" + port + "\\.evil.example/", good),
           line("http://good.example:0/", "good.example:0"),
           line("http://good.example:99999/", "good.example:99999"),
           line("http://:" + port + "/", good),
           fmt::format("GET http://{}/ HTTP/1.1\r\n\r\n", good),
       }) {
    const auto reply = inside.ask(bytes);
    EXPECT_TRUE(reply.status == 400 || reply.status == 403) << bytes << reply.head;
  }
  EXPECT_EQ(host.connections(), 0);
}

TEST(GateBypass, AddressesThatAreNotPublic) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  auto plain = rule("plain.example", host.port());
  plain.granted_addresses.clear();
  Inside inside({plain, rule("good.example", host.port())});
  const auto status = [&](const Names::Answer& addresses, const char* name) {
    inside.names.set(name, addresses);
    return inside.ask(get(name, host.port())).status;
  };
  EXPECT_EQ(status({"127.0.0.1"}, "plain.example"), 403U);
  // One bad address condemns the set, in either family.
  EXPECT_EQ(status({"127.0.0.1", "10.0.0.1"}, "good.example"), 403U);
  const auto passages = inside.passages();
  ASSERT_EQ(passages.size(), 2U);
  for (const Passage& passage : passages) {
    EXPECT_EQ(passage.verdict.reason, Reason::ForbiddenAddress);
  }
  EXPECT_EQ(host.connections(), 0);
}

TEST(GateBypass, MappedMetadataAddress) {
  NEEDS_INSIDE();
  Inside inside({rule("good.example", 80)});
  inside.names.set("good.example", {"::ffff:169.254.169.254"});
  const auto reply = inside.ask(get("good.example", 80));
  EXPECT_EQ(reply.status, 403U);
  EXPECT_EQ(reply.body.find("169.254"), std::string::npos);  // not for the guest
}

// The zone answers once with a good address and then with ours: each answer is judged, and the
// connection goes to what was judged.
TEST(GateBypass, Rebinding) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Host trap(echo_heads(), host.port(), "127.0.0.2");
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example",
                   [](int n) -> Names::Answer { return {n == 0 ? "127.0.0.1" : "127.0.0.2"}; });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(inside.ask(get("good.example", host.port())).status, 200U);
  EXPECT_EQ(trap.connections(), 0);
}

TEST(GateBypass, ServerNameOther) {
  NEEDS_INSIDE();
  std::atomic<int> bytes = 0;
  Host host([&](RawClient& client) { bytes += static_cast<int>(client.rest().size()); });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string target = fmt::format("good.example:{}", host.port());
  std::string split = hello_for("evil.example");
  const std::vector<std::string> hellos = {
      hello_for("evil.example"),
      hello_for(""),
      hello_for("good.example", true),
      hello_for("good.example.evil.example"),
      hello_for("127.0.0.1"),
      std::string("\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10", 11)};
  for (const std::string& hello : hellos) {
    RawClient client = inside.proxy();
    EXPECT_EQ(client.ask(connect_line(target)).status, 200U);
    client.send(hello);
    EXPECT_TRUE(client.closed());
  }
  // In the smallest pieces, and after a silence: the judgement is the same.
  RawClient slow = inside.proxy();
  EXPECT_EQ(slow.ask(connect_line(target)).status, 200U);
  for (const char c : split) slow.send(std::string_view(&c, 1));
  EXPECT_TRUE(slow.closed());
  EXPECT_TRUE(inside.wait_farewells(7));
  EXPECT_EQ(bytes, 0);
  for (const Farewell& words : inside.farewells()) EXPECT_EQ(words.bytes_up, 0U);
  EXPECT_TRUE(is_told(inside.passages(), Reason::ServerNameOther));
  EXPECT_TRUE(is_told(inside.passages(), Reason::EncryptedHello));
  EXPECT_TRUE(is_told(inside.passages(), Reason::ServerNameMissing));
}

// A client that waits until the host has spoken gains nothing: its first bytes are its first bytes.
TEST(GateBypass, WaitingBeforeTheHello) {
  NEEDS_INSIDE();
  std::atomic<int> bytes = 0;
  Host host([&](RawClient& client) {
    client.send("220 ready\r\n");
    bytes += static_cast<int>(client.rest().size());
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
  EXPECT_EQ(client.until("\r\n"), "220 ready\r\n");
  client.send(hello_for("evil.example"));
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(inside.wait_farewells(1));
  EXPECT_EQ(bytes, 0);
}

// Inside a tunnel plain HTTP is read, and what a lenient server would read as HTTP, too.
TEST(GateBypass, HostFieldOtherInATunnel) {
  NEEDS_INSIDE();
  std::atomic<int> heads = 0;
  Host host([&](RawClient& client) {
    while (!client.until("\r\n\r\n").empty()) {
      ++heads;
      client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string target = fmt::format("good.example:{}", host.port());
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        std::string("\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        std::string("\n\nGET / HTTP/1.1\nHost: evil.example\n\n"),
        std::string(" GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        std::string("GET\t/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        std::string("GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        std::string("GET http://evil.example/\r\n\r\n"),
        std::string("FOO / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        std::string("get / http/1.1\r\nHost: evil.example\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), std::string("GET / HTTP/1.1\r\n\r\n")}) {
    RawClient client = inside.proxy();
    EXPECT_EQ(client.ask(connect_line(target)).status, 200U);
    client.send(bytes);
    const std::string head = client.until("\r\n");
    EXPECT_TRUE(head.starts_with("HTTP/1.1 4") || head.starts_with("HTTP/1.1 5")) << bytes << head;
  }
  EXPECT_EQ(heads, 0);
  // The second request with another Host, behind a good first one.
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(target)).status, 200U);
  EXPECT_EQ(client.ask(fmt::format("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", target)).body, "ok");
  EXPECT_EQ(client.ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").status, 403U);
  EXPECT_EQ(heads, 1);
}

TEST(GateBypass, SecondRequestToAnotherHost) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(get("good.example", host.port())).status, 200U);
  EXPECT_EQ(client.ask(get("evil.example", host.port())).status, 403U);
  EXPECT_EQ(client.ask(get("good.example", host.port())).status, 200U);
}

TEST(GateBypass, Smuggling) {
  NEEDS_INSIDE();
  std::atomic<int> heads = 0;
  Host host([&](RawClient& client) {
    while (!client.until("\r\n\r\n").empty()) {
      ++heads;
      client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    }
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string start = fmt::format(
      "POST http://good.example:{0}/ HTTP/1.1\r\nHost: good.example:{0}\r\n", host.port());
  for (const std::string& rest : {
           std::string("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
           std::string("Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde"),
           std::string("Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd"),
           std::string("Content-Length: +4\r\n\r\nabcd"),
           std::string("Content-Length: 0x4\r\n\r\nabcd"),
           std::string("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
           std::string("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
           std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
           std::string("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
           std::string("X: a\r\n b\r\n\r\n"),
           std::string("X: a\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
           std::string("X: a\rb\r\n\r\n"),
       }) {
    const auto reply = inside.ask(start + rest);
    EXPECT_EQ(reply.status, 400U) << rest;
  }
  EXPECT_EQ(heads, 0);
  // A chunk that is none: the host may have seen a head, but never a whole request.
  const auto reply = inside.ask(start + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(reply.status, 400U);
}

// A query of a name, allowed or not, sends nothing to the world; only a connection does.
TEST(GateBypass, NamesAreNoTunnel) {
  NEEDS_INSIDE();
  Inside inside({rule("*.good.example", 80)});
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Inside::look_up(fmt::format("secret{}.evil.example", i)).rcode, 3);
    const auto found = Inside::look_up(fmt::format("secret{}.good.example", i));
    EXPECT_EQ(found.rcode, 0);
    EXPECT_EQ(found.addresses.size(), 1U);
  }
  for (const int type : {2, 5, 6, 10, 12, 15, 16, 33, 255, 65}) {
    const auto found = Inside::look_up("secret.good.example", static_cast<std::uint16_t>(type));
    EXPECT_EQ(found.rcode, 0);
    EXPECT_TRUE(found.addresses.empty());
  }
  EXPECT_TRUE(inside.names.asked().empty());
}

// Methods and paths are judged where they can be seen, and refused where they cannot.
TEST(GateBypass, RuleWithPathsIsNoTunnel) {
  NEEDS_INSIDE();
  std::atomic<int> bytes = 0;
  Host host([&](RawClient& client) { bytes += static_cast<int>(client.rest().size()); });
  auto limited = rule("good.example", host.port());
  limited.methods = {"GET"};
  limited.path_prefixes = {"/v1"};
  Inside inside({limited});
  inside.names.set("good.example", {"127.0.0.1"});
  EXPECT_EQ(inside.ask(get("good.example", host.port(), "/v2/x")).status, 403U);
  EXPECT_EQ(inside.ask(get("good.example", host.port(), "/v1/../v2")).status, 403U);
  EXPECT_EQ(inside.ask(get("good.example", host.port(), "/v1%2f..%2fv2")).status, 403U);
  for (const std::string& first : {hello_for("good.example"), std::string("SSH-2.0-x\r\n")}) {
    RawClient client = inside.proxy();
    EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
    client.send(first);
    EXPECT_TRUE(client.closed());
  }
  EXPECT_TRUE(inside.wait_farewells(2));
  EXPECT_EQ(bytes, 0);
  EXPECT_TRUE(is_told(inside.passages(), Reason::HttpNotSeen));
}

// What cannot be recorded does not happen.
TEST(GateBypass, NoRecordNoConnection) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside::Options options;
  options.record_fails = true;
  Inside inside({rule("good.example", host.port())}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  EXPECT_EQ(inside.ask(get("good.example", host.port())).status, 503U);
  EXPECT_EQ(inside.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 503U);
  EXPECT_EQ(host.connections(), 0);
}

// Proxy to proxy: what concerns us does not reach the host, and no name of ours is reachable.
TEST(GateBypass, FieldsOfTheConnectionEndHere) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const auto reply = inside.ask(get("good.example", host.port(), "/",
                                    "Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: "
                                    "keep-alive\r\nKeep-Alive: 5\r\nTE: trailers\r\nConnection: "
                                    "X-Secret, keep-alive\r\nX-Secret: 1\r\nUpgrade: h2c\r\n"
                                    "HTTP2-Settings: AAMAAABk\r\nX-Kept: yes\r\n"));
  EXPECT_EQ(reply.status, 200U);
  for (const char* gone : {"Proxy-", "Keep-Alive", "TE:", "X-Secret", "Upgrade", "HTTP2"}) {
    EXPECT_EQ(reply.body.find(gone), std::string::npos) << gone << reply.body;
  }
  EXPECT_NE(reply.body.find("X-Kept: yes"), std::string::npos);
  EXPECT_EQ(inside.ask(get("localhost", kProxyPort)).status, 403U);
}

}  // namespace caisson::egress::test
