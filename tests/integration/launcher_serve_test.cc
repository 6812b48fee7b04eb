// `caisson serve` up to the moment at which it becomes the server: what that one then is, has and
// may do. A small program stands in for caissond and tells.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/integration/other_user.h"
#include "tests/integration/service.h"

namespace caisson::test {
namespace {

constexpr const char* kStandIn = R"(#!/usr/bin/python3 -I
import os, socket, stat, struct, sys
def say(*words): print(*words, flush=True)
say('pid', os.getpid())
for line in open('/proc/self/status'):
    if line.split(':')[0] in ('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs'):
        say(*line.split())
say('args', *sys.argv[1:])
say('env', *sorted(name for name in os.environ if name.startswith(('LISTEN_', 'NOTIFY_'))))
words = dict(zip(sys.argv[1:], sys.argv[2:]))
given = [int(b) for a, b in zip(sys.argv[1:], sys.argv[2:]) if a in ('--listen-fd', '--lock-fd')]
opened = []
for name in os.listdir('/proc/self/fd'):
    try:
        if int(name) > 2: os.fstat(int(name)); opened.append(int(name))
    except OSError: pass
say('given', 'exactly' if sorted(opened) == sorted(given) else f'{opened} for {given}')
for a, b in zip(sys.argv[1:], sys.argv[2:]):
    if a == '--listen-fd':
        s = socket.socket(fileno=int(b))
        say('listens', s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN), s.family.name)
        s.detach()
say('core', *__import__('resource').getrlimit(__import__('resource').RLIMIT_CORE))
state = words['--state-dir']
def attempt(what, action):
    try: action(); say(what, 'yes')
    except OSError as error: say(what, error.strerror)
attempt('own', lambda: open(state + '/server/x', 'w').close())
attempt('list', lambda: os.listdir(state))
attempt('launcher-folder', lambda: os.listdir(state + '/launcher'))
attempt('layers', lambda: os.listdir(state + '/layers'))
attempt('root', lambda: os.setuid(0))
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(words['--launcher-socket'])
s.send(struct.pack('IIII', 9, 1, 5, 0))
version, kind, sequence, failed, worker = struct.unpack('IIIIi', s.recv(65536)[:20])
say('greeted', sequence, failed, worker)
say('ready')
sys.stdin.read()
)";

// The launcher that a server started does not end with it: the test ends it.
struct Ended {
  const StateFolder& state;
  ~Ended() {
    const auto client = engine::LauncherClient::attach(state.socket(), soon());
    if (client) (void)(*client)->stop();
  }
};

class Serve : public testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);  // a server that is killed does not read its input to the end
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
    program_ = folder_.write("caissond", kStandIn, 0755);
  }
  [[nodiscard]] ProgramOptions options() const {
    ProgramOptions options;
    options.env = {"CAISSON_SERVER_PROGRAM=" + program_};
    options.input = std::string(1U << 20U, 'x');  // more than it takes while it lives
    return options;
  }
  [[nodiscard]] std::vector<std::string> words(std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"serve", "--state-dir", state_.path(), "--listen", "127.0.0.1:0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // What the stand-in said about `name`.
  static std::string said(const std::string& out, const std::string& name) {
    const std::string text = "\n" + out;
    const std::size_t at = text.find("\n" + name + " ");
    if (at == std::string::npos) return "nothing";
    const std::size_t from = at + name.size() + 2;
    return text.substr(from, text.find('\n', from) - from);
  }

  StateFolder state_;
  Ended ended_{state_};
  Folder folder_;
  std::string program_;
};

