// Searches, packs and told archives of a channel: what a hostile init may send, and what the caller
// gets.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <optional>

#include "base/own_loop_test.h"
#include "engine/channel/fake_guest_test.h"
#include "engine/channel/guest_channel.h"

namespace caisson::engine {
namespace {

namespace asio = boost::asio;
using test::FakeGuest;
using wire::Kind;
using wire::OpKind;

constexpr GuestUser kUser{1000, 1000};

class GuestSearchTest : public testing::Test, protected caisson::test::OwnLoop {
 protected:
  GuestSearchTest() {
    nonce_.fill(std::byte{7});
    auto ends = test::socket_pair();
    guest_ = std::make_shared<FakeGuest>(context_.get_executor(), std::move(ends.theirs), nonce_);
    guest_->on_input = [this](std::uint32_t id, OpKind op, const std::string& input) {
      input_ = input;
      if (answer_) return answer_(id, op);
      guest_->done(Kind::Op, id);
    };
    guest_->begin();
    auto opened =
        run(GuestChannel::open(context_.get_executor(), std::move(ends.ours), nonce_, {}));
    EXPECT_TRUE(opened);
    channel_ = *opened;
  }
  ~GuestSearchTest() override {
    channel_->close(Error{Errc::Gone, "the test is over", 0});
    guest_->close();
  }

  void entry(std::uint32_t id, const std::string& name) {
    wire::EntryBody body{};
    body.type = static_cast<std::uint32_t>(wire::EntryType::File);
    body.ctime_ns = 42;
    body.name_size = static_cast<std::uint32_t>(name.size());
    guest_->say(Kind::Entry, 0, id, body, name);
  }
  void match(std::uint32_t id, std::uint64_t line, const std::string& name,
             const std::string& text) {
    const wire::MatchBody body{line, static_cast<std::uint32_t>(name.size()),
                               static_cast<std::uint32_t>(text.size())};
    guest_->say(Kind::Match, 0, id, body, name + text);
  }
  Result<Matches> grep(std::size_t matches_max = 200) {
    return run(channel_->grep(kUser, "/w", "a|b", "*.py", {".git"}, matches_max));
  }

