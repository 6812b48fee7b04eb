#include "sys/socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "sys/file.h"
#include "sys/temp_dir_test.h"

namespace caisson::sys {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::size_t open_descriptors() {
  const auto names = [] {
    const auto folder = open_at(AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY);
    return list_dir(folder->get(), 10'000);
  }();
  return names ? names->size() : 0;
}

// One descriptor more than send_message() would ever send.
void send_too_many(int socket, int fd) {
  constexpr std::size_t kCount = kMessageFdsMax + 1;
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kCount)> control{};
  std::array<int, kCount> fds{};
  fds.fill(fd);
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * kCount);
  std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(fds));
  ASSERT_EQ(::sendmsg(socket, &header, MSG_NOSIGNAL), 1);
}

TEST(Socket, DescriptorsTravelWithTheMessage) {
  const TempDir dir;
  dir.write("one", "first");
  dir.write("two", "second");
  const auto pair = packet_pair();
  ASSERT_TRUE(pair);
  const auto one = open_at(dir.fd(), "one", O_RDONLY);
  const auto two = open_at(dir.fd(), "two", O_RDONLY);
  const int fds[] = {one->get(), two->get()};
  ASSERT_TRUE(send_message(pair->ours.get(), bytes_of("hello"), fds));
  const auto got = receive_message(pair->theirs.get(), 5);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->bytes, bytes_of("hello"));
  ASSERT_EQ(got->fds.size(), 2U);
  EXPECT_EQ(read_again(got->fds[0].get()), "first");
  EXPECT_EQ(read_again(got->fds[1].get()), "second");
  EXPECT_NE(::fcntl(got->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Socket, AMessageThatIsTooLongIsDroppedWhole) {
  const auto pair = packet_pair();
  ASSERT_TRUE(pair);
  const int fds[] = {pair->ours.get(), pair->ours.get()};
  const std::size_t before = open_descriptors();
  ASSERT_TRUE(send_message(pair->ours.get(), bytes_of("123456"), fds));
  ASSERT_TRUE(send_message(pair->ours.get(), bytes_of("next"), {}));
  const auto dropped = receive_message(pair->theirs.get(), 5);
  ASSERT_FALSE(dropped);
  EXPECT_EQ(dropped.error().code, Errc::Protocol);
  EXPECT_EQ(open_descriptors(), before);  // what came with it is closed
  const auto next = receive_message(pair->theirs.get(), 5);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->bytes, bytes_of("next"));
  EXPECT_TRUE(next->fds.empty());
}

TEST(Socket, TooManyDescriptorsAreDroppedWhole) {
  const auto pair = packet_pair();
  ASSERT_TRUE(pair);
  const std::size_t before = open_descriptors();
  send_too_many(pair->ours.get(), pair->ours.get());
  const auto dropped = receive_message(pair->theirs.get(), 100);
  ASSERT_FALSE(dropped);
  EXPECT_EQ(dropped.error().code, Errc::Protocol);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Socket, AsManyDescriptorsAsAllowedPass) {
  const auto pair = packet_pair();
  ASSERT_TRUE(pair);
  const std::vector<int> fds(kMessageFdsMax, pair->ours.get());
  ASSERT_TRUE(send_message(pair->ours.get(), bytes_of("x"), fds));
  const auto got = receive_message(pair->theirs.get(), 1);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->fds.size(), kMessageFdsMax);
}

TEST(Socket, APeerThatLeftIsAnEmptyMessageAndThenAnError) {
  auto pair = packet_pair();
  ASSERT_TRUE(pair);
  pair->ours.reset();
  const auto end = receive_message(pair->theirs.get(), 100);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->bytes.empty());
  // No SIGPIPE: this test would be gone.
  EXPECT_FALSE(send_message(pair->theirs.get(), bytes_of("x"), {}));
}

TEST(Socket, ThePeerIsWhoItIs) {
  const auto pair = stream_pair();
  ASSERT_TRUE(pair);
  const auto peer = peer_identity(pair->ours.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_EQ(peer->gid, ::getegid());
  const auto pipe = make_pipe();
  EXPECT_FALSE(peer_identity(pipe->read.get()));
}

}  // namespace
}  // namespace caisson::sys
