// P15: no shared IPC.
#include <gtest/gtest.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <stop_token>
#include <thread>

#include "tests/security/attack.h"

namespace caisson::test {
namespace {

// A System V segment, semaphore and queue that everybody on the host may use.
class SystemV {
 public:
  explicit SystemV(key_t key)
      : segment(::shmget(key, 4096, IPC_CREAT | IPC_EXCL | 0666)),
        semaphore(::semget(key, 1, IPC_CREAT | IPC_EXCL | 0666)),
        queue(::msgget(key, IPC_CREAT | IPC_EXCL | 0666)) {}
  SystemV(const SystemV&) = delete;
  SystemV& operator=(const SystemV&) = delete;
  ~SystemV() {
    ::shmctl(segment, IPC_RMID, nullptr);
    ::semctl(semaphore, 0, IPC_RMID);
    ::msgctl(queue, IPC_RMID, nullptr);
  }
  int segment;
  int semaphore;
  int queue;
};

TEST(P15, SystemVObjectsOfTheHostAreNotThere) {
  const key_t key = static_cast<key_t>(0x63610000 + ::getpid());
  const SystemV host(key);
  ASSERT_GE(host.segment, 0);
  ASSERT_GE(host.semaphore, 0);
  ASSERT_GE(host.queue, 0);
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    control::ExecuteOptions options;
    options.env = {"KEY=" + std::to_string(key), "SHM=" + std::to_string(host.segment),
                   "SEM=" + std::to_string(host.semaphore), "MSG=" + std::to_string(host.queue)};
    expect_all_refused(box.python(attack(R"(
key, shm, sem, msg = (int(os.environ[name]) for name in ('KEY', 'SHM', 'SEM', 'MSG'))
attempt('shmget', lambda: call(29, key, 0, 0))
attempt('semget', lambda: call(64, key, 0, 0))
attempt('msgget', lambda: call(68, key, 0))
attempt('shmat', lambda: call(30, shm, None, 0))
attempt('shm remove', lambda: call(31, shm, 0, None))
attempt('sem remove', lambda: call(66, sem, 0, 0))
attempt('msg remove', lambda: call(71, msg, 0, None))
for kind in ('shm', 'sem', 'msg'):
    lines = open('/proc/sysvipc/' + kind).read().splitlines()[1:]
    say('list ' + kind, 'WORKED' if lines else 'ENOENT')
)"),
                                  options),
                       10);
  }
  EXPECT_GE(::shmget(key, 0, 0), 0) << "the host's own is still there";
}

TEST(P15, MessageQueuesAndSharedMemoryFilesAreNotThere) {
  const std::string name = "/caisson-p15-" + random_word();
  const mqd_t queue = ::mq_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0666, nullptr);
  ASSERT_GE(queue, 0);
  std::ofstream("/dev/shm" + name) << "host";
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    control::ExecuteOptions options;
    options.env = {"NAME=" + name.substr(1)};
    expect_all_refused(box.python(attack(R"(
name = os.environ['NAME'].encode()
attempt('mq_open', lambda: call(240, name, os.O_RDWR, 0, None))
attempt('mq_unlink', lambda: call(241, name))
attempt('shm file', lambda: read(b'/dev/shm/' + name))
attempt('shm list', lambda: os.listdir('/dev/shm')[0] if os.listdir('/dev/shm') else os.stat('/nowhere'))
)"),
                                  options),
                       4);
  }
  EXPECT_EQ(::mq_close(queue), 0);
  EXPECT_EQ(::mq_unlink(name.c_str()), 0);
  EXPECT_EQ(::unlink(("/dev/shm" + name).c_str()), 0);
}

// A listening socket of the host; an empty first byte makes its name abstract.
UniqueFd listen_at(const std::string& name, int type) {
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  if (type != SOCK_DGRAM) EXPECT_EQ(::listen(socket.get(), 1), 0);
  return socket;
}

constexpr const char* kConnect = R"(
import socket, stat
names = os.environ['NAMES'].split(':')
for name in names:
    at = '\0' + name[1:] if name[0] == '@' else name
    if name[0] != '@': assert stat.S_ISSOCK(os.lstat(name).st_mode), name
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        attempt(f'connect {name} {kind}', lambda: socket.socket(socket.AF_UNIX, kind).connect(at))
        attempt(f'send {name} {kind}', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', at))
)";

