#include "engine/link/guest_link.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace caisson::engine {
namespace {

using wire::Kind;
using wire::Stream;

constexpr std::uint64_t kCreditMax = std::uint64_t{1} << 40U;

std::uint32_t clamped_ring(std::uint32_t bytes) {
  return std::clamp(bytes, wire::kRingBytesMin, wire::kRingBytesMax);
}

// One message with everything in it, or nothing: how many bytes went, 0 when it was not possible.
std::size_t send_with(int link, std::span<const std::byte> bytes, int descriptor) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  const ssize_t sent = ::sendmsg(link, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

}  // namespace

GuestLink::GuestLink(UniqueFd stream, const Nonce& nonce)
    : stream_(std::move(stream)),
      nonce_(nonce),
      in_(std::make_unique_for_overwrite<std::byte[]>(kReadBytes)) {
  const int flags = ::fcntl(stream_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(stream_.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    death_ = Error{Errc::Gone, "guest link: not a usable descriptor", errno};
  }
}

std::unexpected<Error> GuestLink::die(Errc code, std::string message) {
  if (!death_) death_ = Error{code, "guest link: " + std::move(message), 0};
  return std::unexpected(*death_);
}

Result<void> GuestLink::on_readable() {
  if (death_) return std::unexpected(*death_);
  if (in_begin_ > 0) {
    std::memmove(in_.get(), in_.get() + in_begin_, in_end_ - in_begin_);
    in_end_ -= in_begin_;
    in_begin_ = 0;
  }
  // The buffer holds more than the largest frame, so a full one means that the caller has frames to
  // take.
  while (in_end_ < kReadBytes) {
    const std::size_t wanted = kReadBytes - in_end_;
    const ssize_t got = ::recv(stream_.get(), in_.get() + in_end_, wanted, MSG_DONTWAIT);
    const int failed = errno;
    if (got > 0) {
      in_end_ += static_cast<std::size_t>(got);
      if (static_cast<std::size_t>(got) < wanted) return {};
      continue;
    }
    if (got < 0 && failed == EINTR) continue;
    if (got < 0 && (failed == EAGAIN || failed == EWOULDBLOCK)) return {};
    return die(Errc::Gone, got == 0 ? "the sandbox's init is gone" : errno_text(failed));
  }
  return {};
}

Result<void> GuestLink::on_writable() {
  if (death_) return std::unexpected(*death_);
  while (out_begin_ < out_.size()) {
    const ssize_t sent = ::send(stream_.get(), out_.data() + out_begin_, out_.size() - out_begin_,
                                MSG_DONTWAIT | MSG_NOSIGNAL);
    const int failed = errno;
    if (sent < 0 && failed == EINTR) continue;
    if (sent < 0 && (failed == EAGAIN || failed == EWOULDBLOCK)) return {};
    if (sent < 0) return die(Errc::Gone, "the sandbox's init is gone");
    out_begin_ += static_cast<std::size_t>(sent);
  }
  out_.clear();
  out_begin_ = 0;
  return {};
}

Result<std::optional<Frame>> GuestLink::next() {
  if (death_) return std::unexpected(*death_);
  for (;;) {
    wire::FrameHeader header{};
    const auto* data = reinterpret_cast<const std::uint8_t*>(in_.get()) + in_begin_;
    const wire::Scan scan = wire::scan_reply({data, in_end_ - in_begin_}, header);
    if (scan == wire::Scan::Bad) return die(Errc::Protocol, "the guest sent what is no frame");
    if (scan == wire::Scan::NeedMore) return std::nullopt;
    Frame frame{static_cast<Kind>(header.kind), header.stream, header.id,
                std::span(in_.get() + in_begin_ + sizeof(header), header.size)};
    in_begin_ += sizeof(header) + header.size;
    const bool hello = frame.kind == Kind::Hello;
    TRY(check(frame));
    if (!hello) return frame;
  }
}

Result<void> GuestLink::check_hello(const Frame& frame) {
  wire::HelloBody body{};
  if (!wire::parse_exact(frame.bytes(), body)) return die(Errc::Protocol, "a broken Hello");
  if (body.version != wire::kVersion)
    return die(Errc::Protocol, "init speaks another version of the protocol");
  if (std::memcmp(body.nonce, nonce_.data(), nonce_.size()) != 0) {
    return die(Errc::Protocol, "another sandbox answered");
  }
  greeted_ = true;
  return {};
}

Result<void> GuestLink::check_data(const Frame& frame) {
  const auto flow = flows_.find(frame.id);
  if (flow == flows_.end()) return die(Errc::Protocol, "data that nobody asked for");
  if (frame.stream != static_cast<std::uint16_t>(Stream::Output) &&
      frame.stream != static_cast<std::uint16_t>(Stream::Error)) {
    return die(Errc::Protocol, "data of no stream");
  }
  std::uint64_t& credit = flow->second.credit[frame.stream - 1];
  const std::uint64_t size = frame.payload.size() - sizeof(wire::DataHeader);
  if (size > credit) return die(Errc::Protocol, "more data than there was credit for");
  credit -= size;
  return {};
}

Result<void> GuestLink::check(const Frame& frame) {
  if (frame.kind == Kind::Hello) return check_hello(frame);
  if (!greeted_) return die(Errc::Protocol, "init did not say Hello first");
  if (frame.kind == Kind::Data) return check_data(frame);
  if (frame.kind == Kind::Credit) {
    wire::CreditBody body{};
    const auto flow = flows_.find(frame.id);
    if (flow == flows_.end() || !wire::parse_exact(frame.bytes(), body))
      return {};  // late, and harmless
    flow->second.input_window =
        std::min<std::uint64_t>(flow->second.input_window + body.bytes, wire::kInputWindow);
    return {};
  }
  settle(frame);
  return {};
}

// Forgets an id once nothing can come for it any more.
void GuestLink::settle(const Frame& frame) {
  const auto found = flows_.find(frame.id);
  if (found == flows_.end()) return;
  Flow& flow = found->second;
  const auto request = static_cast<Kind>(frame.stream);
  const bool answered = frame.kind == Kind::Done || frame.kind == Kind::Failed;
  const bool ended = (answered && request == Kind::Op) ||
                     (frame.kind == Kind::Failed && request == Kind::Start) ||
                     (frame.kind == Kind::Done && request == Kind::Forget);
  if (frame.kind == Kind::Done && request == Kind::Attach) {
    wire::DoneBody body{};
    if (wire::parse_exact(frame.bytes(), body)) {
      flow.input_window = std::min<std::uint64_t>(body.bytes, wire::kInputWindow);
    }
  }
  if (frame.kind == Kind::Exited) flow.exited = true;
  if (frame.kind == Kind::Eof && (frame.stream == 1 || frame.stream == 2))
    flow.eof[frame.stream - 1] = true;
  const bool told = flow.exited && (flow.collect || (flow.eof[0] && flow.eof[1]));
  if (ended || (told && flow.auto_forget)) flows_.erase(found);
}

Result<void> GuestLink::send(Kind kind, std::uint16_t stream, std::uint32_t id,
                             std::span<const std::byte> body) {
  if (death_) return std::unexpected(*death_);
  if (body.size() > wire::kPayloadMax)
    return failure(Errc::InvalidArgument, "guest link: the request is too large");
  if (out_.size() - out_begin_ + body.size() > kQueueBytesMax) {
    return failure(Errc::Exhausted, "guest link: too much is waiting to be sent");
  }
  const wire::FrameHeader header{static_cast<std::uint32_t>(body.size()),
                                 static_cast<std::uint16_t>(kind), stream, id};
  const auto bytes = std::as_bytes(std::span(&header, 1));
  if (out_begin_ > kQueueBytesMax / 2) {
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_begin_));
    out_begin_ = 0;
  }
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  out_.insert(out_.end(), body.begin(), body.end());
  return {};
}

