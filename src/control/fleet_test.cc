#include "control/fleet.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>

#include "control/fleet_fixture_test.h"

namespace caisson::control {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using test::FleetTest;

// ------------------------------------------------------------------------------------ isolation

TEST_F(FleetTest, AForeignSandboxIsTheSameAsNone) {
  open();
  const std::string id = create();
  const auto foreign = fleet_->get(other_, id);
  const auto none = fleet_->get(me_, "aaaaaaaaaaaaaaaaaaaaaaaaaa");
  ASSERT_FALSE(foreign);
  ASSERT_FALSE(none);
  EXPECT_EQ(foreign.error().code, Errc::NotFound);
  EXPECT_EQ(none.error().code, Errc::NotFound);
  EXPECT_EQ(foreign.error().message.substr(36), none.error().message.substr(36));
  EXPECT_TRUE(fleet_->list(other_).empty());
  EXPECT_EQ(run(fleet_->exec(other_, id, line("echo x"))).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->destroy(other_, id)).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->execute_tool(other_, id, "file_list", {}, {})).error().code,
            Errc::NotFound);
  EXPECT_EQ(run(fleet_->stat(other_, id, "a", true)).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->pause(other_, id)).error().code, Errc::NotFound);
  EXPECT_EQ(run(fleet_->usage(other_, id)).error().code, Errc::NotFound);
}

TEST_F(FleetTest, LimitsAreNamed) {
  options_.max_concurrent = 2;
  options_.max_per_tenant = 1;
  open();
  create();
  auto full = run(fleet_->create(me_, {}));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Errc::Exhausted);
  EXPECT_NE(full.error().message.find("max_per_tenant"), std::string::npos);
  ASSERT_TRUE(run(fleet_->create(other_, {})));
  Caller third = other_;
  third.tenant = "green";
  full = run(fleet_->create(third, {}));
  ASSERT_FALSE(full);
  // No number that is about others, and a full server is a ready one.
  EXPECT_EQ(full.error().message.find_first_of("0123456789"), std::string::npos);
  EXPECT_TRUE(fleet_->ready());
  EXPECT_EQ(fleet_->counters().failed, 2U);
}

TEST_F(FleetTest, ATokenHasItsOwnLimit) {
  open();
  me_.max_sandboxes = 1;
  const std::string id = create();
  EXPECT_EQ(run(fleet_->create(me_, {})).error().code, Errc::Exhausted);
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  create();
}

TEST_F(FleetTest, NamesAreUniqueAmongTheLivingOfATenant) {
  open();
  CreateWish wish;
  wish.name = "build";
  const std::string id = create(wish);
  const auto twice = run(fleet_->create(me_, wish));
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Errc::AlreadyExists);
  EXPECT_EQ(twice.error().field, "name");
  EXPECT_TRUE(run(fleet_->create(other_, wish)));
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  EXPECT_TRUE(run(fleet_->create(me_, wish)));
}

// ------------------------------------------------------------------------------------ life

TEST_F(FleetTest, CreatesWithFilesAndRecordsIt) {
  open();
  CreateWish wish;
  wish.files = {{"src/main.py", "print(1)"}};
  wish.labels = {{"team", "a"}};
  const std::string id = create(wish);
  EXPECT_EQ(guest(id).files.at("/workspace/src/main.py"), "print(1)");
  EXPECT_EQ(store_.last().action, "sandbox.create");
  EXPECT_EQ(store_.last().sandbox, id);
  EXPECT_EQ(store_.last().outcome, store::Outcome::Allowed);
  EXPECT_EQ(store_.records.at(id).state, store::RecordState::Living);
  const auto view = fleet_->get(me_, id);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->state, State::Running);
  EXPECT_EQ(view->labels.at("team"), "a");
  EXPECT_TRUE(view->expires);
  EXPECT_EQ(world_.requests.front().uid, 65534U);
  EXPECT_TRUE(world_.requests.front().id.empty());
}

