// P8: no process in a guest can gain privilege.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/xattr.h>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

std::string ids_line(std::uint32_t id) {
  const std::string one = std::to_string(id);
  const std::string three = one + " " + one + " " + one;
  return three + " / " + three + " / 00 00\n";
}

engine::ExecResult run_as(Box& box, std::uint32_t id, std::vector<std::string> argv) {
  engine::ExecRequest request;
  request.argv = std::move(argv);
  request.user = {id, id};
  request.timeout = milliseconds{30'000};
  auto result = box.session().execute(request);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *result : engine::ExecResult{};
}

// chown dac_override fowner fsetid kill setgid setuid net_bind_service setfcap
constexpr std::uint64_t kKnown = 0x800004fb;

TEST(P08, EverySetIsEmptyAndNothingCanBeGained) {
  for (const std::uint32_t uid : {1000U, 0U, 65534U}) {
    Box box(as_user(uid));
    const auto result = box.sh("grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status");
    std::map<std::string, std::string> lines;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);) {
      std::istringstream words(line);
      std::string key;
      words >> key >> lines[key];
    }
    for (const char* set : {"CapInh:", "CapPrm:", "CapEff:", "CapAmb:"})
      EXPECT_EQ(lines[set], "0000000000000000") << set;
    EXPECT_EQ(lines["NoNewPrivs:"], "1");
    EXPECT_EQ(lines["Seccomp:"], "2");
    EXPECT_EQ(lines["Groups:"], "");
    // What init itself may do; no_new_privs keeps a tenant from ever taking it.
    EXPECT_EQ(std::stoull(lines["CapBnd:"], nullptr, 16) & ~kKnown, 0U) << lines["CapBnd:"];
  }
}

constexpr const char* kClimb = R"(
import struct, subprocess
def capset(permitted, effective, inheritable=0):
    header = ctypes.create_string_buffer(struct.pack('<Ii', 0x20080522, 0))
    data = ctypes.create_string_buffer(struct.pack('<IIIIII', effective, permitted, inheritable, 0, 0, 0))
    return call(126, header, data)
for bit in range(41):
    mask = 1 << bit
    if bit < 32:
        attempt(f'capset {bit}', lambda: capset(mask, mask))
        attempt(f'capset inheritable {bit}', lambda: capset(0, 0, mask))
    attempt(f'ambient {bit}', lambda: call(157, 47, 2, bit, 0, 0))
me = os.getuid()
other = 0 if me else 1000
for name, number, arguments in (('setuid', 105, (other,)), ('setgid', 106, (other,)), ('setreuid', 113, (other, other)),
        ('setregid', 114, (other, other)), ('setresuid', 117, (other, other, other)),
        ('setresgid', 119, (other, other, other)), ('setuid of init', 105, (65535,)),
        ('setgroups', 116, (1, ctypes.create_string_buffer(struct.pack('<I', other)))),
        ('setgroups none', 116, (0, None)), ('securebits', 157, (28, 1, 0, 0, 0)),
        ('no_new_privs off', 157, (38, 0, 0, 0, 0)), ('bounding drop', 157, (24, 0, 0, 0, 0)),
        ('iopl', 172, (3,)), ('ioperm', 173, (0, 1, 1)), ('reboot', 169, (0xfee1dead, 672274793, 0, None)),
        ('sethostname', 170, (b'x', 1)), ('setpriority', 141, (0, 0, -20)),
        ('clock', 227, (0, ctypes.create_string_buffer(16))), ('seccomp off', 157, (22, 0, None, 0, 0))):
    attempt(name, lambda: call(number, *arguments))
open('/tmp/mine', 'w').close()
attempt('chown', lambda: os.chown('/tmp/mine', other, other))
attempt('file capabilities', lambda: os.setxattr('/tmp/mine', 'security.capability',
        struct.pack('<IIIII', 0x02000001, 0xffffffff, 0, 0xffffffff, 0)))
attempt('trusted attribute', lambda: os.setxattr('/tmp/mine', 'trusted.overlay.opaque', b'y'))
for tool in (['setcap', 'all+ep', '/tmp/mine'], ['su', '-c', 'true'], ['sudo', '-n', 'true'],
             ['newgrp'], ['chroot', '/', 'true'], ['nsenter', '-t', '1', '-a', 'true'], ['setpriv', '--reuid=7', 'true']):
    try:
        if subprocess.run(tool, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0 and (me or tool[0] != 'su'):
            say('tool ' + ' '.join(tool), 'WORKED')
    except FileNotFoundError:
        pass
)";

TEST(P08, EveryStepUpwardsIsRefused) {
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    const auto found = expect_all_refused(box.python(attack(kClimb)), 90);
    EXPECT_EQ(found.at("capset 21"), "EPERM");
    EXPECT_EQ(found.at("setuid"), "EPERM");
    EXPECT_EQ(found.at("file capabilities"), "EPERM");
  }
}