Result<void> GuestLink::add_flow(std::uint32_t id, const Flow& flow) {
  if (death_) return std::unexpected(*death_);
  if (id == 0 || flows_.contains(id))
    return failure(Errc::InvalidArgument, "guest link: the id is in use");
  if (flows_.size() >= kFlowsMax)
    return failure(Errc::Exhausted, "guest link: too many processes and operations");
  flows_.emplace(id, flow);
  return {};
}

Result<std::size_t> GuestLink::input(std::uint32_t id, std::span<const std::byte> bytes) {
  const auto flow = flows_.find(id);
  if (flow == flows_.end())
    return failure(Errc::NotFound, "guest link: nothing with that id takes input");
  const std::size_t part = std::min<std::size_t>(bytes.size(), flow->second.input_window);
  if (part == 0) return 0;
  TRY(send(Kind::Data, static_cast<std::uint16_t>(Stream::Input), id, bytes.first(part)));
  flow->second.input_window -= part;
  return part;
}

std::size_t GuestLink::input_window(std::uint32_t id) const {
  const auto flow = flows_.find(id);
  return flow == flows_.end() ? 0 : flow->second.input_window;
}

Result<void> GuestLink::close_input(std::uint32_t id) {
  return send(Kind::Eof, static_cast<std::uint16_t>(Stream::Input), id, {});
}

