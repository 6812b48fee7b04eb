#include "doors/grpc/frame.h"

#include <gtest/gtest.h>

#include <cstring>

namespace caisson::grpc {
namespace {

using namespace std::string_literals;
using Fault = MessageCutter::Fault;

std::string framed(std::string_view message, unsigned char flags = 0) {
  std::string out;
  const std::size_t begun = begin_frame(out);
  out += message;
  end_frame(out, begun, flags);
  return out;
}

TEST(MessageCutter, CutsWhateverThePieces) {
  const std::string body = framed("hello") + framed("") + framed("x");
  for (std::size_t piece = 1; piece <= body.size(); ++piece) {
    MessageCutter cutter(16);
    std::vector<std::string> seen;
    for (std::size_t at = 0; at < body.size(); at += piece) {
      cutter.feed(std::string_view(body).substr(at, piece));
      while (auto message = cutter.next()) seen.push_back(*message);
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"hello", "", "x"})) << piece;
    EXPECT_FALSE(cutter.half());
  }
}

TEST(MessageCutter, TheLimitIsJudgedByTheHeadAlone) {
  MessageCutter fits(5);
  fits.feed(framed("hello"));
  EXPECT_EQ(fits.next(), "hello");
  MessageCutter large(4);
  large.feed("\0\0\0\0\5"s);
  EXPECT_FALSE(large.next());
  EXPECT_EQ(large.fault(), Fault::TooLarge);
  EXPECT_EQ(large.announced(), 5U);
  large.feed("hello");
  EXPECT_FALSE(large.next());
}

TEST(MessageCutter, FlagsThatNobodyOfferedAreFaults) {
  for (const auto& [flags, fault] : {std::pair<unsigned char, Fault>{1, Fault::Compressed},
                                     {2, Fault::Flags},
                                     {0x80, Fault::Flags}}) {
    MessageCutter cutter(16);
    cutter.feed(framed("x", flags));
    EXPECT_FALSE(cutter.next());
    EXPECT_EQ(cutter.fault(), fault);
  }
}

TEST(MessageCutter, HalfAMessageIsHalf) {
  MessageCutter cutter(16);
  EXPECT_FALSE(cutter.half());
  cutter.feed(framed("hello").substr(0, 7));
  EXPECT_FALSE(cutter.next());
  EXPECT_TRUE(cutter.half());
}

// What it gives away it does not keep.
TEST(MessageCutter, HoldsAMessageOnce) {
  constexpr std::size_t kBytes = 1UL << 20U;
  MessageCutter cutter(kBytes);
  const std::string body = framed(std::string(kBytes, 'x'));
  cutter.feed(std::string_view(body).substr(0, 7));
  EXPECT_FALSE(cutter.next());
  EXPECT_EQ(cutter.missing(), kBytes - 2);
  const auto room = cutter.open(kBytes);
  std::memcpy(room.data(), body.data() + 7, kBytes - 2);
  cutter.close(kBytes - 2);
  const auto message = cutter.next();
  ASSERT_TRUE(message);
  EXPECT_EQ(*message, std::string(kBytes, 'x'));
  EXPECT_LT(cutter.held(), 64U);
  EXPECT_FALSE(cutter.half());
  MessageCutter large(4);
  large.feed(framed(std::string(5000, 'x')));
  EXPECT_FALSE(large.next());
  EXPECT_LT(large.held(), 64U) << "nor what nobody wants";
}

TEST(Trailers, StandInAFrameOfTheirOwn) {
  std::string out;
  append_trailer_frame(out, {{"grpc-status", "5"}, {"grpc-message", "a%20b"}});
  EXPECT_EQ(out, "\x80\0\0\0\x25grpc-status: 5\r\ngrpc-message: a%20b\r\n"s);
}

TEST(Percent, OnlyWhatIsPlainStays) {
  EXPECT_EQ(percent_encode("a b%\n\xC3\xA9~"), "a b%25%0A%C3%A9~");
}

TEST(Timeout, HasDigitsAndAUnit) {
  EXPECT_EQ(timeout_microseconds("1H"), 3'600'000'000);
  EXPECT_EQ(timeout_microseconds("2M"), 120'000'000);
  EXPECT_EQ(timeout_microseconds("3S"), 3'000'000);
  EXPECT_EQ(timeout_microseconds("4m"), 4'000);
  EXPECT_EQ(timeout_microseconds("5u"), 5);
  EXPECT_EQ(timeout_microseconds("1n"), 1);
  // More than a clock of nanoseconds can count is cut to what it can.
  EXPECT_EQ(timeout_microseconds("99999999H"), kTimeoutMicrosecondsMax);
  EXPECT_EQ(timeout_microseconds("99999999M"), kTimeoutMicrosecondsMax);
  EXPECT_EQ(timeout_microseconds("99999999S"), 99'999'999'000'000);
  for (const char* wrong : {"", "S", "1", "1s", "-1S", "1.5S", "123456789S", " 1S", "1 S"})
    EXPECT_FALSE(timeout_microseconds(wrong)) << wrong;
}

}  // namespace
}  // namespace caisson::grpc
