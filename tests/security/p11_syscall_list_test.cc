// P11: the kernel surface is a short list we chose. Every refused call is executed and must say so;
// what we claim to run must run.
#include <asm/ioctls.h>
#include <gtest/gtest.h>
#include <linux/prctl.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "engine/seccomp/table.h"
#include "tests/security/attack.h"
#include "tests/security/under_filter.h"

namespace caisson::security {
namespace {

using engine::seccomp::has;
using engine::seccomp::Profile;
using engine::seccomp::Rule;
using engine::seccomp::Verdict;

constexpr unsigned long kHigh = 1UL << 32U;
constexpr unsigned long kNonsense =
    ~0UL;  // should a call get through, its arguments let it do nothing

// The kernel's own trampolines enter here, and it asks no filter about them: outside of one they
// end in a signal or an error of their own.
bool passes_every_filter(const Rule& rule) {
  return rule.name == "uretprobe" || rule.name == "uprobe";
}

// What the filter must answer to a call that is refused whatever its arguments; 0 when it is not.
int refusal(const Rule& rule, Profile profile) {
  switch (rule.verdict) {
    case Verdict::Refuse:
      return EPERM;
    case Verdict::Absent:
      return ENOSYS;
    case Verdict::DebugOnly:
      return has(profile, Profile::Debug) ? 0 : EPERM;
    case Verdict::Spawn:
      return has(profile, Profile::NoSpawn) ? EPERM : 0;
    default:
      return 0;
  }
}

TEST(P11SyscallList, EveryRefusedCallSaysSo) {
  for (const Profile profile : {Profile::Default, Profile::Debug, Profile::NoSpawn}) {
    int refused = 0;
    for (const Rule& rule : engine::seccomp::table()) {
      const int expected = refusal(rule, profile);
      if (expected == 0 || passes_every_filter(rule)) continue;
      ++refused;
      const auto attempt = [&] {
        return errno_of(rule.number, kNonsense, kNonsense, kNonsense, kNonsense, kNonsense,
                        kNonsense);
      };
      EXPECT_EQ(under_filter(profile, attempt), (Ended{.status = expected})) << rule.name;
    }
    EXPECT_GT(refused, 80);
  }
}

TEST(P11SyscallList, NumbersOfTomorrowDoNotExist) {
  for (const long number : {470L, 500L, 600L, 0x3fff'ffffL}) {
    EXPECT_EQ(under_filter(Profile::Default, [&] { return errno_of(number); }),
              (Ended{.status = ENOSYS}))
        << number;
  }
}

TEST(P11SyscallList, OtherWaysIntoTheKernelEndTheProcess) {
  const auto x32 = [] { return errno_of(0x4000'0000L | SYS_getpid); };
  EXPECT_EQ(under_filter(Profile::Default, x32), (Ended{.status = -1, .signal = SIGSYS}));
  const auto legacy = [] {
    constexpr long kGetpid32 = 20;
    long result = kGetpid32;
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return 0;
  };
  const Ended ended = under_filter(Profile::Default, legacy);
  // A kernel without 32-bit emulation has no such gate at all, and says so by another signal.
  EXPECT_TRUE(ended.signal == SIGSYS || ended.signal == SIGSEGV) << ended.status;
}

TEST(P11SyscallList, SocketsOfOtherFamiliesTypesAndProtocols) {
  struct Case {
    unsigned long family, type, protocol;
    int expected;
  };
  constexpr unsigned long kNetfilter = 12;
  constexpr unsigned long kIcmp = 1;
  constexpr unsigned long kSctp = 132;
  for (const Case& c :
       std::to_array<Case>({{AF_ALG, SOCK_SEQPACKET, 0, EPERM},
                            {AF_PACKET, SOCK_RAW, 0x300, EPERM},
                            {AF_VSOCK, SOCK_STREAM, 0, EPERM},
                            {AF_TIPC, SOCK_SEQPACKET, 0, EPERM},
                            {AF_INET, SOCK_RAW, kIcmp, EPERM},
                            {AF_INET6, SOCK_RAW, 58, EPERM},
                            {AF_INET, SOCK_PACKET, 0x300, EPERM},
                            {AF_INET, SOCK_DGRAM, kIcmp, EPERM},
                            {AF_INET, SOCK_STREAM, kSctp, EPERM},
                            {AF_NETLINK, SOCK_RAW, kNetfilter, EPERM},
                            {AF_NETLINK | kHigh, SOCK_RAW | kHigh, kNetfilter | kHigh, EPERM},
                            {AF_UNIX, SOCK_STREAM, 0, 0},
                            {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 6, 0},
                            {AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 17, 0},
                            {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0, 0}})) {
    const auto attempt = [&] { return errno_of(SYS_socket, c.family, c.type, c.protocol); };
    EXPECT_EQ(under_filter(Profile::Default, attempt), (Ended{.status = c.expected}))
        << c.family << " " << c.type << " " << c.protocol;
  }
}

// P16: a bit above the thirty-second changes nothing for the kernel, so it must change nothing for
// the filter.
TEST(P11SyscallList, NobodyTypesIntoATerminal) {
  const UniqueFd terminal(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(terminal);
  char letter = 'x';
  const auto pointer = reinterpret_cast<unsigned long>(&letter);
  const auto fd = static_cast<unsigned long>(terminal.get());
  for (const unsigned long request : std::to_array<unsigned long>({TIOCSTI, TIOCLINUX, TIOCSETD})) {
    for (const unsigned long high : {0UL, kHigh, 0xffff'ffff'0000'0000UL}) {
      const auto attempt = [&] { return errno_of(SYS_ioctl, fd, request | high, pointer); };
      EXPECT_EQ(under_filter(Profile::Default, attempt), (Ended{.status = EPERM})) << request;
    }
  }
  const auto ordinary = [&] {
    std::array<unsigned short, 4> size{};
    return errno_of(SYS_ioctl, fd, TIOCGWINSZ, reinterpret_cast<unsigned long>(size.data()));
  };
  EXPECT_EQ(under_filter(Profile::Default, ordinary), (Ended{.status = 0}));
}

TEST(P11SyscallList, PersonalityAndPrctl) {
  const auto personality = [](unsigned long value) {
    return under_filter(Profile::Default, [&] { return errno_of(SYS_personality, value); });
  };
  EXPECT_EQ(personality(ADDR_NO_RANDOMIZE), (Ended{.status = EPERM}));
  EXPECT_EQ(personality(READ_IMPLIES_EXEC | kHigh), (Ended{.status = EPERM}));
  EXPECT_EQ(personality(0xffff'ffff), (Ended{.status = 0}));
  const auto set_mm = [] { return errno_of(SYS_prctl, PR_SET_MM | kHigh, 1, 0); };
  EXPECT_EQ(under_filter(Profile::Default, set_mm), (Ended{.status = EPERM}));
}

TEST(P11SyscallList, DebugProfileTraces) {
  constexpr unsigned long kTraceMe = 0;
  const auto trace_me = [] { return errno_of(SYS_ptrace, kTraceMe); };
  EXPECT_EQ(under_filter(Profile::Default, trace_me), (Ended{.status = EPERM}));
  EXPECT_EQ(under_filter(Profile::Debug, trace_me), (Ended{.status = 0}));
}

// The filter of the table is the one that a tenant runs under: installed, and the record's digest
// is of the same program.
TEST(P11SyscallList, ASandboxRunsUnderTheFilter) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    test::Box box(test::as_user(uid));
    EXPECT_EQ(box.sh("grep -E '^Seccomp' /proc/self/status | tr -d '\\t'").out,
              "Seccomp:2\nSeccomp_filters:1\n");
    const auto record = test::manager().record(box.id());
    ASSERT_TRUE(record);
    EXPECT_EQ(record->seccomp,
              engine::seccomp::fingerprint(engine::seccomp::compile(Profile::Default)));
    const auto found = test::expect_all_refused(box.python(test::attack(R"(
for name, number in (('bpf', 321), ('perf_event_open', 298), ('userfaultfd', 323), ('keyctl', 250), ('io_uring_setup', 425),
                     ('kexec_load', 246), ('init_module', 175), ('finit_module', 313), ('open_by_handle_at', 304),
                     ('swapon', 167), ('acct', 163), ('quotactl', 179), ('settimeofday', 164), ('syslog', 103),
                     ('fanotify_init', 300), ('mbind', 237), ('modify_ldt', 154), ('ptrace', 101), ('vhangup', 153),
                     ('lookup_dcookie', 212), ('migrate_pages', 256), ('kcmp', 312), ('pidfd_getfd', 438)):
    attempt(name, lambda: call(number, -1, -1, -1, -1, -1, -1))
attempt('tomorrow', lambda: call(600))
)")),
                                                24);
    EXPECT_EQ(found.at("bpf"), "EPERM");
    EXPECT_EQ(found.at("open_by_handle_at"), "EPERM");
    EXPECT_EQ(found.at("tomorrow"), "ENOSYS");
  }
}

// Another way into the kernel ends the process, and only that.
TEST(P11SyscallList, TheOtherGateIsShutInASandbox) {
  test::Box box;
  const auto result = box.python(test::attack("call(0x40000000 | 39)\nprint('went on')\n"));
  EXPECT_EQ(result.exit_code, 128 + SIGSYS) << result.out;
  EXPECT_TRUE(box.session().ping());
}

// Programs we claim to run. The output is part of the claim: a program that starts and then gives
// up does not count.
struct Program {
  const char* name;
  std::vector<std::string> argv;
  const char* expected;
};

class P11Programs : public testing::TestWithParam<Program> {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "caisson-p11-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
};

TEST_P(P11Programs, Runs) {
  const Program& program = GetParam();
  if (::access(program.argv[0].c_str(), X_OK) != 0)
    GTEST_SKIP() << program.argv[0] << " is not installed";
  const ProgramResult run = run_under_filter(Profile::Default, program.argv, folder_);
  EXPECT_EQ(run.ended, (Ended{.status = 0})) << run.output;
  EXPECT_NE(run.output.find(program.expected), std::string::npos) << run.output;
}

const std::string kPython =
    "import asyncio, multiprocessing, os, socket, sqlite3, ssl, subprocess, tempfile, threading\n"
    "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
    "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
    "assert multiprocessing.Pool(2).map(abs, [-1, -2]) == [1, 2]\n"
    "asyncio.run(asyncio.create_subprocess_exec('/bin/true'))\n"
    "sqlite3.connect('db').execute('create table t(a)')\n"
    "print('python', 'works')\n";
const std::string kShell =
    "ls / | wc -l && mkfifo f && ln -s f l && { cat l & echo shell works >f; wait; }";
const std::string kGit =
    "git init -q r && cd r && echo a >a && git add a && git -c user.name=n -c user.email=e@x "
    "commit -qm m && "
    "git log --oneline | wc -l && echo git works";
const std::string kC =
    "printf '#include <pthread.h>\\n#include <stdio.h>\\nstatic void* f(void* p){puts(\"c "
    "works\");return p;}"
    "int main(void){pthread_t t;return pthread_create(&t,0,f,0)||pthread_join(t,0);}' >a.c && cc "
    "-pthread a.c && ./a.out";
const std::string kNode =
    "const{Worker}=require('worker_threads');const{execSync}=require('child_process');const "
    "fs=require('fs');"
    "fs.writeFileSync('f','x');execSync('true');"
    "new Worker('require(\"worker_threads\").parentPort.postMessage(1)',{eval:true})"
    ".on('message',()=>console.log('node works'));";

INSTANTIATE_TEST_SUITE_P(
    Claimed, P11Programs,
    testing::Values(Program{"Shell", {"/bin/sh", "-c", kShell}, "shell works"},
                    Program{"Python", {"/usr/bin/python3", "-c", kPython}, "python works"},
                    Program{"Perl",
                            {"/usr/bin/perl", "-e", "system('true') == 0 and print 'perl works'"},
                            "perl works"},
                    Program{"Git", {"/bin/sh", "-c", kGit}, "git works"},
                    Program{"Compiler", {"/bin/sh", "-c", kC}, "c works"},
                    Program{"Node", {"/usr/bin/node", "-e", kNode}, "node works"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace caisson::security
