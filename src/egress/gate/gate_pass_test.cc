// What must work: each way out, with real hosts.
#include <fmt/format.h>

#include "egress/gate/inside_test.h"

namespace caisson::egress::test {

namespace {

// A host for one HTTP answer of any bytes, then closed.
Host::Serve answer_with(std::string bytes) {
  return [bytes = std::move(bytes)](RawClient& client) {
    if (client.until("\r\n\r\n").empty()) return;
    client.send(bytes);
    client.finish();
    (void)client.rest();
  };
}

std::string echo(RawClient& client) {
  while (client.more()) client.send(client.take(1));
  return {};
}

}  // namespace

TEST(GatePass, ForwardedRequests) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  for (int i = 0; i < 3; ++i) {
    const auto reply = client.ask(get("GOOD.example", host.port(), "/a?b=c"));
    EXPECT_EQ(reply.status, 200U);
    EXPECT_TRUE(reply.body.starts_with(
        fmt::format("GET /a?b=c HTTP/1.1\r\nHost: good.example:{}\r\n", host.port())))
        << reply.body;
  }
  EXPECT_EQ(host.connections(), 1);  // kept for the same client
  const auto other = inside.ask(get("good.example", host.port()));
  EXPECT_EQ(other.status, 200U);
  EXPECT_EQ(host.connections(), 2);  // and for no other
  client.close();
  EXPECT_TRUE(inside.wait_farewells(2));
  const auto passages = inside.passages();
  ASSERT_EQ(passages.size(), 4U);
  for (const Passage& passage : passages) {
    EXPECT_TRUE(passage.verdict.allowed());
    EXPECT_EQ(passage.way, Way::Http);
    EXPECT_EQ(passage.path.find('?'), std::string::npos);
  }
  EXPECT_EQ(inside.counts().allowed, 4U);
  EXPECT_GT(inside.farewells()[0].bytes_down, 0U);
}

