// Each limit of an HTTP/2 connection is reached here, and frames that no honest client sends.
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/http2_client_test.h"
#include "http/http2_meter.h"

namespace caisson::http::test {
namespace {

Limits both() {
  Limits limits;
  limits.http2 = true;
  return limits;
}

Limits hasty() {
  Limits limits = both();
  limits.header_seconds = limits.idle_seconds = limits.stall_seconds = 1;
  return limits;
}

awaitable<void> echo(Exchange& exchange) {
  auto body = co_await read_all(exchange, 1000000);
  if (body) {
    co_await exchange.respond(200, "text/plain", std::move(*body));
  } else {
    const bool late = body.error().code == Errc::TimedOut;
    co_await exchange.respond(late ? 408 : 400, "text/plain", body.error().message);
  }
}

// Handlers that end only when they are told.
struct Gate {
  std::atomic<int> inside = 0;
  std::atomic<int> ended = 0;
  std::atomic<bool> open = false;

  awaitable<void> hold(Exchange& exchange) {
    ++inside;
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    while (!open) {
      timer.expires_after(std::chrono::milliseconds(1));
      co_await timer.async_wait(boost::asio::use_awaitable);
    }
    co_await exchange.respond(200, "text/plain", "late");
    ++ended;
  }
};

// --- time

TEST(Http2Limits, HalfAPrefaceIsTimedOut) {
  LoopbackServer server(echo, hasty());
  RawClient half(server.port());
  RawClient silent(server.port());
  half.send("PRI *");
  EXPECT_TRUE(half.closed());
  EXPECT_TRUE(silent.closed());
}

TEST(Http2Limits, AnIdleConnectionIsSentAway) {
  LoopbackServer server(echo, hasty());
  H2Client client(server.port());
  EXPECT_EQ(client.post("/", "x").body, "x");
  EXPECT_FALSE(client.until([] { return false; }));
  EXPECT_EQ(client.goaway(), NGHTTP2_NO_ERROR);
}

TEST(Http2Limits, AHeadThatStopsHalfWay) {
  LoopbackServer server(echo, hasty());
  FrameClient client(server.port());
  client.send(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, get_block()));
  EXPECT_EQ(client.sent_away(), NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST(Http2Limits, ABodyWithoutProgress) {
  LoopbackServer server(echo, hasty());
  H2Client client(server.port());
  const std::int32_t id = client.ask("POST", "/", {}, "x", true);
  ASSERT_TRUE(client.done(id));
  EXPECT_EQ(client.answer(id).status(), "408");
  EXPECT_EQ(client.answer(id).code, NGHTTP2_NO_ERROR);
}

// A command may run for long without a word: the peer owes us nothing meanwhile.
TEST(Http2Limits, ASilentHandlerIsNotTimedOut) {
  std::atomic<int> ticks = 0;
  const auto slow = [&ticks](Exchange& exchange) -> awaitable<void> {
    if (exchange.request().path == "/slow") {
      boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
      while (ticks < 2) {
        timer.expires_after(std::chrono::milliseconds(1));
        co_await timer.async_wait(boost::asio::use_awaitable);
      }
    }
    co_await exchange.respond(200, "text/plain", "at last");
  };
  LoopbackServer server(slow, hasty());
  H2Client client(server.port());
  const std::int32_t id = client.ask("GET", "/slow");
  // Another connection's idle time measures how long that is.
  for (; ticks < 2; ++ticks) EXPECT_TRUE(RawClient(server.port()).closed());
  ASSERT_TRUE(client.done(id));
  EXPECT_EQ(client.answer(id).body, "at last");
}

// Once it talks, a stream may be silent both ways: a terminal whose user thinks.
TEST(Http2Limits, AConversationIsNotTimedOut) {
  const auto talk = [](Exchange& exchange) -> awaitable<void> {
    (void)co_await exchange.begin(200, "text/plain", std::nullopt);
    std::array<std::byte, 16> room{};
    for (;;) {
      const auto got = co_await exchange.read_some(room);
      if (!got || *got == 0) break;
      (void)co_await exchange.write(std::span<const std::byte>(room).first(*got));
    }
    (void)co_await exchange.end();
  };
  LoopbackServer server(talk, hasty());
  H2Client client(server.port());
  const std::int32_t id = client.ask("POST", "/", {}, "a", true);
  ASSERT_TRUE(client.until([&] { return client.answer(id).body == "a"; }));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(RawClient(server.port()).closed());
  client.more(id, "b");
  ASSERT_TRUE(client.until([&] { return client.answer(id).body == "ab"; }));
  client.finish(id);
  EXPECT_TRUE(client.done(id));
  EXPECT_EQ(client.answer(id).code, NGHTTP2_NO_ERROR);
}

struct Writer {
  std::promise<Error> ended;
  awaitable<void> run(Exchange& exchange) {
    const std::vector<std::byte> block(65536);
    auto sent = co_await exchange.begin(200, "text/plain", std::nullopt);
    while (sent) sent = co_await exchange.write(block);
    ended.set_value(sent.error());
  }
  std::optional<Errc> code() {
    auto future = ended.get_future();
    if (future.wait_for(std::chrono::milliseconds(kWaitMilliseconds)) !=
        std::future_status::ready) {
      return std::nullopt;
    }
    return future.get().code;
  }
};

TEST(Http2Limits, AWindowThatStaysShutEndsItsStream) {
  Writer writer;
  LoopbackServer server(
      [&writer](Exchange& exchange) -> awaitable<void> {
        if (exchange.request().path != "/endless") return echo(exchange);
        return writer.run(exchange);
      },
      hasty());
  H2Client::Options options;
  options.open_windows = false;
  H2Client client(server.port(), options);
  const std::int32_t id = client.ask("GET", "/endless");
  EXPECT_EQ(writer.code(), Errc::TimedOut);
  ASSERT_TRUE(client.done(id));
  EXPECT_EQ(client.answer(id).code, NGHTTP2_CANCEL);
}

TEST(Http2Limits, ASocketThatNobodyReadsIsCut) {
  Writer writer;
  LoopbackServer server([&writer](Exchange& exchange) { return writer.run(exchange); }, hasty());
  H2Client::Options options;
  options.window = 1U << 30U;
  options.receive_buffer = 4096;
  H2Client client(server.port(), options);
  EXPECT_EQ(nghttp2_session_set_local_window_size(client.session(), 0, 0, 1 << 30), 0);
  client.ask("GET", "/");
  EXPECT_EQ(writer.code(), Errc::Gone);
  EXPECT_TRUE(server.wait_until([](const ServerCounters& now) { return now.open == 0; }));
}

// --- numbers

TEST(Http2Limits, ConnectionsCountLikeAllOthers) {
  Limits limits = both();
  limits.connections_per_peer_max = 2;
  LoopbackServer server(echo, limits);
  H2Client one(server.port());
  RawClient two(server.port());
  EXPECT_EQ(one.post("/", "x").body, "x");
  EXPECT_EQ(two.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").status, 200U);
  EXPECT_EQ(RawClient(server.port()).reply().status, 503U);
  EXPECT_EQ(server.counters().open, 2U);
}

// Streams that were reset count until their handlers have ended: resetting starts no more work.
TEST(Http2Limits, StreamsCountUntilTheirHandlersEnd) {
  Gate gate;
  Limits limits = both();
  limits.h2_streams_max = 4;
  LoopbackServer server([&gate](Exchange& exchange) { return gate.hold(exchange); }, limits);
  H2Client client(server.port());
  ASSERT_TRUE(client.until([&] { return client.streams_max() == 4; }));
  for (int i = 0; i < 4; ++i) {
    const std::int32_t id = client.ask("GET", "/");
    ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return gate.inside == i + 1; }));
    client.reset(id);
  }
  const std::int32_t fifth = client.ask("GET", "/");
  ASSERT_TRUE(client.done(fifth));
  EXPECT_EQ(client.answer(fifth).code, NGHTTP2_REFUSED_STREAM);
  EXPECT_EQ(gate.inside, 4);
  gate.open = true;
  ASSERT_TRUE(server.wait_until([&](const ServerCounters&) { return gate.ended == 4; }));
  EXPECT_EQ(client.get("/").body, "late");
}

TEST(Http2Limits, MoreStreamsThanAnnouncedAreNotServed) {
  Gate gate;
  Limits limits = both();
  limits.h2_streams_max = 4;
  LoopbackServer server([&gate](Exchange& exchange) { return gate.hold(exchange); }, limits);
  FrameClient client(server.port());
  client.send(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, ""));
  for (std::uint32_t id = 1; id <= 9; id += 2) client.get(id);
  Frame answer = client.next();
  while (answer.type != NGHTTP2_RST_STREAM && answer.type != NGHTTP2_GOAWAY &&
         answer.type != 0xff) {
    answer = client.next();
  }
  EXPECT_NE(answer.type, 0xff);
  EXPECT_NE(answer.code(), NGHTTP2_NO_ERROR);
  EXPECT_LE(gate.inside, 4);
  gate.open = true;
}

