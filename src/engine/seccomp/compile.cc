// From the table to a program.
//
//   architecture ── foreign ──> kill                 (no int 0x80, no socketcall)
//   number ≥ 0x40000000 ──────> kill                 (x32; but -1 is how a tracer skips a call:
//   ENOSYS) number ── tree of intervals ──> allow │ EPERM │ ENOSYS │ a check of arguments ──> allow
//   │ EPERM
//
// Neighbours in the table with the same answer become one interval, and a balanced tree of ≥
// comparisons finds the interval of a number in about log2(intervals) steps. Answers stand once at
// the end and are shared.
//
// Arguments are compared on their low 32 bits, because all of those we look at are ints to the
// kernel: what a program puts into the high half changes nothing there, so it must change nothing
// here (CVE-2019-10063).
#include <asm/ioctls.h>
#include <linux/audit.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/seccomp/assembler.h"
#include "engine/seccomp/filter.h"
#include "engine/seccomp/table.h"

namespace caisson::engine::seccomp {
namespace {

constexpr std::uint32_t kX32Bit = 0x4000'0000;
constexpr std::uint32_t kSkippedCall = 0xffff'ffff;
constexpr std::uint32_t kEperm = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kEnosys = SECCOMP_RET_ERRNO | ENOSYS;

// CLONE_NEWTIME is not here: it shares its bit with the exit signal and works only through clone3
// and unshare.
constexpr std::uint32_t kNamespaceFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                          CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                          CLONE_NEWNET;

constexpr std::uint32_t kSocketTypeMask = 0xf;  // the kernel's SOCK_TYPE_MASK; flags are above

static_assert(std::endian::native == std::endian::little,
              "the low half of an argument comes first");
constexpr std::uint32_t argument(std::size_t index) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t));
}

// What a number leads to once the profile is known. Values index Compiler::targets_.
enum class Outcome : std::uint8_t {
  Allow,
  Refuse,
  Absent,
  Clone,
  Socket,
  SocketPair,
  Personality,
  Ioctl,
  Prctl,
  BecomeOne,
  BecomeTwo,
  BecomeThree,
  ChangeOwner,
  ChangeOwnerAt,
};
constexpr std::size_t kOutcomes = static_cast<std::size_t>(Outcome::ChangeOwnerAt) + 1;

Outcome outcome(Verdict verdict, Profile profile) {
  switch (verdict) {
    case Verdict::Allow:
      return Outcome::Allow;
    case Verdict::Refuse:
      return Outcome::Refuse;
    case Verdict::Absent:
      return Outcome::Absent;
    case Verdict::DebugOnly:
      return has(profile, Profile::Debug) ? Outcome::Allow : Outcome::Refuse;
    case Verdict::Spawn:
      return has(profile, Profile::NoSpawn) ? Outcome::Refuse : Outcome::Allow;
    case Verdict::Clone:
      return Outcome::Clone;
    case Verdict::Socket:
      return Outcome::Socket;
    case Verdict::SocketPair:
      return Outcome::SocketPair;
    case Verdict::Personality:
      return Outcome::Personality;
    case Verdict::Ioctl:
      return Outcome::Ioctl;
    case Verdict::Prctl:
      return Outcome::Prctl;
    case Verdict::BecomeOne:
      return Outcome::BecomeOne;
    case Verdict::BecomeTwo:
      return Outcome::BecomeTwo;
    case Verdict::BecomeThree:
      return Outcome::BecomeThree;
    case Verdict::ChangeOwner:
      return Outcome::ChangeOwner;
    case Verdict::ChangeOwnerAt:
      return Outcome::ChangeOwnerAt;
  }
  return Outcome::Refuse;
}

struct Interval {
  std::uint32_t start;  // up to the start of the next one
  Outcome outcome;
};

std::vector<Interval> intervals(std::span<const Rule> rules, Profile profile) {
  std::vector<Interval> result;
  result.reserve(2 * rules.size() + 1);
  const auto begin_at = [&](std::uint32_t start, Outcome next) {
    if (result.empty() || result.back().outcome != next) result.push_back({start, next});
  };
  std::uint32_t expected = 0;
  for (const Rule& rule : rules) {
    if (rule.number != expected) begin_at(expected, Outcome::Absent);
    begin_at(rule.number, outcome(rule.verdict, profile));
    expected = rule.number + 1U;
  }
  begin_at(expected, Outcome::Absent);
  return result;
}