TEST(GatePass, BodiesOfRequests) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) {
    for (;;) {
      const std::string head = client.until("\r\n\r\n");
      if (head.empty()) return;
      std::string body;
      const std::size_t at = head.find("Content-Length: ");
      if (at != std::string::npos) body = client.take(std::stoul(head.substr(at + 16)));
      if (head.find("Transfer-Encoding: chunked") != std::string::npos) {
        for (;;) {
          const std::string line = client.until("\r\n");
          const std::size_t size = std::stoul(line, nullptr, 16);
          body += client.take(size);
          client.take(2);
          if (size == 0) break;
        }
      }
      std::size_t sum = 0;
      for (const char c : body) sum = sum * 31 + static_cast<unsigned char>(c);
      const std::string text = fmt::format("{} {}", body.size(), sum);
      client.send(
          fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", text.size(), text));
    }
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  std::string body;
  for (int i = 0; body.size() < 3'000'000; ++i) body += fmt::format("{} ", i);
  std::size_t sum = 0;
  for (const char c : body) sum = sum * 31 + static_cast<unsigned char>(c);
  const std::string wanted = fmt::format("{} {}", body.size(), sum);
  const std::string start = fmt::format(
      "POST http://good.example:{0}/ HTTP/1.1\r\nHost: good.example:{0}\r\n", host.port());
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(start + fmt::format("Content-Length: {}\r\n\r\n", body.size()) + body).body,
            wanted);
  std::string chunks;
  for (std::size_t at = 0; at < body.size(); at += 50'001) {
    const std::string_view piece = std::string_view(body).substr(at, 50'001);
    chunks += fmt::format("{:x};ext=1\r\n{}\r\n", piece.size(), piece);
  }
  chunks += "0\r\nTrailer: x\r\n\r\n";
  EXPECT_EQ(client.ask(start + "Transfer-Encoding: chunked\r\n\r\n" + chunks).body, wanted);
  EXPECT_EQ(client.ask(start + "Content-Length: 0\r\n\r\n").body, "0 0");
  EXPECT_EQ(host.connections(), 1);
}

TEST(GatePass, FramesOfAnswers) {
  NEEDS_INSIDE();
  const auto pass = [](const std::string& bytes, const std::string& version = "1.1",
                       const std::string& method = "GET") {
    Host host(answer_with(bytes));
    Inside inside({rule("good.example", host.port())});
    inside.names.set("good.example", {"127.0.0.1"});
    RawClient client = inside.proxy();
    client.send(
        fmt::format("{2} http://good.example:{0}/ HTTP/{1}\r\nHost: good.example:{0}\r\n"
                    "Connection: close\r\n\r\n",
                    host.port(), version, method));
    return client.rest();
  };
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
  EXPECT_TRUE(pass(chunked).ends_with("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n") ||
              pass(chunked).ends_with("5\r\nabcde\r\n0\r\n\r\n"));
  EXPECT_TRUE(pass(chunked, "1.0").ends_with("\r\n\r\nabcde"));
  EXPECT_TRUE(pass("HTTP/1.1 200 OK\r\n\r\nto the end").ends_with("a\r\nto the end\r\n0\r\n\r\n"));
  EXPECT_TRUE(pass("HTTP/1.0 200 OK\r\n\r\nto the end", "1.0").ends_with("\r\n\r\nto the end"));
  EXPECT_TRUE(pass("HTTP/1.1 204 No Content\r\n\r\n").starts_with("HTTP/1.1 204 No Content\r\n"));
  EXPECT_NE(pass("HTTP/1.1 200 Fine\r\nContent-Length: 77\r\n\r\n", "1.1", "HEAD")
                .find("Content-Length: 77\r\n"),
            std::string::npos);
  const std::string interim = pass(
      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  EXPECT_TRUE(interim.starts_with("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK"))
      << interim;
  // Not HTTP, or HTTP that can be read in two ways.
  for (const char* bad : {"hello\r\n\r\n",
                          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: "
                          "3\r\n\r\nabc",
                          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: "
                          "chunked\r\n\r\n0\r\n\r\n",
                          "HTTP/1.1 101 Switching Protocols\r\n\r\n", ""}) {
    EXPECT_TRUE(pass(bad).starts_with("HTTP/1.1 502")) << bad;
  }
  // An answer that breaks off must not look whole.
  const std::string broken = pass("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
  EXPECT_FALSE(broken.ends_with("0\r\n\r\n"));
}

TEST(GatePass, ContinueAndEarlyAnswer) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) {
    const std::string head = client.until("\r\n\r\n");
    if (head.find("/early") != std::string::npos) {
      client.send("HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig");
      (void)client.rest();
      return;
    }
    EXPECT_NE(head.find("Expect: 100-continue"), std::string::npos);
    client.send("HTTP/1.1 100 Continue\r\n\r\n");
    const std::string body = client.take(5);
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + body);
    (void)client.rest();
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const auto start = [&](const char* path) {
    return fmt::format("POST http://good.example:{0}{1} HTTP/1.1\r\nHost: good.example:{0}\r\n",
                       host.port(), path);
  };
  RawClient client = inside.proxy();
  client.send(start("/") + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(client.ask("hello").body, "hello");
  RawClient early = inside.proxy();
  const auto reply = early.ask(start("/early") + "Content-Length: 5000000\r\n\r\nxxxx");
  EXPECT_EQ(reply.status, 413U);
  EXPECT_EQ(reply.body, "big");
  EXPECT_TRUE(reply.has("Connection: close"));
}

TEST(GatePass, WebSocketUpgrade) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) {
    const std::string head = client.until("\r\n\r\n");
    EXPECT_NE(head.find("Upgrade: websocket"), std::string::npos);
    client.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: x\r\n\r\nfirst");
    echo(client);
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  client.send(get("good.example", host.port(), "/",
                  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n"));
  EXPECT_NE(client.until("\r\n\r\n").find("Sec-WebSocket-Accept: x"), std::string::npos);
  EXPECT_EQ(client.take(5), "first");
  client.send("a");
  EXPECT_EQ(client.take(1), "a");
}

// TLS with the right name, text that is not HTTP, and binary pass as they are.
TEST(GatePass, Tunnels) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { client.send(client.rest()); });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string target = fmt::format("good.example:{}", host.port());
  for (const std::string& first :
       {hello_for("good.example") + "and more", hello_for("GOOD.example"),
        std::string("SSH-2.0-OpenSSH_9 x\r\n"), std::string("\0\0\0\x08\x04\xd2\x16\x2f", 8),
        std::string("*1\r\n$4\r\nPING\r\n"), std::string("EHLO me\r\n"),
        std::string("0032git-upload-pack /p.git\0host=x\0", 34), std::string("no line")}) {
    RawClient client = inside.proxy();
    EXPECT_EQ(client.ask(connect_line(target)).status, 200U);
    for (const char c : first) client.send(std::string_view(&c, 1));
    client.finish();
    EXPECT_EQ(client.rest(), first);
  }
  EXPECT_TRUE(inside.wait_farewells(8));
  for (const Farewell& words : inside.farewells()) EXPECT_EQ(words.bytes_up, words.bytes_down);
}

TEST(GatePass, HostSpeaksFirst) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) {
    client.send("220 hello\r\n");
    EXPECT_EQ(client.until("\r\n"), "EHLO me\r\n");
    client.send("250 ok\r\n");
    client.finish();
    (void)client.rest();
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
  EXPECT_EQ(client.until("\r\n"), "220 hello\r\n");
  client.send("EHLO me\r\n");
  EXPECT_EQ(client.until("\r\n"), "250 ok\r\n");
  client.finish();
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(inside.wait_farewells(1));
}

