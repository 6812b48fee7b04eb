#include "engine/channel/launcher_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "engine/launcher/wire.h"
#include "sys/process.h"
#include "sys/socket.h"
#include "sys/temp_dir_test.h"

namespace caisson::engine {
namespace {

namespace asio = boost::asio;
namespace wire = launcher_wire;
using wire::Request;

constexpr seconds kPatience{20};

// A launcher that says what the test wants it to say.
class FakeLauncher {
 public:
  explicit FakeLauncher(const std::string& path) {
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener_.get(), 8) != 0)
      ADD_FAILURE() << "no socket";
  }
  // The next connection, greeted.
  void accept() {
    ASSERT_TRUE(*sys::wait_ready(listener_.get(), POLLIN, Clock::now() + kPatience));
    peer_ = UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(next().kind, static_cast<std::uint32_t>(Request::Hello));
    auto writer = wire::Writer(last_);
    wire::write(writer, wire::Greeting{1, "boot", "kernel"});
    say(writer.take());
    ASSERT_EQ(next().kind, static_cast<std::uint32_t>(Request::Watch));
    say(wire::Writer(last_).take());
  }
  wire::Header next() {
    const auto ready = sys::wait_ready(peer_.get(), POLLIN, Clock::now() + kPatience);
    EXPECT_TRUE(ready && *ready) << "no request came";
    if (!ready || !*ready) return {};
    message_ = sys::receive_message(peer_.get(), wire::kMessageBytesMax).value();
    last_ = wire::Reader(message_.bytes).get<wire::Header>();
    return last_;
  }
  [[nodiscard]] bool asked() const { return *sys::wait_ready(peer_.get(), POLLIN, Clock::now()); }
  std::string asked_about() {
    wire::Reader reader(message_.bytes);
    (void)reader.get<wire::Header>();
    return reader.get_string();
  }
  void say(const wire::Bytes& bytes, std::vector<int> fds = {}) {
    EXPECT_TRUE(sys::send_message(peer_.get(), bytes, fds));
  }
  void answer_status(const wire::Header& header, const std::string& detail) {
    wire::Writer writer(header);
    Status status;
    status.detail = detail;
    wire::write(writer, status);
    say(writer.take());
  }
  void hang_up() { peer_.reset(); }
  void vanish() {
    peer_.reset();
    listener_.reset();
  }

 private:
  UniqueFd listener_;
  UniqueFd peer_;
  sys::Message message_;
  wire::Header last_;
};

class Channel : public testing::Test {
 protected:
  void SetUp() override {
    fake_ = std::make_unique<FakeLauncher>(path_);
    std::jthread greeter([&] { fake_->accept(); });
    LauncherChannel::Watcher watcher;
    watcher.on_ended = [&](const std::string& id, const Status&) { ended_.push_back(id); };
    watcher.on_lost = [&] { ++lost_; };
    watcher.on_back = [&] { ++back_; };
    auto opened = LauncherChannel::open(io_.get_executor(), path_, std::move(watcher));
    ASSERT_TRUE(opened) << opened.error().message;
    channel_ = std::move(*opened);
  }
  void run_until(const std::function<bool()>& holds) {
    const TimePoint deadline = Clock::now() + kPatience;
    while (!holds() && Clock::now() < deadline) {
      io_.restart();
      (void)io_.run_one_for(milliseconds(5));
    }
    EXPECT_TRUE(holds());
  }
  // Starts a question; what it gave stands in the vector when it is answered.
  void ask_status(const std::string& id) {
    asio::co_spawn(io_, status(*channel_, id, answers_), asio::detached);
    io_.restart();
    (void)io_.poll();
  }
  static asio::awaitable<void> status(LauncherChannel& channel, std::string id,
                                      std::vector<Result<Status>>& answers) {
    auto answer = co_await channel.status(std::move(id));
    answers.push_back(std::move(answer));
  }

  sys::TempDir dir_;
  std::string path_ = dir_.path("s");
  std::unique_ptr<FakeLauncher> fake_;
  asio::io_context io_;
  std::vector<std::string> ended_;
  int lost_ = 0;
  int back_ = 0;
  std::vector<Result<Status>> answers_;
  std::unique_ptr<LauncherChannel> channel_;
};

