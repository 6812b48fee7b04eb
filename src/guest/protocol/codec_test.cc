#include "guest/protocol/codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace caisson::wire {
namespace {

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

template <class T>
std::string raw(const T& body) {
  return {reinterpret_cast<const char*>(&body), sizeof(body)};
}

std::string sized(const std::string& text) {
  return raw(static_cast<uint32_t>(text.size())) + text;
}

std::string start(StartBody body, const std::string& cwd, const std::vector<std::string>& argv,
                  const std::vector<std::string>& env) {
  body.cwd_size = static_cast<uint32_t>(cwd.size());
  body.argc = static_cast<uint32_t>(argv.size());
  body.envc = static_cast<uint32_t>(env.size());
  std::string out = raw(body) + cwd;
  for (const std::string& text : argv) out += sized(text);
  for (const std::string& text : env) out += sized(text);
  return out;
}

Check check_start(const std::string& payload) {
  StartView view;
  return parse_start(bytes_of(payload), view);
}

TEST(Codec, AStartIsTakenApart) {
  const std::string payload = start({}, "/work", {"sh", "-c", ""}, {"A=1", "B="});
  StartView view;
  ASSERT_EQ(parse_start(bytes_of(payload), view), Check::Ok);
  Reader argv(view.argv);
  Bytes text;
  ASSERT_TRUE(argv.take_string(text));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(text.data), text.size), "sh");
}

TEST(Codec, EveryPrefixOfAStartIsMalformed) {
  const std::string payload = start({}, "/", {"true"}, {"A=1"});
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_EQ(check_start(payload.substr(0, size)), Check::Malformed) << size;
  }
  EXPECT_EQ(check_start(payload + "x"), Check::Malformed);
}

TEST(Codec, StartRefusesWhatTheKernelWouldMisread) {
  EXPECT_EQ(check_start(start({}, "/", {}, {})), Check::Malformed);
  EXPECT_EQ(check_start(start({}, "relative", {"a"}, {})), Check::Malformed);
  EXPECT_EQ(check_start(start({}, std::string("/a\0b", 4), {"a"}, {})), Check::Malformed);
  EXPECT_EQ(check_start(start({}, "/", {std::string("a\0b", 3)}, {})), Check::Malformed);
  EXPECT_EQ(check_start(start({}, "/", {"a"}, {"NOEQUALS"})), Check::Malformed);
  EXPECT_EQ(check_start(start({}, "/", {"a"}, {"=x"})), Check::Malformed);
  StartBody body{};
  body.flags = 1U << 31U;
  EXPECT_EQ(check_start(start(body, "/", {"a"}, {})), Check::Malformed);
  body = {};
  body.mode = 2;
  EXPECT_EQ(check_start(start(body, "/", {"a"}, {})), Check::Malformed);
  body = {};
  body.uid = 0xffffffffU;
  EXPECT_EQ(check_start(start(body, "/", {"a"}, {})), Check::Malformed);
}

TEST(Codec, StartHasLimits) {
  EXPECT_EQ(check_start(start({}, "/", std::vector<std::string>(kArgsMax, "a"), {})), Check::Ok);
  EXPECT_EQ(check_start(start({}, "/", std::vector<std::string>(kArgsMax + 1, "a"), {})),
            Check::TooMuch);
  EXPECT_EQ(check_start(start({}, "/" + std::string(kPathMax, 'a'), {"a"}, {})), Check::TooMuch);
  StartBody body{};
  body.group_count = kGroupsMax + 1;
  EXPECT_EQ(check_start(start(body, "/", {"a"}, {}) + std::string(4 * (kGroupsMax + 1), 'g')),
            Check::TooMuch);
}

TEST(Codec, AnOperationHasOnePathExceptMove) {
  OpBody body{};
  body.op = static_cast<uint32_t>(OpKind::Read);
  body.path_size = 2;
  OpView view;
  EXPECT_EQ(parse_op(bytes_of(raw(body) + "/a"), view), Check::Ok);
  body.path2_size = 2;
  EXPECT_EQ(parse_op(bytes_of(raw(body) + "/a/b"), view), Check::Malformed);
  body.op = static_cast<uint32_t>(OpKind::Move);
  EXPECT_EQ(parse_op(bytes_of(raw(body) + "/a/b"), view), Check::Ok);
  body.op = 99;
  EXPECT_EQ(parse_op(bytes_of(raw(body) + "/a/b"), view), Check::Malformed);
}

TEST(Codec, OnlyAWriteHasASocket) {
  OpBody body{};
  body.flags = kOpSocket | kOpParents;
  body.path_size = 2;
  OpView view;
  for (auto op = static_cast<uint32_t>(OpKind::Stat); op <= static_cast<uint32_t>(OpKind::Grep);
       ++op) {
    if (op == static_cast<uint32_t>(OpKind::Move)) continue;
    body.op = op;
    const bool writes = op == static_cast<uint32_t>(OpKind::Write);
    EXPECT_EQ(parse_op(bytes_of(raw(body) + "/a"), view), writes ? Check::Ok : Check::Malformed)
        << op;
  }
}

