#include "engine/channel/guest_channel.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <optional>

#include "base/own_loop_test.h"
#include "engine/channel/fake_guest_test.h"

namespace caisson::engine {
namespace {

namespace asio = boost::asio;
using test::FakeGuest;
using wire::Kind;

constexpr GuestUser kUser{1000, 1000};

class GuestChannelTest : public testing::Test, protected caisson::test::OwnLoop {
 protected:
  GuestChannelTest() {
    nonce_.fill(std::byte{7});
    connect({});
  }
  ~GuestChannelTest() override {
    if (channel_) channel_->close(Error{Errc::Gone, "the test is over", 0});
    if (guest_) guest_->close();
  }

  void connect(ChannelOptions options) {
    auto ends = test::socket_pair();
    guest_ = std::make_shared<FakeGuest>(context_.get_executor(), std::move(ends.theirs), nonce_);
    prepare(*guest_);
    guest_->begin();
    auto opened =
        run(GuestChannel::open(context_.get_executor(), std::move(ends.ours), nonce_, options));
    ASSERT_TRUE(opened) << opened.error().message;
    channel_ = *opened;
  }
  virtual void prepare(FakeGuest&) {}

  static ExecRequest command(std::string line) {
    ExecRequest request;
    request.argv = {"/bin/sh", "-c", std::move(line)};
    return request;
  }
  GuestProcess background() {
    StartOptions options;
    options.argv = {"daemon"};
    options.flags = wire::kStartStdin;
    auto started = run(channel_->start(std::move(options)));
    EXPECT_TRUE(started) << started.error().message;
    return *started;
  }
  std::unique_ptr<GuestOutput> attach(std::uint32_t id, std::uint64_t offset) {
    auto output = run(channel_->attach(id, offset, 0));
    EXPECT_TRUE(output) << output.error().message;
    return output ? *std::move(output) : nullptr;
  }
  std::string read(GuestOutput& output, std::size_t size) {
    std::string all;
    while (all.size() < size) {
      auto item = run(output.next());
      if (!item || !std::holds_alternative<GuestData>(*item)) break;
      all += std::get<GuestData>(*item).bytes;
    }
    return all;
  }

  Nonce nonce_{};
  std::shared_ptr<FakeGuest> guest_;
  std::shared_ptr<GuestChannel> channel_;
};

TEST_F(GuestChannelTest, AnotherSandboxIsNotBelieved) {
  auto ends = test::socket_pair();
  Nonce other{};
  auto guest = std::make_shared<FakeGuest>(context_.get_executor(), std::move(ends.theirs), other);
  guest->begin();
  const auto opened =
      run(GuestChannel::open(context_.get_executor(), std::move(ends.ours), nonce_, {}));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::Gone);
  guest->close();
}

TEST_F(GuestChannelTest, AGuestThatSaysNothingIsGivenUp) {
  auto ends = test::socket_pair();
  ChannelOptions options;
  options.hello = milliseconds(1);
  const auto opened =
      run(GuestChannel::open(context_.get_executor(), std::move(ends.ours), nonce_, options));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::TimedOut);
}

TEST_F(GuestChannelTest, ExecutesAndCollects) {
  const auto done = run(channel_->execute(command("echo hello")));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->out, "hello\n");
  EXPECT_EQ(done->exit_code, 0);
  EXPECT_EQ(run(channel_->execute(command("exit 7")))->exit_code, 7);
}

TEST_F(GuestChannelTest, FeedsInputBeyondTheWindow) {
  ExecRequest request = command("cat");
  for (int i = 0; request.input.size() < 300'000; ++i) request.input += std::to_string(i) + "\n";
  const std::string sent = request.input;
  const auto done = run(channel_->execute(std::move(request)));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->out, sent);
}

TEST_F(GuestChannelTest, OutputThatIsNotAdmittedIsLostAndCounted) {
  ExecRequest request = command("cat");
  for (int i = 0; request.input.size() < 300'000; ++i) request.input += std::to_string(i) + "\n";
  const std::string sent = request.input;
  std::size_t asked = 0;
  std::size_t admitted = 0;
  request.admit = [&](std::size_t bytes) {
    if (++asked == 3) return false;  // once only: no hole may come of it
    admitted += bytes;
    return true;
  };
  const auto done = run(channel_->execute(std::move(request)));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(asked, 3U) << "after a refusal nobody is asked";
  EXPECT_EQ(done->out, sent.substr(0, admitted));
  EXPECT_EQ(done->out_lost, sent.size() - admitted);
}

TEST_F(GuestChannelTest, AProgramThatIsMissingIsNotFound) {
  const auto done = run(channel_->execute(command("missing")));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Errc::NotFound);
}

