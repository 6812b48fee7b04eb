// The real caisson-layer, with the walls that it puts around itself: the guests' own filter without
// spawning, Landlock, and no capability but the six that it is given.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "engine/seccomp/filter.h"
#include "guest/layer/home_kit_test.h"
#include "guest/layer/tar_kit_test.h"
#include "guest/protocol/layer_job.h"
#include "guest/protocol/protocol.h"

namespace {

using caisson::UniqueFd;
using caisson::layer::Home;
using caisson::layer::Tar;
namespace seccomp = caisson::engine::seccomp;
namespace wire = caisson::wire;

struct Rule {
  std::string path;
  wire::Access access;
};

template <class T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string make_config(const std::vector<Rule>& rules) {
  const seccomp::Filter filter = seccomp::compile(seccomp::Profile::NoSpawn);
  wire::InitConfig config{};
  config.flags = wire::kConfigLandlock;
  config.filter_count = static_cast<std::uint32_t>(filter.size());
  config.rule_count = static_cast<std::uint32_t>(rules.size());
  config.open_files = 1024;
  std::string message;
  append(message, wire::ControlHeader{wire::kVersion,
                                      static_cast<std::uint32_t>(wire::ControlKind::Config)});
  append(message, config);
  message.append(reinterpret_cast<const char*>(filter.data()), filter.size() * sizeof(sock_filter));
  for (const Rule& rule : rules) {
    append(message, wire::LandlockRule{static_cast<std::uint32_t>(rule.access),
                                       static_cast<std::uint32_t>(rule.path.size())});
    message += rule.path;
  }
  return message;
}

// Between fork and exec: into the tree of the test, without the capabilities that a launcher takes.
[[noreturn]] void become(int program, int control, int stream, const char* root) {
  constexpr std::array<unsigned, 6> kKept{CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_FOWNER,
                                          CAP_SETUID, CAP_SETGID,       CAP_KILL};
  if (::chroot(root) != 0 || ::chdir("/") != 0) ::_exit(90);
  for (unsigned cap = 0; ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) {
    bool kept = false;
    for (const unsigned one : kKept) kept = kept || one == cap;
    if (!kept && ::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) ::_exit(91);
  }
  // Away from the numbers that mean something to the program.
  constexpr int kHigh = 20;
  const int high_program = ::fcntl(program, F_DUPFD_CLOEXEC, kHigh);
  const int high_control = ::fcntl(control, F_DUPFD_CLOEXEC, kHigh);
  const int high_stream = ::fcntl(stream, F_DUPFD_CLOEXEC, kHigh);
  if (::dup2(high_control, wire::kFdControl) < 0 || ::dup2(high_stream, wire::kFdStream) < 0) {
    ::_exit(92);
  }
  const char* const argv[] = {"caisson-layer", nullptr};
  const char* const envp[] = {nullptr};
  ::syscall(SYS_execveat, high_program, "", argv, envp, AT_EMPTY_PATH);
  ::_exit(93);
}

struct Outcome {
  int status = -1;
  bool has_done = false;
  wire::LayerDone done{};
  wire::LayerFailed failed{};
  std::string text;
  std::vector<std::string> entries;
  wire::ControlFailed control{};
};

void take_answers(const std::string& bytes, Outcome& into) {
  for (std::size_t at = 0; at + sizeof(wire::JobHeader) <= bytes.size();) {
    wire::JobHeader header{};
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    at += sizeof(header);
    ASSERT_LE(at + header.size, bytes.size());
    const char* body = bytes.data() + at;
    switch (static_cast<wire::AnswerKind>(header.kind)) {
      case wire::AnswerKind::Progress:
        break;
      case wire::AnswerKind::Entry:
        into.entries.emplace_back(body + sizeof(wire::LayerEntry),
                                  header.size - sizeof(wire::LayerEntry));
        break;
      case wire::AnswerKind::Done:
        std::memcpy(&into.done, body, sizeof(into.done));
        into.has_done = true;
        break;
      case wire::AnswerKind::Failed:
        std::memcpy(&into.failed, body, sizeof(into.failed));
        into.text.assign(body + sizeof(into.failed), header.size - sizeof(into.failed));
        break;
    }
    at += header.size;
  }
}

void send_job(int socket, const wire::Job& job, int descriptor) {
  std::string bytes;
  append(bytes, wire::JobHeader{wire::kLayerVersion, static_cast<std::uint32_t>(job.kind),
                                sizeof(wire::Job)});
  append(bytes, job);
  iovec piece{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof(int));
  }
  ASSERT_EQ(::sendmsg(socket, &message, MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

class LayerProgram : public testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("CAISSON_BIN");
    ASSERT_NE(bin, nullptr);
    program_ =
        UniqueFd(::open((std::string(bin) + "/caisson-layer").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(program_) << "caisson-layer is not built";
    for (const char* name : {"in", "out", "a", "b", "base", "a.in", "b.in"}) {
      home_.make(std::string("root/layer/") + name);
    }
    rules_ = {{"/layer", wire::Access::Read}, {"/layer/out", wire::Access::Write}};
  }

  Outcome run(int descriptor = -1, const std::string* config = nullptr) {
    Outcome outcome;
    int control[2];
    int stream[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
    const std::string root = home_.at("root");
    const pid_t child = ::fork();
    if (child == 0) become(program_.get(), control[1], stream[1], root.c_str());
    ::close(control[1]);
    ::close(stream[1]);
    const std::string message = config != nullptr ? *config : make_config(rules_);
    EXPECT_EQ(::send(control[0], message.data(), message.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(message.size()));
    if (config == nullptr) send_job(stream[0], home_.job, descriptor);
    std::string answers;
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = ::read(stream[0], piece.data(), piece.size())) > 0;) {
      answers.append(piece.data(), static_cast<std::size_t>(got));
    }
    (void)::recv(control[0], &outcome.control, sizeof(outcome.control), MSG_DONTWAIT);
    ::waitpid(child, &outcome.status, 0);
    ::close(control[0]);
    ::close(stream[0]);
    take_answers(answers, outcome);
    return outcome;
  }

  Outcome unpack(const std::string& archive) {
    home_.write("archive", archive);
    const UniqueFd file(::open(home_.at("archive").c_str(), O_RDONLY | O_CLOEXEC));
    home_.job.kind = wire::JobKind::Unpack;
    return run(file.get());
  }

  Home home_;
  UniqueFd program_;
  std::vector<Rule> rules_;
};

TEST_F(LayerProgram, WhatLandlockDoesNotGrantCannotBeWritten) {
  rules_ = {{"/layer", wire::Access::Read}};
  const Outcome outcome = unpack(Tar().file("x", "1").end());
  EXPECT_FALSE(outcome.has_done);
  EXPECT_EQ(outcome.failed.error, wire::LayerError::Io);
  EXPECT_EQ(outcome.failed.sys_errno, EACCES);
  EXPECT_FALSE(home_.has("root/layer/out/root"));
}

TEST_F(LayerProgram, ABrokenConfigurationIsToldAndNothingIsDone) {
  const std::string garbage = "garbage";
  const Outcome outcome = run(-1, &garbage);
  EXPECT_EQ(outcome.control.step, static_cast<std::uint32_t>(wire::Step::Request));
  EXPECT_TRUE(WIFEXITED(outcome.status));
  EXPECT_EQ(WEXITSTATUS(outcome.status), 1);
}

TEST_F(LayerProgram, AHostileArchiveIsRefusedWithItsReason) {
  const Outcome outcome = unpack(Tar().file("../evil", "1").end());
  EXPECT_FALSE(outcome.has_done);
  EXPECT_EQ(outcome.failed.error, wire::LayerError::BadInput);
  EXPECT_NE(outcome.text.find("'..'"), std::string::npos) << outcome.text;
}

TEST_F(LayerProgram, AJobWithoutItsDescriptorIsRefused) {
  home_.job.kind = wire::JobKind::Unpack;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.failed.error, wire::LayerError::BadInput);
}

TEST_F(LayerProgram, AnArchiveIsUnpackedUnderTheGuestsFilter) {
  const Outcome outcome = unpack(Tar()
                                     .folder("d")
                                     .file("d/f", std::string(3'000'000, 'x'))
                                     .hard("h", "d/f")
                                     .link("l", "d")
                                     .file("d/.wh.gone")
                                     .file("d/.wh..wh..opq")
                                     .header({.name = "p", .type = '6'})
                                     .header({.name = "owned", .uid = 12, .gid = 13})
                                     .file("d", "now a file")
                                     .pax({{"SCHILY.xattr.user.note", "hi"}})
                                     .folder("e")
                                     .file("e/.wh..wh..opq")
                                     .file("e/.wh.gone")
                                     .end());
  ASSERT_TRUE(outcome.has_done) << outcome.text << " " << outcome.status;
  EXPECT_TRUE(home_.is_hidden("root/layer/out/root/e/gone"));
  EXPECT_TRUE(home_.is_opaque("root/layer/out/root/e"));
  EXPECT_EQ(home_.facts("root/layer/out/root/owned").st_gid, 13U);
  EXPECT_EQ(home_.read("root/layer/out/root/d"), "now a file");
  EXPECT_EQ(home_.facts("root/layer/out/root/h").st_size, 3'000'000);
}

TEST_F(LayerProgram, TheOtherJobsRunUnderTheFilterToo) {
  home_.write("root/layer/in/0/root/d/f", "upper");
  home_.write("root/layer/in/1/root/d/g", "lower");
  home_.hide("root/layer/in/0/root/d/gone");
  ASSERT_EQ(::chown(home_.at("root/layer/in/1/root/d/g").c_str(), 3, 50), 0);
  ASSERT_EQ(::chmod(home_.at("root/layer/in/1/root/d/g").c_str(), 02755), 0);
  home_.job.kind = wire::JobKind::Flatten;
  home_.job.layers = 2;
  Outcome outcome = run();
  ASSERT_TRUE(outcome.has_done) << outcome.text << " " << outcome.status;
  EXPECT_EQ(home_.read("root/layer/out/root/d/g"), "lower");
  // Without the privilege to keep it, the bit of a foreign group would be lost in silence.
  EXPECT_EQ(home_.facts("root/layer/out/root/d/g").st_mode & 07777U, 02755U);
  EXPECT_TRUE(home_.is_hidden("root/layer/out/root/d/gone"));

  home_.job.kind = wire::JobKind::Pack;
  home_.job.layers = 1;
  const UniqueFd archive(::open(home_.at("packed").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  outcome = run(archive.get());
  ASSERT_TRUE(outcome.has_done) << outcome.text;
  EXPECT_EQ(outcome.done.bytes_out, static_cast<std::uint64_t>(home_.facts("packed").st_size));

  home_.write("root/layer/a/x", "one");
  home_.write("root/layer/b/x", "two");
  home_.write("root/layer/b.in/0/root/x", "two");
  home_.job.kind = wire::JobKind::Diff;
  home_.job.b_layers = 1;
  outcome = run();
  ASSERT_TRUE(outcome.has_done) << outcome.text;
  EXPECT_EQ(outcome.entries, std::vector<std::string>{"x"});
}

}  // namespace
