// A GuestLink that a test pumps by hand.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "init_harness.h"

namespace caisson::test {

using engine::Frame;
using engine::GuestLink;
using engine::StartOptions;
using wire::Kind;
using wire::Stream;

// Pumps a GuestLink by hand and remembers what came.
class Driver {
 public:
  Driver(UniqueFd stream, const engine::Nonce& nonce) : link(std::move(stream), nonce) {}

  // Until `ready`; false when ten seconds pass or the link dies.
  bool until(const std::function<bool()>& ready) {
    const TimePoint deadline = Clock::now() + seconds(10);
    while (!ready()) {
      if (link.death() || Clock::now() > deadline) return false;
      pollfd fd{link.fd(), static_cast<short>(POLLIN | (link.wants_write() ? POLLOUT : 0)), 0};
      (void)::poll(&fd, 1, 1000);
      if (link.wants_write() && !link.on_writable()) return false;
      if ((fd.revents & (POLLIN | POLLHUP)) == 0) continue;
      const bool alive = link.on_readable().has_value();
      take_frames();
      if (!alive) return ready();
    }
    return true;
  }
  // A round trip: init has taken all that was sent before.
  bool settle() {
    const std::size_t seen = pongs;
    return link.ping(1, {}).has_value() && until([&] { return pongs > seen; });
  }

  GuestLink link;
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::string> data;
  std::map<std::pair<std::uint32_t, std::uint16_t>, std::uint64_t> first_offset;
  std::map<std::uint32_t, wire::ExitedBody> exited;
  std::map<std::uint32_t, int> failed;  // errno
  std::map<std::uint32_t, int> started;
  std::map<std::pair<std::uint32_t, std::uint16_t>, bool> eof;
  std::map<std::pair<std::uint32_t, Kind>, wire::DoneBody> done;
  std::size_t pongs = 0;
  bool auto_credit = true;

 private:
  void take_frames() {
    for (;;) {
      auto next = link.next();
      if (!next || !*next) return;
      take(**next);
    }
  }
  void take(const Frame& frame) {
    const std::pair key(frame.id, frame.stream);
    if (frame.kind == Kind::Data) {
      wire::DataHeader header{};
      std::memcpy(&header, frame.payload.data(), sizeof(header));
      const auto bytes = frame.payload.subspan(sizeof(header));
      if (!first_offset.contains(key)) first_offset[key] = header.offset;
      data[key].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (auto_credit) {
        (void)link.credit(frame.id, static_cast<Stream>(frame.stream),
                          static_cast<std::uint32_t>(bytes.size()));
      }
    }
    if (frame.kind == Kind::Eof) eof[key] = true;
    if (frame.kind == Kind::Pong) ++pongs;
    if (frame.kind == Kind::Exited) (void)wire::parse_exact(frame.bytes(), exited[frame.id]);
    if (frame.kind == Kind::Done) {
      (void)wire::parse_exact(frame.bytes(), done[{frame.id, static_cast<Kind>(frame.stream)}]);
    }
    wire::FailedView view{};
    if (frame.kind == Kind::Failed && wire::parse_failed(frame.bytes(), view))
      failed[frame.id] = view.body.sys_errno;
    wire::StartedBody body{};
    if (frame.kind == Kind::Started && wire::parse_exact(frame.bytes(), body))
      started[frame.id] = body.pid;
  }
};

inline constexpr std::uint16_t kOut = static_cast<std::uint16_t>(Stream::Output);

inline StartOptions shell(std::string script, std::uint32_t flags) {
  StartOptions options;
  options.argv = {"/bin/sh", "-c", std::move(script)};
  options.env = {"PATH=/usr/bin:/bin", "TERM=dumb"};
  options.uid = kUser.uid;
  options.gid = kUser.gid;
  options.flags = flags;
  return options;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

}  // namespace caisson::test