TEST_F(GuestChannelTest, EveryWaitingCallFailsAtOnceWhenTheGuestDies) {
  std::optional<Error> death;
  channel_->on_death([&](const Error& error) { death = error; });
  const GuestProcess process = background();
  const auto output = attach(process.id, 0);
  const auto exec = begin(channel_->execute(command("hang")));
  const auto wait = begin(channel_->wait(process.id, milliseconds(60'000)));
  const auto next = begin(output->next());
  settle();
  EXPECT_FALSE(exec->has_value());
  guest_->close();
  until([&] { return exec->has_value() && wait->has_value() && next->has_value() && death; });
  EXPECT_EQ((*exec)->error().code, Errc::Gone);
  EXPECT_EQ((*wait)->error().code, Errc::Gone);
  EXPECT_EQ((*next)->error().code, Errc::Gone);
  EXPECT_FALSE(channel_->alive());
  EXPECT_EQ(run(channel_->ping()).error().code, Errc::Gone);
}

TEST_F(GuestChannelTest, ClosingAnswersWithTheReason) {
  const auto exec = begin(channel_->execute(command("hang")));
  settle();
  channel_->close(Error{Errc::Gone, "it was destroyed", 0});
  until([&] { return exec->has_value(); });
  EXPECT_EQ((*exec)->error().message, "it was destroyed");
}

TEST_F(GuestChannelTest, CancellingAnExecKillsItsTree) {
  asio::cancellation_signal cancel;
  bool over = false;
  asio::co_spawn(context_, channel_->execute(command("hang")),
                 asio::bind_cancellation_slot(
                     cancel.slot(), [&](const std::exception_ptr&, const Result<ExecResult>& done) {
                       EXPECT_FALSE(done);
                       over = true;
                     }));
  until([&] { return !guest_->hanging.empty(); });
  cancel.emit(asio::cancellation_type::terminal);
  until([&] { return over && guest_->hanging.empty(); });
  EXPECT_EQ(guest_->seen[static_cast<int>(Kind::Signal)], 1);
  // The late answers find nobody, and do no harm.
  EXPECT_TRUE(run(channel_->execute(command("echo on"))));
}

TEST_F(GuestChannelTest, CallsWaitOnlyUpToALimit) {
  std::vector<std::shared_ptr<std::optional<Result<microseconds>>>> all;
  guest_->on_request = [](const wire::FrameHeader&, wire::Bytes) { return true; };
  for (std::size_t i = 0; i < kCallsMax; ++i) all.push_back(begin(channel_->ping()));
  settle();
  const auto refused = run(channel_->ping());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Exhausted);
}

// ------------------------------------------------------------------------------------ output

TEST_F(GuestChannelTest, TwoReadersFollowOneProcessFromDifferentOffsets) {
  const GuestProcess process = background();
  guest_->print(process.id, "0123456789");
  const auto first = attach(process.id, 0);
  EXPECT_EQ(read(*first, 10), "0123456789");
  const auto second = attach(process.id, 4);
  EXPECT_EQ(read(*second, 6), "456789");
  guest_->print(process.id, "abc");
  EXPECT_EQ(read(*second, 3), "abc");
  EXPECT_EQ(read(*first, 3), "abc");
  guest_->end(process.id, 3);
  for (const auto& output : {first.get(), second.get()}) {
    const auto item = run(output->next());
    ASSERT_TRUE(item) << item.error().message;
    ASSERT_TRUE(std::holds_alternative<wire::ExitedBody>(*item));
    EXPECT_EQ(std::get<wire::ExitedBody>(*item).code, 3);
  }
}

TEST_F(GuestChannelTest, AStreamThatNobodyReadsGivesNoCredit) {
  const GuestProcess process = background();
  const auto output = attach(process.id, 0);
  guest_->print(process.id, std::string(3UL * kWindowBytes, 'x'));
  settle();
  EXPECT_EQ(guest_->processes[process.id].sent, kWindowBytes);
  EXPECT_EQ(read(*output, 3UL * kWindowBytes).size(), 3UL * kWindowBytes);
}

TEST_F(GuestChannelTest, TheSlowestReaderGivesTheCredit) {
  const GuestProcess process = background();
  const auto fast = attach(process.id, 0);
  const auto slow = attach(process.id, 0);
  guest_->print(process.id, std::string(2UL * kWindowBytes, 'x'));
  EXPECT_EQ(read(*fast, kWindowBytes).size(), kWindowBytes);
  settle();
  EXPECT_EQ(guest_->processes[process.id].sent, kWindowBytes);
  EXPECT_EQ(read(*slow, kWindowBytes).size(), kWindowBytes);
  EXPECT_EQ(read(*fast, kWindowBytes).size(), kWindowBytes);
}

TEST_F(GuestChannelTest, AReaderThatHoldsUpOthersIsCutOff) {
  channel_->close(Error{Errc::Gone, "", 0});
  guest_->close();
  ChannelOptions options;
  options.reader_stall = milliseconds(20);
  connect(options);
  const GuestProcess process = background();
  const auto fast = attach(process.id, 0);
  const auto slow = attach(process.id, 0);
  guest_->print(process.id, std::string(3UL * kWindowBytes, 'x'));
  EXPECT_EQ(read(*fast, 3UL * kWindowBytes).size(), 3UL * kWindowBytes);
  const auto cut = run(slow->next());
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, Errc::Exhausted);
}

TEST_F(GuestChannelTest, ReadersOfOneProcessHaveALimit) {
  const GuestProcess process = background();
  std::vector<std::unique_ptr<GuestOutput>> all;
  for (std::size_t i = 0; i < kReadersMax; ++i) all.push_back(attach(process.id, 0));
  const auto refused = run(channel_->attach(process.id, 0, 0));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Exhausted);
  all.pop_back();
  EXPECT_NE(attach(process.id, 0), nullptr);
}