TEST(Codec, FlagsBelongToTheirOperations) {
  OpBody body{};
  body.path_size = 2;
  OpView view;
  const auto check = [&](OpKind op, uint32_t flags) {
    body.op = static_cast<uint32_t>(op);
    body.flags = flags;
    return parse_op(bytes_of(raw(body) + "/a"), view);
  };
  EXPECT_EQ(check(OpKind::TarIn, kOpTell | kOpOpenUp | kOpParents), Check::Ok);
  EXPECT_EQ(check(OpKind::List, kOpRecursive | kOpOpenUp), Check::Ok);
  EXPECT_EQ(check(OpKind::Pack, kOpOpenUp), Check::Ok);
  EXPECT_EQ(check(OpKind::Pack, kOpTell), Check::Malformed);
  EXPECT_EQ(check(OpKind::Find, kOpTell), Check::Malformed);
  EXPECT_EQ(check(OpKind::Find, kOpOpenUp), Check::Malformed);
  EXPECT_EQ(check(OpKind::Grep, kOpOpenUp), Check::Malformed);
  EXPECT_EQ(check(OpKind::Remove, kOpOpenUp), Check::Malformed);
  EXPECT_EQ(check(OpKind::Grep, 1U << 8U), Check::Malformed);
}

TEST(Codec, AMatchIsALineOfAFile) {
  MatchBody body{7, 3, 4};
  MatchView view;
  ASSERT_TRUE(parse_match(bytes_of(raw(body) + "a/bline"), view));
  EXPECT_EQ(view.body.line, 7U);
  EXPECT_EQ(view.name.size, 3U);
  EXPECT_EQ(view.text.size, 4U);
  const std::string whole = raw(body) + "a/bline";
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(parse_match(bytes_of(whole.substr(0, size)), view)) << size;
  EXPECT_FALSE(parse_match(bytes_of(whole + "x"), view));
  EXPECT_FALSE(parse_match(bytes_of(raw(body) + std::string("a\0bline", 7)), view));
  EXPECT_FALSE(parse_match(bytes_of(raw(body) + std::string("a/bl\0ne", 7)), view));
  body.line = 0;  // they are counted from 1
  EXPECT_FALSE(parse_match(bytes_of(raw(body) + "a/bline"), view));
  body = {1, kPathMax + 1, 0};
  EXPECT_FALSE(parse_match(bytes_of(raw(body) + std::string(kPathMax + 1, 'n')), view));
  body = {1, 0, kMatchTextMax + 1};
  EXPECT_FALSE(parse_match(bytes_of(raw(body) + std::string(kMatchTextMax + 1, 't')), view));
  body = {1, 0, kMatchTextMax};
  EXPECT_TRUE(parse_match(bytes_of(raw(body) + std::string(kMatchTextMax, 't')), view));
}

TEST(Codec, ACommitIsACountAndComesFromTheHost) {
  FrameHeader header{sizeof(CommitBody), static_cast<uint16_t>(Kind::Commit), 0, 1};
  FrameHeader out{};
  EXPECT_EQ(scan_request(bytes_of(raw(header) + raw(CommitBody{7})), out), Scan::Frame);
  EXPECT_EQ(scan_reply(bytes_of(raw(header) + raw(CommitBody{7})), out), Scan::Bad);
  header.size = 0;
  EXPECT_EQ(scan_request(bytes_of(raw(header)), out), Scan::Bad);
}

TEST(Codec, FramesOfAnImpossibleSizeAreNoFrames) {
  FrameHeader header{kPayloadMax + 1, static_cast<uint16_t>(Kind::Data), 0, 1};
  FrameHeader out{};
  EXPECT_EQ(scan_request(bytes_of(raw(header)), out), Scan::Bad);
  header = {3, static_cast<uint16_t>(Kind::Signal), 0, 1};
  EXPECT_EQ(scan_request(bytes_of(raw(header)), out), Scan::Bad);
  header = {sizeof(SignalBody), static_cast<uint16_t>(Kind::Signal), 0, 1};
  EXPECT_EQ(scan_request(bytes_of(raw(header)), out), Scan::NeedMore);
  EXPECT_EQ(scan_request(bytes_of(raw(header).substr(0, 5)), out), Scan::NeedMore);
  EXPECT_EQ(scan_request(bytes_of(raw(header) + raw(SignalBody{})), out), Scan::Frame);
  // Each side refuses what only the other may say.
  header = {0, static_cast<uint16_t>(Kind::Shutdown), 0, 0};
  EXPECT_EQ(scan_reply(bytes_of(raw(header)), out), Scan::Bad);
  header = {sizeof(HelloBody), static_cast<uint16_t>(Kind::Hello), 0, 0};
  EXPECT_EQ(scan_request(bytes_of(raw(header)), out), Scan::Bad);
}