TEST(Http2Limits, RapidResetsEndTheConnection) {
  Limits limits = both();
  limits.h2_resets_per_second_max = 10;
  limits.h2_streams_max = 8;
  LoopbackServer server(echo, limits);
  FrameClient client(server.port());
  std::string bytes;
  for (std::uint32_t id = 1; id < 2000; id += 2) {
    bytes += frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, get_block());
    bytes += frame(NGHTTP2_RST_STREAM, 0, id, number(NGHTTP2_CANCEL));
  }
  client.send(bytes);
  EXPECT_EQ(client.sent_away(), NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_LE(server.counters().requests, 18U);
}

// The same the other way round: errors that make us reset what has begun.
TEST(Http2Limits, BeingMadeToResetEndsTheConnection) {
  Limits limits = both();
  limits.h2_resets_per_second_max = 10;
  limits.h2_streams_max = 8;
  LoopbackServer server(echo, limits);
  const auto head = [](std::uint32_t id, std::string_view more) {
    return frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, get_block() + std::string(more));
  };
  const std::vector<std::function<std::string(std::uint32_t)>> attacks{
      [&](std::uint32_t id) {
        return head(id, "") + frame(NGHTTP2_WINDOW_UPDATE, 0, id, number(0x7fffffff));
      },
      [&](std::uint32_t id) {
        return head(id, literal("content-length", "1")) + frame(NGHTTP2_DATA, 0, id, "two");
      },
      [&](std::uint32_t id) { return head(id, literal("connection", "close")); },
  };
  for (std::size_t attack = 0; attack < attacks.size(); ++attack) {
    FrameClient client(server.port());
    bool heard = true;
    for (std::uint32_t id = 1; id < 400 && heard; id += 2) {
      heard = client.send(attacks[attack](id));
    }
    EXPECT_EQ(client.sent_away(), NGHTTP2_ENHANCE_YOUR_CALM) << attack;
  }
}

