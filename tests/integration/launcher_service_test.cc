// The launcher as a service: sandboxes outlive whoever asked for them, and nothing outlives the
// launcher.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "tests/integration/service.h"

namespace caisson::test {
namespace {

const engine::HostFeatures& host() {
  static const engine::HostFeatures features = engine::probe_host();
  return features;
}

bool groups_gone(const std::string& id) { return groups_of(host(), id).empty(); }

// -- who may ask

// The child has another id and tells by its exit status whether anybody answered it.
int answered_as(uid_t uid, const std::string& socket) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) ::_exit(9);
    const auto client = engine::LauncherClient::attach(socket, soon());
    ::_exit(client ? 0 : client.error().code == Errc::Denied ? 1 : 2);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(LauncherService, OnlyTheServerAndRootAreAnswered) {
  const StateFolder state;
  LauncherService service(state, {"--server-uid", "65533"});
  ASSERT_NE(service.attach(), nullptr);  // who listens has given the file its owner
  EXPECT_EQ(answered_as(65533, state.socket()), 0);
  EXPECT_EQ(answered_as(65534, state.socket()), 1) << "the file's mode";
  // Even if somebody opens the file's mode: the peer's own id counts.
  ASSERT_EQ(::chmod(state.socket().c_str(), 0666), 0);
  EXPECT_EQ(answered_as(65534, state.socket()), 2) << "the peer's id";
  EXPECT_NE(service.attach(), nullptr);
}

TEST(LauncherService, ServersBeyondTheMostAreRefused) {
  const StateFolder state;
  LauncherService service(state);
  std::vector<std::unique_ptr<engine::LauncherClient>> clients;
  for (int i = 0; i < 16; ++i) clients.push_back(service.attach());
  EXPECT_FALSE(engine::LauncherClient::attach(state.socket(), soon()));
  clients.pop_back();
  EXPECT_TRUE(eventually(
      [&] { return engine::LauncherClient::attach(state.socket(), soon()).has_value(); }));
}

TEST(LauncherService, WhatIsBeyondTheCeilingIsDeniedByName) {
  const StateFolder state;
  state.write("launcher/ceiling", "memory_bytes_max 67108864\nsandboxes_max 1\n");
  LauncherService service(state);
  const auto client = service.attach();
  engine::LaunchRequest request = plain_request();
  request.limits.memory_bytes = 128UL << 20U;
  const auto beyond = client->launch(request, {});
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Errc::Denied);
  EXPECT_NE(beyond.error().message.find("memory_bytes_max"), std::string::npos);
  request.limits.memory_bytes = 0;  // no limit is beyond any
  EXPECT_FALSE(client->launch(request, {}));
  request.limits.memory_bytes = 32UL << 20U;
  Guest guest = launch(*client, request);
  EXPECT_EQ(say(guest, "echo in"), "in\n");
  const auto second = client->launch(request, {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("sandboxes_max"), std::string::npos);
  request.limits.memory_bytes = 256UL << 20U;
  EXPECT_EQ(client->set_limits(guest.id, request.limits).error().code, Errc::Denied);
  // One that cannot be read, or that others could have written, lets nothing through.
  state.write("launcher/ceiling", "memory_bytes_max lots\n");
  EXPECT_EQ(client->launch(request, {}).error().code, Errc::Internal);
  state.write("launcher/ceiling", "sandboxes_max 9\n", 0666);
  EXPECT_EQ(client->launch(request, {}).error().code, Errc::Internal);
  state.write("launcher/ceiling", "sandboxes_max 9\n");
  // A change is judged like a launch.
  request.limits.open_files = 1;
  EXPECT_EQ(client->set_limits(guest.id, request.limits).error().code, Errc::InvalidArgument);
}

TEST(LauncherService, FoldersOfTheHostAreNotForServers) {
  const StateFolder state;
  LauncherService service(state);
  const auto client = service.attach();
  engine::LaunchRequest request = plain_request();
  request.folders.push_back({"/etc2", engine::FolderMode::ReadOnly});
  std::vector<UniqueFd> folders;
  folders.emplace_back(::open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto shown = client->launch(request, folders);
  ASSERT_FALSE(shown);
  EXPECT_EQ(shown.error().code, Errc::Denied);
  EXPECT_NE(shown.error().message.find("folders"), std::string::npos);
  state.write("launcher/ceiling", "folders yes\n");
  EXPECT_TRUE(client->launch(request, folders));
}

// -- sandboxes and those who ask for them

TEST(LauncherService, TwoServersSeeTheSameSandboxes) {
  const StateFolder state;
  LauncherService service(state);
  const auto first = service.attach();
  const auto second = service.attach();
  Guest one = launch(*first);
  Guest two = launch(*second);
  const auto living = second->living();
  ASSERT_TRUE(living) << living.error().message;
  ASSERT_EQ(living->size(), 2U);
  for (const engine::Living& each : *living) {
    const Guest& guest = each.id == one.id ? one : two;
    EXPECT_EQ(each.id, guest.id);
    EXPECT_EQ(each.init_pid, guest.init);
    EXPECT_EQ(each.record.kernel, host().kernel_release);
    EXPECT_EQ(each.limits, plain_request().limits);
    EXPECT_FALSE(each.ended);
    EXPECT_FALSE(each.frozen);
    EXPECT_EQ(each.life_left_us, 0U);
  }
  EXPECT_TRUE(second->destroy(one.id));
  EXPECT_EQ(first->living()->size(), 1U);
}

TEST(LauncherService, TheListComesInPages) {
  const StateFolder state;
  LauncherService service(state);
  const auto client = service.attach();
  std::set<std::string> made;
  for (int i = 0; i < 100; ++i) {
    auto reply = client->launch(plain_request(), {});
    ASSERT_TRUE(reply) << reply.error().message;
    made.insert(reply->id);
  }
  const auto living = client->living();
  ASSERT_TRUE(living) << living.error().message;
  std::set<std::string> listed;
  for (const engine::Living& one : *living) listed.insert(one.id);
  EXPECT_EQ(listed, made);
  EXPECT_EQ(living->size(), made.size());
}

// A server is killed in the middle of things; the next one finds the sandbox, with what runs in it.
TEST(LauncherService, AKilledServersSandboxIsAdopted) {
  const StateFolder state;
  LauncherService service(state);
  int ready[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  const pid_t server = ::fork();
  if (server == 0) {
    const auto client = service.attach();
    Guest guest = launch(*client);
    (void)say(guest, "echo kept > /tmp/note");
    (void)!::write(ready[1], "x", 1);
    (void)guest.session->execute(shell("while :; do :; done"));
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const auto client = service.attach();
  ASSERT_TRUE(eventually([&] {
    const auto living = client->living();
    return living && living->size() == 1 && members(host(), living->front().id).size() > 1;
  }));
  const engine::Living found = client->living()->front();
  ASSERT_EQ(::kill(server, SIGKILL), 0);
  ASSERT_EQ(::waitpid(server, nullptr, 0), server);
  auto joined = client->join(found.id);
  ASSERT_TRUE(joined) << joined.error().message;
  Guest guest = greet(found.id, found.init_pid, std::move(joined->first), joined->second);
  EXPECT_EQ(say(guest, "cat /tmp/note"), "kept\n");
  const auto processes = guest.session->list_processes();
  ASSERT_TRUE(processes);
  EXPECT_EQ(
      std::ranges::count_if(
          *processes, [](const auto& one) { return one.state == wire::ProcessState::Running; }),
      1)
      << "the loop still runs";
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(LauncherService, EndsAreToldAtOnceAndOnce) {
  const StateFolder state;
  LauncherService service(state);
  const auto client = service.attach();
  const auto other = service.attach();
  ASSERT_TRUE(client->watch());
  ASSERT_TRUE(other->watch());
  Guest killed = launch(*client);
  ASSERT_EQ(::kill(killed.init, SIGKILL), 0);
  for (engine::LauncherClient* watcher : {client.get(), other.get()}) {
    const auto note = watcher->next_ended(soon());
    ASSERT_TRUE(note) << note.error().message;
    EXPECT_EQ(note->id, killed.id);
    EXPECT_EQ(note->status.end, engine::EndReason::InitDied);
  }
  EXPECT_TRUE(client->living()->front().ended);
  engine::LaunchRequest brief = plain_request();
  brief.limits.life_us = 400'000;
  const Guest mortal = launch(*client, brief);
  const auto note = client->next_ended(soon());
  ASSERT_TRUE(note) << note.error().message;
  EXPECT_EQ(note->id, mortal.id);
  EXPECT_EQ(note->status.end, engine::EndReason::Life);
  // Being frozen is no way to outlive one's time.
  const Guest frozen = launch(*client, brief);
  ASSERT_TRUE(client->freeze(frozen.id));
  const auto frozen_note = client->next_ended(soon());
  ASSERT_TRUE(frozen_note) << frozen_note.error().message;
  EXPECT_EQ(frozen_note->id, frozen.id);
  EXPECT_EQ(frozen_note->status.end, engine::EndReason::Life);
  // One that is destroyed did not end by itself, and nothing is said twice.
  const Guest destroyed = launch(*client);
  EXPECT_TRUE(client->destroy(destroyed.id));
  EXPECT_TRUE(client->destroy(mortal.id));
  EXPECT_FALSE(client->next_ended(Clock::now() + milliseconds(50)));
}

TEST(LauncherService, ASocketInsideReachesTheSandboxsNetwork) {
  const StateFolder state;
  LauncherService service(state);
  const auto client = service.attach();
  Guest guest = launch(*client);
  ASSERT_TRUE(guest.session->write_file({1000, 1000}, "/tmp/serve.py",
                                        "import socket\n"
                                        "s = socket.create_server(('127.0.0.1', 80))\n"
                                        "open('/tmp/up', 'w').close()\n"
                                        "c, _ = s.accept(); c.sendall(b'inside')\n"));
  engine::ExecRequest background = shell("python3 -I /tmp/serve.py >/dev/null 2>&1 &");
  background.keep_background = true;
  ASSERT_TRUE(guest.session->execute(background));
  ASSERT_TRUE(eventually([&] { return guest.session->stat({1000, 1000}, "/tmp/up").has_value(); }));
  const auto socket = client->socket_inside(guest.id, AF_INET);
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_NE(::fcntl(socket->get(), F_GETFL) & O_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(80);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::fcntl(socket->get(), F_SETFL, 0), 0);
  ASSERT_EQ(::connect(socket->get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  char text[16] = {};
  EXPECT_EQ(::recv(socket->get(), text, sizeof(text), MSG_WAITALL), 6);
  EXPECT_EQ(std::string(text), "inside");
  EXPECT_TRUE(client->socket_inside(guest.id, AF_INET6));
  EXPECT_EQ(client->socket_inside(guest.id, AF_UNIX).error().code, Errc::InvalidArgument);
  EXPECT_EQ(client->socket_inside(guest.id, AF_PACKET).error().code, Errc::InvalidArgument);
  // The launcher itself is back in its own network: the next sandbox has nothing of the first's.
  Guest next = launch(*client);
  EXPECT_NE(namespace_of(std::to_string(next.init), "net"),
            namespace_of(std::to_string(guest.init), "net"));
  EXPECT_EQ(namespace_of(std::to_string(client->pid()), "net"), namespace_of("self", "net"));
}

TEST(LauncherService, SandboxesWithoutAServerEndAfterTheGrace) {
  const StateFolder state;
  LauncherService service(state, {"--orphan-grace", "1"});
  auto client = service.attach();
  engine::LaunchRequest timed = plain_request();
  timed.limits.life_us = 3'600'000'000;
  const Guest orphan = launch(*client);
  const Guest with_time = launch(*client, timed);
  const Guest dead = launch(*client, timed);
  ASSERT_EQ(::kill(dead.init, SIGKILL), 0);
  client.reset();
  EXPECT_TRUE(eventually([&] { return !is_alive(orphan.init); }));
  EXPECT_TRUE(eventually([&] { return groups_gone(orphan.id) && groups_gone(dead.id); }));
  client = service.attach();
  const auto living = client->living();
  ASSERT_EQ(living->size(), 1U);
  EXPECT_EQ(living->front().id, with_time.id);
  EXPECT_GT(living->front().life_left_us, 0U);
}

// -- ends

void expect_all_gone(const StateFolder& state, const std::vector<Guest>& guests) {
  for (const Guest& guest : guests) {
    EXPECT_TRUE(eventually([&] { return !is_alive(guest.init); })) << guest.id;
    EXPECT_TRUE(eventually([&] { return groups_gone(guest.id); })) << guest.id;
  }
  EXPECT_TRUE(eventually([&] {
    const auto recorded = state.recorded();
    return std::ranges::none_of(guests,
                                [&](const Guest& guest) { return recorded.contains(guest.id); });
  }));
}

TEST(LauncherService, AKilledWorkerIsReplacedAndItsSandboxesAreGone) {
  const StateFolder state;
  LauncherService service(state);
  const auto client = service.attach();
  std::vector<Guest> guests;
  for (int i = 0; i < 3; ++i) guests.push_back(launch(*client));
  ASSERT_TRUE(client->freeze(guests[1].id));
  const pid_t worker = client->pid();
  ASSERT_EQ(parent_of(worker), service.keeper().pid());
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  EXPECT_EQ(client->status(guests[0].id).error().code, Errc::Gone);
  const auto again = service.attach();  // queued until the next worker answers
  EXPECT_NE(again->pid(), worker);
  EXPECT_EQ(parent_of(again->pid()), service.keeper().pid());
  expect_all_gone(state, guests);
  EXPECT_TRUE(again->living()->empty());
  Guest next = launch(*again);
  EXPECT_EQ(say(next, "echo alive"), "alive\n");
}

TEST(LauncherService, AKilledKeeperTakesEverythingAlong) {
  const StateFolder state;
  LauncherService service(state);
  const auto client = service.attach();
  std::vector<Guest> guests;
  for (int i = 0; i < 3; ++i) guests.push_back(launch(*client));
  const pid_t worker = client->pid();
  service.keeper().kill();
  EXPECT_TRUE(eventually([&] { return !is_alive(worker); }));
  expect_all_gone(state, guests);
  EXPECT_TRUE(state.recorded().empty());
  EXPECT_FALSE(std::filesystem::exists(state.socket()));
  // And the next one starts on what it finds.
  LauncherService next(state);
  EXPECT_TRUE(next.attach()->living()->empty());
}

TEST(LauncherService, BothKilledAtOnceLeaveNothingForTheNextOne) {
  const StateFolder state;
  std::vector<Guest> guests;
  {
    LauncherService service(state);
    const auto client = service.attach();
    for (int i = 0; i < 3; ++i) guests.push_back(launch(*client));
    ASSERT_EQ(::kill(service.keeper().pid(), SIGSTOP), 0);
    ASSERT_EQ(::kill(client->pid(), SIGKILL), 0);
    service.keeper().kill();
  }
  LauncherService next(state);
  EXPECT_TRUE(next.attach()->living()->empty());
  expect_all_gone(state, guests);
}

TEST(LauncherService, StopAndSigtermEndItInOrder) {
  for (const bool by_signal : {false, true}) {
    const StateFolder state;
    LauncherService service(state);
    const auto client = service.attach();
    std::vector<Guest> guests;
    guests.push_back(launch(*client));
    if (by_signal) {
      service.keeper().signal(SIGTERM);
    } else {
      const auto stopped = client->stop();
      EXPECT_TRUE(stopped) << stopped.error().message;
      EXPECT_TRUE(groups_gone(guests[0].id)) << "it says so when it is true";
    }
    EXPECT_EQ(service.keeper().finish().status, 0);
    EXPECT_FALSE(is_alive(client->pid()));
    expect_all_gone(state, guests);
    EXPECT_TRUE(state.recorded().empty());
    EXPECT_FALSE(std::filesystem::exists(state.socket()));
  }
}

TEST(LauncherService, ThereIsOneForAStateDirectory) {
  const StateFolder state;
  LauncherService service(state);
  const Guest guest = launch(*service.attach());
  const Finished second = caisson({"launcher", "--service", "--state-dir", state.path()});
  EXPECT_EQ(second.status, 125);
  EXPECT_NE(second.err.find("another launcher serves"), std::string::npos) << second.err;
  EXPECT_TRUE(is_alive(guest.init));
  EXPECT_EQ(service.attach()->living()->size(), 1U);
}

TEST(LauncherService, HalfMadeThingsAreTakenAway) {
  const StateFolder state;
  {
    LauncherService first(state);
    EXPECT_NE(first.attach(), nullptr);
  }
  state.write("trash/making-x/fs/etc/passwd", "half");
  state.write("trash/plain", "file");
  LauncherService second(state);
  EXPECT_NE(second.attach(), nullptr);
  EXPECT_TRUE(std::filesystem::is_empty(state.path() + "/trash"));
}

}  // namespace
}  // namespace caisson::test
