// P24: a sandbox without rules has nothing but lo, and reaches nothing.
#include <gtest/gtest.h>

#include "tests/support/box.h"

namespace caisson::test {
namespace {

TEST(P24, OnlyLoopbackIsThere) {
  Box box;
  EXPECT_EQ(box.sh("ls /proc/self/net/dev >/dev/null && tail -n +3 /proc/self/net/dev | cut -d: "
                   "-f1 | tr -d ' '")
                .out,
            "lo\n");
}

TEST(P24, EveryWayOutFails) {
  Box box;
  const auto result = box.python(R"(
import socket, errno
outcomes = []
def attempt(name, call):
    try:
        call()
        outcomes.append(name + ' WORKED')
    except OSError as error:
        outcomes.append(name + ' ' + errno.errorcode[error.errno])
def tcp(family, address):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2); s.connect((address, 80))
def udp(family, address):
    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(2); s.sendto(b'x', (address, 53))
for address in ('192.0.2.1', '10.0.0.1', '169.254.169.254', '172.17.0.1', '198.18.0.1'):
    attempt('tcp ' + address, lambda: tcp(socket.AF_INET, address))
    attempt('udp ' + address, lambda: udp(socket.AF_INET, address))
for address in ('2001:db8::1', 'fe80::1', 'fd00::1'):
    attempt('tcp ' + address, lambda: tcp(socket.AF_INET6, address))
    attempt('udp ' + address, lambda: udp(socket.AF_INET6, address))
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt('ping', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))
attempt('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
attempt('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
print('\n'.join(outcomes))
)");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.find("WORKED"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("tcp 192.0.2.1 ENETUNREACH"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("raw EPERM"), std::string::npos) << result.out;
}

// Programs that talk to themselves must work: a test server on a loopback port, low ones too.
TEST(P24, LoopbackWorks) {
  Box box;
  const auto result = box.python(R"(
import socket
for family, address in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    server = socket.socket(family); server.bind((address, 80)); server.listen()
    client = socket.create_connection((address, 80)); client.sendall(b'hello')
    peer, _ = server.accept(); print(peer.recv(5).decode())
)");
  EXPECT_EQ(result.out, "hello\nhello\n") << result.err;
}

}  // namespace
}  // namespace caisson::test