TEST(Http2Limits, ControlFramesThatCarryNothing) {
  Limits limits = both();
  limits.h2_control_frames_per_second_max = 50;
  LoopbackServer server(echo, limits);
  const std::string data_head = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, get_block());
  const std::vector<std::string> floods{
      frame(NGHTTP2_PING, 0, 0, "12345678"),
      frame(NGHTTP2_SETTINGS, 0, 0, ""),
      frame(NGHTTP2_PRIORITY, 0, 1, number(0) + "x"),
      frame(NGHTTP2_WINDOW_UPDATE, 0, 0, number(1)),
      frame(NGHTTP2_DATA, 0, 1, ""),
      frame(NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, std::string(1, '\0')),
      frame(NGHTTP2_DATA, NGHTTP2_FLAG_PADDED, 1, "\xff" + std::string(255, '\0')),
      frame(NGHTTP2_DATA, 0, 1, "x"),
      frame(0xbb, 0, 0, "unknown"),
  };
  for (const std::string& one : floods) {
    FrameClient client(server.port());
    std::string bytes = data_head;
    for (int i = 0; i < 200; ++i) bytes += one;
    client.send(bytes);
    EXPECT_EQ(client.sent_away(), NGHTTP2_ENHANCE_YOUR_CALM) << int{one[3]};
  }
}