TEST_F(Serve, TheServerHasNoPrivilegeAndExactlyWhatItNeeds) {
  const std::string socket = folder_.path() + "/api.sock";
  Program server(words({"--listen", "unix:" + socket, "--log-level", "debug"}), options());
  const pid_t pid = server.pid();
  ASSERT_TRUE(server.wait_for_output("ready\n"));
  server.signal(SIGKILL);
  const std::string out = server.finish().out;
  EXPECT_EQ(said(out, "pid"), std::to_string(pid));
  for (const char* ids : {"Uid:", "Gid:"}) {
    std::istringstream words(said(out, ids));
    int count = 0;
    for (unsigned id = 0; words >> id; ++count) EXPECT_NE(id, 0U) << ids;
    EXPECT_EQ(count, 4) << ids;
  }
  EXPECT_EQ(said(out, "Groups:"), "nothing");
  for (const char* set : {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"})
    EXPECT_EQ(said(out, set), "0000000000000000") << set;
  EXPECT_EQ(said(out, "NoNewPrivs:"), "1");
  EXPECT_EQ(said(out, "given"), "exactly");
  EXPECT_NE(out.find("listens 1 AF_INET\nlistens 1 AF_UNIX\n"), std::string::npos) << out;
  EXPECT_NE(said(out, "args").find("--log-level debug"), std::string::npos);
  EXPECT_EQ(said(out, "core"), "0 0");
  EXPECT_EQ(said(out, "own"), "yes");
  EXPECT_EQ(said(out, "list"), "Permission denied");
  EXPECT_EQ(said(out, "launcher-folder"), "Permission denied");
  EXPECT_EQ(said(out, "layers"), "Permission denied");
  EXPECT_EQ(said(out, "root"), "Operation not permitted");
  EXPECT_TRUE(said(out, "greeted").starts_with("5 0 ")) << out;
}

TEST_F(Serve, ThereIsOneServerForAStateDirectory) {
  Program server(words(), options());
  ASSERT_TRUE(server.wait_for_output("ready\n"));
  const Finished second = caisson(words(), options());
  EXPECT_EQ(second.status, 1);
  EXPECT_NE(second.err.find("a server runs on " + state_.path() + " already"), std::string::npos)
      << second.err;
  EXPECT_NE(second.err.find("the pid " + std::to_string(server.pid())), std::string::npos)
      << second.err;
  EXPECT_EQ(std::ranges::count(second.err, '\n'), 1) << second.err;
}

TEST_F(Serve, TheNextServerFindsTheSameLauncher) {
  std::string worker;
  for (int round = 0; round < 2; ++round) {
    Program server(words(), options());
    ASSERT_TRUE(server.wait_for_output("ready\n"));
    const auto client = engine::LauncherClient::attach(state_.socket(), soon());
    ASSERT_TRUE(client) << client.error().message;
    const std::string now = std::to_string((*client)->pid());
    if (round == 1) EXPECT_EQ(now, worker);
    worker = now;
    // Its own session: neither the terminal's ^C nor the end of the server's group reaches it.
    const auto keeper = parent_of((*client)->pid());
    ASSERT_TRUE(keeper);
    EXPECT_EQ(::getsid((*client)->pid()), ::getsid(*keeper));
    EXPECT_NE(::getsid(*keeper), ::getsid(server.pid()));
    EXPECT_NE(parent_of(*keeper), server.pid()) << "the server reaps nobody";
    server.kill();
  }
}

TEST_F(Serve, ALauncherThatCannotStartSaysWhyThroughTheServer) {
  // A folder stands where a table must be.
  std::filesystem::create_directories(state_.path() + "/launcher/slots");
  const Finished server = caisson(words(), options());
  EXPECT_EQ(server.status, 1);
  EXPECT_NE(server.err.find("the launcher does not start"), std::string::npos) << server.err;
  EXPECT_NE(server.err.find("slots"), std::string::npos) << server.err;
  EXPECT_EQ(std::ranges::count(server.err, '\n'), 1) << server.err;
}

TEST_F(Serve, SocketsOfAServiceManagerAreTakenOver) {
  const std::string wrapper =
      "import os, socket, sys\n"
      "s = socket.create_server(('127.0.0.1', 0)); os.dup2(s.fileno(), 3)\n"
      "os.set_inheritable(3, True)\n"
      "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', NOTIFY_SOCKET='/x')\n"
      "os.execve(sys.argv[1], ['caisson', *sys.argv[2:]], os.environ)\n";
  UserProgram server(Person{0, "", ""},
                     {"/usr/bin/python3", "-I", "-c", wrapper, caisson_program(), "serve",
                      "--state-dir", state_.path()},
                     "/", {"PATH=/usr/bin:/bin", "CAISSON_SERVER_PROGRAM=" + program_});
  ASSERT_TRUE(server.wait_for_output("ready\n"));
  const std::string out = server.finish().out;  // its input is the null device
  EXPECT_NE(said(out, "args").find("--listen-fd"), std::string::npos) << out;
  EXPECT_EQ(said(out, "given"), "exactly");
  EXPECT_NE(out.find("listens 1 AF_INET\n"), std::string::npos) << out;
  EXPECT_EQ(said(out, "env"), "NOTIFY_SOCKET");
}

TEST_F(Serve, WhatWouldBeOpenToOthersIsRefused) {
  const Finished others =
      caisson({"serve", "--state-dir", state_.path(), "--listen", "0.0.0.0:0"}, options());
  EXPECT_EQ(others.status, 2);
  EXPECT_NE(others.err.find("TLS"), std::string::npos) << others.err;
  EXPECT_FALSE(std::filesystem::exists(state_.socket())) << "nothing was started";
}

TEST_F(Serve, OrdinaryUsersAreToldInOneLine) {
  const std::string copy = folder_.path() + "/caisson";
  std::filesystem::copy_file(caisson_program(), copy);
  UserProgram server(Person{}, {copy, "serve", "--state-dir", "/tmp/none"}, "/",
                     {"PATH=/usr/bin:/bin", "CAISSON_SERVER_PROGRAM=" + program_});
  const Finished finished = server.finish();
  EXPECT_EQ(finished.status, 1);
  EXPECT_NE(finished.err.find("as root"), std::string::npos) << finished.err;
  EXPECT_EQ(std::ranges::count(finished.err, '\n'), 1) << finished.err;
}

}  // namespace
}  // namespace caisson::test
