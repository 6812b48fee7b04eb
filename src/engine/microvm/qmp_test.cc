#include "engine/microvm/qmp.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "engine/microvm/qmp_json.h"
#include "sys/socket.h"

namespace caisson::engine::microvm {
namespace {

constexpr std::string_view kGreeting =
    "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 18}}, \"capabilities\": [\"oob\"]}}\r\n";

// A monitor that has said everything before it is asked.
struct Hostile {
  sys::SocketPair pair = *sys::stream_pair();
  Qmp qmp;

  explicit Hostile(std::string_view words) : qmp(std::move(pair.ours)) { say(words); }
  void say(std::string_view words) const {
    // Nobody may listen any more.
    (void)::send(pair.theirs.get(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  [[nodiscard]] std::string heard() const {
    std::string out(4096, '\0');
    const ssize_t got = ::recv(pair.theirs.get(), out.data(), out.size(), MSG_DONTWAIT);
    out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return out;
  }
};

TimePoint soon() { return Clock::now() + std::chrono::milliseconds(100); }
TimePoint later() { return Clock::now() + std::chrono::seconds(10); }

TEST(Json, IsReadStrictly) {
  for (const char* good : {"{}", R"({"a":[1,-2.5e3,true,null,"x\"y"]})", " [ ] ", "\"\"", "0"})
    EXPECT_TRUE(is_json(good)) << good;
  for (const char* bad : {"", "{", "}", R"({"a"})", R"({"a":})", "[1,]", R"({"a":1,})", "\"open",
                          "{} {}", "\"\n\"", "\"\\", "{1:2}", "nul\xff"})
    EXPECT_FALSE(is_json(bad)) << bad;
  EXPECT_FALSE(is_json(std::string(1000, '[')));
  EXPECT_FALSE(is_json(std::string(40, '[') + std::string(40, ']')));
}

TEST(Json, FindsWhatItIsAskedFor) {
  const std::string text = R"({"x":{"return":1},"return":{"status":"running","n":[{}]}})";
  ASSERT_TRUE(is_json(text));
  EXPECT_EQ(json_at(text, {"return", "status"}), R"("running")");
  EXPECT_FALSE(json_at(text, {"status"}));
  EXPECT_FALSE(json_at(text, {"return", "n", "x"}));
  EXPECT_FALSE(json_at("{}", {"a"}));
  EXPECT_EQ(json_string(R"("a\"b")"), "a\"b");
  EXPECT_FALSE(json_string(R"("\u0041")"));
  EXPECT_FALSE(json_string("17"));
}

TEST(Qmp, AsksOneQuestionAtATime) {
  Hostile monitor(std::string(kGreeting) + "{\"return\": {}}\r\n" +
                  R"({"timestamp":{},"event":"STOP"})" + "\n{\"return\": {}}\n" +
                  R"({"return":{"status":"paused","running":false}})" + "\n");
  EXPECT_TRUE(monitor.qmp.stop(later()));
  const auto state = monitor.qmp.run_state(later());
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, RunState::Stopped);
  EXPECT_EQ(monitor.heard(),
            "{\"execute\":\"qmp_capabilities\"}\n{\"execute\":\"stop\"}\n"
            "{\"execute\":\"query-status\"}\n");
}

TEST(Qmp, ARefusalIsAnAnswer) {
  Hostile monitor(std::string(kGreeting) + "{\"return\": {}}\n" +
                  R"({"error":{"class":"GenericError","desc":"not now\u001b[31m"}})" +
                  "\n{\"return\": {}}\n");
  const auto refused = monitor.qmp.go_on(later());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Denied);
  EXPECT_NE(refused.error().message.find("not now"), std::string::npos);
  EXPECT_EQ(refused.error().message.find('\x1b'), std::string::npos);
  EXPECT_TRUE(monitor.qmp.go_on(later()));
}

TEST(Qmp, NonsenseEndsTheTalk) {
  for (const std::string& words :
       {std::string("hello\n"), std::string("{}\n"), std::string("\n"),
        std::string(kGreeting) + "[]\n", std::string(kGreeting) + "{\"what\":1}\n",
        std::string(kGreeting) + std::string("\0\0\0\n", 4)}) {
    Hostile monitor(words);
    const auto answer = monitor.qmp.stop(soon());
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::Protocol) << words;
    monitor.say("{\"return\": {}}\n");
    EXPECT_EQ(monitor.qmp.stop(soon()).error().code, Errc::Gone);
  }
}

TEST(Qmp, SilenceAndFloodsHaveAnEnd) {
  Hostile silent(kGreeting);
  EXPECT_EQ(silent.qmp.stop(soon()).error().code, Errc::TimedOut);
  Hostile endless(std::string(kGreeting) + std::string(kQmpLineMax + 8192, 'x'));
  EXPECT_EQ(endless.qmp.stop(later()).error().code, Errc::Protocol);
  std::string events(kGreeting);
  for (std::size_t i = 0; i <= kQmpEventsMax; ++i) events += "{\"event\":\"X\"}\n";
  Hostile flood(events);
  EXPECT_EQ(flood.qmp.stop(later()).error().code, Errc::Protocol);
  Hostile left("");
  left.pair.theirs.reset();
  EXPECT_EQ(left.qmp.stop(later()).error().code, Errc::Gone);
}

}  // namespace
}  // namespace caisson::engine::microvm