TEST_F(FleetTest, AFailedCreateLeavesNothing) {
  open();
  world_.launch_fails = Error{Errc::Exhausted, "no slot is free", 0};
  EXPECT_EQ(run(fleet_->create(me_, {})).error().code, Errc::Exhausted);
  EXPECT_EQ(store_.last().outcome, store::Outcome::Failed);
  world_.launch_fails.reset();
  store_.fails = true;
  EXPECT_EQ(run(fleet_->create(me_, {})).error().code, Errc::StoreFull);
  EXPECT_TRUE(world_.boxes.empty());
  EXPECT_TRUE(fleet_->list(me_).empty());
  // What cannot be recorded is not done, and when the disk has room again it is.
  EXPECT_EQ(fleet_->ready().error().code, Errc::StoreFull);
  const std::size_t launches = world_.requests.size();
  EXPECT_EQ(run(fleet_->create(me_, {})).error().code, Errc::StoreFull);
  EXPECT_EQ(world_.requests.size(), launches);
  store_.fails = false;
  create();
  EXPECT_TRUE(fleet_->ready());
}

TEST_F(FleetTest, DestroyAnswersWhoWaitsAndIsDoneOnce) {
  open();
  const std::string id = create();
  const auto exec = begin(fleet_->exec(me_, id, line("hang")));
  until([&] { return !guest(id).hanging.empty(); });
  const auto first = begin(fleet_->destroy(me_, id));
  const auto second = begin(fleet_->destroy(me_, id));
  until([&] { return exec->has_value() && first->has_value() && second->has_value(); });
  EXPECT_TRUE(**first);
  EXPECT_EQ((*second)->error().code, Errc::NotFound);
  EXPECT_EQ((*exec)->error().code, Errc::Gone);
  EXPECT_NE((*exec)->error().message.find("destroyed"), std::string::npos);
  EXPECT_EQ(fleet_->get(me_, id).error().code, Errc::NotFound);
  EXPECT_EQ(store_.records.at(id).state, store::RecordState::Ended);
  EXPECT_EQ(store_.records.at(id).end_reason, "destroyed");
}

TEST_F(FleetTest, TheLaunchersEndHasItsReason) {
  open();
  const std::string id = create();
  const auto exec = begin(fleet_->exec(me_, id, line("hang")));
  until([&] { return !guest(id).hanging.empty(); });
  launcher_->end(id, engine::EndReason::Life);
  until([&] { return exec->has_value() && world_.boxes.empty(); });
  EXPECT_NE((*exec)->error().message.find("expired"), std::string::npos);
  EXPECT_EQ(store_.records.at(id).end_reason, "expired");
  EXPECT_EQ(fleet_->counters().ended, 1U);
}

TEST_F(FleetTest, AnInitThatDiesIsExplainedByTheLauncher) {
  open();
  const std::string id = create();
  const auto exec = begin(fleet_->exec(me_, id, line("hang")));
  until([&] { return !guest(id).hanging.empty(); });
  world_.boxes.at(id).reason = engine::EndReason::OutOfMemory;
  guest(id).close();
  until([&] { return exec->has_value(); });
  EXPECT_EQ((*exec)->error().code, Errc::Gone);
  EXPECT_NE((*exec)->error().message.find("out of memory"), std::string::npos);
  until([&] { return world_.boxes.empty(); });
}