TEST(GatePass, LargeBodiesBothWays) {
  NEEDS_INSIDE();
  constexpr std::size_t kBytes = 32UL * 1024 * 1024;
  Host host([](RawClient& client) {
    const std::string head = client.take(3);
    std::string piece(1UL << 20, 'd');
    if (head == "\0up") return;
    for (std::size_t sent = 0; sent < kBytes; sent += piece.size()) client.send(piece);
    client.finish();
    (void)client.rest();
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 200U);
  client.send(std::string_view("\0\0\0", 3));
  EXPECT_EQ(client.rest().size(), kBytes);
  client.close();
  EXPECT_TRUE(inside.wait_farewells(1));
  EXPECT_EQ(inside.farewells()[0].bytes_down, kBytes);
}

// HTTP inside a tunnel is relayed request by request; nothing of a large answer is lost.
TEST(GatePass, LargeAnswersInATunnel) {
  NEEDS_INSIDE();
  static constexpr std::size_t kBytes = 4UL * 1024 * 1024;
  Host host([](RawClient& client) {
    while (!client.until("\r\n\r\n").empty()) {
      client.send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kBytes));
      client.send(std::string(kBytes, 'x'));
    }
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string target = fmt::format("good.example:{}", host.port());
  RawClient client = inside.proxy();
  EXPECT_EQ(client.ask(connect_line(target)).status, 200U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.ask(fmt::format("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", target)).body.size(),
              kBytes);
  }
  EXPECT_EQ(host.connections(), 1);
  // The connection, and each request on it.
  EXPECT_EQ(inside.passages().size(), 4U);
}