TEST_F(GuestChannelTest, MoreOutputThanCreditEndsTheLink) {
  const GuestProcess process = background();
  const auto output = attach(process.id, 0);
  const std::string much(wire::kDataMax, 'x');
  for (std::uint64_t at = 0; at <= kWindowBytes; at += much.size())
    guest_->data(process.id, at, much);
  settle();
  EXPECT_FALSE(channel_->alive());
}

TEST_F(GuestChannelTest, ADroppedReaderDetaches) {
  const GuestProcess process = background();
  auto output = attach(process.id, 0);
  output.reset();
  until([&] { return !guest_->processes[process.id].attached; });
  // And a reader may come again.
  guest_->print(process.id, "late");
  output = attach(process.id, 0);
  EXPECT_EQ(read(*output, 4), "late");
}

TEST_F(GuestChannelTest, AProcessWithoutReadersIsLetGoAfterAWhile) {
  channel_->close(Error{Errc::Gone, "", 0});
  guest_->close();
  ChannelOptions options;
  options.first_reader_grace = milliseconds(1);
  connect(options);
  const GuestProcess process = background();
  until([&] { return !guest_->processes[process.id].attached; });
}

// ------------------------------------------------------------------------------------ processes

TEST_F(GuestChannelTest, WaitsForTheEndOrForTheTime) {
  const GuestProcess process = background();
  const auto late = run(channel_->wait(process.id, milliseconds(1)));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Errc::TimedOut);
  const auto wait = begin(channel_->wait(process.id, milliseconds(20'000)));
  settle();
  guest_->print(process.id, std::string(2UL * kWindowBytes, 'x'));  // dropped, not in the way
  guest_->end(process.id, 5);
  until([&] { return wait->has_value(); });
  ASSERT_TRUE(**wait);
  EXPECT_EQ((**wait)->code, 5);
}

TEST_F(GuestChannelTest, AProcessThatIsNotThereIsNotFound) {
  EXPECT_EQ(run(channel_->signal(77, 15, wire::SignalTarget::Process)).error().code,
            Errc::NotFound);
  EXPECT_EQ(run(channel_->attach(77, 0, 0)).error().code, Errc::NotFound);
  EXPECT_EQ(run(channel_->wait(77, milliseconds(10))).error().code, Errc::NotFound);
  EXPECT_EQ(run(channel_->input(77, "x", false)).error().code, Errc::NotFound);
  EXPECT_EQ(run(channel_->forget(77)).error().code, Errc::NotFound);
}

TEST_F(GuestChannelTest, TheBytesOfTwoWritersDoNotMix) {
  const GuestProcess process = background();
  const std::string a(2UL * wire::kInputWindow, 'a');
  const std::string b(2UL * wire::kInputWindow, 'b');
  const auto first = begin(channel_->input(process.id, a, false));
  const auto second = begin(channel_->input(process.id, b, false));
  until([&] { return first->has_value() && second->has_value(); });
  settle();
  EXPECT_EQ(guest_->processes[process.id].input, a + b);
}

TEST_F(GuestChannelTest, InputThatNobodyTakesEndsWithTheProcess) {
  const GuestProcess process = background();
  guest_->on_request = [](const wire::FrameHeader& header, wire::Bytes) {
    return static_cast<Kind>(header.kind) == Kind::Data;
  };
  const auto input =
      begin(channel_->input(process.id, std::string(3UL * wire::kInputWindow, 'x'), false));
  settle();
  EXPECT_FALSE(input->has_value());
  guest_->end(process.id, 0);
  until([&] { return input->has_value(); });
  EXPECT_EQ((*input)->error().code, Errc::Gone);
}

TEST_F(GuestChannelTest, ForgetsAnEndedProcessOnly) {
  const GuestProcess process = background();
  EXPECT_EQ(run(channel_->forget(process.id)).error().code, Errc::Busy);
  guest_->end(process.id, 0);
  ASSERT_TRUE(run(channel_->forget(process.id)));
  EXPECT_TRUE(run(channel_->processes())->empty());
}

class AdoptedChannelTest : public GuestChannelTest {
 protected:
  AdoptedChannelTest() {
    channel_->close(Error{Errc::Gone, "", 0});
    guest_->close();
    adopting_ = true;
    ChannelOptions options;
    options.adopt = true;
    connect(options);
  }
  void prepare(FakeGuest& guest) override {
    if (!adopting_) return;
    guest.processes[5].flags = wire::kStartStdin;
    guest.processes[5].out = "what was printed before";
    guest.processes[0x80000001U].flags = wire::kStartAutoForget;  // an exec without its caller
  }
  bool adopting_ = false;
};

TEST_F(AdoptedChannelTest, ProcessesOfAnEarlierServerGoOn) {
  const auto all = run(channel_->processes());
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().id, 5U);
  const auto output = attach(5, 9);
  EXPECT_EQ(read(*output, 14), "printed before");
  EXPECT_TRUE(run(channel_->input(5, "typed", false)));
  settle();
  EXPECT_EQ(guest_->processes[5].input, "typed");
  EXPECT_GT(background().id, 5U);
}

// ------------------------------------------------------------------------------------ files

TEST_F(GuestChannelTest, WritesReadsListsAndRemoves) {
  std::string content;
  for (int i = 0; content.size() < 200'000; ++i) content += std::to_string(i);
  auto writer = run(channel_->write(kUser, "/workspace/a", {}));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(run((*writer)->write(std::as_bytes(std::span(content)))));
  const auto written = run((*writer)->finish());
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->bytes, content.size());
  EXPECT_EQ(run(channel_->stat(kUser, "/workspace/a", true))->size, content.size());
  EXPECT_EQ(run(channel_->list(kUser, "/workspace", false))->entries.at(0).name, "a");
  EXPECT_TRUE(run(channel_->remove(kUser, "/workspace/a", false)));
  EXPECT_EQ(run(channel_->stat(kUser, "/workspace/a", true)).error().code, Errc::NotFound);
}

TEST_F(GuestChannelTest, ADroppedWriterLeavesNoTrace) {
  auto writer = run(channel_->write(kUser, "/workspace/a", {}));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(run((*writer)->write(std::as_bytes(std::span(std::string_view("half"))))));
  writer->reset();
  until([&] { return guest_->seen[static_cast<int>(Kind::Cancel)] == 1; });
  EXPECT_TRUE(guest_->files.empty());
}

TEST_F(GuestChannelTest, ADownloadGetsCreditAsItIsTaken) {
  guest_->on_request = [this](const wire::FrameHeader& header, wire::Bytes) {
    if (static_cast<Kind>(header.kind) != Kind::Op) return false;
    for (std::uint64_t at = 0; at < kTransferBytes; at += wire::kDataMax)
      guest_->data(header.id, at, std::string(wire::kDataMax, 'd'));
    return true;
  };
  auto reader = run(channel_->read(kUser, "/big", 0, 0));
  ASSERT_TRUE(reader);
  settle();
  EXPECT_EQ(guest_->credits, 0U);
  std::size_t count = 0;
  while (count < kTransferBytes) {
    const auto bytes = run((*reader)->next());
    ASSERT_TRUE(bytes);
    count += bytes->size();
  }
  settle();
  EXPECT_EQ(guest_->credits, kTransferBytes);
}

TEST_F(GuestChannelTest, AFileThatShrinksUnderTheReaderIsGone) {
  guest_->files["/f"] = "short";
  auto reader = run(channel_->read(kUser, "/f", 0, 10));
  ASSERT_TRUE(reader);
  ASSERT_TRUE(run((*reader)->next()));
  const auto end = run((*reader)->next());
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Errc::Gone);
}