Result<void> GuestLink::credit(std::uint32_t id, Stream stream, std::uint32_t bytes) {
  const auto flow = flows_.find(id);
  if (flow == flows_.end() || stream == Stream::Input) return {};  // it has ended meanwhile
  std::uint64_t& credit = flow->second.credit[static_cast<std::uint16_t>(stream) - 1];
  credit = std::min(credit + bytes, kCreditMax);
  return send_body(Kind::Credit, static_cast<std::uint16_t>(stream), id,
                   wire::CreditBody{bytes, 0});
}

Result<void> GuestLink::signal(std::uint32_t id, int number, wire::SignalTarget target) {
  return send_body(
      Kind::Signal, 0, id,
      wire::SignalBody{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(target)});
}

Result<void> GuestLink::resize(std::uint32_t id, std::uint16_t rows, std::uint16_t columns) {
  return send_body(Kind::Resize, 0, id, wire::ResizeBody{rows, columns, 0});
}

Result<void> GuestLink::attach(std::uint32_t id, std::array<std::uint64_t, 2> offset,
                               std::uint32_t window_bytes) {
  Flow flow;
  // What a collected process may send is bounded by its ring, whose size a later peer does not
  // know.
  flow.credit[0] = flow.credit[1] = std::max(window_bytes, wire::kRingBytesMax);
  if (const auto known = flows_.find(id); known != flows_.end()) {
    // A second attach: init counts its credit anew, so we do.
    known->second.credit[0] = flow.credit[0];
    known->second.credit[1] = flow.credit[1];
  } else {
    TRY(add_flow(id, flow));
  }
  return send_body(Kind::Attach, 0, id, wire::AttachBody{{offset[0], offset[1]}, window_bytes, 0});
}

Result<void> GuestLink::detach(std::uint32_t id) { return send(Kind::Detach, 0, id, {}); }
Result<void> GuestLink::forget(std::uint32_t id) { return send(Kind::Forget, 0, id, {}); }
Result<void> GuestLink::list(std::uint32_t id) { return send(Kind::List, 0, id, {}); }
Result<void> GuestLink::cancel(std::uint32_t id) { return send(Kind::Cancel, 0, id, {}); }
Result<void> GuestLink::shutdown() { return send(Kind::Shutdown, 0, 0, {}); }

Result<void> GuestLink::ping(std::uint32_t id, std::span<const std::byte> payload) {
  return send(Kind::Ping, 0, id, payload);
}

namespace {

// The payload of an Op frame, or why there is none.
Result<std::vector<std::byte>> op_payload(const OpOptions& options) {
  if (options.path.size() > wire::kPathMax || options.path2.size() > wire::kPathMax) {
    return failure(Errc::InvalidArgument, "guest link: the path is too long");
  }
  wire::OpBody body{};
  body.op = static_cast<std::uint32_t>(options.op);
  body.flags = options.flags;
  body.uid = options.uid;
  body.gid = options.gid;
  body.mode = options.mode;
  body.window_bytes = options.window_bytes;
  body.offset = options.offset;
  body.length = options.length;
  body.path_size = static_cast<std::uint32_t>(options.path.size());
  body.path2_size = static_cast<std::uint32_t>(options.path2.size());
  std::vector<std::byte> payload;
  const auto append = [&payload](std::span<const std::byte> bytes) {
    payload.insert(payload.end(), bytes.begin(), bytes.end());
  };
  append(std::as_bytes(std::span(&body, 1)));
  append(std::as_bytes(std::span(options.path)));
  append(std::as_bytes(std::span(options.path2)));
  wire::OpView view;
  const wire::Bytes encoded{reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()};
  if (wire::parse_op(encoded, view) != wire::Check::Ok) {
    return failure(Errc::InvalidArgument, "guest link: the path must be absolute and without NUL");
  }
  return payload;
}

}  // namespace

Result<void> GuestLink::operate(std::uint32_t id, const OpOptions& options) {
  const std::vector<std::byte> payload = TRY(op_payload(options));
  Flow flow;
  flow.credit[0] = options.window_bytes;
  flow.input_window = wire::takes_input(options.op) ? wire::kInputWindow : 0;
  TRY(add_flow(id, flow));
  auto sent = send(Kind::Op, 0, id, payload);
  if (!sent) flows_.erase(id);
  return sent;
}

