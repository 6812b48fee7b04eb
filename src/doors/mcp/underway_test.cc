#include "doors/mcp/underway.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <vector>

#include "doors/mcp/lines.h"
#include "doors/mcp/seats.h"

namespace caisson::mcp {
namespace {

namespace asio = boost::asio;

TEST(Underway, IsBoundedAndKnowsEachOnce) {
  asio::io_context io;
  Underway underway;
  std::vector<Underway::Ticket> tickets;
  for (std::size_t i = 0; i < kUnderwayMax; ++i) {
    auto ticket = underway.enter(i, io.get_executor());
    ASSERT_TRUE(ticket);
    tickets.push_back(*std::move(ticket));
  }
  EXPECT_EQ(underway.enter("more", io.get_executor()).error().code, Errc::Exhausted);
  tickets.pop_back();
  EXPECT_EQ(underway.enter(0, io.get_executor()).error().code, Errc::InvalidArgument);
  EXPECT_TRUE(underway.enter("0", io.get_executor())) << "a text is not a number";
  tickets.clear();
  EXPECT_EQ(underway.size(), 0U);
}

TEST(Underway, OneIsTakenBackAndNoOther) {
  asio::io_context io;
  Underway underway;
  std::string heard;
  const auto wait = [&](int id) -> asio::awaitable<void> {
    const auto ticket = underway.enter(id, io.get_executor());
    co_await ticket->cancelled();
    heard += std::to_string(id);
  };
  for (const int id : {1, 2}) asio::co_spawn(io, wait(id), asio::detached);
  io.poll();
  underway.cancel(7);
  underway.cancel(2);
  io.poll();
  EXPECT_EQ(heard, "2");
  underway.cancel_all();
  io.poll();
  EXPECT_EQ(heard, "21");
}

TEST(Lines, NotificationsAreDroppedAndAnswersAreNot) {
  asio::io_context io;
  Lines lines(io.get_executor());
  for (std::size_t i = 0; i < kNotificationsMax; ++i) EXPECT_TRUE(lines.notify("n"));
  EXPECT_FALSE(lines.notify("dropped"));
  lines.answer("last");
  lines.close();
  lines.answer("too late");
  std::vector<std::string> got;
  const auto take = [&]() -> asio::awaitable<void> {
    while (auto line = co_await lines.next()) got.push_back(line->text);
  };
  asio::co_spawn(io, take(), asio::detached);
  io.run();
  EXPECT_EQ(got.size(), kNotificationsMax + 1);
  EXPECT_EQ(got.back(), "last");
}

TEST(Lines, WhoReadsWaitsForRoom) {
  asio::io_context io;
  Lines lines(io.get_executor());
  for (std::size_t i = 0; i < kNotificationsMax; ++i) lines.answer("a");
  bool room = false;
  const auto wait = [&]() -> asio::awaitable<void> {
    co_await lines.room();
    room = true;
  };
  asio::co_spawn(io, wait(), asio::detached);
  io.poll();
  EXPECT_FALSE(room);
  const auto take = [&]() -> asio::awaitable<void> { (void)co_await lines.next(); };
  asio::co_spawn(io, take(), asio::detached);
  io.poll();
  EXPECT_TRUE(room);
}

TEST(Seats, AreCountedInAllAndByCaller) {
  Seats seats("sessions", 3, 2);
  auto a = seats.take("a");
  auto b = seats.take("a");
  EXPECT_EQ(seats.take("a").error().code, Errc::Exhausted);
  auto c = seats.take("b");
  EXPECT_EQ(seats.take("c").error().code, Errc::Exhausted);
  EXPECT_EQ(seats.taken(), 3U);
  {
    const auto gone = *std::move(a);
  }
  EXPECT_EQ(seats.taken(), 2U);
  EXPECT_TRUE(seats.take("c"));
}

}  // namespace
}  // namespace caisson::mcp