TEST_F(FleetTest, ALostLauncherEndsEverythingAtOnce) {
  open();
  const std::string id = create();
  const auto exec = begin(fleet_->exec(me_, id, line("hang")));
  until([&] { return !guest(id).hanging.empty(); });
  world_.connected = false;
  launcher_->watcher().on_lost();
  until([&] { return exec->has_value(); });
  EXPECT_EQ((*exec)->error().code, Errc::Gone);
  EXPECT_NE((*exec)->error().message.find("launcher ended"), std::string::npos);
  EXPECT_EQ(fleet_->get(me_, id).error().code, Errc::LauncherGone);
  EXPECT_EQ(run(fleet_->create(me_, {})).error().code, Errc::LauncherGone);
  EXPECT_EQ(fleet_->ready().error().code, Errc::LauncherGone);
  world_.connected = true;
  launcher_->watcher().on_back();
  EXPECT_EQ(fleet_->get(me_, id).error().code, Errc::NotFound);
  create();
}

TEST_F(FleetTest, APausedSandboxSaysSo) {
  open();
  const std::string id = create();
  ASSERT_EQ(run(fleet_->pause(me_, id))->state, State::Paused);
  const auto refused = run(fleet_->exec(me_, id, line("echo x")));
  EXPECT_EQ(refused.error().code, Errc::Busy);
  EXPECT_NE(refused.error().message.find("resume"), std::string::npos);
  EXPECT_EQ(store_.last().action, "exec");
  EXPECT_EQ(store_.last().outcome, store::Outcome::Failed);
  EXPECT_EQ(tool(id, "file_list", "{}").error().code, Errc::Busy);
  EXPECT_EQ(run(fleet_->write_file(me_, id, "f", {})).error().code, Errc::Busy);
  EXPECT_EQ(store_.last().action, "file.write");
  EXPECT_EQ(run(fleet_->stat(me_, id, "f", true)).error().code, Errc::Busy);
  ASSERT_EQ(run(fleet_->resume(me_, id))->state, State::Running);
  EXPECT_TRUE(run(fleet_->exec(me_, id, line("echo x"))));
  run(fleet_->pause(me_, id));
  EXPECT_TRUE(run(fleet_->destroy(me_, id)));
}

TEST_F(FleetTest, AnIdleSandboxEndsAndABusyOneDoesNot) {
  open();
  CreateWish wish;
  wish.limits.idle_seconds = 0.02;
  const std::string busy = create(wish);
  const auto exec = begin(fleet_->exec(me_, busy, line("hang")));
  until([&] { return !guest(busy).hanging.empty(); });
  const std::string idle = create(wish);
  until([&] { return !fleet_->get(me_, idle); });
  EXPECT_EQ(store_.records.at(idle).end_reason, "idle");
  EXPECT_TRUE(fleet_->get(me_, busy));
  EXPECT_FALSE(exec->has_value());
}

TEST_F(FleetTest, LimitsChange) {
  open();
  const std::string id = create();
  LimitWish wish;
  wish.memory_bytes = 64ULL << 20U;
  ASSERT_TRUE(run(fleet_->set_limits(me_, id, wish)));
  EXPECT_EQ(world_.boxes.at(id).limits.memory_bytes, 64ULL << 20U);
  EXPECT_EQ(store_.last().action, "sandbox.limits");
  wish = {};
  wish.disk_files = 1000;
  EXPECT_EQ(run(fleet_->set_limits(me_, id, wish)).error().code, Errc::Unsupported);
  EXPECT_EQ(run(fleet_->usage(me_, id))->usage.memory_bytes, 4711U);
}

