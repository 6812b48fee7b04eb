#include "http/chunk_decoder.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <string>

namespace caisson::http {
namespace {

// The body, fed in pieces of `step` bytes; nothing when refused or not ended.
std::optional<std::string> decode(std::string_view bytes, std::size_t step = 1000000) {
  ChunkDecoder decoder;
  std::string body;
  std::array<std::byte, 7> out{};
  while (!decoder.done()) {
    auto got = decoder.decode(bytes.substr(0, step), out);
    if (!got) return std::nullopt;
    if (got->consumed == 0 && got->produced == 0) return std::nullopt;
    body.append(reinterpret_cast<const char*>(out.data()), got->produced);
    bytes.remove_prefix(got->consumed);
  }
  return body;
}

TEST(ChunkDecoder, MalformedIsRefused) {
  const std::string_view table[] = {
      "\r\n\r\n",
      "x\r\n",
      "-1\r\n",
      "0x1\r\na\r\n",
      " 1\r\na\r\n",
      "1 \r\na\r\n0\r\n\r\n",
      "1\na\r\n0\r\n\r\n",
      "1\r\nab\r\n",
      "1\r\na\n0\r\n\r\n",
      "1\r\na\r0\r\n\r\n",
      "1\rxa",
      "1;a\nb\r\na\r\n0\r\n\r\n",
      "0\r\n\n",
      "0\r\n x\r\n\r\n",
      "0\r\nA: b\n\r\n",
      "0\r\nA: b\r\r\n\r\n",
      "1000000000000000\r\n",
      "0\r\n\rx",
  };
  for (const auto row : table) EXPECT_FALSE(decode(row)) << row;
}

TEST(ChunkDecoder, AnyPiecesGiveTheSameBody) {
  const std::string bytes = "5\r\nhello\r\nA;ext=\"q\"\r\n0123456789\r\n000\r\nT: v\r\n\r\nnext";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    EXPECT_EQ(decode(bytes, step), "hello0123456789") << step;
  }
}

TEST(ChunkDecoder, LimitsAreReached) {
  EXPECT_TRUE(decode("1;" + std::string(kChunkLineBytesMax - 3, 'x') + "\r\na\r\n0\r\n\r\n"));
  EXPECT_FALSE(decode("1;" + std::string(kChunkLineBytesMax, 'x') + "\r\na\r\n0\r\n\r\n"));
  EXPECT_TRUE(decode("0\r\nT: " + std::string(kTrailerBytesMax - 20, 'x') + "\r\n\r\n"));
  EXPECT_FALSE(decode("0\r\nT: " + std::string(kTrailerBytesMax, 'x') + "\r\n\r\n"));
  std::string many;
  for (std::size_t used = 0; used <= kChunkExtensionBytesMax; used += 200) {
    many += "1;" + std::string(200, 'x') + "\r\na\r\n";
  }
  EXPECT_FALSE(decode(many + "0\r\n\r\n"));
}

}  // namespace
}  // namespace caisson::http