// Names so long that their bytes reach the limit before their number does.
TEST_F(GuestChannelTest, AListingIsCutAtItsLimit) {
  wire::EntryBody body{};
  body.type = static_cast<std::uint32_t>(wire::EntryType::File);
  body.name_size = wire::kPathMax - 1;
  const std::string name(body.name_size, 'n');
  guest_->on_request = [&](const wire::FrameHeader& header, wire::Bytes) {
    if (static_cast<Kind>(header.kind) != Kind::Op) return false;
    for (std::size_t sent = 0; sent <= kListBytesMax; sent += name.size())
      guest_->say(Kind::Entry, 0, header.id, body, name);
    return true;
  };
  const auto listing = run(channel_->list(kUser, "/workspace", true));
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_TRUE(listing->truncated);
  EXPECT_LE(listing->entries.size() * name.size(), kListBytesMax);
  until([&] { return guest_->seen[static_cast<int>(Kind::Cancel)] == 1; });
}

TEST_F(GuestChannelTest, AWatchKeepsItsEventsUpToALimit) {
  std::uint32_t id = 0;
  guest_->on_request = [&](const wire::FrameHeader& header, wire::Bytes) {
    if (static_cast<Kind>(header.kind) != Kind::Op) return false;
    id = header.id;
    guest_->say(Kind::Event, 0, id, wire::EventBody{});
    return true;
  };
  auto watch = run(channel_->watch(kUser, "/workspace", true));
  ASSERT_TRUE(watch);
  for (std::size_t i = 0; i < kWatchEventsMax + 10; ++i) {
    guest_->say(Kind::Event, 0, id, wire::EventBody{wire::kEventCreated, 0, 1, 0}, "f");
    if (i % 500 == 0) settle();
  }
  settle();
  for (std::size_t i = 0; i + 1 < kWatchEventsMax; ++i)
    ASSERT_EQ(run((*watch)->next())->mask, wire::kEventCreated);
  EXPECT_EQ(run((*watch)->next())->mask, wire::kEventOverflow);
}

