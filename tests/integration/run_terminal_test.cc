// `caisson run` on a terminal: the guest has one of its own, and ours is as before when it ends.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>

#include <cstring>
#include <regex>

#include "tests/integration/program.h"
#include "tests/security/host_view.h"

namespace caisson::test {
namespace {

// A person at a terminal: types, reads, resizes the window.
class Session {
 public:
  explicit Session(std::vector<std::string> arguments) {
    int master = -1;
    int slave = -1;
    winsize size{};
    size.ws_row = 33;
    size.ws_col = 111;
    if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0)
      throw std::runtime_error("no terminal");
    master_ = UniqueFd(master);
    slave_ = UniqueFd(slave);
    ::fcntl(master, F_SETFD, FD_CLOEXEC);
    ::fcntl(slave, F_SETFD, FD_CLOEXEC);
    ::tcgetattr(slave, &before_);
    arguments.insert(arguments.begin(), caisson_program());
    std::vector<std::string> environment{"PATH=/usr/bin:/bin", "HOME=/root", "TERM=vt220",
                                         "CAISSON_STATE_DIR=" + state_dir()};
    std::vector<char*> argv;
    std::vector<char*> envp;
    for (std::string& word : arguments) argv.push_back(word.data());
    for (std::string& one : environment) envp.push_back(one.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setsid();
      ::ioctl(slave, TIOCSCTTY, 0);
      for (int fd = 0; fd < 3; ++fd) ::dup2(slave, fd);
      ::execve(argv[0], argv.data(), envp.data());
      ::_exit(127);
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void type(const std::string& keys) const {
    ASSERT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // True when the screen showed `text` since the last such question.
  bool shows(const std::string& text, seconds patience = seconds(20)) {
    const TimePoint deadline = Clock::now() + patience;
    for (;;) {
      const std::size_t at = screen_.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      pollfd place{master_.get(), POLLIN, 0};
      const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
      if (left <= 0 || ::poll(&place, 1, static_cast<int>(left)) <= 0) return false;
      std::array<char, 4096> bytes;
      const ssize_t got = ::read(master_.get(), bytes.data(), bytes.size());
      if (got <= 0) return false;
      screen_.append(bytes.data(), static_cast<std::size_t>(got));
    }
  }
  void resize(unsigned short rows, unsigned short columns) const {
    winsize size{};
    size.ws_row = rows;
    size.ws_col = columns;
    ASSERT_EQ(::ioctl(master_.get(), TIOCSWINSZ, &size), 0);
  }
  // Its exit status; the screen is read meanwhile, so that nothing waits for us.
  int end() {
    int status = 0;
    const bool ended = eventually([&] {
      pollfd place{master_.get(), POLLIN, 0};
      std::array<char, 4096> bytes;
      while (::poll(&place, 1, 0) > 0) {
        const ssize_t got = ::read(master_.get(), bytes.data(), bytes.size());
        if (got <= 0) break;
        screen_.append(bytes.data(), static_cast<std::size_t>(got));
      }
      return ::waitpid(pid_, &status, WNOHANG) == pid_;
    });
    EXPECT_TRUE(ended) << screen_;
    if (!ended) return -1;
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  [[nodiscard]] termios settings() const {
    termios now{};
    ::tcgetattr(slave_.get(), &now);
    return now;
  }
  [[nodiscard]] const termios& settings_before() const noexcept { return before_; }
  [[nodiscard]] const std::string& screen() const noexcept { return screen_; }

 private:
  UniqueFd master_;
  UniqueFd slave_;
  termios before_{};
  pid_t pid_ = -1;
  std::string screen_;
  std::size_t seen_ = 0;
};

class Terminal : public testing::Test {
 protected:
  ~Terminal() override { EXPECT_TRUE(nothing_on_record()); }
};

void expect_same(const termios& now, const termios& before) {
  EXPECT_EQ(now.c_lflag, before.c_lflag);
  EXPECT_EQ(now.c_iflag, before.c_iflag);
  EXPECT_EQ(now.c_oflag, before.c_oflag);
  EXPECT_EQ(now.c_cflag, before.c_cflag);
  EXPECT_EQ(std::memcmp(now.c_cc, before.c_cc, sizeof(now.c_cc)), 0);
}

TEST_F(Terminal, TheGuestHasATerminalOfItsOwn) {
  Session session(
      {"run", "--", "/bin/sh", "-c",
       "test -t 0 && test -t 1 && test -t 2 && tty && stty size && echo $TERM; exit 9"});
  EXPECT_TRUE(session.shows("/dev/pts/0\r\n")) << session.screen();
  EXPECT_TRUE(session.shows("33 111\r\n")) << session.screen();
  EXPECT_TRUE(session.shows("vt220\r\n")) << session.screen();
  EXPECT_EQ(session.end(), 9);
  EXPECT_TRUE(std::regex_search(session.screen(), std::regex(R"(\[sandbox\] finished  exit=9  )")))
      << session.screen();
  // After the raw mode: the summary begins at the left edge.
  EXPECT_EQ(session.screen().substr(session.screen().size() - 2), "\r\n");
  expect_same(session.settings(), session.settings_before());
}

TEST_F(Terminal, AnInteractiveShellWorks) {
  Session session({"run", "-q", "--env", "PS1=ready> ", "--", "/bin/sh", "-i"});
  ASSERT_TRUE(session.shows("ready> ")) << session.screen();
  session.type("echo $((6 * 7))\r");
  EXPECT_TRUE(session.shows("\r\n42\r\n")) << session.screen();
  session.type("exit 4\r");
  EXPECT_EQ(session.end(), 4);
  expect_same(session.settings(), session.settings_before());
}

// ^C goes to the guest's foreground, not to us: the shell inside lives on.
TEST_F(Terminal, InterruptReachesTheForegroundJobOnly) {
  Session session({"run", "-q", "--env", "PS1=ready> ", "--", "/bin/sh", "-i"});
  ASSERT_TRUE(session.shows("ready> ")) << session.screen();
  session.type("cat; echo cat gave $?\r");
  session.type("hello\r");
  ASSERT_TRUE(session.shows("hello\r\nhello\r\n")) << session.screen();
  session.type("\x03");
  ASSERT_TRUE(session.shows("ready> ")) << session.screen();
  session.type("echo still $((40 + 2))\r");
  EXPECT_TRUE(session.shows("still 42\r\n")) << session.screen();
  session.type("\x04");  // ^D at an empty line ends a shell
  EXPECT_EQ(session.end(), 0);
}

TEST_F(Terminal, JobsStopAndGoOn) {
  Session session(
      {"run", "-q", "--env", "PS1=ready> ", "--", "/bin/bash", "--norc", "--noediting", "-i"});
  ASSERT_TRUE(session.shows("ready> ")) << session.screen();
  session.type("cat\r");
  session.type("one\r");
  ASSERT_TRUE(session.shows("one\r\none\r\n")) << session.screen();
  session.type("\x1a");
  ASSERT_TRUE(session.shows("Stopped")) << session.screen();
  ASSERT_TRUE(session.shows("ready> "));
  session.type("fg\r");
  ASSERT_TRUE(session.shows("cat\r\n"));
  session.type("two\r");
  ASSERT_TRUE(session.shows("two\r\ntwo\r\n")) << session.screen();
  session.type("\x03");
  ASSERT_TRUE(session.shows("ready> "));
  session.type("exit 0\r");
  EXPECT_EQ(session.end(), 0);
}

TEST_F(Terminal, TheWindowSizeFollows) {
  Session session({"run", "-q", "--", "/usr/bin/python3", "-Ic",
                   "import os, signal\n"
                   "def say(*_): os.write(1, b'size %d %d\\n' % os.get_terminal_size(0))\n"
                   "signal.signal(signal.SIGWINCH, say); say()\n"
                   "while True: signal.pause()"});
  ASSERT_TRUE(session.shows("size 111 33\r\n")) << session.screen();
  session.resize(50, 132);
  EXPECT_TRUE(session.shows("size 132 50\r\n")) << session.screen();
  session.type("\x03");
  EXPECT_NE(session.end(), 0);
}

TEST_F(Terminal, TheTerminalIsRestoredAfterATimeout) {
  Session session({"run", "--timeout", "300ms", "--", "/bin/sh", "-c",
                   "stty raw -echo; exec tail -f /dev/null"});
  EXPECT_EQ(session.end(), 124);
  EXPECT_NE(session.screen().find("time limit exceeded"), std::string::npos) << session.screen();
  expect_same(session.settings(), session.settings_before());
}

// Only a terminal at both ends makes one inside: a pipe stays a pipe.
TEST_F(Terminal, PipesStayPipes) {
  const Finished end = run_sh({"-q"}, "test -t 0 || echo in; test -t 1 || echo out; tty", {});
  EXPECT_EQ(end.out, "in\nout\nnot a tty\n") << end.err;
}

// What the guest writes to its terminal cannot become our input, nor reach ours by ioctl.
TEST_F(Terminal, TheGuestCannotTypeForUs) {
  Session session(
      {"run", "-q", "--", "/usr/bin/python3", "-Ic",
       "import fcntl, os\n"
       "for request in (0x5412, 0x5412 | 1 << 32, 0x541c, 0x5423):\n"
       "    try: fcntl.ioctl(0, request, b'x'); print('WORKED', flush=True)\n"
       "    except (OSError, ValueError, OverflowError): print('refused', flush=True)\n"});
  EXPECT_EQ(session.end(), 0);
  EXPECT_EQ(session.screen().find("WORKED"), std::string::npos) << session.screen();
  EXPECT_NE(session.screen().find("refused\r\nrefused\r\nrefused\r\nrefused\r\n"),
            std::string::npos)
      << session.screen();
}

}  // namespace
}  // namespace caisson::test
