// The same rules given to libseccomp, compiled by it, and asked the same questions. Two compilers
// written apart agree.
#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "engine/seccomp/filter.h"
#include "engine/seccomp/interpreter_test.h"
#include "engine/seccomp/table.h"

namespace caisson::engine::seccomp {
namespace {

struct Release {
  void operator()(void* context) const { seccomp_release(context); }
};
using Context = std::unique_ptr<void, Release>;

constexpr std::uint32_t kEperm = SCMP_ACT_ERRNO(EPERM);
constexpr std::uint64_t kLow = 0xffff'ffff;
constexpr std::uint64_t kNamespaces = 0x7e02'0000;
constexpr std::uint64_t kThread = 0x0001'0000;

scmp_arg_cmp low(unsigned index, std::uint64_t value, std::uint64_t mask = kLow) {
  return {.arg = index, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}

void add(const Context& context, std::uint32_t action, int number,
         std::vector<scmp_arg_cmp> arguments = {}) {
  const int result = seccomp_rule_add_exact_array(
      context.get(), action, number, static_cast<unsigned>(arguments.size()), arguments.data());
  ASSERT_EQ(result, 0) << "rule for " << number;
}

void add_socket(const Context& context, int number) {
  add(context, SCMP_ACT_ALLOW, number, {low(0, 1)});
  add(context, SCMP_ACT_ALLOW, number, {low(0, 16), low(2, 0)});
  for (const std::uint64_t family : {2U, 10U}) {
    for (const std::uint64_t type : {1U, 2U}) {
      for (const std::uint64_t protocol : {0U, 6U, 17U}) {
        add(context, SCMP_ACT_ALLOW, number, {low(0, family), low(1, type, 0xf), low(2, protocol)});
      }
    }
  }
}

// Only calls libseccomp knows by name, and only those with allowed forms: its answer to the rest is
// the default, EPERM.
void add_rule(const Context& context, const Rule& rule, Profile profile) {
  const int number = rule.number;
  switch (rule.verdict) {
    case Verdict::Allow:
      return add(context, SCMP_ACT_ALLOW, number);
    case Verdict::Refuse:
      return;
    case Verdict::Absent:
      return add(context, SCMP_ACT_ERRNO(ENOSYS), number);
    case Verdict::DebugOnly:
      if (has(profile, Profile::Debug)) add(context, SCMP_ACT_ALLOW, number);
      return;
    case Verdict::Spawn:
      if (!has(profile, Profile::NoSpawn)) add(context, SCMP_ACT_ALLOW, number);
      return;
    case Verdict::Clone:
      if (has(profile, Profile::NoSpawn)) {
        return add(context, SCMP_ACT_ALLOW, number, {low(0, kThread, kNamespaces | kThread)});
      }
      return add(context, SCMP_ACT_ALLOW, number, {low(0, 0, kNamespaces)});
    case Verdict::Socket:
      return add_socket(context, number);
    case Verdict::SocketPair:
      return add(context, SCMP_ACT_ALLOW, number, {low(0, 1)});
    case Verdict::Personality:
      for (const std::uint64_t value : {0x0U, 0x8U, 0x20000U, 0x20008U, 0xffff'ffffU}) {
        add(context, SCMP_ACT_ALLOW, number, {low(0, value)});
      }
      if (has(profile, Profile::Debug)) add(context, SCMP_ACT_ALLOW, number, {low(0, 0x40000)});
      return;
    case Verdict::Ioctl:
    case Verdict::Prctl:
    case Verdict::BecomeOne:
    case Verdict::BecomeTwo:
    case Verdict::BecomeThree:
    case Verdict::ChangeOwner:
    case Verdict::ChangeOwnerAt:
      return;  // "all but": in a filter of their own, with the opposite default
  }
}

std::vector<sock_filter> export_filter(const Context& context) {
  const UniqueFd file(::memfd_create("oracle", MFD_CLOEXEC));
  EXPECT_EQ(seccomp_export_bpf(context.get(), file.get()), 0);
  const off_t bytes = ::lseek(file.get(), 0, SEEK_END);
  std::vector<sock_filter> program(static_cast<std::size_t>(bytes) / sizeof(sock_filter));
  EXPECT_EQ(::pread(file.get(), program.data(), static_cast<std::size_t>(bytes), 0), bytes);
  return program;
}

bool known_to_libseccomp(const Rule& rule) {
  return seccomp_syscall_resolve_name(std::string(rule.name).c_str()) != __NR_SCMP_ERROR;
}

// Calls that are judged by number alone get one hostile set of arguments, the others every
// combination.
std::vector<Call> variations(std::uint32_t number, Verdict verdict) {
  if (verdict < Verdict::Clone) {
    return {{.number = number},
            {.number = number, .arguments = {~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL, ~0ULL}}};
  }
  static constexpr auto kValues = std::to_array<std::uint64_t>({0,
                                                                1,
                                                                2,
                                                                3,
                                                                6,
                                                                8,
                                                                10,
                                                                16,
                                                                17,
                                                                35,
                                                                0x11,
                                                                0x80,
                                                                0x5412,
                                                                0x541c,
                                                                0x5423,
                                                                0xffff,
                                                                0x10000,
                                                                0x20000,
                                                                0x20008,
                                                                0x40000,
                                                                0x3d0f00,
                                                                0x1000'0000,
                                                                0x7e02'0000,
                                                                0xffff'ffff,
                                                                0x1'0000'0000,
                                                                0x1'0000'5412,
                                                                0x1'0000'ffff,
                                                                0xffff'ffff'0000'0001});
  std::vector<Call> calls;
  for (const std::uint64_t first : kValues) {
    for (const std::uint64_t second : kValues) {
      for (const std::uint64_t third :
           {0ULL, 1ULL, 6ULL, 17ULL, 255ULL, 65535ULL, 0x1'0000'0006ULL}) {
        calls.push_back({.number = number, .arguments = {first, second, third, 0, 0, 0}});
        calls.push_back({.number = number, .arguments = {0, 0, third, first, 0, 0}});
      }
    }
  }
  return calls;
}

TEST(SeccompOracle, NumbersAreThoseOfLibseccomp) {
  std::size_t known = 0;
  for (const Rule& rule : table()) {
    if (!known_to_libseccomp(rule)) continue;
    ++known;
    EXPECT_EQ(seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, std::string(rule.name).c_str()),
              rule.number)
        << rule.name;
  }
  EXPECT_GT(known, 350U);
}

TEST(SeccompOracle, AgreesOnEveryCallItKnows) {
  for (const Profile profile :
       {Profile::Default, Profile::Debug, Profile::NoSpawn, Profile::Debug | Profile::NoSpawn}) {
    const Context context(seccomp_init(kEperm));
    ASSERT_TRUE(context);
    for (const Rule& rule : table()) {
      if (known_to_libseccomp(rule)) add_rule(context, rule, profile);
    }
    const std::vector<sock_filter> oracle = export_filter(context);
    const Filter ours = compile(profile);
    for (const Rule& rule : table()) {
      if (!known_to_libseccomp(rule) || rule.verdict >= Verdict::Ioctl) continue;
      for (const Call& call : variations(rule.number, rule.verdict)) {
        const auto expected = interpret(oracle, call);
        const auto answer = interpret(ours, call);
        ASSERT_TRUE(expected && answer) << rule.name;
        ASSERT_EQ(answer->action, expected->action)
            << rule.name << " " << call.arguments[0] << " " << call.arguments[1] << " "
            << call.arguments[2];
      }
    }
  }
}

TEST(SeccompOracle, AgreesOnCallsWithForbiddenValues) {
  const Context context(seccomp_init(SCMP_ACT_ALLOW));
  ASSERT_TRUE(context);
  for (const std::uint64_t request : {0x5412U, 0x541cU, 0x5423U})
    add(context, kEperm, SCMP_SYS(ioctl), {low(1, request)});
  add(context, kEperm, SCMP_SYS(prctl), {low(0, 35)});
  // A rule for each argument that names an id: any of them is enough.
  const auto forbid_init = [&](int number, std::initializer_list<unsigned> arguments) {
    for (const unsigned argument : arguments)
      add(context, kEperm, number, {low(argument, kInitId)});
  };
  for (const int number :
       {SCMP_SYS(setuid), SCMP_SYS(setgid), SCMP_SYS(setfsuid), SCMP_SYS(setfsgid)})
    forbid_init(number, {0});
  for (const int number : {SCMP_SYS(setreuid), SCMP_SYS(setregid)}) forbid_init(number, {0, 1});
  for (const int number : {SCMP_SYS(setresuid), SCMP_SYS(setresgid)})
    forbid_init(number, {0, 1, 2});
  for (const int number : {SCMP_SYS(chown), SCMP_SYS(fchown), SCMP_SYS(lchown)})
    forbid_init(number, {1, 2});
  forbid_init(SCMP_SYS(fchownat), {2, 3});
  const std::vector<sock_filter> oracle = export_filter(context);
  const Filter ours = compile(Profile::Default);
  for (const Rule& rule : table()) {
    if (rule.verdict < Verdict::Ioctl) continue;
    for (const Call& call : variations(rule.number, rule.verdict)) {
      EXPECT_EQ(interpret(ours, call)->action, interpret(oracle, call)->action) << rule.name;
    }
  }
}

}  // namespace
}  // namespace caisson::engine::seccomp