// Long names reach the limit on bytes before the one on events.
TEST_F(GuestChannelTest, AWatchKeepsTheNamesOfItsEventsUpToALimit) {
  std::uint32_t id = 0;
  guest_->on_request = [&](const wire::FrameHeader& header, wire::Bytes) {
    if (static_cast<Kind>(header.kind) != Kind::Op) return false;
    id = header.id;
    guest_->say(Kind::Event, 0, id, wire::EventBody{});
    return true;
  };
  auto watch = run(channel_->watch(kUser, "/workspace", true));
  ASSERT_TRUE(watch);
  const std::string name(3500, 'n');
  const auto size = static_cast<std::uint32_t>(name.size());
  const std::size_t fit = kWatchBytesMax / name.size();
  ASSERT_LT(fit, kWatchEventsMax);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < fit + 20; ++i) {
      guest_->say(Kind::Event, 0, id, wire::EventBody{wire::kEventCreated, 0, size, 0}, name);
      if (i % 10 == 0) settle();
    }
    settle();
    // Up to the limit, then one word that some are missing; it takes the place of the last one.
    std::size_t names = 0;
    auto event = run((*watch)->next());
    while (event && event->mask == wire::kEventCreated) {
      names += event->name.size();
      event = run((*watch)->next());
    }
    ASSERT_TRUE(event);
    EXPECT_EQ(event->mask, wire::kEventOverflow);
    EXPECT_LE(names, kWatchBytesMax);
    EXPECT_GE(names, kWatchBytesMax - 2 * name.size());
  }
}

}  // namespace
}  // namespace caisson::engine