TEST(Http2Limits, HeadsThatAreTooLarge) {
  LoopbackServer server(echo, both());
  const Limits limits;
  H2Client client(server.port());
  const auto ask = [&client](const Fields& fields) {
    const std::int32_t id = client.ask("GET", "/", fields);
    EXPECT_TRUE(client.done(id));
    return client.answer(id).status();
  };
  EXPECT_EQ(ask({{"x", std::string(limits.header_bytes_max - 1000, 'x')}}), "200");
  EXPECT_EQ(ask({{"x", std::string(limits.header_bytes_max, 'x')}}), "431");
  Fields many;
  for (std::size_t i = 0; i <= limits.headers_max; ++i) many.emplace_back("x", "y");
  EXPECT_EQ(ask(many), "431");
  many.pop_back();
  EXPECT_EQ(ask(many), "200");
  const std::int32_t id = client.ask("GET", "/" + std::string(limits.target_bytes_max, 'x'));
  EXPECT_TRUE(client.done(id));
  EXPECT_EQ(client.answer(id).status(), "414");
}

// Few bytes that unpack into many: one large entry of the table, named again and again.
TEST(Http2Limits, APackedBombEndsTheConnection) {
  LoopbackServer server(echo, both());
  FrameClient client(server.port());
  std::string block = get_block();
  block += std::string("\x40\x01x\x7f\xa1\x1e", 6) + std::string(4000, 'x');
  block += std::string(10000, '\xbe');
  client.send(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, 1, block));
  EXPECT_EQ(client.sent_away(), NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_EQ(server.counters().requests, 0U);
}

TEST(Http2Limits, AFloodOfContinuations) {
  LoopbackServer server(echo, both());
  FrameClient client(server.port());
  std::string bytes = frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_STREAM, 1, get_block());
  for (int i = 0; i < 1000; ++i) bytes += frame(NGHTTP2_CONTINUATION, 0, 1, literal("x", "y"));
  client.send(bytes);
  EXPECT_TRUE(client.sent_away().has_value());
  EXPECT_EQ(server.counters().requests, 0U);
}

// --- frames that no honest client sends

class Http2Malformed : public ::testing::Test {
 protected:
  // The code with which a connection ends that sends `bytes` behind its settings.
  std::optional<std::uint32_t> end_of(std::string_view bytes) {
    FrameClient client(server_.port());
    client.send(bytes);
    return client.sent_away();
  }
  // The status of an answer, or what the stream was reset with, less the sign.
  std::string answer_to(const Fields& fields) {
    H2Client client(server_.port());
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : fields) {
      list.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                      value.size(), 0});
    }
    const std::int32_t id = nghttp2_submit_request(client.session(), nullptr, list.data(),
                                                   list.size(), nullptr, nullptr);
    if (!client.until([&] { return client.answer_or_none(id).closed; })) return "closed";
    const H2Answer answer = client.answer_or_none(id);
    return answer.status().empty() ? "reset " + std::to_string(answer.code) : answer.status();
  }
  LoopbackServer server_{echo, both()};
};