TEST_F(Channel, AnswersFindTheirQuestionsInAnyOrder) {
  ask_status("first");
  ask_status("second");
  const wire::Header first = fake_->next();
  EXPECT_EQ(fake_->asked_about(), "first");
  const wire::Header second = fake_->next();
  EXPECT_NE(first.sequence, second.sequence);
  fake_->answer_status(second, "of the second");
  run_until([&] { return answers_.size() == 1; });
  fake_->answer_status(first, "of the first");
  run_until([&] { return answers_.size() == 2; });
  EXPECT_EQ(answers_[0]->detail, "of the second");
  EXPECT_EQ(answers_[1]->detail, "of the first");
}

TEST_F(Channel, ErrorsOfTheLauncherAreTheCallers) {
  ask_status("x");
  wire::Header header = fake_->next();
  header.failed = 1;
  wire::Writer writer(header);
  wire::write(writer, Error{Errc::Denied, "no", 13, "folders"});
  fake_->say(writer.take());
  run_until([&] { return answers_.size() == 1; });
  EXPECT_EQ(answers_[0].error(), (Error{Errc::Denied, "no", 13, "folders"}));
}

TEST_F(Channel, EndsAreHeardWithoutAQuestion) {
  auto writer = wire::begin(Request::Ended);
  wire::write(writer, wire::EndedNote{"gone", {}});
  fake_->say(writer.take());
  run_until([&] { return ended_.size() == 1; });
  EXPECT_EQ(ended_.front(), "gone");
  EXPECT_TRUE(channel_->connected());
}

TEST_F(Channel, EverybodyWhoWaitsIsAnsweredWhenTheWorkerDies) {
  ask_status("a");
  ask_status("b");
  (void)fake_->next();
  fake_->hang_up();
  run_until([&] { return answers_.size() == 2; });
  for (const auto& answer : answers_) {
    EXPECT_EQ(answer.error().code, Errc::LauncherGone);
    EXPECT_NE(answer.error().message.find("sandboxes"), std::string::npos);
  }
  EXPECT_EQ(lost_, 1);
  EXPECT_FALSE(channel_->connected());
  ask_status("c");
  run_until([&] { return answers_.size() == 3; });
  EXPECT_EQ(answers_[2].error().code, Errc::LauncherGone);
  // The keeper's socket is still there: the next worker answers on it.
  std::jthread greeter([&] { fake_->accept(); });
  run_until([&] { return back_ == 1; });
  greeter.join();
  EXPECT_TRUE(channel_->connected());
  ask_status("d");
  fake_->answer_status(fake_->next(), "again");
  run_until([&] { return answers_.size() == 4; });
  EXPECT_EQ(answers_[3]->detail, "again");
  EXPECT_EQ(lost_, 1);
}

TEST_F(Channel, AKeeperThatIsGoneAndBackIsFoundAgain) {
  fake_->vanish();
  run_until([&] { return lost_ == 1; });
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  fake_ = std::make_unique<FakeLauncher>(path_);
  std::jthread greeter([&] { fake_->accept(); });
  run_until([&] { return back_ == 1; });
}

// What does not belong to any question, or not in that form, ends the connection and nothing else.
TEST_F(Channel, BytesThatAreNotInTheProtocolEndTheConnection) {
  ask_status("a");
  wire::Header header = fake_->next();
  header.sequence += 100;
  fake_->answer_status(header, "for nobody");
  run_until([&] { return lost_ == 1; });
  run_until([&] { return answers_.size() == 1; });
  EXPECT_EQ(answers_[0].error().code, Errc::LauncherGone);
  for (const wire::Bytes& bytes :
       {wire::Bytes(3), wire::begin(Request::Ended).put(std::uint32_t{99}).take(),
        wire::begin(Request::Status, 5).take()}) {
    std::jthread greeter([&] { fake_->accept(); });
    const int before = lost_;
    run_until([&] { return channel_->connected(); });
    greeter.join();
    fake_->say(bytes);
    run_until([&] { return lost_ == before + 1; });
  }
}

