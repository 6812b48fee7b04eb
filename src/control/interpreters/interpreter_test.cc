// One interpreter against a guest that the test plays: what it is told, and what it says.
#include "control/interpreters/interpreter.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/json/parse.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/own_loop_test.h"
#include "control/interpreters/boot.h"
#include "engine/channel/fake_guest_test.h"

namespace caisson::control::interpreters {
namespace {

namespace asio = boost::asio;
using engine::test::FakeGuest;

struct Asked {
  Ask kind = Ask::Open;
  std::uint32_t id = 0;
  std::string payload;
};

class InterpreterTest : public testing::Test, protected caisson::test::OwnLoop {
 protected:
  InterpreterTest() {
    nonce_.fill(std::byte{7});
    auto ends = engine::test::socket_pair();
    guest_ = std::make_shared<FakeGuest>(context_.get_executor(), std::move(ends.theirs), nonce_);
    guest_->begin();
    auto opened =
        run(engine::GuestChannel::open(context_.get_executor(), std::move(ends.ours), nonce_, {}));
    EXPECT_TRUE(opened);
    channel_ = *opened;
    interpreter_ =
        std::make_shared<Interpreter>(context_.get_executor(), channel_, Language::Python);
  }
  ~InterpreterTest() override {
    guest_->on_request = nullptr;
    channel_->close(Error{Errc::Gone, "the test is over", 0});
    guest_->close();
    settle();
  }