TEST_F(Http2Malformed, Frames) {
  EXPECT_EQ(end_of(frame(NGHTTP2_DATA, 0, 0, "x")), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_DATA, 0, 7, "x")), NGHTTP2_PROTOCOL_ERROR) << "idle";
  EXPECT_EQ(end_of(frame(NGHTTP2_PING, 0, 0, "1234567")), NGHTTP2_FRAME_SIZE_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_PING, 0, 1, "12345678")), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_SETTINGS, 0, 0, "12345")), NGHTTP2_FRAME_SIZE_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, "123456")),
            NGHTTP2_FRAME_SIZE_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_WINDOW_UPDATE, 0, 0, number(0))), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_WINDOW_UPDATE, 0, 0, number(0x7fffffff))),
            NGHTTP2_FLOW_CONTROL_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_RST_STREAM, 0, 1, number(0))), NGHTTP2_PROTOCOL_ERROR) << "idle";
  EXPECT_EQ(end_of(frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1, number(2))),
            NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_DATA, 0, 1, std::string(16385, 'x'))), NGHTTP2_FRAME_SIZE_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_HEADERS, 4, 2, get_block())), NGHTTP2_PROTOCOL_ERROR) << "even";
  EXPECT_EQ(end_of(frame(NGHTTP2_CONTINUATION, 4, 1, get_block())), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(
      end_of(frame(NGHTTP2_HEADERS, 1, 1, get_block()) + frame(NGHTTP2_PING, 0, 0, "12345678")),
      NGHTTP2_PROTOCOL_ERROR)
      << "something else inside a head";
  EXPECT_EQ(end_of(frame(NGHTTP2_HEADERS, 5, 1, "\xff\xff\xff\xff\xff")),
            NGHTTP2_COMPRESSION_ERROR);
  EXPECT_EQ(end_of(frame(NGHTTP2_HEADERS, 5, 1, "\xfe")), NGHTTP2_COMPRESSION_ERROR);
  // Padding that is longer than its frame.
  EXPECT_EQ(end_of(frame(NGHTTP2_HEADERS, 0x0d, 1, "\xff" + get_block())), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_EQ(server_.counters().requests, 0U);
}

TEST_F(Http2Malformed, AHugeLengthIsNotWaitedFor) {
  FrameClient client(server_.port());
  client.send(frame(NGHTTP2_DATA, 0, 1, "x", 0xffffff));
  EXPECT_EQ(client.sent_away(), NGHTTP2_FRAME_SIZE_ERROR);
}

TEST_F(Http2Malformed, FramesBehindTheEndOfAStream) {
  FrameClient client(server_.port());
  client.get(1);
  client.send(frame(NGHTTP2_DATA, 0, 1, "late"));
  const Frame end = client.next(NGHTTP2_GOAWAY);
  EXPECT_EQ(end.code(), NGHTTP2_STREAM_CLOSED);
}

TEST_F(Http2Malformed, MoreWindowThanThereIs) {
  Limits limits = both();
  limits.h2_stream_window = 65535;
  limits.h2_connection_window = 65535;
  std::atomic<int> gone = 0;
  LoopbackServer server(
      [&gone](Exchange& exchange) -> awaitable<void> {
        co_await exchange.wait_for_hangup();
        ++gone;
      },
      limits);
  FrameClient client(server.port());
  client.send(frame(NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, ""));
  client.send(frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, get_block()));
  for (int i = 0; i < 8; ++i) client.send(frame(NGHTTP2_DATA, 0, 1, std::string(16384, 'x')));
  EXPECT_EQ(client.sent_away(), NGHTTP2_FLOW_CONTROL_ERROR);
  client.wire().close();
  EXPECT_TRUE(server.wait_until(
      [&](const ServerCounters& now) { return gone == 1 && now.open == 0 && now.held == 0; }));
}

