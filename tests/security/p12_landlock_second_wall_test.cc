// P12: a second wall stands if the mount namespace is wrong. init runs here on the host's own
// mounts, without filter: only Landlock can say no. Each attack is shown to work without it first.
#include <gtest/gtest.h>

#include "tests/integration/init_harness.h"
#include "tests/security/attack.h"

namespace caisson::test {
namespace {

class P12 : public testing::Test {
 protected:
  P12() {
    // The tenant's kernel id could do all this by the bits alone.
    EXPECT_EQ(::chmod(folder_.path().c_str(), 0777), 0);
    (void)folder_.write("needle", "found", 0666);
    (void)folder_.write("program", "#!/bin/sh\necho ran\n", 0777);
    std::filesystem::create_directory(folder_.at("inner"));
    EXPECT_EQ(::chmod(folder_.at("inner").c_str(), 0777), 0);
  }

  std::map<std::string, std::string> run(bool landlock) const {
    InitSandbox sandbox({.landlock = landlock});
    auto session = sandbox.session();
    engine::ExecRequest request;
    request.argv = {"/usr/bin/python3", "-I", "-c", attack(kAttack)};
    request.env = {"AT=" + folder_.path()};
    request.user = kUser;
    request.timeout = milliseconds{30'000};
    const auto result = session->execute(request);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    if (!result) return {};
    EXPECT_EQ(result->exit_code, 0) << result->err;
    return outcomes(result->out);
  }

  static constexpr const char* kAttack = R"(
import subprocess
at = os.environ['AT']
attempt('read', lambda: read(at + '/needle'))
attempt('list', lambda: os.listdir(at))
attempt('write', lambda: write(at + '/needle', 'guest'))
attempt('truncate', lambda: os.truncate(at + '/needle', 1))
attempt('create', lambda: write(at + '/new', 'x', os.O_WRONLY | os.O_CREAT))
attempt('mkdir', lambda: os.mkdir(at + '/folder'))
attempt('symlink', lambda: os.symlink('/etc', at + '/link'))
attempt('fifo', lambda: os.mkfifo(at + '/fifo'))
attempt('exec', lambda: subprocess.run([at + '/program'], check=True))
attempt('rename', lambda: os.rename(at + '/program', at + '/renamed'))
attempt('rename across', lambda: os.rename(at + '/needle', at + '/inner/needle'))
attempt('rmdir', lambda: os.rmdir(at + '/inner') if not os.path.exists(at + '/inner/needle') else os.unlink(at + '/inner/needle'))
import socket
attempt('bind', lambda: socket.socket(socket.AF_UNIX).bind(at + '/socket'))
)";

  HostFolder folder_{"/var/tmp"};
};

TEST_F(P12, WithoutItEveryAttackWorks) {
  const auto found = run(false);
  EXPECT_GE(found.size(), 13U);
  for (const auto& [name, outcome] : found)
    EXPECT_TRUE(outcome.starts_with("WORKED")) << name << outcome;
}

TEST_F(P12, AloneItRefusesEveryAttack) {
  const auto found = run(true);
  EXPECT_GE(found.size(), 13U);
  for (const auto& [name, outcome] : found) {
    // A move between two folders is refused by the name of the crossing.
    const bool refused = outcome == "EACCES" || (name == "rename across" && outcome == "EXDEV");
    EXPECT_TRUE(refused) << name << ": " << outcome;
  }
  EXPECT_EQ(read_text(folder_.at("needle")), "found");
  EXPECT_FALSE(std::filesystem::exists(folder_.at("new")));
}

// Programs that the rules do grant run, or the wall would merely be a broken sandbox.
TEST_F(P12, WhatIsGrantedWorks) {
  InitSandbox sandbox({.landlock = true});
  auto session = sandbox.session();
  engine::ExecRequest request;
  request.argv = {"/bin/sh", "-c", "echo x >/mnt/file && cat /mnt/file && mv /mnt/file /mnt/other"};
  request.env = {"PATH=/usr/bin:/bin"};
  request.user = kUser;
  const auto result = session->execute(request);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "x\n") << result->err;
}

// The file operations of init go through the same wall.
TEST_F(P12, FileOperationsAreBehindItToo) {
  InitSandbox sandbox({.landlock = true});
  auto session = sandbox.session();
  EXPECT_FALSE(session->read_file(kUser, folder_.at("needle")));
  EXPECT_FALSE(session->write_file(kUser, folder_.at("new"), "x"));
  EXPECT_FALSE(session->remove(kUser, folder_.at("needle")));
  EXPECT_EQ(read_text(folder_.at("needle")), "found");
  EXPECT_TRUE(session->write_file(kUser, "/mnt/file", "x"));
}

// In a real sandbox the rules agree with the mounts: what is mounted read-only is also refused by
// rule, and the record says which version of the wall holds.
TEST(P12Record, NamesTheVersion) {
  Box box;
  const auto record = manager().record(box.id());
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->landlock_abi, manager().host().landlock_abi);
  EXPECT_GE(record->landlock_abi, 1);
}

}  // namespace
}  // namespace caisson::test
