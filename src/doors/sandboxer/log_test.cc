#include "doors/sandboxer/log.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "doors/sandboxer/fake_history_test.h"
#include "doors/sandboxer/hub.h"
#include "doors/sandboxer/ledger.h"
#include "doors/sandboxer/main_process.h"

namespace caisson::sandboxer {
namespace {

namespace asio = boost::asio;

class LogTest : public testing::Test {
 protected:
  std::shared_ptr<Log> log(std::uint64_t offset = 0) {
    store::RunRecord run;
    run.id = "main:x";
    run.sandbox = "log:x";
    return std::make_shared<Log>(io_.get_executor(), history_, run, offset);
  }
  // Until nothing is left to do but to wait for somebody.
  void poll() {
    io_.restart();
    while (io_.poll() > 0) {
    }
  }
  template <class Work>
  void begin(Work work) {
    asio::co_spawn(io_, std::move(work), asio::detached);
    poll();
  }

  asio::io_context io_;
  fake::History history_{io_};
};

TEST_F(LogTest, AFullDiskHoldsUpNobody) {
  history_.full = true;
  const auto one = log();
  auto work = [one]() -> awaitable<void> {
    co_await one->append("lost");
    co_await one->finish(0);
  };
  fake::run(io_, work);
  EXPECT_TRUE(one->ended());
  EXPECT_EQ(one->lost(), 4U);
  EXPECT_EQ(history_.text(), "");
}

TEST_F(LogTest, ASlowDiskHoldsUpOnlyBeyondTheBound) {
  history_.stuck = true;
  const auto one = log();
  int written = 0;
  auto work = [one, &written]() -> awaitable<void> {
    for (int i = 0; i < 40; ++i) {
      co_await one->append(std::string(kPieceBytesMax, 'x'));
      ++written;
    }
  };
  begin(work);
  const auto bound = static_cast<int>(kLogWaitingMax / kPieceBytesMax);
  EXPECT_GE(written, bound);
  EXPECT_LE(written, bound + 3);
  history_.go_on();
  auto finish = [one]() -> awaitable<void> { co_await one->finish(0); };
  fake::run(io_, finish);
  EXPECT_EQ(written, 40);
  EXPECT_EQ(history_.text().size(), 40 * kPieceBytesMax);
}

// Whoever asks for the log of a program that talks for ever is answered all the same.
TEST_F(LogTest, AFlushDoesNotWaitForWhatComesLater) {
  const auto one = log();
  bool flushed = false;
  bool stop = false;
  auto talk = [&, one]() -> awaitable<void> {
    while (!stop) {
      co_await one->append(std::string(kPieceBytesMax, 'x'));
      co_await asio::post(io_, asio::use_awaitable);
    }
  };
  auto ask = [&, one]() -> awaitable<void> {
    co_await one->append("first");
    co_await one->flush();
    EXPECT_GE(one->settled(), 5U);
    flushed = true;
    stop = true;
  };
  asio::co_spawn(io_, talk, asio::detached);
  asio::co_spawn(io_, ask, asio::detached);
  constexpr int kTurnsMax = 10'000;
  for (int i = 0; i < kTurnsMax && !flushed; ++i) io_.run_one();
  EXPECT_TRUE(flushed);
  stop = true;
  io_.run();
}

TEST_F(LogTest, APageOfALogIsAShortOne) {
  for (std::int64_t i = 1; i <= 8; ++i) {
    store::RunPiece piece;
    piece.run = "main:x";
    piece.id = i;
    piece.content = std::string(kPieceBytesMax, 'x');
    history_.all_pieces.push_back(piece);
  }
  LogReader reader(history_, "main:x");
  std::size_t bytes = 0;
  auto work = [&]() -> awaitable<void> { bytes = (co_await reader.next()).value().size(); };
  fake::run(io_, work);
  EXPECT_EQ(bytes, kLogReadBytes);
}

TEST_F(LogTest, WhatIsSaidIsKeptWithItsPlace) {
  const auto one = log(100);
  auto work = [one]() -> awaitable<void> {
    co_await one->append("a\xE2\x82");
    co_await one->flush();
    co_await one->append("\xAC\xFF");
    co_await one->finish(3);
  };
  fake::run(io_, work);
  ASSERT_EQ(history_.all_pieces.size(), 2U);
  EXPECT_EQ(history_.all_pieces[0].content, "a");
  EXPECT_EQ(history_.all_pieces[0].offset, 101);
  EXPECT_EQ(history_.all_pieces[1].content, "€\uFFFD");
  EXPECT_EQ(history_.all_pieces[1].offset, 105);
  EXPECT_EQ(history_.all_runs["main:x"].exit_code, 3);
  EXPECT_EQ(one->offset(), 105U);
}

TEST_F(LogTest, ManyLinesOfAMomentAreOnePiece) {
  const auto one = log();
  auto work = [one]() -> awaitable<void> {
    for (int i = 0; i < 100; ++i) co_await one->append("line\n");
    co_await one->flush();
  };
  fake::run(io_, work);
  EXPECT_EQ(history_.all_pieces.size(), 1U);
}

TEST_F(LogTest, ALongLogIsTrimmedNowAndThen) {
  const auto one = log();
  auto work = [one]() -> awaitable<void> {
    for (std::int64_t i = 0; i < 3 * kTrimEveryBytes; i += kPieceBytesMax)
      co_await one->append(std::string(kPieceBytesMax, 'x'));
    co_await one->finish(0);
  };
  fake::run(io_, work);
  ASSERT_GE(history_.trims.size(), 2U);
  EXPECT_LE(history_.trims.size(), 3U);
  EXPECT_EQ(history_.trims[0].keep_bytes, kLogBytesMax);
}

TEST_F(LogTest, AReaderPagesThroughAll) {
  for (std::size_t i = 0; i < 3 * kPiecesPerRead; ++i) {
    store::RunPiece piece;
    piece.run = i % 2 == 0 ? "main:x" : "other";
    piece.id = static_cast<std::int64_t>(i) + 1;
    piece.content = "ab";
    piece.offset = static_cast<std::int64_t>(i);
    history_.all_pieces.push_back(piece);
  }
  std::string text;
  LogReader reader(history_, "main:x");
  auto work = [&]() -> awaitable<void> {
    for (;;) {
      const auto more = co_await reader.next();
      if (!more || more->empty()) break;
      text += *more;
    }
  };
  fake::run(io_, work);
  EXPECT_EQ(text.size(), 3 * kPiecesPerRead);
  EXPECT_EQ(reader.offset(), static_cast<std::int64_t>(3 * kPiecesPerRead) - 2);
}

TEST_F(LogTest, TheLedgerKeepsTheOrderAndTheReaderWaits) {
  history_.stuck = true;
  const auto ledger = std::make_shared<Ledger>(io_.get_executor(), history_);
  bool settled = false;
  auto work = [&]() -> awaitable<void> {
    for (const auto* id : {"1", "2", "3"}) {
      store::RunRecord run;
      run.id = id;
      co_await ledger->put("box", run, {});
    }
    co_await ledger->settle("other");
    co_await ledger->settle("box");
    settled = true;
  };
  begin(work);
  EXPECT_FALSE(settled);
  EXPECT_TRUE(history_.order.empty());
  history_.go_on();
  io_.restart();
  io_.run();
  EXPECT_TRUE(settled);
  EXPECT_EQ(history_.order, (std::vector<std::string>{"run 1", "run 2", "run 3"}));
}

TEST_F(LogTest, TheNewestOfARowIsWritten) {
  const auto ledger = std::make_shared<Ledger>(io_.get_executor(), history_);
  ledger->put_listing({"t", "id", 1, "old"});
  ledger->put_listing({"t", "id", 1, "new"});
  ledger->hurry();
  io_.run();
  EXPECT_EQ(history_.kept["id"].spec, "new");
  ledger->put_listing({"t", "id", 1, "late"});
  ledger->drop_listing("id");
  ledger->hurry();
  io_.restart();
  io_.run();
  EXPECT_EQ(history_.kept["id"].spec, "new");
  EXPECT_EQ(ledger->failures(), 0U);
}

TEST_F(LogTest, TheLedgerIsNotWithoutABound) {
  history_.stuck = true;
  const auto ledger = std::make_shared<Ledger>(io_.get_executor(), history_);
  int told = 0;
  auto work = [&]() -> awaitable<void> {
    for (; told < 40; ++told) {
      store::RunPiece piece;
      piece.content = std::string(1 << 20, 'x');
      std::vector<store::RunPiece> pieces{piece};
      co_await ledger->put("box", std::nullopt, std::move(pieces));
    }
  };
  begin(work);
  EXPECT_LE(told, static_cast<int>(kLedgerBytesMax >> 20U) + 1);
  history_.go_on();
  io_.restart();
  io_.run();
  EXPECT_EQ(told, 40);
  EXPECT_EQ(history_.all_pieces.size(), 40U);
}

TEST_F(LogTest, WhoDoesNotReadLosesEverythingAndIsTold) {
  Mailbox box(io_.get_executor(), 10);
  box.put("12345");
  box.put("1234567");
  EXPECT_TRUE(box.lost());
  std::optional<std::string> got = "x";
  auto work = [&]() -> awaitable<void> { got = co_await box.next(); };
  fake::run(io_, work);
  EXPECT_FALSE(got);
}

TEST_F(LogTest, AReaderWhoReadsIsWaitedForAndOneWhoDoesNotIsNot) {
  Mailbox reads(io_.get_executor(), 10);
  Mailbox sleeps(io_.get_executor(), 10);
  std::string seen;
  auto reader = [&]() -> awaitable<void> {
    while (auto text = co_await reads.next()) seen += *text;
  };
  auto writer = [&]() -> awaitable<void> {
    for (int i = 0; i < 20; ++i) {
      co_await reads.offer("12345678", milliseconds(10'000));
      co_await sleeps.offer("12345678", milliseconds(1));
    }
    reads.close();
  };
  asio::co_spawn(io_, reader, asio::detached);
  fake::run(io_, writer);
  EXPECT_EQ(seen.size(), 160U);
  EXPECT_FALSE(reads.lost());
  EXPECT_TRUE(sleeps.lost());
}

TEST_F(LogTest, WhatHasComeIsReadAtOnce) {
  Mailbox box(io_.get_executor(), 100);
  std::vector<std::string> got;
  auto work = [&]() -> awaitable<void> {
    while (auto text = co_await box.next()) got.push_back(*std::move(text));
  };
  box.put("a");
  box.put("b");
  begin(work);
  box.put("c");
  poll();
  box.close();
  poll();
  EXPECT_EQ(got, (std::vector<std::string>{"ab", "c"}));
}

TEST_F(LogTest, EventsGoToTheirTenantOnly) {
  Hub hub(io_.get_executor());
  const auto mine = hub.listen("me");
  const auto other = hub.listen("other");
  hub.tell("me", "container_started", "abc", boost::json::object(), 1'500'000);
  hub.tell("me", "sandbox_paused", "abc", std::nullopt, 2'000'000);
  hub.close();
  std::string seen;
  std::string foreign;
  auto work = [&]() -> awaitable<void> {
    while (auto text = co_await mine->next()) seen += *text;
    while (auto text = co_await other->next()) foreign += *text;
  };
  fake::run(io_, work);
  EXPECT_EQ(seen,
            "data: {\"type\":\"container_started\",\"container_id\":\"abc\",\"data\":{},"
            "\"timestamp\":1.5}\n\n"
            "data: {\"type\":\"sandbox_paused\",\"container_id\":\"abc\",\"timestamp\":2.0}\n\n");
  EXPECT_EQ(foreign, "");
}

TEST_F(LogTest, OnlySoManyLookOn) {
  MainProcess main(io_.get_executor(), nullptr);
  std::vector<std::shared_ptr<Mailbox>> viewers;
  for (std::size_t i = 0; i < kViewersMax; ++i) viewers.push_back(main.look_on());
  EXPECT_NE(viewers.back(), nullptr);
  EXPECT_EQ(main.look_on(), nullptr);
  viewers.pop_back();
  EXPECT_NE(main.look_on(), nullptr);
}

}  // namespace
}  // namespace caisson::sandboxer
