// P16: a guest cannot type into a terminal of ours.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <utmp.h>

#include <optional>

#include "engine/launcher/client.h"
#include "tests/security/attack.h"

namespace caisson::test {
namespace {

// A sandbox whose commands have a terminal, driven frame by frame as an interactive door does.
class TerminalBox {
 public:
  TerminalBox() {
    auto client = engine::LauncherClient::spawn(caisson_program(), state_dir());
    if (!client) throw std::runtime_error(client.error().message);
    client_ = std::move(*client);
    engine::SandboxSpec spec = engine::default_spec();
    spec.request.id = random_word();
    const auto planned = engine::plan(spec, manager().host());
    if (!planned) throw std::runtime_error(planned.error().message);
    auto launched = client_->launch(planned->request, {});
    if (!launched) throw std::runtime_error(launched.error().message);
    link_.emplace(std::move(launched->stream), launched->nonce);
  }

  // Everything the command wrote to its terminal, until it ended.
  std::string run(const std::string& script) {
    engine::StartOptions options;
    options.argv = {"/usr/bin/python3", "-I", "-c", script};
    options.uid = options.gid = 1000;
    options.cwd = "/workspace";
    options.flags = wire::kStartPty | wire::kStartAttach | wire::kStartKillTree;
    options.timeout = milliseconds{60'000};
    EXPECT_TRUE(link_->start(1, options));
    std::string output;
    bool ended = false;
    bool eof = false;
    while (!(ended && eof)) {
      pollfd wait{.fd = link_->fd(),
                  .events = static_cast<short>(POLLIN | (link_->wants_write() ? POLLOUT : 0)),
                  .revents = 0};
      if (::poll(&wait, 1, 70'000) <= 0) return output + "[no end]";
      if ((wait.revents & POLLOUT) != 0) EXPECT_TRUE(link_->on_writable());
      if ((wait.revents & (POLLIN | POLLHUP)) != 0 && !link_->on_readable())
        return output + "[gone]";
      for (;;) {
        auto next = link_->next();
        if (!next || !*next) break;
        const engine::Frame& frame = **next;
        if (frame.kind == wire::Kind::Failed) return output + "[failed]";
        ended = ended || frame.kind == wire::Kind::Exited;
        eof = eof || frame.kind == wire::Kind::Eof;
        if (frame.kind != wire::Kind::Data) continue;
        const auto bytes = frame.payload.subspan(sizeof(wire::DataHeader));
        output.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        EXPECT_TRUE(
            link_->credit(1, wire::Stream::Output, static_cast<std::uint32_t>(bytes.size())));
      }
    }
    std::erase(output, '\r');
    return output;
  }

 private:
  std::unique_ptr<engine::LauncherClient> client_;  // outlives the link to its sandbox
  std::optional<engine::GuestLink> link_;
};

constexpr const char* kType = R"(
import pty
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541c, 0x5423
letter = ctypes.create_string_buffer(b'x')
main, other = pty.openpty()
for place, fd in (('own', 0), ('out', 1), ('main', main), ('other', other), ('tty', os.open('/dev/tty', os.O_RDWR) if os.isatty(0) else 0)):
    for name, request in (('TIOCSTI', TIOCSTI), ('TIOCLINUX', TIOCLINUX), ('TIOCSETD', TIOCSETD)):
        for high in (0, 1 << 32, 1 << 63, 0xffffffff00000000):
            attempt(f'{place} {name} {high:x}', lambda: call(16, fd, request | high, letter))
)";

TEST(P16, NoRequestThatTypesPassesWhateverItsHighBits) {
  TerminalBox box;
  const auto found = outcomes(box.run(attack(kType)));
  EXPECT_EQ(found.size(), 60U);
  for (const auto& [name, outcome] : found) EXPECT_EQ(outcome, "EPERM") << name;
}

TEST(P16, ATerminalIsNewAndInASessionOfItsOwn) {
  TerminalBox box;
  EXPECT_EQ(box.run(R"(
import fcntl, os, struct, termios
print(os.ttyname(0), os.ttyname(1), os.ttyname(2))
print(os.getsid(0) == os.getpid() == os.tcgetpgrp(0), os.isatty(os.open('/dev/tty', os.O_RDWR)))
print(struct.unpack('4H', fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))[:2])
print(os.fstat(0).st_uid, sorted(os.listdir('/dev/pts')))
)"),
            "/dev/pts/0 /dev/pts/0 /dev/pts/0\nTrue True\n(24, 80)\n1000 ['0', 'ptmx']\n");
}

// The person's terminal, on which the command was started: the guest has no descriptor of it.
TEST(P16, ThePersonsTerminalIsOutOfReach) {
  int main_number = -1;
  int other_number = -1;
  ASSERT_EQ(::openpty(&main_number, &other_number, nullptr, nullptr, nullptr), 0);
  const UniqueFd main(main_number);
  const UniqueFd other(other_number);
  std::vector<std::string> words = {caisson_program(),
                                    "run",
                                    "--quiet",
                                    "--no-folder",
                                    "--state-dir",
                                    state_dir(),
                                    "--",
                                    "python3",
                                    "-I",
                                    "-c",
                                    attack(R"(
print(sorted(os.listdir('/dev/pts')))
for fd in range(3):
    try: print(fd, 'terminal' if os.isatty(fd) and os.ttyname(fd) != '/dev/pts/0' else 'apart')
    except OSError: print(fd, 'apart')
for fd in range(3):
    for high in (0, 1 << 32):
        for letter in b'id\n':
            try: call(16, fd, 0x5412 | high, ctypes.create_string_buffer(bytes([letter])))
            except OSError: continue
            print('typed')
for path in ('/dev/console', '/dev/tty0', '/dev/tty1', '/dev/pts/1', '/dev/pts/2'):
    try: os.open(path, os.O_RDWR | os.O_NOCTTY); print('opened', path)
    except OSError: pass
print('end')
)")};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::login_tty(other_number) == 0) ::execv(argv[0], argv.data());
    ::_exit(99);
  }
  std::string shown;
  while (shown.find("end") == std::string::npos) {
    pollfd wait{.fd = main.get(), .events = POLLIN, .revents = 0};
    char buffer[1024];
    if (::poll(&wait, 1, 60'000) <= 0) break;
    const ssize_t got = ::read(main.get(), buffer, sizeof(buffer));
    if (got <= 0) break;
    shown.append(buffer, static_cast<std::size_t>(got));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << shown;
  EXPECT_EQ(shown.find("typed"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("opened"), std::string::npos) << shown;
  EXPECT_EQ(shown.find("terminal"), std::string::npos) << shown;
  EXPECT_NE(shown.find("end"), std::string::npos) << shown;
  int waiting = -1;
  EXPECT_EQ(::ioctl(other.get(), FIONREAD, &waiting), 0);
  EXPECT_EQ(waiting, 0) << "something was typed for the person's shell to read";
}

}  // namespace
}  // namespace caisson::test