bool GuestLink::can_pass() const {
  int domain = 0;
  socklen_t size = sizeof(domain);
  if (::getsockopt(stream_.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX)
    return false;
  const auto used =
      std::ranges::count_if(flows_, [](const auto& flow) { return flow.second.socket; });
  return greeted_ && !wants_write() && static_cast<std::size_t>(used) < kSocketsMax;
}

Result<bool> GuestLink::operate_with(std::uint32_t id, const OpOptions& options, int socket) {
  if (death_) return std::unexpected(*death_);
  if (!can_pass()) return false;
  OpOptions wanted = options;
  wanted.flags |= wire::kOpSocket;
  const std::vector<std::byte> payload = TRY(op_payload(wanted));
  Flow flow;
  flow.socket = true;
  TRY(add_flow(id, flow));
  // The queue is empty, so it will hold this frame and nothing else.
  if (const auto queued = send(Kind::Op, 0, id, payload); !queued) {
    flows_.erase(id);
    return std::unexpected(queued.error());
  }
  out_begin_ = send_with(stream_.get(), out_, socket);
  const bool passed = out_begin_ > 0;
  if (!passed) flows_.erase(id);
  if (!passed || out_begin_ == out_.size()) {
    out_.clear();
    out_begin_ = 0;
  }
  return passed;
}

Result<void> GuestLink::commit(std::uint32_t id, std::uint64_t bytes) {
  return send_body(Kind::Commit, 0, id, wire::CommitBody{bytes});
}

namespace {

void append_string(std::vector<std::byte>& to, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  const auto size_bytes = std::as_bytes(std::span(&size, 1));
  const auto bytes = std::as_bytes(std::span(text));
  to.insert(to.end(), size_bytes.begin(), size_bytes.end());
  to.insert(to.end(), bytes.begin(), bytes.end());
}

wire::StartBody start_body(const StartOptions& options) {
  wire::StartBody body{};
  body.flags = options.flags;
  body.mode = static_cast<std::uint32_t>(options.mode);
  body.uid = options.uid;
  body.gid = options.gid;
  body.timeout_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(options.timeout.count(), 0, UINT32_MAX));
  body.grace_ms =
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(options.grace.count(), 0, UINT32_MAX));
  body.ring_bytes = options.ring_bytes;
  body.window_bytes = options.window_bytes;
  body.rows = options.rows;
  body.columns = options.columns;
  body.cwd_size = static_cast<std::uint32_t>(options.cwd.size());
  body.argc = static_cast<std::uint32_t>(options.argv.size());
  body.envc = static_cast<std::uint32_t>(options.env.size());
  body.group_count = static_cast<std::uint32_t>(options.groups.size());
  return body;
}

}  // namespace

Result<void> GuestLink::start(std::uint32_t id, const StartOptions& options) {
  std::vector<std::byte> payload;
  const wire::StartBody body = start_body(options);
  const auto append = [&payload](std::span<const std::byte> bytes) {
    payload.insert(payload.end(), bytes.begin(), bytes.end());
  };
  append(std::as_bytes(std::span(&body, 1)));
  append(std::as_bytes(std::span(options.cwd)));
  for (const std::string& text : options.argv) append_string(payload, text);
  for (const std::string& text : options.env) append_string(payload, text);
  append(std::as_bytes(std::span(options.groups)));
  if (payload.size() > wire::kPayloadMax) {
    return failure(Errc::InvalidArgument,
                   "start: arguments and environment together are larger than 256 KiB");
  }
  wire::StartView view;
  const wire::Bytes encoded{reinterpret_cast<const std::uint8_t*>(payload.data()), payload.size()};
  const wire::Check check = wire::parse_start(encoded, view);
  if (check == wire::Check::TooMuch)
    return failure(Errc::InvalidArgument, "start: too many arguments");
  if (check != wire::Check::Ok) {
    return failure(Errc::InvalidArgument,
                   "start: want a command, NAME=value pairs, an absolute working directory and no "
                   "NUL anywhere");
  }
  Flow flow;
  flow.collect = options.mode == wire::Mode::Collect;
  flow.auto_forget = (options.flags & wire::kStartAutoForget) != 0;
  flow.credit[0] = flow.credit[1] =
      flow.collect ? clamped_ring(options.ring_bytes) : options.window_bytes;
  const bool terminal = (options.flags & wire::kStartPty) != 0;
  flow.eof[1] = terminal || (options.flags & wire::kStartMergeError) != 0;
  flow.input_window = terminal || (options.flags & wire::kStartStdin) != 0 ? wire::kInputWindow : 0;
  TRY(add_flow(id, flow));
  auto sent = send(Kind::Start, 0, id, payload);
  if (!sent) flows_.erase(id);
  return sent;
}

}  // namespace caisson::engine