TEST_F(Http2Malformed, Heads) {
  const Fields good{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a"}};
  EXPECT_EQ(answer_to(good), "200");
  const auto with = [&good](std::size_t at, const char* name, const char* value) {
    Fields fields = good;
    fields[at] = {name, value};
    return fields;
  };
  const auto plus = [&good](const char* name, const char* value) {
    Fields fields = good;
    fields.emplace_back(name, value);
    return fields;
  };
  const std::string kReset = "reset 1";
  EXPECT_EQ(answer_to({good[0], good[1], good[2]}), kReset) << "no authority";
  EXPECT_EQ(answer_to({good[0], good[1], good[3]}), kReset) << "no path";
  EXPECT_EQ(answer_to(plus("connection", "close")), kReset);
  EXPECT_EQ(answer_to(plus("transfer-encoding", "chunked")), kReset);
  EXPECT_EQ(answer_to(plus(":status", "200")), kReset);
  EXPECT_EQ(answer_to(plus("content-length", "5")), kReset) << "and no body";
  EXPECT_EQ(answer_to(with(2, ":path", "nowhere")), kReset);
  EXPECT_EQ(answer_to({{":method", "CONNECT"}, {":authority", "a:1"}}), "400");
  EXPECT_EQ(answer_to(with(0, ":method", "TRACE")), "405");
  EXPECT_EQ(answer_to(with(2, ":path", "/a#b")), "400");
  EXPECT_EQ(answer_to(with(2, ":path", "*")), kReset);
  EXPECT_EQ(answer_to(plus("host", "a")), "200");
  EXPECT_EQ(answer_to(plus("host", "b")), "400") << "two answers to who is asked";
  EXPECT_EQ(answer_to(with(3, ":authority", "a/b")), kReset);
  EXPECT_EQ(answer_to(with(3, ":authority", "a$b")), "400");
}

// --- the meter alone

TEST(Http2Meter, EarnsWhatWeSend) {
  Limits limits;
  limits.h2_control_frames_per_second_max = 2;
  FrameMeter meter(limits);
  const std::string ping = frame(NGHTTP2_PING, 0, 0, "12345678");
  EXPECT_TRUE(meter.see(kHttp2Preface));
  EXPECT_TRUE(meter.see(ping + ping));
  meter.sent_frame(2048);
  EXPECT_TRUE(meter.see(ping + ping + ping));
  FrameMeter spent = meter;
  EXPECT_FALSE(spent.see(ping));
  meter.on_tick();
  EXPECT_TRUE(meter.see(ping + ping));
}

// Heads of streams that are not new, and ends of streams that have ended, are read for nothing.
TEST(Http2Meter, EachStreamHasOneEndForNothing) {
  Limits limits;
  limits.h2_control_frames_per_second_max = 2;
  const auto head = [](std::uint32_t id, std::uint8_t flags = 0) {
    return frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | flags, id, "abc");
  };
  const std::string last = frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, "");
  FrameMeter meter(limits);
  EXPECT_TRUE(meter.see(kHttp2Preface));
  for (std::uint32_t id = 1; id < 2000; id += 2) {
    EXPECT_TRUE(meter.see(head(id)));
    EXPECT_TRUE(meter.see(id % 4 == 1 ? last : head(id, NGHTTP2_FLAG_END_STREAM)));
  }
  FrameMeter other = meter;
  EXPECT_TRUE(meter.see(last + last));
  EXPECT_FALSE(meter.see(last));
  EXPECT_TRUE(other.see(head(1) + head(1999)));
  EXPECT_FALSE(other.see(head(1)));
}

TEST(Http2Meter, AfterAGoodbyeHeadsCarryNothing) {
  Limits limits;
  limits.h2_control_frames_per_second_max = 2;
  FrameMeter meter(limits);
  EXPECT_TRUE(meter.see(kHttp2Preface));
  meter.on_goodbye();
  const auto head = [](std::uint32_t id) {
    return frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id, "abc");
  };
  EXPECT_TRUE(meter.see(head(1) + head(3)));
  EXPECT_FALSE(meter.see(head(5)));
}

// However the bytes are cut, the frames are the same.
TEST(Http2Meter, SeesFramesInPieces) {
  Limits limits;
  limits.h2_control_frames_per_second_max = 3;
  const std::string bytes = std::string(kHttp2Preface) + frame(NGHTTP2_SETTINGS, 0, 0, "123456") +
                            frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, "abc") +
                            frame(NGHTTP2_DATA, 0, 1, "sixteen bytes of") +
                            frame(NGHTTP2_PING, 0, 0, "12345678") +
                            frame(NGHTTP2_HEADERS, 0, 3, "abc");
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    FrameMeter meter(limits);
    for (std::size_t at = 0; at < bytes.size(); at += cut) {
      ASSERT_TRUE(meter.see(std::string_view(bytes).substr(at, cut)));
    }
    EXPECT_TRUE(meter.in_head());
    EXPECT_EQ(meter.heads(), 1U);
    EXPECT_TRUE(meter.see(frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 3, "")));
    EXPECT_FALSE(meter.in_head());
    EXPECT_TRUE(meter.see(frame(0x77, 0, 0, "")));
    EXPECT_FALSE(meter.see(frame(0x77, 0, 0, "")));
  }
}

}  // namespace
}  // namespace caisson::http::test
