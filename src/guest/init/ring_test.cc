#include "guest/init/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace caisson::init {
namespace {

// Writes all of it, as a reader of a pipe would, overwriting whatever is older.
void write_all(Ring& ring, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    Span spans[2];
    const int count = ring.writable(ring.end(), spans);
    ASSERT_GT(count, 0);
    std::size_t wrote = 0;
    for (int i = 0; i < count && done < text.size(); ++i) {
      const std::size_t part = std::min(spans[i].size, text.size() - done);
      std::copy_n(text.begin() + static_cast<std::ptrdiff_t>(done), part, spans[i].data);
      done += part;
      wrote += part;
    }
    ring.wrote(wrote);
  }
}

std::string read_all(const Ring& ring, std::uint64_t from, std::uint64_t* first = nullptr) {
  std::string out;
  std::uint64_t at = from;
  for (Span span = ring.readable(at); span.size != 0; span = ring.readable(at)) {
    if (out.empty() && first != nullptr) *first = at;
    out.append(reinterpret_cast<const char*>(span.data), span.size);
    at += span.size;
  }
  return out;
}

TEST(Ring, KeepsTheNewestBytesOfAStream) {
  Ring ring;
  ring.open(wire::Mode::Stream, 4096);
  const std::string text(10000, 'a');
  write_all(ring, text + "tail");
  EXPECT_EQ(ring.end(), 10004U);
  EXPECT_EQ(ring.begin(), 10004U - 4096U);
  EXPECT_EQ(ring.lost(), 10004U - 4096U);
  std::uint64_t first = 0;
  const std::string got = read_all(ring, 0, &first);
  EXPECT_EQ(first, ring.begin());
  EXPECT_EQ(got, text.substr(10004 - 4096) + "tail");
  ring.close();
}

TEST(Ring, CollectKeepsHeadAndTail) {
  Ring ring;
  ring.open(wire::Mode::Collect, 4096);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += std::to_string(i) + ",";
  write_all(ring, text);
  EXPECT_EQ(ring.begin(), 0U);
  EXPECT_EQ(ring.lost(), text.size() - 4096);
  EXPECT_EQ(read_all(ring, 0), text.substr(0, 2048) + text.substr(text.size() - 2048));
  ring.close();
}

TEST(Ring, CollectLosesNothingThatFits) {
  Ring ring;
  ring.open(wire::Mode::Collect, 4096);
  const std::string text(4096, 'x');
  write_all(ring, text);
  EXPECT_EQ(ring.lost(), 0U);
  EXPECT_EQ(read_all(ring, 0), text);
  ring.close();
}

// A reader is attached: what it has not read stays, and the ring says that it is full.
TEST(Ring, ProtectedBytesAreNotOverwritten) {
  Ring ring;
  ring.open(wire::Mode::Stream, 4096);
  write_all(ring, std::string(4096, 'a'));
  Span spans[2];
  EXPECT_EQ(ring.writable(0, spans), 0);
  EXPECT_GT(ring.writable(100, spans), 0);
  EXPECT_EQ(spans[0].size, 100U);
  ring.close();
}

TEST(Ring, BytesThatWereReadAreNotCountedAsLost) {
  Ring ring;
  ring.open(wire::Mode::Stream, 4096);
  write_all(ring, std::string(4096, 'a'));
  ring.consumed(4000);
  write_all(ring, std::string(4096, 'b'));
  EXPECT_EQ(ring.lost(), 96U);
  ring.close();
}

}  // namespace
}  // namespace caisson::init