  Nonce nonce_{};
  std::shared_ptr<FakeGuest> guest_;
  std::shared_ptr<GuestChannel> channel_;
  std::function<void(std::uint32_t, OpKind)> answer_;
  std::string input_;
};

TEST_F(GuestSearchTest, MoreLinesThanWereAskedForAreNotKept) {
  answer_ = [this](std::uint32_t id, OpKind) {
    for (std::uint64_t i = 1; i < 20; ++i) match(id, i, "f", "x");
  };
  const auto matches = grep(5);
  ASSERT_TRUE(matches) << matches.error().message;
  EXPECT_EQ(matches->lines.size(), 5U);
  EXPECT_TRUE(matches->truncated);
  until([&] { return guest_->seen[static_cast<int>(Kind::Cancel)] == 1; });
}

TEST_F(GuestSearchTest, TheLinesOfOneSearchHaveALimit) {
  answer_ = [this](std::uint32_t id, OpKind) {
    const std::string text(wire::kMatchTextMax, 't');
    for (std::size_t sent = 0; sent <= kMatchBytesMax; sent += text.size()) match(id, 1, "f", text);
  };
  const auto matches = grep(1'000'000);
  ASSERT_TRUE(matches) << matches.error().message;
  EXPECT_TRUE(matches->truncated);
  EXPECT_LE(matches->lines.size() * wire::kMatchTextMax, kMatchBytesMax);
}

TEST_F(GuestSearchTest, AFindIsCutAtTheLimitOfAListing) {
  answer_ = [this](std::uint32_t id, OpKind) {
    const std::string name(wire::kPathMax - 1, 'n');
    for (std::size_t sent = 0; sent <= kListBytesMax; sent += name.size()) entry(id, name);
  };
  const auto listing = run(channel_->find(kUser, "/w", "**", {}));
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_TRUE(listing->truncated);
  until([&] { return guest_->seen[static_cast<int>(Kind::Cancel)] == 1; });
}

// What was made beyond the limit is not told, but the archive is unpacked to its end.
TEST_F(GuestSearchTest, ToldEntriesHaveTheLimitOfAListing) {
  answer_ = [this](std::uint32_t id, OpKind) {
    const std::string name(wire::kPathMax - 1, 'n');
    for (std::size_t sent = 0; sent <= kListBytesMax; sent += name.size()) entry(id, name);
    guest_->done(Kind::Op, id, {3, 4});
  };
  auto writer = run(channel_->tar_in(kUser, "/w", {.tell = true}));
  ASSERT_TRUE(writer);
  const auto result = run((*writer)->finish());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->made_truncated);
  EXPECT_LE(result->made.size() * (wire::kPathMax - 1), kListBytesMax);
  EXPECT_EQ(result->entries, 4U);
  EXPECT_EQ(guest_->seen[static_cast<int>(Kind::Cancel)], 0);
}

TEST_F(GuestSearchTest, StringsThatCannotBeSentAreRefusedHere) {
  const std::string nul("a\0b", 3);
  const std::vector<std::string> long_list(2, std::string(wire::kPatternBytesMax / 2, 'p'));
  EXPECT_EQ(run(channel_->find(kUser, "/w", nul, {})).error().code, Errc::InvalidArgument);
  EXPECT_EQ(run(channel_->find(kUser, "/w", "a", long_list)).error().code, Errc::InvalidArgument);
  EXPECT_EQ(run(channel_->grep(kUser, "/w", "a", nul, {}, 1)).error().code, Errc::InvalidArgument);
  EXPECT_EQ(run(channel_->pack(kUser, "/w", {nul})).error().code, Errc::InvalidArgument);
  EXPECT_EQ(guest_->seen[static_cast<int>(Kind::Op)], 0);
}

TEST_F(GuestSearchTest, AGrepIsAskedAndAnswered) {
  answer_ = [this](std::uint32_t id, OpKind op) {
    EXPECT_EQ(op, OpKind::Grep);
    match(id, 3, "a.py", "one");
    match(id, 9, "", "");
    guest_->done(Kind::Op, id, {2, 1});
  };
  const auto matches = grep(7);
  ASSERT_TRUE(matches) << matches.error().message;
  EXPECT_EQ(input_, std::string("a|b\0*.py\0.git\0", 14));
  EXPECT_EQ(guest_->last_op.length, 7U);
  ASSERT_EQ(matches->lines.size(), 2U);
  EXPECT_EQ(matches->lines[0].name, "a.py");
  EXPECT_EQ(matches->lines[0].line, 3U);
  EXPECT_EQ(matches->lines[0].text, "one");
  EXPECT_TRUE(matches->truncated);
  EXPECT_EQ(matches->unreadable, 2U);
}

TEST_F(GuestSearchTest, AFindSendsItsPatternAndWhatToPrune) {
  answer_ = [this](std::uint32_t id, OpKind op) {
    EXPECT_EQ(op, OpKind::Find);
    entry(id, "a/b");
    guest_->done(Kind::Op, id, {0, 1});
  };
  const auto listing = run(channel_->find(kUser, "/w", "**/*.py", {".git", "x*"}));
  ASSERT_TRUE(listing) << listing.error().message;
  EXPECT_EQ(input_, std::string("**/*.py\0.git\0x*\0", 16));
  ASSERT_EQ(listing->entries.size(), 1U);
  EXPECT_EQ(listing->entries[0].name, "a/b");
  EXPECT_EQ(listing->entries[0].ctime_ns, 42);
}

TEST_F(GuestSearchTest, AFailureIsTheCallers) {
  answer_ = [this](std::uint32_t id, OpKind) { guest_->failed(Kind::Op, id, EINVAL); };
  EXPECT_EQ(grep().error().code, Errc::InvalidArgument);
  EXPECT_EQ(grep().error().sys_errno, EINVAL);
  EXPECT_EQ(run(channel_->find(kUser, "/w", "*", {})).error().sys_errno, EINVAL);
}

TEST_F(GuestSearchTest, NamesGoInAndAnArchiveComesOut) {
  std::vector<std::string> names;
  for (int i = 0; i < 30'000; ++i) names.push_back("name-" + std::to_string(i));
  std::string all;
  for (const std::string& name : names) all += name + '\0';
  ASSERT_GT(all.size(), 4UL * wire::kInputWindow);
  answer_ = [this](std::uint32_t id, OpKind) {
    guest_->data(id, 0, "archive");
    guest_->done(Kind::Op, id, {7, 1});
  };
  auto reader = run(channel_->pack(kUser, "/w", names));
  ASSERT_TRUE(reader) << reader.error().message;
  const auto bytes = run((*reader)->next());
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(bytes->size(), 7U);
  EXPECT_TRUE(run((*reader)->next())->empty());
  EXPECT_TRUE(input_ == all);
  EXPECT_EQ(guest_->last_op.flags, wire::kOpOpenUp);
}

TEST_F(GuestSearchTest, APackThatIsRefusedEarlyDoesNotWait) {
  guest_->on_request = [this](const wire::FrameHeader& header, wire::Bytes) {
    if (static_cast<Kind>(header.kind) != Kind::Op) return false;
    guest_->failed(Kind::Op, header.id, ENOENT);
    return true;
  };
  const std::vector<std::string> names(1000, std::string(200, 'n'));  // beyond the window
  EXPECT_EQ(run(channel_->pack(kUser, "/w", names)).error().code, Errc::NotFound);
}

TEST_F(GuestSearchTest, ACallerWhoLeavesCancels) {
  guest_->on_request = [](const wire::FrameHeader& header, wire::Bytes) {
    return static_cast<Kind>(header.kind) == Kind::Data;  // nothing is ever taken
  };
  asio::cancellation_signal cancel;
  bool over = false;
  const std::vector<std::string> names(1000, std::string(200, 'n'));
  asio::co_spawn(
      context_, channel_->pack(kUser, "/w", names),
      asio::bind_cancellation_slot(cancel.slot(), [&](const std::exception_ptr&, const auto& done) {
        EXPECT_FALSE(done);
        over = true;
      }));
  until([&] { return guest_->seen[static_cast<int>(Kind::Data)] != 0; });
  cancel.emit(asio::cancellation_type::terminal);
  until([&] { return over && guest_->seen[static_cast<int>(Kind::Cancel)] == 1; });
}

TEST_F(GuestSearchTest, AScanOpensUpAndAnArchiveWhenAsked) {
  ASSERT_TRUE(run(channel_->scan(kUser, "/w")));
  EXPECT_EQ(guest_->last_op.op, static_cast<std::uint32_t>(OpKind::List));
  EXPECT_EQ(guest_->last_op.flags, wire::kOpRecursive | wire::kOpOpenUp);
  auto writer =
      run(channel_->tar_in(kUser, "/w", {.parents = true, .tell = true, .open_up = true}));
  ASSERT_TRUE(writer);
  ASSERT_TRUE(run((*writer)->finish()));
  EXPECT_EQ(guest_->last_op.flags, wire::kOpParents | wire::kOpTell | wire::kOpOpenUp);
}

}  // namespace
}  // namespace caisson::engine
