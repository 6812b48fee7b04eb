#include "cli/client_stream.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <deque>

#include "cli/cli.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

// A server that says its lines in order; a line "<" waits until the client has sent close_stdin.
class FakeSocket final : public RemoteSocket {
 public:
  explicit FakeSocket(std::deque<Message> script)
      : script_(std::move(script)), ready_(::eventfd(1, EFD_CLOEXEC)) {}
  [[nodiscard]] int fd() const noexcept override { return ready_.get(); }
  Result<void> send(std::string_view bytes, bool text) override {
    sent.push_back({text, std::string(bytes)});
    return {};
  }
  [[nodiscard]] std::size_t waiting() const noexcept override { return 0; }
  Result<void> flush() override { return {}; }
  Result<std::optional<Message>> next() override {
    if (script_.empty()) return std::nullopt;
    if (script_.front().bytes == "<") {
      const bool over =
          !sent.empty() && sent.back().text && sent.back().bytes == R"({"type":"close_stdin"})";
      if (!over) return std::nullopt;
      script_.pop_front();
    }
    if (script_.empty()) return std::nullopt;
    Message message = std::move(script_.front());
    script_.pop_front();
    return message;
  }
  [[nodiscard]] bool closed() const noexcept override { return script_.empty(); }

  std::vector<Message> sent;

 private:
  std::deque<Message> script_;
  UniqueFd ready_;
};

struct Ends {
  sys::Pipe input = sys::make_pipe().value();
  sys::Pipe output = sys::make_pipe().value();
  sys::Pipe error = sys::make_pipe().value();

  [[nodiscard]] StreamDescriptors descriptors() const {
    return {input.read.get(), output.write.get(), error.write.get(), -1};
  }
  void type(const std::string& text) {
    EXPECT_EQ(::write(input.write.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
    input.write = UniqueFd();
  }
  static std::string drain(sys::Pipe& pipe) {
    pipe.write = UniqueFd();
    std::string out(1UL << 20U, '\0');
    std::size_t size = 0;
    for (ssize_t got = 1; got > 0; size += static_cast<std::size_t>(got))
      got = ::read(pipe.read.get(), out.data() + size, out.size() - size);
    out.resize(size);
    return out;
  }
};

RemoteSocket::Message text(std::string bytes) { return {true, std::move(bytes)}; }
RemoteSocket::Message bytes(std::string bytes) { return {false, std::move(bytes)}; }

TEST(Stream, StreamsAreKeptApartAndTheStatusComesThrough) {
  Ends ends;
  ends.type("hello");
  FakeSocket socket({text(R"({"type":"start","process":4})"), bytes("\x01out"),
                     bytes("\x02"
                           "err"),
                     text("<"), bytes("\x01!"), bytes("\x07?"), bytes(""),
                     text(R"({"type":"exit","exit_code":3,"signal":0})")});
  const auto end = relay_socket(socket, Framing::Exec, ends.descriptors());
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->how, StreamEnd::How::Exited);
  EXPECT_EQ(end->process, 4U);
  EXPECT_EQ(exit_status_of(*end), 3);
  EXPECT_EQ(Ends::drain(ends.output), "out!");
  EXPECT_EQ(Ends::drain(ends.error), "err");
  ASSERT_EQ(socket.sent.size(), 2U);
  EXPECT_EQ(socket.sent[0].bytes, std::string("\0hello", 6));
  EXPECT_FALSE(socket.sent[0].text);
}

TEST(Stream, ATerminalCarriesBareBytes) {
  Ends ends;
  FakeSocket socket({bytes("\x01$ "), text(R"({"type":"exit","exit_code":0})")});
  const auto end = relay_socket(socket, Framing::Terminal, ends.descriptors());
  ASSERT_TRUE(end);
  EXPECT_EQ(exit_status_of(*end), 0);
  EXPECT_EQ(Ends::drain(ends.output), "\x01$ ");
}

TEST(Stream, AServerThatLeavesIsNoSuccess) {
  Ends ends;
  FakeSocket socket({bytes("\x01half")});
  const auto end = relay_socket(socket, Framing::Exec, ends.descriptors());
  ASSERT_TRUE(end);
  EXPECT_EQ(end->how, StreamEnd::How::Lost);
  EXPECT_EQ(exit_status_of(*end), kExitFailed);
  EXPECT_EQ(Ends::drain(ends.output), "half");
}

TEST(Stream, AnErrorOfTheServerIsOneLine) {
  Ends ends;
  FakeSocket socket(
      {text(R"({"type":"error","error":{"code":"NotFound","message":"no\nsuch \u001b[2Jfile"}})")});
  const auto end = relay_socket(socket, Framing::Exec, ends.descriptors());
  ASSERT_TRUE(end);
  EXPECT_EQ(end->how, StreamEnd::How::Failed);
  EXPECT_EQ(end->error->message, "no?such ?[2Jfile");
  EXPECT_EQ(exit_status_of(*end), kExitNotFound);
  FakeSocket broken({text("{")});
  EXPECT_FALSE(relay_socket(broken, Framing::Exec, ends.descriptors()));
}

TEST(Stream, WhenNobodyReadsItEnds) {
  ASSERT_NE(::signal(SIGPIPE, SIG_IGN), SIG_ERR);
  Ends ends;
  ends.output.read = UniqueFd();
  FakeSocket socket({bytes("\x01x"), text("<")});
  const auto end = relay_socket(socket, Framing::Exec, ends.descriptors());
  ASSERT_TRUE(end);
  EXPECT_EQ(exit_status_of(*end), 128 + SIGPIPE);
}

TEST(Stream, TimeIsOver) {
  StreamEnd end;
  end.how = StreamEnd::How::Exited;
  end.exit_code = 137;
  EXPECT_EQ(exit_status_of(end), 137);
  end.timed_out = true;
  EXPECT_EQ(exit_status_of(end), kExitTimedOut);
}

}  // namespace
}  // namespace caisson::cli
