// A guest's init played by a test, on the test's own I/O thread: files in a map, a few commands,
// and processes whose output the test writes. What it should answer otherwise is said by
// `on_request`.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "engine/nonce.h"
#include "guest/protocol/codec.h"

namespace caisson::engine::test {

struct Ends {
  UniqueFd ours;
  UniqueFd theirs;
};

inline Ends socket_pair() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class FakeGuest : public std::enable_shared_from_this<FakeGuest> {
 public:
  struct Process {
    std::string out;
    std::uint32_t flags = 0;
    bool ended = false;
    bool attached = false;
    bool told = false;
    std::uint64_t sent = 0;
    std::uint64_t credit = 0;
    std::string input;
    wire::ExitedBody exited{};
  };

  FakeGuest(const boost::asio::any_io_executor& executor, UniqueFd fd, const Nonce& nonce)
      : socket_(executor, boost::asio::local::stream_protocol(), fd.release()), nonce_(nonce) {}

  void begin() {
    wire::HelloBody hello{};
    hello.version = wire::kVersion;
    std::memcpy(hello.nonce, nonce_.data(), nonce_.size());
    say(wire::Kind::Hello, 0, 0, hello);
    read();
  }
  void close() { socket_.close(); }

  template <class Body>
  void say(wire::Kind kind, std::uint16_t stream, std::uint32_t id, const Body& body,
           std::string_view more = {}) {
    const wire::FrameHeader header{static_cast<std::uint32_t>(sizeof(body) + more.size()),
                                   static_cast<std::uint16_t>(kind), stream, id};
    out_.append(reinterpret_cast<const char*>(&header), sizeof(header));
    out_.append(reinterpret_cast<const char*>(&body), sizeof(body)).append(more);
    write();
  }
  void done(wire::Kind about, std::uint32_t id, wire::DoneBody body = {}) {
    say(wire::Kind::Done, static_cast<std::uint16_t>(about), id, body);
  }
  void failed(wire::Kind about, std::uint32_t id, int sys_errno) {
    wire::FailedBody body{};
    body.sys_errno = sys_errno;
    body.step = static_cast<std::uint32_t>(wire::Step::Request);
    say(wire::Kind::Failed, static_cast<std::uint16_t>(about), id, body);
  }
  void data(std::uint32_t id, std::uint64_t offset, std::string_view bytes) {
    say(wire::Kind::Data, static_cast<std::uint16_t>(wire::Stream::Output), id,
        wire::DataHeader{offset}, bytes);
  }

  void print(std::uint32_t id, std::string_view text) {
    processes[id].out.append(text);
    pump(id);
  }
  void end(std::uint32_t id, int code) {
    Process& process = processes[id];
    process.ended = true;
    process.exited.code = code;
    process.exited.end_offset[0] = process.out.size();
    pump(id);
  }

  // True: the test has answered.
  std::function<bool(const wire::FrameHeader&, wire::Bytes)> on_request;
  // What came with an operation that is asked with strings or an archive, at its end. The test
  // answers.
  std::function<void(std::uint32_t id, wire::OpKind op, const std::string& input)> on_input;
  wire::OpBody last_op{};
  std::map<std::string, std::string> files;
  std::map<std::uint32_t, Process> processes;
  std::map<std::uint32_t, std::vector<std::string>> hanging;  // execs that do not end by themselves
  std::map<int, int> seen;                                    // requests by kind
  std::uint64_t credits = 0;
  std::uint32_t last_process = 0;
  std::string last_cwd;
  std::vector<std::string> last_env;

 private:
  static std::string text(wire::Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data), bytes.size};
  }

  void write() {
    if (writing_ || out_.empty() || !socket_.is_open()) return;
    writing_ = true;
    auto sent = [self = shared_from_this()](const boost::system::error_code& stopped,
                                            std::size_t size) {
      self->writing_ = false;
      if (stopped) return;
      self->going_.erase(0, size);
      self->going_.append(std::exchange(self->out_, {}));
      std::swap(self->going_, self->out_);
      self->write();
    };
    going_ = std::exchange(out_, {});
    socket_.async_write_some(boost::asio::buffer(going_), std::move(sent));
  }

  void read() {
    auto got = [self = shared_from_this()](const boost::system::error_code& stopped,
                                           std::size_t size) {
      if (stopped) return;
      self->in_.append(self->buffer_.data(), size);
      self->take();
      if (self->socket_.is_open()) self->read();
    };
    socket_.async_read_some(boost::asio::buffer(buffer_), std::move(got));
  }

  void take() {
    for (;;) {
      wire::FrameHeader header{};
      const wire::Bytes all{reinterpret_cast<const std::uint8_t*>(in_.data()), in_.size()};
      const wire::Scan scan = wire::scan_request(all, header);
      EXPECT_NE(scan, wire::Scan::Bad);
      if (scan != wire::Scan::Frame) return;
      const std::string payload = in_.substr(sizeof(header), header.size);
      in_.erase(0, sizeof(header) + header.size);
      ++seen[header.kind];
      const wire::Bytes bytes{reinterpret_cast<const std::uint8_t*>(payload.data()),
                              payload.size()};
      if (!on_request || !on_request(header, bytes)) answer(header, bytes);
      if (!socket_.is_open()) return;
    }
  }

  void answer(const wire::FrameHeader& header, wire::Bytes payload) {
    const auto kind = static_cast<wire::Kind>(header.kind);
    switch (kind) {
      case wire::Kind::Start:
        return start(header.id, payload);
      case wire::Kind::Op:
        return operate(header.id, payload);
      case wire::Kind::Data:
        return input(header.id, payload);
      case wire::Kind::Eof:
        return input_end(header.id);
      case wire::Kind::Credit: {
        wire::CreditBody body{};
        (void)wire::parse_exact(payload, body);
        credits += body.bytes;
        if (const auto at = processes.find(header.id); at != processes.end()) {
          at->second.credit += body.bytes;
          pump(header.id);
        }
        return;
      }
      case wire::Kind::Signal:
        return signal(header.id);
      case wire::Kind::List:
        return list(header.id);
      case wire::Kind::Ping:
        return say(wire::Kind::Pong, 0, header.id, wire::CreditBody{});
      case wire::Kind::Cancel:
        if (writes_.erase(header.id) + asked_.erase(header.id) != 0)
          failed(wire::Kind::Op, header.id, ECANCELED);
        return;
      default:
        return about_process(kind, header.id, payload);
    }
  }

  void about_process(wire::Kind kind, std::uint32_t id, wire::Bytes payload) {
    const auto at = processes.find(id);
    if (at == processes.end()) return failed(kind, id, ESRCH);
    Process& process = at->second;
    if (kind == wire::Kind::Attach) {
      wire::AttachBody body{};
      EXPECT_TRUE(wire::parse_exact(payload, body));
      process.attached = true;
      process.told = false;
      process.sent = std::min<std::uint64_t>(body.offset[0], process.out.size());
      process.credit = body.window_bytes;
      done(kind, id, {wire::kInputWindow, 0});
      return pump(id);
    }
    if (kind == wire::Kind::Detach) process.attached = false;
    if (kind == wire::Kind::Forget && !process.ended) return failed(kind, id, EBUSY);
    if (kind == wire::Kind::Forget) processes.erase(at);
    done(kind, id);
  }

  void pump(std::uint32_t id) {
    Process& process = processes[id];
    if (!process.attached) return;
    while (process.sent < process.out.size() && process.credit > 0) {
      const auto size = std::min<std::uint64_t>(
          {process.credit, process.out.size() - process.sent, wire::kDataMax});
      data(id, process.sent, std::string_view(process.out).substr(process.sent, size));
      process.sent += size;
      process.credit -= size;
    }
    if (process.ended && !process.told) {
      process.told = true;
      say(wire::Kind::Exited, 0, id, process.exited);
    }
  }

  static std::vector<std::string> strings(wire::Bytes bytes, std::uint32_t count) {
    std::vector<std::string> out;
    wire::Reader reader(bytes);
    for (std::uint32_t i = 0; i < count; ++i) {
      wire::Bytes one;
      EXPECT_TRUE(reader.take_string(one));
      out.push_back(text(one));
    }
    return out;
  }

  void start(std::uint32_t id, wire::Bytes payload) {
    wire::StartView view{};
    ASSERT_EQ(wire::parse_start(payload, view), wire::Check::Ok);
    const auto argv = strings(view.argv, view.body.argc);
    last_env = strings(view.env, view.body.envc);
    last_cwd = text(view.cwd);
    const std::string command = argv.size() == 3 && argv[1] == "-c" ? argv[2] : argv.front();
    if (static_cast<wire::Mode>(view.body.mode) == wire::Mode::Stream) {
      last_process = id;
      processes[id].flags = view.body.flags;
      processes[id].attached = (view.body.flags & wire::kStartAttach) != 0;
      return say(wire::Kind::Started, 0, id, wire::StartedBody{100, 0});
    }
    if (command == "hang") {
      hanging[id] = argv;
      return;
    }
    wire::ExitedBody exited{};
    if (command == "missing") return failed(wire::Kind::Start, id, ENOENT);
    if (command == "cat") {
      hanging[id] = argv;  // until its input ends
      return;
    }
    if (command.starts_with("echo ")) {
      data(id, 0, command.substr(5) + "\n");
    } else if (command.starts_with("exit ")) {
      exited.code = std::stoi(command.substr(5));
    }
    exited.wall_us = 1500;
    say(wire::Kind::Exited, 0, id, exited);
  }

  void signal(std::uint32_t id) {
    const bool known = hanging.erase(id) != 0;
    if (!known && !processes.contains(id)) return failed(wire::Kind::Signal, id, ESRCH);
    done(wire::Kind::Signal, id);
    if (!known) return end(id, 0);
    wire::ExitedBody exited{};
    exited.code = -1;
    exited.signal = 9;
    say(wire::Kind::Exited, 0, id, exited);
  }

  void list(std::uint32_t id) {
    for (const auto& [number, process] : processes) {
      wire::ListEntryBody body{};
      body.process = number;
      body.pid = 100;
      body.flags = process.flags;
      body.state = static_cast<std::uint32_t>(process.ended ? wire::ProcessState::Ended
                                                            : wire::ProcessState::Running);
      body.end[0] = process.out.size();
      body.exited = process.exited;
      body.name_size = 4;
      say(wire::Kind::ListEntry, 0, id, body, "fake");
    }
    done(wire::Kind::List, id);
  }

  void entry(std::uint32_t id, const std::string& name, const std::string& content) {
    wire::EntryBody body{};
    body.type = static_cast<std::uint32_t>(wire::EntryType::File);
    body.mode = 0644;
    body.size = content.size();
    body.inode = 7;
    body.name_size = static_cast<std::uint32_t>(name.size());
    say(wire::Kind::Entry, 0, id, body, name);
  }

  void operate(std::uint32_t id, wire::Bytes payload) {
    wire::OpView view{};
    ASSERT_EQ(wire::parse_op(payload, view), wire::Check::Ok);
    const std::string path = text(view.path);
    const auto op = static_cast<wire::OpKind>(view.body.op);
    last_op = view.body;
    if (wire::takes_input(op) && op != wire::OpKind::Write) {
      asked_[id] = {op, ""};
      return;
    }
    if (op == wire::OpKind::Write) {
      writes_[id] = {path, ""};
      return;
    }
    if (op == wire::OpKind::Mkdir) return done(wire::Kind::Op, id);
    if (op == wire::OpKind::List) {
      for (const auto& [name, content] : files) {
        if (name.starts_with(path + "/")) entry(id, name.substr(path.size() + 1), content);
      }
      return done(wire::Kind::Op, id);
    }
    const auto at = files.find(path);
    if (at == files.end()) return failed(wire::Kind::Op, id, ENOENT);
    if (op == wire::OpKind::Stat) entry(id, "", at->second);
    if (op == wire::OpKind::Read) {
      const std::size_t length = view.body.length != 0 ? view.body.length : std::string::npos;
      const std::string part = at->second.substr(view.body.offset, length);
      for (std::size_t i = 0; i < part.size(); i += wire::kDataMax)
        data(id, view.body.offset + i, std::string_view(part).substr(i, wire::kDataMax));
    }
    if (op == wire::OpKind::Remove) files.erase(at);
    done(wire::Kind::Op, id, {0, 1});
  }

  void input(std::uint32_t id, wire::Bytes bytes) {
    if (const auto write = writes_.find(id); write != writes_.end()) {
      write->second.second.append(text(bytes));
    } else if (const auto asked = asked_.find(id); asked != asked_.end()) {
      asked->second.second.append(text(bytes));
    } else if (const auto process = processes.find(id); process != processes.end()) {
      process->second.input.append(text(bytes));
    } else if (hanging.contains(id)) {
      const std::string all = text(bytes);
      for (std::size_t at = 0; at < all.size(); at += wire::kDataMax) {
        data(id, cat_[id].size(), std::string_view(all).substr(at, wire::kDataMax));
        cat_[id].append(all, at, wire::kDataMax);
      }
    }
    say(wire::Kind::Credit, 0, id, wire::CreditBody{static_cast<std::uint32_t>(bytes.size), 0});
  }

  void input_end(std::uint32_t id) {
    if (const auto write = writes_.find(id); write != writes_.end()) {
      const std::uint64_t size = write->second.second.size();
      files[write->second.first] = write->second.second;
      writes_.erase(write);
      done(wire::Kind::Op, id, {size, 1});
    } else if (const auto asked = asked_.find(id); asked != asked_.end()) {
      const auto [op, input] = std::exchange(asked->second, {});
      asked_.erase(asked);
      if (on_input) on_input(id, op, input);
    } else if (hanging.erase(id) != 0) {
      say(wire::Kind::Exited, 0, id, wire::ExitedBody{});
    }
  }

  boost::asio::local::stream_protocol::socket socket_;
  Nonce nonce_;
  std::array<char, 65536> buffer_{};
  std::string in_;
  std::string out_;
  std::string going_;
  bool writing_ = false;
  std::map<std::uint32_t, std::pair<std::string, std::string>> writes_;
  std::map<std::uint32_t, std::pair<wire::OpKind, std::string>> asked_;
  std::map<std::uint32_t, std::string> cat_;
};

}  // namespace caisson::engine::test