TEST(GatePass, Socks) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { client.send(client.rest()); });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  const std::string port{static_cast<char>(host.port() >> 8),
                         static_cast<char>(host.port() & 0xff)};
  const auto by_name = [&](const std::string& name) {
    return std::string("\x05\x01\x00\x03", 4) + static_cast<char>(name.size()) + name + port;
  };
  const auto greeted = [&](const std::string& request) {
    RawClient client = inside.proxy();
    client.send(std::string("\x05\x01\x00", 3));
    EXPECT_EQ(client.take(2), std::string("\x05\x00", 2));
    client.send(request);
    return client;
  };
  RawClient good = greeted(by_name("good.example") + "\x01 early");
  EXPECT_EQ(good.take(10)[1], '\0');
  good.finish();
  EXPECT_EQ(good.rest(), "\x01 early");
  EXPECT_EQ(greeted(by_name("evil.example")).take(10)[1], '\x02');
  EXPECT_EQ(greeted(std::string("\x05\x01\x00\x01\x7f\0\0\x01", 8) + port).take(10)[1], '\x02');
  // An address that stands for a name is that name.
  ASSERT_EQ(Inside::look_up("good.example").addresses, std::vector<std::string>{"198.18.1.0"});
  RawClient synthetic = greeted(std::string("\x05\x01\x00\x01\xc6\x12\x01\x00", 8) + port);
  EXPECT_EQ(synthetic.take(10)[1], '\0');
  // BIND and UDP are not served.
  EXPECT_EQ(greeted(std::string("\x05\x02\x00\x01\x7f\0\0\x01", 8) + port).take(10)[1], '\x07');
  EXPECT_EQ(greeted(std::string("\x05\x03\x00\x01\x7f\0\0\x01", 8) + port).take(10)[1], '\x07');
}

TEST(GatePass, Transparent) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) { client.send("> " + client.rest()); });
  Inside::Options options;
  options.listeners = {
      {"198.18.1.0", host.port()}, {"198.18.1.1", host.port()}, {"::ffff:198.18.1.2", host.port()}};
  Inside inside({rule("good.example", host.port()), rule("other.example", 1),
                 rule("third.example", host.port())},
                options);
  inside.names.set("good.example", {"127.0.0.1"});
  inside.names.set("third.example", {"127.0.0.1"});
  ASSERT_EQ(Inside::look_up("good.example").addresses[0], "198.18.1.0");
  ASSERT_EQ(Inside::look_up("other.example").addresses[0], "198.18.1.1");
  ASSERT_EQ(Inside::look_up("third.example").addresses[0], "198.18.1.2");
  for (const char* address : {"198.18.1.0", "198.18.1.2"}) {
    RawClient client(connect_to(address, host.port()));
    client.send(std::string("\x01hello"));
    client.finish();
    EXPECT_EQ(client.rest(), "> \x01hello") << address;
  }
  // The name is known, its port is not allowed.
  RawClient refused(connect_to("198.18.1.1", host.port()));
  EXPECT_TRUE(refused.closed());
  ASSERT_TRUE(inside.wait_passages(3));
  const auto passages = inside.passages();
  EXPECT_EQ(passages[0].way, Way::Transparent);
  EXPECT_EQ(passages[0].host, "good.example");
  EXPECT_EQ(passages[2].verdict.reason, Reason::PortNotAllowed);
}

TEST(GatePass, NamesInside) {
  NEEDS_INSIDE();
  Inside inside({rule("good.example", 80)});
  for (const bool tcp : {false, true}) {
    EXPECT_EQ(Inside::look_up("good.example", 1, tcp).addresses[0], "198.18.1.0");
    EXPECT_EQ(Inside::look_up("good.example", 28, tcp).addresses[0], "fd63:6169:7373:6f6e::100");
    EXPECT_EQ(Inside::look_up("evil.example", 1, tcp).rcode, 3);
  }
  // Repeats within a second are one more row, not many.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Inside::look_up("loud.example").rcode, 3);
  ASSERT_TRUE(inside.loop.wait_until([&] { return true; }));
  inside.loop.on_thread([&] { inside.gate->close(); });
  std::uint32_t told = 0;
  int rows = 0;
  for (const Passage& passage : inside.passages()) {
    if (passage.host != "loud.example") continue;
    ++rows;
    told += passage.repeats + 1;
  }
  EXPECT_EQ(told, 20U);
  EXPECT_LE(rows, 8);  // two where the second did not end in between
}

