#include "sys/steering.h"

#include <linux/bpf.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace caisson::sys {
namespace {

// Where to go on: filled in when the whole program stands.
enum class Label : std::uint8_t { Pass, Drop, Six, SixLoopback, Ports, Pick };
constexpr std::size_t kLabels = 6;

constexpr std::uint8_t kResult = BPF_REG_0;
constexpr std::uint8_t kContext = BPF_REG_6;
constexpr std::uint8_t kSocket = BPF_REG_7;
constexpr std::uint8_t kOutcome = BPF_REG_8;

// The kernel's view of a connection that looks for its socket.
constexpr auto kFamily = static_cast<std::int16_t>(offsetof(bpf_sk_lookup, family));
constexpr auto kProtocol = static_cast<std::int16_t>(offsetof(bpf_sk_lookup, protocol));
constexpr auto kLocalV4 = static_cast<std::int16_t>(offsetof(bpf_sk_lookup, local_ip4));
constexpr auto kLocalV6 = static_cast<std::int16_t>(offsetof(bpf_sk_lookup, local_ip6));
constexpr auto kLocalPort = static_cast<std::int16_t>(offsetof(bpf_sk_lookup, local_port));

class Program {
 public:
  void put(std::uint8_t code, std::uint8_t to, std::uint8_t from = 0, std::int16_t offset = 0,
           std::int32_t value = 0) {
    bpf_insn one{};
    one.code = code;
    one.dst_reg = to & 0xFU;
    one.src_reg = from & 0xFU;
    one.off = offset;
    one.imm = value;
    all_.push_back(one);
  }
  void move(std::uint8_t to, std::uint8_t from) { put(BPF_ALU64 | BPF_MOV | BPF_X, to, from); }
  void set(std::uint8_t to, std::int32_t value) {
    put(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
  }
  void load(std::uint8_t to, std::int16_t offset) {
    put(BPF_LDX | BPF_MEM | BPF_W, to, kContext, offset);
  }
  void call(std::int32_t function) { put(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
  void jump_if(std::uint8_t test, std::uint8_t what, std::uint32_t value, Label label) {
    open_.push_back({all_.size(), label});
    put(BPF_JMP32 | test | BPF_K, what, 0, 0, static_cast<std::int32_t>(value));
  }
  void jump(Label label) {
    open_.push_back({all_.size(), label});
    put(BPF_JMP | BPF_JA, 0);
  }
  void mark(Label label) { marks_[static_cast<std::size_t>(label)] = all_.size(); }
  void leave(sk_action how) {
    set(kResult, how);
    put(BPF_JMP | BPF_EXIT, 0);
  }

  [[nodiscard]] std::vector<bpf_insn> finish() {
    for (const auto& [at, label] : open_) {
      all_[at].off = static_cast<std::int16_t>(marks_[static_cast<std::size_t>(label)] - at - 1);
    }
    return std::move(all_);
  }

 private:
  struct Open {
    std::size_t at;
    Label label;
  };
  std::vector<bpf_insn> all_;
  std::vector<Open> open_;
  std::array<std::size_t, kLabels> marks_{};
};

// Four bytes as they lie in memory, as one number.
std::uint32_t word(const std::uint8_t* bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

void write_tests(Program& program, const Steered& what) {
  const std::uint32_t mask =
      what.v4_bits == 0 ? 0 : htonl(~std::uint32_t{0} << (32 - what.v4_bits));
  program.move(kContext, BPF_REG_1);
  program.load(BPF_REG_1, kProtocol);
  program.jump_if(BPF_JNE, BPF_REG_1, IPPROTO_TCP, Label::Pass);
  program.load(BPF_REG_1, kFamily);
  program.jump_if(BPF_JEQ, BPF_REG_1, AF_INET6, Label::Six);
  program.load(BPF_REG_1, kLocalV4);
  program.jump_if(BPF_JEQ, BPF_REG_1, htonl(INADDR_LOOPBACK), Label::Ports);
  program.put(BPF_ALU | BPF_AND | BPF_K, BPF_REG_1, 0, 0, static_cast<std::int32_t>(mask));
  program.jump_if(BPF_JEQ, BPF_REG_1, word(what.v4.data()) & mask, Label::Pick);
  program.jump(Label::Pass);

  program.mark(Label::Six);
  program.load(BPF_REG_1, kLocalV6);
  program.jump_if(BPF_JEQ, BPF_REG_1, 0, Label::SixLoopback);
  program.jump_if(BPF_JNE, BPF_REG_1, word(what.v6.data()), Label::Pass);
  program.load(BPF_REG_1, kLocalV6 + 4);
  program.jump_if(BPF_JEQ, BPF_REG_1, word(what.v6.data() + 4), Label::Pick);
  program.jump(Label::Pass);

  program.mark(Label::SixLoopback);
  program.load(BPF_REG_1, kLocalV6 + 4);
  program.jump_if(BPF_JNE, BPF_REG_1, 0, Label::Pass);
  program.load(BPF_REG_1, kLocalV6 + 8);
  program.jump_if(BPF_JNE, BPF_REG_1, 0, Label::Pass);
  program.load(BPF_REG_1, kLocalV6 + 12);
  program.jump_if(BPF_JNE, BPF_REG_1, htonl(1), Label::Pass);

  program.mark(Label::Ports);
  program.load(BPF_REG_1, kLocalPort);
  for (const std::uint16_t port : what.loopback)
    program.jump_if(BPF_JEQ, BPF_REG_1, port, Label::Pick);
  program.jump(Label::Pass);
}

std::vector<bpf_insn> write_program(const Steered& what, int sockets) {
  constexpr std::int16_t kKey = -4;
  Program program;
  write_tests(program, what);
  program.mark(Label::Pick);
  program.put(BPF_ST | BPF_MEM | BPF_W, BPF_REG_10, 0, kKey, 0);
  program.put(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, sockets);
  program.put(0, 0);  // its upper half
  program.move(BPF_REG_2, BPF_REG_10);
  program.put(BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_2, 0, 0, kKey);
  program.call(BPF_FUNC_map_lookup_elem);
  // Nobody listens any more: refused, and not handed to a guest that listens there by chance.
  program.put(BPF_JMP | BPF_JNE | BPF_K, kResult, 0, 2, 0);
  program.leave(SK_DROP);
  program.move(kSocket, kResult);
  program.move(BPF_REG_1, kContext);
  program.move(BPF_REG_2, kSocket);
  program.set(BPF_REG_3, 0);
  program.call(BPF_FUNC_sk_assign);
  program.move(kOutcome, kResult);
  program.move(BPF_REG_1, kSocket);
  program.call(BPF_FUNC_sk_release);
  program.jump_if(BPF_JNE, kOutcome, 0, Label::Drop);
  program.mark(Label::Pass);
  program.leave(SK_PASS);
  program.mark(Label::Drop);
  program.leave(SK_DROP);
  return program.finish();
}

Result<UniqueFd> ask(const char* what, int command, bpf_attr& attributes) {
  UniqueFd made(static_cast<int>(::syscall(SYS_bpf, command, &attributes, sizeof(attributes))));
  if (!made) return sys_failure(what, errno);
  return made;
}

Result<UniqueFd> hold_socket(int listener) {
  bpf_attr map{};
  map.map_type = BPF_MAP_TYPE_SOCKMAP;
  map.key_size = sizeof(std::uint32_t);
  map.value_size = sizeof(std::uint64_t);
  map.max_entries = 1;
  UniqueFd sockets = TRY(ask("a table of sockets", BPF_MAP_CREATE, map));
  const std::uint32_t key = 0;
  const auto value = static_cast<std::uint64_t>(listener);
  bpf_attr entry{};
  entry.map_fd = static_cast<std::uint32_t>(sockets.get());
  entry.key = reinterpret_cast<std::uint64_t>(&key);
  entry.value = reinterpret_cast<std::uint64_t>(&value);
  if (::syscall(SYS_bpf, BPF_MAP_UPDATE_ELEM, &entry, sizeof(entry)) != 0)
    return sys_failure("put the listener into the table of sockets", errno);
  return sockets;
}

}  // namespace

Result<UniqueFd> steer(int network, int listener, const Steered& what) {
  CAISSON_ASSERT(what.v4_bits <= 32 && what.loopback.size() <= kSteeredPortsMax);
  const UniqueFd sockets = TRY(hold_socket(listener));
  const std::vector<bpf_insn> program = write_program(what, sockets.get());
  static constexpr char kLicence[] = "Apache-2.0";
  bpf_attr load{};
  load.prog_type = BPF_PROG_TYPE_SK_LOOKUP;
  load.expected_attach_type = BPF_SK_LOOKUP;
  load.insns = reinterpret_cast<std::uint64_t>(program.data());
  load.insn_cnt = static_cast<std::uint32_t>(program.size());
  load.license = reinterpret_cast<std::uint64_t>(kLicence);
  const UniqueFd loaded = TRY(ask("load the program that steers connections", BPF_PROG_LOAD, load));
  bpf_attr link{};
  link.link_create.prog_fd = static_cast<std::uint32_t>(loaded.get());
  link.link_create.target_fd = static_cast<std::uint32_t>(network);
  link.link_create.attach_type = BPF_SK_LOOKUP;
  return ask("attach the program that steers connections", BPF_LINK_CREATE, link);
}

}  // namespace caisson::sys