TEST(Codec, AConfigIsWholeOrNothing) {
  InitConfig config{};
  config.filter_count = 1;
  config.rule_count = 1;
  const ControlHeader header{kVersion, static_cast<uint32_t>(ControlKind::Config)};
  const LandlockRule rule{static_cast<uint32_t>(Access::Read), 4};
  const std::string whole = raw(header) + raw(config) + std::string(8, 'f') + raw(rule) + "/usr";
  ConfigView view;
  EXPECT_EQ(parse_config(bytes_of(whole), view), Check::Ok);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(parse_config(bytes_of(whole.substr(0, size)), view), Check::Ok) << size;
  }
  EXPECT_EQ(parse_config(bytes_of(whole + "x"), view), Check::Malformed);
}

// What only a carrier and init say to each other is no frame elsewhere.
TEST(Codec, CarriedWordsAreForCarriedStreams) {
  FrameHeader header{sizeof(ResetBody), static_cast<uint16_t>(Kind::Reset), 0, 0};
  FrameHeader out{};
  EXPECT_EQ(scan_request(bytes_of(raw(header) + raw(ResetBody{})), out), Scan::Bad);
  EXPECT_EQ(scan_carried_request(bytes_of(raw(header) + raw(ResetBody{})), out), Scan::Frame);
  EXPECT_EQ(scan_carried_reply(bytes_of(raw(header) + raw(ResetBody{})), out), Scan::Bad);
  EXPECT_FALSE(is_request(out));
  header = {0, static_cast<uint16_t>(Kind::Dropped), 0, 0};
  EXPECT_EQ(scan_reply(bytes_of(raw(header)), out), Scan::Bad);
  EXPECT_EQ(scan_carried_reply(bytes_of(raw(header)), out), Scan::Frame);
  header = {sizeof(CreditBody), static_cast<uint16_t>(Kind::Window), 0, kCarriedId};
  EXPECT_EQ(scan_carried_request(bytes_of(raw(header) + raw(CreditBody{})), out), Scan::Frame);
  EXPECT_EQ(scan_carried_reply(bytes_of(raw(header) + raw(CreditBody{})), out), Scan::Frame);
  EXPECT_EQ(scan_request(bytes_of(raw(header) + raw(CreditBody{})), out), Scan::Bad);
  header = {kDataMax + 1, static_cast<uint16_t>(Kind::Bytes), 0, kCarriedId};
  EXPECT_EQ(scan_carried_reply(bytes_of(raw(header)), out), Scan::Bad);
  // And on a carried stream the server's words are what they are everywhere.
  header = {0, static_cast<uint16_t>(Kind::Ping), 0, 1};
  EXPECT_EQ(scan_carried_request(bytes_of(raw(header)), out), Scan::Frame);
  EXPECT_TRUE(is_request(out));
  header = {0, static_cast<uint16_t>(Kind::Pong), 0, 1};
  EXPECT_EQ(scan_carried_reply(bytes_of(raw(header)), out), Scan::Frame);
  EXPECT_TRUE(is_reply(out));
}

TEST(Codec, AnIdentityHasItsName) {
  IdentityBody body{};
  body.hostname_size = 4;
  IdentityView view;
  EXPECT_TRUE(parse_identity(bytes_of(raw(body) + "name"), view));
  EXPECT_FALSE(parse_identity(bytes_of(raw(body) + "nam"), view));
  EXPECT_FALSE(parse_identity(bytes_of(raw(body) + "names"), view));
  EXPECT_FALSE(parse_identity(bytes_of(raw(body) + std::string("n\0me", 4)), view));
  body.hostname_size = kHostnameMax + 1;
  EXPECT_FALSE(parse_identity(bytes_of(raw(body) + std::string(kHostnameMax + 1, 'n')), view));
}

TEST(Codec, AnEndpointIsOfOneFamily) {
  Endpoint endpoint{};
  EXPECT_FALSE(is_endpoint(endpoint));
  endpoint.family = static_cast<uint16_t>(Family::V4);
  endpoint.address[3] = 1;
  EXPECT_TRUE(is_endpoint(endpoint));
  endpoint.address[4] = 1;
  EXPECT_FALSE(is_endpoint(endpoint));
  endpoint.family = static_cast<uint16_t>(Family::V6);
  EXPECT_TRUE(is_endpoint(endpoint));
}

TEST(Codec, AConfigBringsItsPorts) {
  InitConfig config{};
  config.port_count = 2;
  const ControlHeader header{kVersion, static_cast<uint32_t>(ControlKind::Config)};
  ConfigView view;
  EXPECT_EQ(parse_config(bytes_of(raw(header) + raw(config) + "abcd"), view), Check::Ok);
  EXPECT_EQ(view.ports.size, 4U);
  EXPECT_EQ(parse_config(bytes_of(raw(header) + raw(config) + "abc"), view), Check::Malformed);
  config.port_count = kCarriedPortsMax + 1;
  EXPECT_EQ(parse_config(bytes_of(raw(header) + raw(config)), view), Check::TooMuch);
}

}  // namespace
}  // namespace caisson::wire