TEST(GatePass, HostsThatCannotBeReached) {
  NEEDS_INSIDE();
  Inside inside({rule("good.example"), rule("none.example")});
  std::uint16_t closed = 0;
  {
    const UniqueFd taken = listen_at("127.0.0.1", 0);
    closed = port_of(taken.get());
  }
  inside.names.set("good.example", {"127.0.0.1"});
  EXPECT_TRUE(inside.ask(get("good.example", closed)).body.starts_with("Proxy error: "));
  const auto reply = inside.ask(connect_line(fmt::format("good.example:{}", closed)));
  EXPECT_EQ(reply.status, 502U);
  EXPECT_TRUE(reply.body.starts_with("Failed to connect: "));
  EXPECT_EQ(inside.ask(get("none.example", 80)).status, 502U);
  EXPECT_TRUE(inside.farewells().empty());
}

TEST(GatePass, TokenDialect) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside::Options options;
  options.identify = [](std::string_view value) {
    if (value == "Basic mine") return Identity::Confirmed;
    return value == "Basic other" ? Identity::Other : Identity::Unknown;
  };
  Inside inside({rule("good.example", host.port())}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  const auto ask = [&](const std::string& field) {
    return inside.ask(get("good.example", host.port(), "/", field));
  };
  const auto none = ask("");
  EXPECT_EQ(none.status, 407U);
  EXPECT_TRUE(none.has("Proxy-Authenticate: Basic"));
  EXPECT_EQ(ask("Proxy-Authorization: Basic bad\r\n").status, 407U);
  EXPECT_EQ(ask("Proxy-Authorization: Basic other\r\n").status, 403U);
  EXPECT_EQ(ask("Proxy-Authorization: Basic mine\r\nProxy-Authorization: Basic mine\r\n").status,
            407U);
  EXPECT_EQ(ask("Proxy-Authorization: Basic mine\r\n").status, 200U);
  EXPECT_EQ(inside.ask(connect_line(fmt::format("good.example:{}", host.port()))).status, 407U);
  EXPECT_EQ(host.connections(), 1);
}

// A kept connection that the host has closed meanwhile is made again.
TEST(GatePass, HostClosesAKeptConnection) {
  NEEDS_INSIDE();
  Host host([](RawClient& client) {
    if (client.until("\r\n\r\n").empty()) return;
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  });
  Inside inside({rule("good.example", host.port())});
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client = inside.proxy();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.ask(get("good.example", host.port())).body, "ok");
  }
}

TEST(GatePass, TheProxyUnderAnotherNameAndPort) {
  NEEDS_INSIDE();
  Host host(echo_heads());
  Inside::Options options;
  options.listeners = {{"127.0.0.1", 15004}};
  options.proxy = {15004, *HostName::parse("egress-proxy")};
  Inside inside({rule("good.example", host.port())}, options);
  inside.names.set("good.example", {"127.0.0.1"});
  RawClient client(15004);
  EXPECT_EQ(client.ask(get("bad.example", host.port())).status, 403U);
  EXPECT_EQ(client.ask(get("good.example", host.port())).status, 200U);
  EXPECT_EQ(client.ask(get("egress-proxy", 15004)).status, 403U);  // it is no host
  for (const bool tcp : {false, true}) {
    const auto four = Inside::look_up("EGRESS-proxy", 1, tcp);
    EXPECT_EQ(four.rcode, 0);
    EXPECT_EQ(four.addresses, std::vector<std::string>{"127.0.0.1"});
    const auto six = Inside::look_up("egress-proxy", 28, tcp);
    EXPECT_EQ(six.rcode, 0);
    EXPECT_TRUE(six.addresses.empty());
  }
  EXPECT_EQ(Inside::look_up("x.egress-proxy").rcode, 3);
  EXPECT_TRUE(inside.names.asked() == std::vector<std::string>{} ||
              inside.names.asked().front().starts_with("good.example"));
}

}  // namespace caisson::egress::test