  void start() {
    interpreter_->begin({}, {}, [this](std::uint32_t, bool there) { there_ = there; });
  }
  void greet() {
    start();
    until([&] { return interpreter_->process() != 0; });
    say(Said::Hello, 0, R"({"language": "python", "version": "3", "warnings": []})");
    until([&] { return ready_or_dead(); });
    ASSERT_FALSE(interpreter_->dead()) << interpreter_->death()->message;
  }
  bool ready_or_dead() {
    const auto ready = begin(interpreter_->ready(Clock::now()));
    until([&] { return ready->has_value(); });
    return (*ready)->has_value() || interpreter_->dead();
  }
  void say(Said kind, std::uint32_t id, const std::string& payload, std::uint8_t stream = 0) {
    guest_->print(interpreter_->process(), said(kind, id, payload, stream));
  }
  static std::string said(Said kind, std::uint32_t id, const std::string& payload,
                          std::uint8_t stream = 0) {
    std::string out = frame(static_cast<Ask>(kind), id, payload);
    out[5] = static_cast<char>(stream);
    return out;
  }
  void say_done(std::uint32_t id, bool died = false, int exit_code = 0) {
    say(Said::Done, id,
        std::string(R"({"exit_code": )") + std::to_string(exit_code) + R"(, "died": )" +
            (died ? "true" : "false") + R"(, "out_lost": 0, "err_lost": 0, "us": 1})");
  }
  void say_answer(std::uint32_t id) {
    say(Said::Part, id, R"({"value": null, "truncated": false, "error": null, "outputs": []})");
    say_done(id);
  }
  // What it has been told, behind its program.
  std::vector<Asked> asked() {
    std::vector<Asked> out;
    const auto process = guest_->processes.find(interpreter_->process());
    if (process == guest_->processes.end()) return out;
    const std::string& all = process->second.input;
    std::size_t at = boot_text(program_of(Language::Python).text).size();
    while (at + kHeadBytes <= all.size()) {
      const auto byte = [&](std::size_t i) {
        return std::uint32_t{static_cast<unsigned char>(all[at + i])};
      };
      const std::size_t size = byte(0) | byte(1) << 8U | byte(2) << 16U;
      if (at + kHeadBytes + size > all.size()) break;
      out.push_back(
          {static_cast<Ask>(byte(4)), byte(8) | byte(9) << 8U, all.substr(at + kHeadBytes, size)});
      at += kHeadBytes + size;
    }
    return out;
  }
  std::size_t count(Ask kind) {
    std::size_t out = 0;
    for (const Asked& one : asked()) out += one.kind == kind ? 1 : 0;
    return out;
  }
  // Of one stream of the run, as it was told.
  std::uint64_t credit(std::uint32_t run, std::size_t stream) {
    std::uint64_t out = 0;
    for (const Asked& one : asked()) {
      if (one.kind != Ask::Credit || one.id != run) continue;
      for (std::size_t i = 0; i < 4; ++i)
        out += std::uint64_t{static_cast<unsigned char>(one.payload[4 * stream + i])} << 8U * i;
    }
    return out;
  }
  RunWish wish(std::uint32_t context = 0) {
    RunWish out;
    out.context = context;
    out.code = "1";
    out.output_bytes_max = 4096;
    out.timeout = milliseconds(60'000);
    return out;
  }
  // One whose caller takes nothing before the gate is opened.
  RunWish streamed(std::uint32_t context = 0) {
    RunWish out = wish(context);
    out.sink = [this](bool error, std::string_view bytes) -> awaitable<Result<void>> {
      return take(error, std::string(bytes));
    };
    return out;
  }
  awaitable<Result<void>> take(bool error, std::string bytes) {
    ++pieces_;
    (error ? err_ : out_) += bytes;
    if (closed_ && co_await gate_.wait() != engine::Wake::Woken)
      co_return failure(Errc::Gone, "the caller left");
    co_return Result<void>();
  }
  void open_gate() {
    closed_ = false;
    gate_.wake();
  }
  std::uint32_t open_context() {
    const auto opened = begin(interpreter_->open({}, milliseconds(60'000)));
    until([&] { return count(Ask::Open) != 0; });
    say(Said::Opened, asked().back().id, R"({"error": null})");
    until([&] { return opened->has_value(); });
    return **opened ? ***opened : 0;
  }

  template <class T>
  std::shared_ptr<std::optional<T>> begin(awaitable<T> work) {
    auto value = std::make_shared<std::optional<T>>();
    asio::co_spawn(context_, std::move(work),
                   asio::bind_cancellation_slot(left_.slot(),
                                                [value](const std::exception_ptr& bug, T result) {
                                                  EXPECT_FALSE(bug);
                                                  *value = std::move(result);
                                                }));
    return value;
  }

  asio::cancellation_signal left_;  // of whoever began last
  engine::Nonce nonce_{};
  std::shared_ptr<FakeGuest> guest_;
  std::shared_ptr<engine::GuestChannel> channel_;
  std::shared_ptr<Interpreter> interpreter_;
  bool there_ = false;
  engine::Wakeup gate_{context_.get_executor()};
  bool closed_ = true;
  std::size_t pieces_ = 0;
  std::string out_;
  std::string err_;
};

// It would cost its caller nothing, so it could come for ever while he is slow.
TEST_F(InterpreterTest, AnEmptyOutputEndsIt) {
  greet();
  const auto done = begin(interpreter_->run(streamed()));
  until([&] { return count(Ask::Run) == 1; });
  say(Said::Output, asked().back().id, "", 1);
  until([&] { return done->has_value(); });
  ASSERT_FALSE(**done);
  EXPECT_EQ((*done)->error().code, Errc::Gone);
}

TEST_F(InterpreterTest, SmallOutputsBecomeLargePieces) {
  greet();
  const auto done = begin(interpreter_->run(streamed()));
  until([&] { return count(Ask::Run) == 1; });
  const std::uint32_t id = asked().back().id;
  std::string many;
  constexpr std::size_t kMany = 160'000;
  for (std::size_t i = 0; i < kMany; ++i) many += said(Said::Output, id, "x", 1);
  guest_->print(interpreter_->process(), many);
  many.clear();
  for (std::size_t i = 0; i < 2000; ++i)
    many += said(Said::Output, id, "y", 1) + said(Said::Output, id, "z", 2);
  guest_->print(interpreter_->process(), many);
  say_answer(id);
  until([&] { return pieces_ == 1; });
  settle();
  open_gate();
  until([&] { return done->has_value(); });
  ASSERT_TRUE(**done) << (*done)->error().message;
  EXPECT_EQ(out_, std::string(kMany, 'x') + std::string(2000, 'y'));
  EXPECT_EQ(err_, std::string(2000, 'z'));
  EXPECT_LE(pieces_, kPiecesMax + 2);
}

// One that takes nothing of what it is told must not make the server hold it.
TEST_F(InterpreterTest, CreditIsToldInLargeParts) {
  greet();
  open_gate();
  const auto done = begin(interpreter_->run(streamed()));
  until([&] { return count(Ask::Run) == 1; });
  const std::uint32_t id = asked().back().id;
  for (std::size_t i = 0; i < kStreamCredit; i += 1024) {
    say(Said::Output, id, std::string(1024, 'x'), 1);
    settle();
  }
  EXPECT_EQ(out_.size(), kStreamCredit);
  EXPECT_EQ(credit(id, 0), kStreamCredit);
  EXPECT_EQ(count(Ask::Credit), 2U);
  say_answer(id);
  until([&] { return done->has_value(); });
  EXPECT_TRUE(**done);
}

TEST_F(InterpreterTest, OneThatTakesNothingIsEnded) {
  greet();
  guest_->on_request = [](const wire::FrameHeader& header, wire::Bytes) {
    return static_cast<wire::Kind>(header.kind) == wire::Kind::Data;
  };
  for (std::uint32_t i = 0; i < 200'000 && !interpreter_->dead(); ++i) interpreter_->close(i);
  ASSERT_TRUE(interpreter_->dead());
  EXPECT_NE(interpreter_->death()->message.find("does not take"), std::string::npos);
}

TEST_F(InterpreterTest, ASlowCallerDoesNotStopTheClock) {
  greet();
  RunWish slow = streamed();
  slow.timeout = milliseconds(200);
  const auto done = begin(interpreter_->run(std::move(slow)));
  until([&] { return count(Ask::Run) == 1; });
  const std::uint32_t id = asked().back().id;
  say(Said::Output, id, "x", 1);
  until([&] { return pieces_ == 1; });  // and it never comes back
  until([&] { return count(Ask::Kill) == 1; });
  say_done(id, true, 137);
  until([&] { return interpreter_->idle(); });
  open_gate();
  until([&] { return done->has_value(); });
  ASSERT_TRUE(**done);
  EXPECT_TRUE((**done)->timed_out);
}

// It is the run that wrote it: others in there are as good as before.
TEST_F(InterpreterTest, AnAnswerThatIsNoneFailsItsRunAlone) {
  greet();
  const std::uint32_t context = open_context();
  for (const char* answer : {"garbage", "{}", R"({"value": "\ud83d"})"}) {
    const std::size_t before = count(Ask::Run);
    const auto done = begin(interpreter_->run(wish()));
    until([&] { return count(Ask::Run) > before; });
    const std::uint32_t id = asked().back().id;
    say(Said::Part, id, answer);
    say_done(id);
    until([&] { return done->has_value(); });
    ASSERT_FALSE(**done);
    EXPECT_EQ((*done)->error().code, Errc::Protocol);
  }
  EXPECT_FALSE(interpreter_->dead());
  EXPECT_TRUE(interpreter_->has(context));
}

TEST_F(InterpreterTest, AContextIsBusyUntilItsRunHasEnded) {
  greet();
  const std::uint32_t context = open_context();
  const auto done = begin(interpreter_->run(wish(context)));
  until([&] { return count(Ask::Run) == 1; });
  const std::uint32_t id = asked().back().id;
  EXPECT_TRUE(interpreter_->busy(context));
  left_.emit(asio::cancellation_type::all);
  until([&] { return done->has_value(); });
  until([&] { return count(Ask::Interrupt) == 1; });
  EXPECT_TRUE(interpreter_->busy(context));
  say_answer(id);
  until([&] { return !interpreter_->busy(context); });
  EXPECT_TRUE(interpreter_->has(context));
}

// What is said to have died may live all the same.
TEST_F(InterpreterTest, AContextThatIsDroppedIsClosed) {
  greet();
  const std::uint32_t context = open_context();
  const auto done = begin(interpreter_->run(wish(context)));
  until([&] { return count(Ask::Run) == 1; });
  say_done(asked().back().id, true, 1);
  until([&] { return done->has_value(); });
  ASSERT_TRUE(**done);
  EXPECT_TRUE((**done)->context_ended);
  until([&] { return count(Ask::Close) == 1; });
  EXPECT_EQ(asked().back().id, context);
}

// It has used up its credit, and its caller takes nothing: it must come to its end all the same.
TEST_F(InterpreterTest, ARunThatIsLeftHasCreditToEnd) {
  greet();
  const auto done = begin(interpreter_->run(streamed()));
  until([&] { return count(Ask::Run) == 1; });
  const std::uint32_t id = asked().back().id;
  const std::string full(kFrameBytesMax, 'x');
  for (std::size_t i = 0; i < kStreamCredit; i += full.size()) say(Said::Output, id, full, 1);
  until([&] { return pieces_ == 1; });
  settle();
  EXPECT_EQ(credit(id, 0), 0U);
  left_.emit(asio::cancellation_type::all);
  until([&] { return done->has_value(); });
  until([&] { return count(Ask::Kill) == 1; });
  EXPECT_EQ(credit(id, 0), kStreamCredit);
  for (std::size_t i = 0; i < 8 * kStreamCredit; i += full.size()) {
    say(Said::Output, id, full, 1);
    settle();
  }
  EXPECT_EQ(credit(id, 0), 9 * kStreamCredit);
  say_done(id, true, 137);
  settle();
  EXPECT_FALSE(interpreter_->dead());
  EXPECT_TRUE(interpreter_->idle());
}

TEST_F(InterpreterTest, ARunOverItsTimeHasCreditToEnd) {
  greet();
  RunWish slow = streamed();
  slow.timeout = milliseconds(200);
  const auto done = begin(interpreter_->run(std::move(slow)));
  until([&] { return count(Ask::Run) == 1; });
  const std::uint32_t id = asked().back().id;
  until([&] { return count(Ask::Kill) == 1; });
  const std::string full(kFrameBytesMax, 'x');
  for (std::size_t i = 0; i < 2 * kStreamCredit; i += full.size()) {
    say(Said::Output, id, full, 1);
    settle();
  }
  EXPECT_EQ(credit(id, 0), 2 * kStreamCredit);
  say_done(id, true, 137);
  until([&] { return interpreter_->idle(); });
  open_gate();
  until([&] { return done->has_value(); });
  ASSERT_TRUE(**done) << (*done)->error().message;
  EXPECT_TRUE((**done)->timed_out);
  EXPECT_EQ(out_.size(), kStreamCredit);
  EXPECT_EQ((**done)->out_lost, kStreamCredit);
}

TEST_F(InterpreterTest, OneThatIsEndedWhileItStartsIsKilled) {
  std::optional<std::uint32_t> starting;
  guest_->on_request = [&starting](const wire::FrameHeader& header, wire::Bytes) {
    if (static_cast<wire::Kind>(header.kind) != wire::Kind::Start) return false;
    starting = header.id;
    return true;
  };
  start();
  until([&] { return starting.has_value(); });
  bool ended = false;
  asio::co_spawn(context_, interpreter_->end("it is in the way"),
                 [&ended](const std::exception_ptr&) { ended = true; });
  settle();
  EXPECT_FALSE(ended);
  EXPECT_TRUE(interpreter_->dead());
  (void)guest_->processes[*starting];
  guest_->say(wire::Kind::Started, 0, *starting, wire::StartedBody{100, 0});
  until([&] { return ended; });
  EXPECT_GE(guest_->seen[static_cast<int>(wire::Kind::Signal)], 1);
  until([&] { return guest_->processes.empty(); });
  settle();
  EXPECT_FALSE(there_);
}

}  // namespace
}  // namespace caisson::control::interpreters
