// sys/socket.h — messages with descriptors over SOCK_SEQPACKET, and byte streams in pairs.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::sys {

inline constexpr std::size_t kMessageFdsMax = 32;

struct SocketPair {
  UniqueFd ours;
  UniqueFd theirs;
};
[[nodiscard]] Result<SocketPair> packet_pair();
[[nodiscard]] Result<SocketPair> stream_pair();

[[nodiscard]] Result<void> send_message(int socket, std::span<const std::byte> bytes,
                                        std::span<const int> fds);

struct Message {
  std::vector<std::byte> bytes;  // empty: the peer has closed
  std::vector<UniqueFd> fds;
};
// A message longer than `max`, or with more descriptors than kMessageFdsMax, is an error and is
// dropped whole.
[[nodiscard]] Result<Message> receive_message(int socket, std::size_t max);

struct PeerIdentity {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};
[[nodiscard]] Result<PeerIdentity> peer_identity(int socket);

}  // namespace caisson::sys