TEST_F(FleetTest, ANewServerAdoptsWhatIsThere) {
  open();
  CreateWish wish;
  wish.name = "kept";
  wish.environment = {{"A", "b"}};
  const std::string kept = create(wish);
  const std::string paused = create();
  const std::string lost = create();
  ProcessWish process;
  process.exec.argv = {"daemon"};
  ASSERT_TRUE(run(fleet_->start(me_, kept, process)));
  ASSERT_TRUE(run(fleet_->pause(me_, paused)));
  close();
  world_.boxes.at(lost).guest->close();
  world_.boxes.erase(lost);
  world_.boxes["unknown0000000000000000000"].guest = world_.boxes.at(paused).guest;
  open();
  EXPECT_EQ(fleet_->get(me_, kept)->name, "kept");
  EXPECT_EQ(fleet_->get(me_, paused)->state, State::Paused);
  EXPECT_EQ(fleet_->get(me_, lost).error().code, Errc::NotFound);
  EXPECT_EQ(store_.records.at(lost).end_reason, "lost");
  EXPECT_EQ(world_.destroyed.back(), "unknown0000000000000000000");
  ASSERT_EQ(run(fleet_->processes(me_, kept))->size(), 1U);
  ASSERT_TRUE(run(fleet_->exec(me_, kept, line("echo on"))));
  EXPECT_NE(std::ranges::find(guest(kept).last_env, "A=b"), guest(kept).last_env.end());
  ASSERT_TRUE(run(fleet_->resume(me_, paused)));
  EXPECT_TRUE(run(fleet_->exec(me_, paused, line("echo on"))));
  EXPECT_EQ(run(fleet_->create(me_, wish)).error().code, Errc::AlreadyExists);
}

TEST_F(FleetTest, StoppingEndsAndRecordsAll) {
  open();
  const std::string id = create();
  bool over = false;
  asio::co_spawn(context_, fleet_->stop("server stopped"),
                 [&](const std::exception_ptr&) { over = true; });
  until([&] { return over; });
  EXPECT_EQ(store_.records.at(id).end_reason, "server stopped");
  EXPECT_TRUE(world_.stopped);
  EXPECT_EQ(run(fleet_->create(me_, {})).error().code, Errc::Gone);
}

// ------------------------------------------------------------------------------------ commands