asio::awaitable<void> join_and_socket(LauncherChannel& channel, std::vector<Errc>& errors,
                                      std::vector<UniqueFd>& got) {
  auto joined = co_await channel.join("x");
  if (joined) {
    got.push_back(std::move(joined->stream));
  } else {
    errors.push_back(joined.error().code);
  }
}

TEST_F(Channel, DescriptorsComeWithTheirAnswerOrTheAnswerIsWrong) {
  std::vector<Errc> errors;
  std::vector<UniqueFd> got;
  for (const bool with_descriptor : {true, false}) {
    asio::co_spawn(io_, join_and_socket(*channel_, errors, got), asio::detached);
    io_.restart();
    (void)io_.poll();
    const wire::Header header = fake_->next();
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    fake_->say(wire::Writer(header).put(Nonce{}).take(),
               with_descriptor ? std::vector{null.get()} : std::vector<int>{});
    run_until([&] { return errors.size() + got.size() == (with_descriptor ? 1U : 2U); });
  }
  ASSERT_EQ(got.size(), 1U);
  EXPECT_NE(::fcntl(got[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(errors, std::vector{Errc::Protocol});
}

asio::awaitable<void> list_living(LauncherChannel& channel, std::vector<std::string>& ids,
                                  int& done) {
  const auto all = co_await channel.living();
  if (all) {
    for (const Living& one : *all) ids.push_back(one.id);
  }
  done = all ? 1 : 2;
}

TEST_F(Channel, TheLivingAreAskedForPageByPageAndNotForEver) {
  std::vector<std::string> ids;
  int done = 0;
  asio::co_spawn(io_, list_living(*channel_, ids, done), asio::detached);
  for (const char* id : {"a", "b"}) {
    run_until([&] { return fake_->asked(); });
    wire::Writer writer(fake_->next());
    EXPECT_EQ(fake_->asked_about(), *id == 'a' ? "" : "a");
    Living living;
    living.id = id;
    wire::write_page(writer, {living}, *id == 'a');
    fake_->say(writer.take());
  }
  run_until([&] { return done != 0; });
  EXPECT_EQ(done, 1);
  EXPECT_EQ(ids, (std::vector<std::string>{"a", "b"}));
  done = 0;
  asio::co_spawn(io_, list_living(*channel_, ids, done), asio::detached);
  run_until([&] { return fake_->asked(); });
  wire::Writer writer(fake_->next());
  wire::write_page(writer, {}, true);  // nothing, and more of it
  fake_->say(writer.take());
  run_until([&] { return done != 0; });
  EXPECT_EQ(done, 2);
}

asio::awaitable<void> stop(LauncherChannel& channel, int& done) {
  const auto stopped = co_await channel.stop_launcher();
  done = stopped ? 1 : 2;
}

TEST_F(Channel, AnEndThatWasAskedForIsNoLoss) {
  int done = 0;
  asio::co_spawn(io_, stop(*channel_, done), asio::detached);
  io_.restart();
  (void)io_.poll();
  fake_->say(wire::Writer(fake_->next()).take());
  fake_->vanish();
  run_until([&] { return done != 0; });
  EXPECT_EQ(done, 1);
  run_until([&] { return !channel_->connected(); });
  EXPECT_EQ(lost_, 0);
}

TEST_F(Channel, QuestionsBeyondTheMostAreRefusedAndThoseThatWaitGoWithTheChannel) {
  constexpr std::size_t kMost = 8192;
  std::vector<Result<Status>> refused;
  for (std::size_t i = 0; i < kMost + 1; ++i)
    asio::co_spawn(io_, status(*channel_, "x", refused), asio::detached);
  run_until([&] { return refused.size() == 1; });
  EXPECT_EQ(refused[0].error().code, Errc::Exhausted);
  channel_.reset();
  io_.restart();
  (void)io_.poll();
  EXPECT_EQ(refused.size(), 1U);
}

TEST(LauncherChannelOpen, NobodyThereIsLauncherGone) {
  asio::io_context io;
  const sys::TempDir dir;
  const auto opened = LauncherChannel::open(io.get_executor(), dir.path("none"), {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::LauncherGone);
}

}  // namespace
}  // namespace caisson::engine
