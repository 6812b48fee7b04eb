// What a caller can make the door hold or do, and what it does when something fails behind it.
#include <grpc/health/v1/health.pb.h>
#include <grpc/reflection/v1/reflection.pb.h>

#include "doors/grpc/call.h"
#include "doors/grpc/fakes_test.h"
#include "doors/grpc/fields.h"
#include "doors/grpc/methods.h"

namespace caisson::grpc {
namespace {

namespace asio = boost::asio;
using fake::Answer;
using fake::framed;

constexpr std::string_view kReflect = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr std::string_view kCheck = "/grpc.health.v1.Health/Check";
constexpr std::string_view kWatch = "/grpc.health.v1.Health/Watch";

std::string repeated(std::string_view piece, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += piece;
  return out;
}

using GrpcDoor = fake::DoorTest;

// --- messages

// Each dot of a name that the pool does not know costs a look at all that is before it.
TEST_F(GrpcDoor, ALongNameIsNotLookedUp) {
  namespace v1 = ::grpc::reflection::v1;
  v1::ServerReflectionRequest request;
  for (const bool symbol : {true, false}) {
    const std::string name(3000, '.');
    symbol ? request.set_file_containing_symbol(name) : request.set_file_by_filename(name);
    const Answer answer = ask(std::string(kReflect), request.SerializeAsString());
    ASSERT_EQ(answer.messages.size(), 1U);
    v1::ServerReflectionResponse told;
    ASSERT_TRUE(told.ParseFromString(answer.messages[0]));
    EXPECT_EQ(told.error_response().error_code(), 5);
    EXPECT_EQ(told.error_response().error_message(), "not found: " + std::string(80, '.'));
  }
  request.set_file_containing_symbol(std::string(4'000'000, '.'));
  EXPECT_EQ(ask(std::string(kReflect), request.SerializeAsString()).status, "8");
  request.set_file_containing_symbol("sandbox.v1.SandboxService.Exec");
  EXPECT_EQ(ask(std::string(kReflect), request.SerializeAsString()).messages.size(), 1U);
}

TEST_F(GrpcDoor, AMethodTakesWhatItNeeds) {
  const std::string unknown = repeated(std::string("\x7a\0", 2), 600);
  EXPECT_EQ(ask(std::string(kCheck), unknown, false).status, "8");
  EXPECT_EQ(ask(std::string(kCheck), unknown, false).words,
            "Received message larger than max (1200 vs. 1024)");
  EXPECT_EQ(ask(std::string(kCheck), "", false).status, "0");
  api::GetSessionRequest get;
  get.set_session_id(std::string(5000, 'x'));
  EXPECT_EQ(call("GetSession", get).status, "5");
  get.set_session_id(std::string(20'000, 'x'));
  EXPECT_EQ(call("GetSession", get).status, "8");
  api::ExecRequest exec;
  exec.set_session_id("nope");
  exec.set_command(std::string(1'000'000, 'x'));
  EXPECT_EQ(call("Exec", exec).status, "0");
}

TEST_F(GrpcDoor, FieldsHaveALimit) {
  const std::string field("\x7a\0", 2);
  EXPECT_EQ(ask("/sandbox.v1.SandboxService/Exec", repeated(field, kFieldsMax)).status, "0");
  EXPECT_EQ(ask("/sandbox.v1.SandboxService/Exec", repeated(field, kFieldsMax + 1)).status, "8");
  EXPECT_EQ(ask("/sandbox.v1.SandboxService/CreateSession",
                repeated(std::string("\x1a\0", 2), kFieldsMax + 1))
                .status,
            "8");
}

TEST(Fields, AreCountedAsTheParserReadsThem) {
  EXPECT_EQ(count_fields("", 10), 0U);
  EXPECT_EQ(
      count_fields(std::string("\x08\x01\x12\x02xy\x1d\1\2\3\4\x21\1\2\3\4\5\6\7\x08", 20), 10),
      4U);
  EXPECT_EQ(count_fields("\x0b\x08\x01\x08\x02\x0c", 10), 4U) << "a group";
  EXPECT_EQ(count_fields(repeated("\x08\x01", 100), 10), 11U);
  EXPECT_EQ(count_fields("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10), 0U);
  EXPECT_EQ(count_fields("\x0a\x7f", 10), 1U);
}

TEST_F(GrpcDoor, WhatWasParsedIsKeptOnce) {
  doors::Budget budget(1 << 20, 1 << 20, milliseconds(0));
  Services services{fleet_, access_, options_, budget};
  fake::Exchange exchange;
  Call call(exchange, services);
  ::grpc::health::v1::HealthCheckRequest request;
  request.set_service("x");
  call.message = request.SerializeAsString() + repeated(std::string("\x7a\0", 2), 100);
  ::grpc::health::v1::HealthCheckRequest parsed;
  EXPECT_TRUE(call.parse(parsed).ok());
  EXPECT_EQ(parsed.ByteSizeLong(), request.ByteSizeLong()) << "nothing that nobody knows";
  EXPECT_TRUE(call.message.empty());
  EXPECT_LT(call.message.capacity(), 64U);
}

// --- the budget

// Whoever has no token, or has sent no message yet, takes nothing that others wait for.
TEST_F(GrpcDoor, CallsWithoutAMessageTakeNoRoom) {
  options_.held_bytes_max = options_.held_per_tenant_max = 64UL * 1024;
  options_.held_patience = milliseconds(0);
  for (int i = 0; i < 100; ++i) {
    fake::Exchange& waits =
        begin(std::string(kWatch), framed(""), false, "10.0.0." + std::to_string(i));
    EXPECT_EQ(read(waits).messages.size(), 1U);
  }
  EXPECT_EQ(ask(std::string(kCheck), "", false).status, "0");
  EXPECT_EQ(call("ListSessions", api::ListSessionsRequest()).status, "0");
  // One that says that it is large has to have room.
  EXPECT_EQ(read(begin("/sandbox.v1.SandboxService/Exec", std::string("\0\0\2\0\0", 5))).status,
            "8");
}

TEST_F(GrpcDoor, AListOfSessionsNeedsRoom) {
  options_.held_bytes_max = options_.held_per_tenant_max = 64UL * 1024;
  options_.held_patience = milliseconds(0);
  api::CreateSessionRequest create;
  for (int i = 0; i < 40; ++i) create.add_allowed_hosts(std::string(400, 'h'));
  EXPECT_EQ(call("CreateSession", create).status, "0");
  EXPECT_EQ(call("ListSessions", api::ListSessionsRequest()).status, "0");
  EXPECT_EQ(call("CreateSession", create).status, "0");
  EXPECT_EQ(call("ListSessions", api::ListSessionsRequest()).status, "8");
}

TEST_F(GrpcDoor, HostsHaveALimitOfBytes) {
  api::CreateSessionRequest create;
  for (int i = 0; i < 16; ++i) create.add_allowed_hosts(std::string(1024, 'h'));
  EXPECT_EQ(call("CreateSession", create).status, "0");
  create.add_allowed_hosts("h");
  const Answer refused = call("CreateSession", create);
  EXPECT_EQ(refused.status, "3");
  EXPECT_NE(refused.words.find("16385 bytes are too many"), std::string::npos);
}

// --- failures behind the door

TEST_F(GrpcDoor, ASessionIsKnownUntilItsSandboxIsGone) {
  api::CreateSessionRequest create;
  create.set_session_id("a");
  api::DestroySessionRequest destroy;
  destroy.set_session_id("a");
  ASSERT_EQ(call("CreateSession", create).status, "0");
  fleet_.destroy_fails = Error{Errc::StoreFull, "the disk is full", 0, {}};
  EXPECT_EQ(call("DestroySession", destroy).status, "14");
  EXPECT_EQ(failures_.size(), 1U);
  // Nobody uses it any more, and nobody takes its name.
  api::GetSessionRequest get;
  get.set_session_id("a");
  EXPECT_EQ(call("GetSession", get).status, "5");
  EXPECT_EQ(call("CreateSession", create).status, "14");
  EXPECT_EQ(call("DestroySession", destroy).status, "14") << "it may be repeated";
  sweep();
  EXPECT_EQ(fleet_.boxes.size(), 1U);
  fleet_.destroy_fails.reset();
  sweep();
  EXPECT_EQ(fleet_.boxes.size(), 0U);
  EXPECT_EQ(call("CreateSession", create).status, "0");
  EXPECT_EQ(call("DestroySession", destroy).status, "0");
  EXPECT_EQ(fleet_.boxes.size(), 0U);
}

TEST_F(GrpcDoor, ASweepThatFailsIsRepeated) {
  TimePoint now = Clock::now();
  options_.now = [&now] { return now; };
  ASSERT_EQ(call("CreateSession", api::CreateSessionRequest()).status, "0");
  now += options_.session_timeout + seconds(1);
  fleet_.destroy_fails = Error{Errc::StoreFull, "the disk is full", 0, {}};
  sweep();
  EXPECT_EQ(fleet_.boxes.size(), 1U);
  fleet_.destroy_fails.reset();
  sweep();
  EXPECT_EQ(fleet_.boxes.size(), 0U);
}

TEST_F(GrpcDoor, WhatAnOlderServerLeftIsTriedAgain) {
  control::SandboxView& old = fleet_.boxes["old"];
  old.id = "old";
  old.tenant = "default";
  old.labels[std::string(kSessionLabel)] = "a";
  fleet_.destroy_fails = Error{Errc::StoreFull, "the disk is full", 0, {}};
  asio::co_spawn(io_, door().remove_left_over(), asio::detached);
  turn();
  EXPECT_EQ(fleet_.boxes.size(), 1U);
  fleet_.destroy_fails.reset();
  sweep();
  EXPECT_EQ(fleet_.boxes.size(), 0U);
}

// In a method that can be cancelled, nothing but the caller's leaving would end it otherwise.
TEST_F(GrpcDoor, ABugIsAnswered) {
  api::CreateSessionRequest create;
  create.set_session_id("a");
  ASSERT_EQ(call("CreateSession", create).status, "0");
  fleet_.on_exec = [] { throw std::runtime_error("a bug"); };
  api::ExecRequest exec;
  exec.set_session_id("a");
  exec.set_command("true");
  EXPECT_EQ(call("Exec", exec).status, "2");
  EXPECT_EQ(failures_, std::vector<std::string>{"a bug"});
}

TEST_F(GrpcDoor, ABugInTheMakingGivesTheNameBack) {
  api::CreateSessionRequest create;
  create.set_session_id("a");
  fleet_.on_create = [] { throw std::runtime_error("a bug"); };
  EXPECT_EQ(call("CreateSession", create).status, "2");
  fleet_.on_create = nullptr;
  EXPECT_EQ(call("CreateSession", create).status, "0");
}

// --- those who watch

TEST_F(GrpcDoor, WatchersHaveALimit) {
  for (std::size_t i = 0; i < kWatchersPerPeerMax; ++i)
    EXPECT_EQ(read(begin(std::string(kWatch), framed(""), false)).status, "");
  EXPECT_EQ(read(begin(std::string(kWatch), framed(""), false)).status, "8");
  EXPECT_EQ(read(begin(std::string(kWatch), framed(""), false, "10.0.0.1")).status, "");
  EXPECT_EQ(ask(std::string(kCheck), "", false).status, "0");
}

TEST_F(GrpcDoor, WatchersAreToldOfTheEnd) {
  fake::Exchange& watches = begin(std::string(kWatch), framed(""), false);
  EXPECT_EQ(read(watches).messages.size(), 1U);
  door().close();
  io_.restart();
  for (int i = 0; i < 100 && read(watches).status.empty(); ++i) io_.run_one_for(milliseconds(100));
  EXPECT_EQ(read(watches).status, "14");
  ASSERT_EQ(read(watches).messages.size(), 2U);
  ::grpc::health::v1::HealthCheckResponse told;
  EXPECT_TRUE(told.ParseFromString(read(watches).messages[1]));
  EXPECT_EQ(told.status(), ::grpc::health::v1::HealthCheckResponse::NOT_SERVING);
}

TEST_F(GrpcDoor, AVeryLongDeadlineIsNoneInThePast) {
  fake::Exchange& watches = begin(std::string(kWatch), framed(""), false);
  fake::Exchange& timed = *exchanges_.emplace_back(std::make_unique<fake::Exchange>());
  timed.wanted = watches.wanted;
  timed.wanted.fields.push_back({"grpc-timeout", "99999999H"});
  timed.body_in = framed("");
  asio::co_spawn(io_, door().handle(timed), asio::detached);
  turn();
  EXPECT_EQ(read(timed).status, "");
  EXPECT_EQ(read(timed).messages.size(), 1U);
}

}  // namespace
}  // namespace caisson::grpc