TEST(P15, AbstractSocketsOfTheHostAnswerNobody) {
  const std::string word = random_word();
  const UniqueFd stream = listen_at(std::string(1, '\0') + word + "s", SOCK_STREAM);
  const UniqueFd datagram = listen_at(std::string(1, '\0') + word + "d", SOCK_DGRAM);
  const UniqueFd packet = listen_at(std::string(1, '\0') + word + "p", SOCK_SEQPACKET);
  for (const std::uint32_t uid : {1000U, 0U}) {
    Box box(as_user(uid));
    control::ExecuteOptions options;
    options.env = {"NAMES=@" + word + "s:@" + word + "d:@" + word + "p"};
    expect_all_refused(box.python(attack(kConnect), options), 12);
  }
}

// A folder that the guest may only read, or copy, may hold a socket of a program of the host. A
// read-only bind of it would still be connectable.
TEST(P15, SocketsInAFolderThatIsShownAnswerNobody) {
  const HostFolder folder;
  const UniqueFd stream = listen_at(folder.at("stream"), SOCK_STREAM);
  const UniqueFd datagram = listen_at(folder.at("datagram"), SOCK_DGRAM);
  for (const char* name : {"stream", "datagram"})
    ASSERT_EQ(::chmod(folder.at(name).c_str(), 0777), 0);
  for (const auto mode : {engine::FolderMode::ReadOnly, engine::FolderMode::PrivateCopy}) {
    for (const std::uint32_t uid : {1000U, 0U}) {
      Box box([&](control::LocalSpec& local) {
        as_user(uid)(local);
        show_folder(local, folder.path(), mode, "/granted");
      });
      control::ExecuteOptions options;
      options.env = {"NAMES=/granted/stream:/granted/datagram"};
      expect_all_refused(box.python(attack(kConnect), options), 8);
    }
  }
}

TEST(P15, KeysAreRefused) {
  const std::string name = "caisson-p15-" + random_word();
  const long key = ::syscall(SYS_add_key, "user", name.c_str(), "secret", 6, KEY_SPEC_USER_KEYRING);
  ASSERT_GE(key, 0);
  Box box(as_user(0));
  control::ExecuteOptions options;
  options.env = {"NAME=" + name, "KEY=" + std::to_string(key)};
  const auto found = expect_all_refused(box.python(attack(R"(
name, key = os.environ['NAME'].encode(), int(os.environ['KEY'])
attempt('request_key', lambda: call(249, b'user', name, None, 0))
attempt('add_key', lambda: call(248, b'user', b'mine', b'x', 1, -3))
for operation in range(0, 33):
    attempt(f'keyctl {operation}', lambda: call(250, operation, key, None, 0, 0))
attempt('list', lambda: [line for line in open('/proc/keys')][0] if read('/proc/keys') else os.stat('/nowhere'))
)"),
                                                   options),
                                        36);
  EXPECT_EQ(found.at("request_key"), "EPERM");
  (void)::syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING, 0, 0);
}

// Inside one sandbox IPC works as everywhere: between two commands, too.
TEST(P15, TwoExecsOfOneSandboxTalk) {
  Box box;
  engine::ExecRequest request;
  request.argv = {"/usr/bin/python3", "-I", "-c", R"(
import os, socket
servers = [socket.socket(socket.AF_UNIX) for _ in range(2)]
servers[0].bind('\0inside'); servers[1].bind('/tmp/inside')
for server in servers: server.listen()
os.rename('/tmp/inside', '/tmp/ready')
for server in servers: server.accept()[0].send(b'hello')
)"};
  request.user = {1000, 1000};
  request.timeout = milliseconds{60'000};
  std::thread server([&] { (void)box.session().execute(request); });
  EXPECT_EQ(box.python(R"(
import os, socket
while not os.path.exists('/tmp/ready'): pass
for name in ('\0inside', '/tmp/ready'):
    client = socket.socket(socket.AF_UNIX); client.connect(name); print(client.recv(5).decode())
)")
                .out,
            "hello\nhello\n");
  server.join();
  EXPECT_EQ(box.python(R"(
from multiprocessing import shared_memory
one = shared_memory.SharedMemory(create=True, size=8); one.buf[0] = 7
two = shared_memory.SharedMemory(one.name); print(two.buf[0]); two.close(); one.unlink()
)")
                .out,
            "7\n");
}

}  // namespace
}  // namespace caisson::test