// Root inside is a name: without capabilities it may do no more than its own files allow.
TEST(P08, RootInsideHasNoPowerOverOthers) {
  Box box(as_user(0));
  ASSERT_EQ(
      run_as(box, 1000,
             {"/bin/sh", "-c",
              "umask 077; mkdir /tmp/of-1000; echo secret | tee /tmp/secret >/tmp/of-1000/secret"})
          .exit_code,
      0);
  expect_all_refused(box.python(attack(R"(
attempt('read', lambda: read('/tmp/secret'))
attempt('chmod', lambda: os.chmod('/tmp/secret', 0o777))
attempt('chown', lambda: os.chown('/tmp/secret', 0, 0))
attempt('list', lambda: os.listdir('/tmp/of-1000'))
attempt('remove', lambda: os.unlink('/tmp/of-1000/secret'))
)")),
                     5);
}

// The root of an image has power over the other ids inside, and over nothing else.
TEST(P08, RootOfAnImageHasPowerOverItsOwnIds) {
  Box box(as_root_of_image);
  const auto status = box.sh("grep -E '^Cap(Prm|Eff|Inh|Amb)' /proc/self/status");
  EXPECT_EQ(status.out,
            "CapInh:\t0000000000000000\nCapPrm:\t00000000800004fb\n"
            "CapEff:\t00000000800004fb\nCapAmb:\t0000000000000000\n");
  ASSERT_EQ(run_as(box, 1000, {"/bin/sh", "-c", "umask 077; echo secret >/tmp/secret"}).exit_code,
            0);
  const auto result = box.sh(
      "cat /tmp/secret && chown 7:7 /tmp/secret && stat -c %u:%g /tmp/secret && "
      "setpriv --reuid=7 --regid=7 --clear-groups cat /tmp/secret && "
      "setpriv --reuid=7 --regid=7 --clear-groups grep CapPrm /proc/self/status");
  EXPECT_EQ(result.out, "secret\n7:7\nsecret\nCapPrm:\t0000000000000000\n") << result.err;
  // What is read and written from outside in its name is as free as itself.
  const auto seen = box.session().read_file({0, 0}, "/tmp/secret");
  EXPECT_TRUE(seen) << (seen ? "" : seen.error().message);
  EXPECT_FALSE(box.session().read_file({1000, 1000}, "/tmp/secret"));
  // Others inside have none of it.
  EXPECT_EQ(run_as(box, 1000, {"/bin/grep", "CapPrm", "/proc/self/status"}).out,
            "CapPrm:\t0000000000000000\n");
}

TEST(P08, RootOfAnImageClimbsNoFurther) {
  Box box(as_root_of_image);
  const auto found = expect_all_refused(box.python(attack(R"(
import struct
def capset(mask):
    header = ctypes.create_string_buffer(struct.pack('<Ii', 0x20080522, 0))
    low, high = mask & 0xffffffff, mask >> 32
    data = ctypes.create_string_buffer(struct.pack('<IIIIII', low, low, 0, high, high, 0))
    return call(126, header, data)
for bit in range(41):
    if not 0x800004fb >> bit & 1: attempt(f'capset {bit}', lambda: capset(1 << bit))
for name, number, arguments in (('setuid', 105, (65535,)), ('setgid', 106, (65535,)), ('setreuid', 113, (0, 65535)),
        ('setregid', 114, (65535, 0)), ('setresuid', 117, (0, 0, 65535)), ('setresgid', 119, (0, 65535, 0)),
        ('setfsuid', 122, (65535,)), ('setfsgid', 123, (65535,)), ('setuid, high bits', 105, (1 << 32 | 65535,)),
        ('setuid, beyond', 105, (65536,)), ('securebits', 157, (28, 1, 0, 0, 0)), ('bounding drop', 157, (24, 0, 0, 0, 0)),
        ('chroot', 161, (b'/',)), ('mount', 165, (b'none', b'/tmp', b'tmpfs', 0, None)), ('sethostname', 170, (b'x', 1)),
        ('unshare', 272, (0x10000000,)), ('setpriority', 141, (0, 0, -20)), ('reboot', 169, (0xfee1dead, 672274793, 0, None))):
    attempt(name, lambda: call(number, *arguments))
open('/tmp/mine', 'w').close()
mine = os.open('/tmp/mine', os.O_RDWR)
attempt('chown', lambda: os.chown('/tmp/mine', 65535, 0))
attempt('chown, group', lambda: os.chown('/tmp/mine', 0, 65535))
attempt('fchown', lambda: os.fchown(mine, 65535, -1))
attempt('lchown', lambda: os.lchown('/tmp/mine', 65535, -1))
attempt('fchownat', lambda: call(260, -100, b'/tmp/mine', 65535, -1, 0))
attempt('device', lambda: os.mknod('/tmp/device', 0o60600, os.makedev(8, 0)))
attempt('trusted attribute', lambda: os.setxattr('/tmp/mine', 'trusted.overlay.opaque', b'y'))
# Files of the host belong to nobody inside.
attempt('write of the host', lambda: write('/usr/bin/env', 'x'))
attempt('chmod of the host', lambda: os.chmod('/usr/bin/env', 0o777))
attempt('chown of the host', lambda: os.chown('/usr/bin/env', 0, 0))
attempt('read of the host', lambda: read('/etc/shadow'))
)")),
                                        60);
  EXPECT_EQ(found.at("setuid"), "EPERM");
}

// A file with capabilities gives those that it can name to nobody: no_new_privs, and every mount is
// nosuid.
TEST(P08, FilesOfARootOfAnImageGiveNothing) {
  Box box([](control::LocalSpec& local) {
    as_root_of_image(local);
    show_payloads(local);
  });
  const std::string ids = payload("ids");
  ASSERT_EQ(box.sh("for at in /tmp /workspace; do cp " + ids +
                   " $at/ids && chmod 6755 $at/ids || exit; done")
                .exit_code,
            0);
  (void)box.python(
      "import os, struct\nfor at in ('/tmp/ids', '/workspace/ids'):\n    os.setxattr(at, "
      "'security.capability', struct.pack('<IIIII', 0x02000001, 0xffffffff, 0, 0xffffffff, 0))\n");
  for (const char* at : {"/tmp/ids", "/workspace/ids"})
    EXPECT_EQ(run_as(box, 1000, {at}).out, ids_line(1000)) << at;
}

TEST(P08, ASetuidFileMadeInsideGivesNothing) {
  Box box([](control::LocalSpec& local) {
    as_user(0)(local);
    show_payloads(local);
  });
  const std::string ids = payload("ids");
  ASSERT_EQ(box.sh("for at in /tmp /workspace /run /dev/shm; do cp " + ids +
                   " $at/ids && chmod 6755 $at/ids || exit; done")
                .exit_code,
            0);
  for (const char* at : {"/tmp/ids", "/workspace/ids", "/run/ids", "/dev/shm/ids"}) {
    EXPECT_EQ(run_as(box, 1000, {"/usr/bin/stat", "-c", "%a", at}).out, "6755\n") << at;
    EXPECT_EQ(run_as(box, 1000, {at}).out, ids_line(1000)) << at;
    EXPECT_EQ(run_as(box, 0, {at}).out, ids_line(0)) << at;
  }
}

// Files of the host: setuid, setgid, and with file capabilities, in every kind of grant.
TEST(P08, SetuidAndCapabilityFilesOfTheHostGiveNothing) {
  const HostFolder folder;
  for (const char* name : {"setuid", "capable"})
    std::filesystem::copy_file(payload("ids"), folder.at(name));
  ASSERT_EQ(::chmod(folder.at("setuid").c_str(), 06755), 0);
  vfs_cap_data all{};
  all.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE;
  for (auto& part : all.data) part.permitted = part.inheritable = 0xffU;
  ASSERT_EQ(::setxattr(folder.at("capable").c_str(), "security.capability", &all, sizeof(all), 0),
            0);
  for (const auto mode : {engine::FolderMode::ReadOnly, engine::FolderMode::PrivateCopy,
                          engine::FolderMode::Writable}) {
    for (const std::uint32_t uid : {1000U, 0U}) {
      Box box([&](control::LocalSpec& local) {
        as_user(uid)(local);
        show_folder(local, folder.path(), mode, "/granted");
      });
      EXPECT_EQ(box.run({"/granted/setuid"}).out, ids_line(uid));
      EXPECT_EQ(box.run({"/granted/capable"}).out, ids_line(uid));
    }
  }
}

// The kernel itself says whether the bit counted: it marks a program that gained something by it as
// secure, which its start-up data tells.
TEST(P08, SystemProgramsWithTheBitStartAsOrdinaryOnes) {
  Box box;
  const auto result = box.python(R"(
import os, stat, subprocess
found = 0
for name in ('su', 'passwd', 'mount', 'umount', 'chsh', 'newgrp', 'gpasswd', 'chfn'):
    path = '/usr/bin/' + name
    if not os.path.exists(path) or not os.stat(path).st_mode & stat.S_ISUID: continue
    found += 1
    shown = subprocess.run([path, '--help'], capture_output=True, text=True, env={'LD_SHOW_AUXV': '1'}).stdout
    for line in shown.splitlines():
        if line.startswith('AT_SECURE:') and line.split()[1] != '0': print(name, line)
        if line.startswith('AT_EUID:') and line.split()[1] != '1000': print(name, line)
print(found > 0)
)");
  EXPECT_EQ(result.out, "True\n") << result.err;
}

}  // namespace
}  // namespace caisson::test