TEST_F(FleetTest, EachExecIsARow) {
  open();
  const std::string id = create();
  const auto done = run(fleet_->exec(me_, id, line("echo hello")));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->out, "hello\n");
  const store::AuditEvent& row = store_.last();
  EXPECT_EQ(row.action, "exec");
  EXPECT_EQ(row.object, "echo hello");
  EXPECT_EQ(row.actor, "token1");
  EXPECT_EQ(json::parse(row.detail).at("exit_code"), 0);
  EXPECT_EQ(json::parse(row.detail).at("stdout_bytes"), 6);
  run(fleet_->exec(me_, id, line(std::string(100'000, 'x'))));
  EXPECT_LE(store_.last().object.size(), 4096U);
}

TEST_F(FleetTest, BadCommandsAreNamed) {
  open();
  const std::string id = create();
  const auto refused = [&](auto change) {
    ExecWish wish = line("echo");
    change(wish);
    const auto done = run(fleet_->exec(me_, id, wish));
    return done ? std::string("(accepted)") : done.error().field;
  };
  EXPECT_EQ(refused([](auto& w) { w.argv = {"a"}; }), "command");
  EXPECT_EQ(refused([](auto& w) { w.command.reset(); }), "argv");
  EXPECT_EQ(refused([](auto& w) { w.command = ""; }), "command");
  EXPECT_EQ(refused([](auto& w) { w.command = std::string("a\0b", 3); }), "command");
  EXPECT_EQ(refused([](auto& w) { w.command = std::string(kCommandBytesMax, 'x'); }), "command");
  EXPECT_EQ(refused([](auto& w) {
              w.command.reset();
              w.argv.assign(kArgumentsMax + 1, "x");
            }),
            "argv");
  EXPECT_EQ(refused([](auto& w) { w.timeout_seconds = 0; }), "timeout_seconds");
  EXPECT_EQ(refused([](auto& w) { w.timeout_seconds = 3601; }), "timeout_seconds");
  EXPECT_EQ(refused([](auto& w) { w.workdir = "../../.."; }), "workdir");
  EXPECT_EQ(refused([](auto& w) { w.environment = {{"", "x"}}; }), "env.");
  EXPECT_EQ(refused([](auto& w) { w.output_bytes_max = kOutputBytesMax + 1; }), "output_bytes_max");
}

TEST_F(FleetTest, TheBlocklistAndTheListOfToolsHoldForEveryCommand) {
  open();
  const std::string id = create();
  const auto blocked = run(fleet_->exec(me_, id, line("rm -rf /")));
  EXPECT_EQ(blocked.error().code, Errc::Denied);
  EXPECT_EQ(store_.last().outcome, store::Outcome::Denied);
  ProcessWish process;
  process.exec.argv = {"rm", "-rf", "/"};
  EXPECT_EQ(run(fleet_->start(me_, id, process)).error().code, Errc::Denied);
  EXPECT_EQ(tool(id, "shell_exec", R"({"command": "shutdown now"})").error().code, Errc::Denied);
  CreateWish wish;
  wish.tools = {"file_read"};
  const std::string mute = create(wish);
  EXPECT_EQ(run(fleet_->exec(me_, mute, line("echo"))).error().code, Errc::Denied);
  EXPECT_EQ(tool(mute, "shell_exec", R"({"command": "echo"})").error().code, Errc::Denied);
  EXPECT_EQ(fleet_->counters().denied, 5U);
}

TEST_F(FleetTest, AProcessIsFollowedToItsEnd) {
  open();
  const std::string id = create();
  ProcessWish wish;
  wish.exec.command = "server --port 1";
  const auto started = run(fleet_->start(me_, id, wish));
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(started->command, "server --port 1");
  auto output = run(fleet_->attach(me_, id, started->id, 0, 0));
  ASSERT_TRUE(output);
  guest(id).print(started->id, "line\n");
  auto item = run((*output)->next());
  ASSERT_TRUE(item);
  EXPECT_EQ(std::get<OutputChunk>(*item).bytes, "line\n");
  EXPECT_TRUE(run(fleet_->write_input(me_, id, started->id, "typed", true)));
  ASSERT_TRUE(run(fleet_->signal(me_, id, started->id, 15, false)));
  item = run((*output)->next());
  ASSERT_TRUE(item);
  EXPECT_FALSE(std::get<ProcessView>(*item).running);
  const auto ended = run(fleet_->wait(me_, id, started->id, milliseconds(5000)));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 0);
  ASSERT_TRUE(run(fleet_->forget(me_, id, started->id)));
  EXPECT_EQ(run(fleet_->process(me_, id, started->id)).error().code, Errc::NotFound);
}

// ------------------------------------------------------------------------------------ ports

TEST_F(FleetTest, APortInsideIsReachedOrNotThere) {
  open();
  const std::string id = create();
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  const auto refused = run(fleet_->connect_port(me_, id, port));  // bound, but nobody listens
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Protocol);
  EXPECT_EQ(refused.error().field, "port");
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  const auto connected = run(fleet_->connect_port(me_, id, port));
  ASSERT_TRUE(connected) << connected.error().message;
  EXPECT_EQ(store_.last().action, "port.connect");
  EXPECT_EQ(run(fleet_->connect_port(me_, id, 0)).error().field, "port");
}

TEST_F(FleetTest, EventsAreOfOnesOwnTenant) {
  open();
  auto mine = fleet_->events(me_, std::nullopt, 0);
  Caller admin = other_;
  admin.scopes = 8;
  auto all = fleet_->events(admin, std::nullopt, 0);
  auto others = fleet_->events(other_, std::nullopt, 0);
  const std::string id = create();
  ASSERT_TRUE(run(fleet_->destroy(me_, id)));
  EXPECT_EQ(run((*mine)->next())->type, "sandbox.created");
  EXPECT_EQ(run((*mine)->next())->type, "sandbox.ended");
  EXPECT_EQ(run((*all)->next())->sandbox, id);
  const auto nothing = begin((*others)->next());
  settle();
  EXPECT_FALSE(nothing->has_value());
  fleet_->leave();
  until([&] { return nothing->has_value(); });
}

}  // namespace
}  // namespace caisson::control