class Compiler {
 public:
  explicit Compiler(Profile profile)
      : profile_(profile), code_(kFilterInstructionsMax, 2 * kFilterInstructionsMax) {
    targets_.reserve(kOutcomes);
    for (std::size_t i = 0; i < kOutcomes; ++i) targets_.push_back(code_.label());
  }

  [[nodiscard]] Filter run() && {
    const std::vector<Interval> all = intervals(table(), profile_);
    const Label kill = code_.label();
    check_architecture(kill);
    find(all);
    check_clone();
    check_socket();
    check_socketpair();
    check_personality();
    check_ioctl();
    check_prctl();
    check_ids();
    check_owners();
    conclude(target(Outcome::Allow), SECCOMP_RET_ALLOW);
    conclude(target(Outcome::Refuse), kEperm);
    conclude(target(Outcome::Absent), kEnosys);
    conclude(kill, SECCOMP_RET_KILL_PROCESS);
    Filter filter = std::move(code_).link();
    CAISSON_ASSERT(filter.size() <= kFilterInstructionsMax);
    return filter;
  }

 private:
  using Label = Assembler::Label;

  [[nodiscard]] Label target(Outcome outcome) const {
    return targets_[static_cast<std::size_t>(outcome)];
  }
  [[nodiscard]] Label allow() const { return target(Outcome::Allow); }
  [[nodiscard]] Label refuse() const { return target(Outcome::Refuse); }

  void conclude(Label label, std::uint32_t action) {
    code_.place(label);
    code_.answer(action);
  }

  void check_architecture(Label kill) {
    const Label native = code_.label();
    code_.load(offsetof(seccomp_data, arch));
    code_.if_equal(AUDIT_ARCH_X86_64, native, kill);
    code_.place(native);

    const Label high = code_.label();
    const Label ordinary = code_.label();
    code_.load(offsetof(seccomp_data, nr));
    code_.if_at_least(kX32Bit, high, ordinary);
    code_.place(high);
    code_.if_equal(kSkippedCall, target(Outcome::Absent), kill);
    code_.place(ordinary);
  }

  // A holds the number. The left half follows at once, the right half after it.
  void find(std::span<const Interval> part) {
    const std::size_t middle = part.size() / 2;
    const auto left = part.first(middle);
    const auto right = part.subspan(middle);
    const Label left_label = entrance(left);
    const Label right_label = entrance(right);
    code_.if_at_least(right.front().start, right_label, left_label);
    if (left.size() > 1) descend(left, left_label);
    if (right.size() > 1) descend(right, right_label);
  }

  void descend(std::span<const Interval> part, Label label) {
    code_.place(label);
    find(part);
  }

  [[nodiscard]] Label entrance(std::span<const Interval> part) {
    return part.size() == 1 ? target(part.front().outcome) : code_.label();
  }

  void check_clone() {
    code_.place(target(Outcome::Clone));
    code_.load(argument(0));
    if (!has(profile_, Profile::NoSpawn))
      return code_.if_any_bit(kNamespaceFlags, refuse(), allow());
    const Label no_namespace = code_.label();
    code_.if_any_bit(kNamespaceFlags, refuse(), no_namespace);
    code_.place(no_namespace);
    code_.if_any_bit(CLONE_THREAD, allow(), refuse());
  }

  // UNIX in every form; the Internet by TCP and UDP only; of netlink the routing table, which libc
  // reads for getifaddrs. Every other family, type or protocol is a part of the kernel that a
  // sandbox does not need, and some of them load modules when asked for.
  void check_socket() {
    const Label internet = code_.label();
    const Label netlink = code_.label();
    const Label protocol = code_.label();
    code_.place(target(Outcome::Socket));
    code_.load(argument(0));
    code_.if_equal(AF_UNIX, allow());
    code_.if_equal(AF_INET, internet);
    code_.if_equal(AF_INET6, internet);
    code_.if_equal(AF_NETLINK, netlink, refuse());
    code_.place(netlink);
    code_.load(argument(2));
    code_.if_equal(NETLINK_ROUTE, allow(), refuse());
    code_.place(internet);
    code_.load(argument(1));
    code_.mask(kSocketTypeMask);
    code_.if_equal(SOCK_STREAM, protocol);
    code_.if_equal(SOCK_DGRAM, protocol, refuse());
    code_.place(protocol);
    code_.load(argument(2));
    code_.if_equal(IPPROTO_IP, allow());
    code_.if_equal(IPPROTO_TCP, allow());
    code_.if_equal(IPPROTO_UDP, allow(), refuse());
  }

