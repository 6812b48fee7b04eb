#include "guest/layer/host.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace caisson::layer {
namespace {

void take_descriptors(msghdr& message, std::vector<UniqueFd>& into) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      into.emplace_back(fd);
    }
  }
}

// All of `out`, with the descriptors that come beside any of its bytes.
Result<void> receive_all(int socket, std::span<std::byte> out, std::vector<UniqueFd>& descriptors) {
  while (!out.empty()) {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kJobDescriptorsMax * sizeof(int))> control{};
    iovec piece{out.data(), out.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("receive the job", errno);
    if (got == 0) return failure(Errc::Gone, "the host left before its job came");
    take_descriptors(message, descriptors);
    if (descriptors.size() > kJobDescriptorsMax) {
      return failure(Errc::InvalidArgument, "the job has too many descriptors");
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace

Result<ReceivedJob> receive_job(int socket) {
  ReceivedJob received;
  wire::JobHeader header{};
  TRY(receive_all(socket, std::as_writable_bytes(std::span(&header, 1)), received.descriptors));
  if (header.version != wire::kLayerVersion) {
    return failure(Errc::InvalidArgument, "the job has version " + std::to_string(header.version) +
                                              ", and this program " +
                                              std::to_string(wire::kLayerVersion));
  }
  const bool fits =
      header.size >= sizeof(wire::Job) && header.size <= sizeof(wire::Job) + wire::kJobStringsMax;
  if (!fits) return failure(Errc::InvalidArgument, "the job has a bad size");
  TRY(receive_all(socket, std::as_writable_bytes(std::span(&received.job, 1)),
                  received.descriptors));
  received.prefix.resize(header.size - sizeof(wire::Job));
  TRY(receive_all(socket, std::as_writable_bytes(std::span(received.prefix)),
                  received.descriptors));
  const bool whole = received.job.prefix_size == received.prefix.size() &&
                     header.kind == static_cast<std::uint32_t>(received.job.kind);
  if (!whole) return failure(Errc::InvalidArgument, "the job is not what its header says");
  return received;
}

Result<void> HostTeller::put(wire::AnswerKind kind, const void* body, std::size_t size,
                             const std::string& text) {
  const wire::JobHeader header{wire::kLayerVersion, static_cast<std::uint32_t>(kind),
                               static_cast<std::uint32_t>(size + text.size())};
  waiting_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  waiting_.append(static_cast<const char*>(body), size);
  waiting_.append(text);
  return waiting_.size() < kGatherBytes ? Result<void>{} : flush();
}

Result<void> HostTeller::flush() {
  std::size_t sent = 0;
  while (sent < waiting_.size()) {
    const ssize_t part =
        ::send(socket_, waiting_.data() + sent, waiting_.size() - sent, MSG_NOSIGNAL);
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) return sys_failure("answer the host", errno);
    sent += static_cast<std::size_t>(part);
  }
  waiting_.clear();
  return {};
}

Result<void> HostTeller::progress(const wire::LayerProgress& progress) {
  TRY(put(wire::AnswerKind::Progress, &progress, sizeof(progress), ""));
  return flush();
}

Result<void> HostTeller::entry(const Finding& found, const std::string& path) {
  if (path.size() + sizeof(wire::LayerEntry) > wire::kLayerAnswerMax) {
    return failure(Errc::TooLarge, "a name has " + std::to_string(path.size()) + " bytes");
  }
  const wire::LayerEntry entry{found.kind, found.mode, found.size, found.offset, path.size()};
  return put(wire::AnswerKind::Entry, &entry, sizeof(entry), path);
}

Result<void> HostTeller::done(const wire::LayerDone& done) {
  TRY(put(wire::AnswerKind::Done, &done, sizeof(done), ""));
  return flush();
}

Result<void> HostTeller::failed(const Error& error) {
  const wire::LayerFailed failed = to_wire(error);
  const std::string text = error.message.substr(0, wire::kLayerMessageMax);
  TRY(put(wire::AnswerKind::Failed, &failed, sizeof(failed), text));
  return flush();
}

}  // namespace caisson::layer