  void check_socketpair() {
    code_.place(target(Outcome::SocketPair));
    code_.load(argument(0));
    code_.if_equal(AF_UNIX, allow(), refuse());
  }

  // Other bits weaken address randomisation or the loader's checks of the caller's own children.
  void check_personality() {
    code_.place(target(Outcome::Personality));
    code_.load(argument(0));
    code_.if_equal(PER_LINUX, allow());
    code_.if_equal(PER_LINUX32, allow());
    code_.if_equal(UNAME26, allow());
    code_.if_equal(std::uint32_t{PER_LINUX32} | std::uint32_t{UNAME26}, allow());
    // gdb and the thread sanitizer start their program without address randomisation.
    if (has(profile_, Profile::Debug)) code_.if_equal(ADDR_NO_RANDOMIZE, allow());
    code_.if_equal(0xffff'ffff, allow(), refuse());  // asks for the current value
  }

  // P16: TIOCSTI and TIOCLINUX put characters into a terminal's input, TIOCSETD loads line
  // disciplines. P20: of what a btrfs understands only sharing blocks between files is left: a
  // subvolume that a guest makes for himself would have no limit.
  void check_ioctl() {
    code_.place(target(Outcome::Ioctl));
    code_.load(argument(1));
    code_.if_equal(TIOCSTI, refuse());
    code_.if_equal(TIOCLINUX, refuse());
    code_.if_equal(TIOCSETD, refuse());
    code_.if_equal(FICLONE, allow());
    code_.if_equal(FICLONERANGE, allow());
    code_.if_equal(FIDEDUPERANGE, allow());
    code_.mask(0xff00);  // which family of requests it is
    code_.if_equal(BTRFS_IOCTL_MAGIC << 8U, refuse(), allow());
  }

  // PR_SET_MM moves the places where /proc shows a process's code, arguments and program file.
  void check_prctl() {
    code_.place(target(Outcome::Prctl));
    code_.load(argument(0));
    code_.if_equal(PR_SET_MM, refuse(), allow());
  }

  // P13: init's id belongs to nobody else. Who had it could lower its limits and its priority, and
  // a volume of that id would become somebody's at the next launch.
  void check_ids() {
    code_.place(target(Outcome::BecomeThree));
    code_.load(argument(2));
    code_.if_equal(kInitId, refuse());
    code_.place(target(Outcome::BecomeTwo));
    code_.load(argument(1));
    code_.if_equal(kInitId, refuse());
    code_.place(target(Outcome::BecomeOne));
    code_.load(argument(0));
    code_.if_equal(kInitId, refuse(), allow());
  }

  void check_owners() {
    code_.place(target(Outcome::ChangeOwnerAt));
    code_.load(argument(3));
    code_.if_equal(kInitId, refuse());
    code_.load(argument(2));
    code_.if_equal(kInitId, refuse(), allow());
    code_.place(target(Outcome::ChangeOwner));
    code_.load(argument(1));
    code_.if_equal(kInitId, refuse());
    code_.load(argument(2));
    code_.if_equal(kInitId, refuse(), allow());
  }

  Profile profile_;
  Assembler code_;
  std::vector<Label> targets_;  // by Outcome
};

}  // namespace

Filter compile(Profile profile) { return Compiler(profile).run(); }

std::string fingerprint(std::span<const sock_filter> filter) {
  constexpr std::uint64_t kOffset = 0xcbf2'9ce4'8422'2325;
  constexpr std::uint64_t kPrime = 0x0000'0100'0000'01b3;
  std::uint64_t hash = kOffset;
  for (const std::byte byte : std::as_bytes(filter)) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * kPrime;
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(hash >> shift) & 0xf];
  return text;
}

}  // namespace caisson::engine::seccomp
