#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "guest/init/tar_format.h"
#include "guest/init/tar_parser.h"

namespace caisson::init {
namespace {

std::string headers(const TarItem& item) {
  std::vector<std::uint8_t> out(kTarHeadersMax);
  const std::size_t size = tar_headers(item, out.data());
  EXPECT_EQ(size % kTarBlock, 0U);
  return {reinterpret_cast<const char*>(out.data()), size};
}

std::string file(const std::string& name, const std::string& content, std::uint32_t ns = 0) {
  std::string out = headers({name.c_str(), "", '0', 0640, 7, 8, content.size(), 1234567890, ns});
  out += content;
  out.resize((out.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return out;
}

struct Parsed {
  std::vector<std::string> names;
  std::vector<TarEntry> entries;
  std::string content;
  std::string error;
  bool ended = false;
};

// Fed in pieces of `step` bytes: the answer must not depend on how the stream was cut.
Parsed parse(const std::string& stream, std::size_t step) {
  Parsed out;
  auto parser = std::make_unique<TarParser>();
  for (std::size_t at = 0; at < stream.size(); at += step) {
    const std::size_t size = std::min(step, stream.size() - at);
    const auto* data = reinterpret_cast<const std::uint8_t*>(stream.data()) + at;
    for (std::size_t done = 0;;) {
      std::size_t used = 0;
      const TarParser::Event event = parser->feed(data + done, size - done, used);
      done += used;
      if (event == TarParser::Event::Entry) {
        out.names.emplace_back(parser->entry().name);
        out.entries.push_back(parser->entry());
      }
      if (event == TarParser::Event::Content) {
        out.content.append(reinterpret_cast<const char*>(parser->content()),
                           parser->content_size());
      }
      if (event == TarParser::Event::End) out.ended = true;
      if (event == TarParser::Event::Bad) {
        out.error = parser->error();
        return out;
      }
      if (event == TarParser::Event::NeedMore) break;
    }
  }
  return out;
}

TEST(Tar, RoundTripHoweverTheStreamIsCut) {
  const std::string long_name = std::string(90, 'a') + "/" + std::string(200, 'b') + "/ü";
  std::string stream = file("short", "hello") + file(long_name, std::string(1000, 'x'), 123456789);
  stream += headers({"link", "/etc/passwd", '2', 0777, 0, 0, 0, 5, 0});
  stream += headers({"folder/", "", '5', 0755, 0, 0, 0, -3, 500000000});
  stream += std::string(1024, '\0');
  for (const std::size_t step : {1UZ, 7UZ, 512UZ, 100000UZ}) {
    const Parsed got = parse(stream, step);
    EXPECT_EQ(got.error, "");
    EXPECT_TRUE(got.ended);
    ASSERT_EQ(got.names, (std::vector<std::string>{"short", long_name, "link", "folder/"}));
    EXPECT_EQ(got.content, "hello" + std::string(1000, 'x'));
    EXPECT_EQ(got.entries[0].mode, 0640U);
    EXPECT_EQ(got.entries[0].mtime_s, 1234567890);
    EXPECT_EQ(got.entries[1].mtime_ns, 123456789U);
    EXPECT_EQ(got.entries[2].type, TarType::Link);
    EXPECT_STREQ(got.entries[2].link, "/etc/passwd");
    EXPECT_EQ(got.entries[3].type, TarType::Folder);
    EXPECT_EQ(got.entries[3].mtime_s, -3);
    EXPECT_EQ(got.entries[3].mtime_ns, 500000000U);
  }
}

TEST(Tar, AFlippedBitBreaksTheChecksum) {
  std::string stream = file("name", "x");
  stream[0] = static_cast<char>(stream[0] ^ 1);
  EXPECT_EQ(parse(stream, 512).error, "a header with a wrong checksum");
}

TEST(Tar, SetuidNeverComesOut) {
  std::string stream = headers({"x", "", '0', 07777, 0, 0, 0, 0, 0});
  EXPECT_EQ(parse(stream, 512).entries.at(0).mode, 0777U);
}

TEST(Tar, AnExtendedHeaderHasALimit) {
  std::string header = headers({"x", "", '0', 0644, 0, 0, TarParser::kExtensionMax + 1, 0, 0});
  header[kTarType] = 'x';
  char sum[8];
  std::snprintf(sum, sizeof(sum), "%06o",
                tar_checksum(reinterpret_cast<const std::uint8_t*>(header.data())));
  std::memcpy(header.data() + kTarChecksum.at, sum, 7);
  EXPECT_EQ(parse(header, 512).error, "an extended header that is too long");
}

TEST(Tar, NamesThatLeaveTheTargetAreRefused) {
  char out[wire::kPathMax + 1];
  for (const char* bad : {"/etc/passwd", "..", "a/../b", "../x", "a/..", ""}) {
    EXPECT_FALSE(tar_safe_name(bad, out)) << bad;
  }
  EXPECT_TRUE(tar_safe_name("./a//b/./c/", out));
  EXPECT_STREQ(out, "a/b/c");
  EXPECT_TRUE(tar_safe_name("./", out));
  EXPECT_STREQ(out, "");
  EXPECT_TRUE(tar_safe_name("..a/b..", out));
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "d/";
  EXPECT_FALSE(tar_safe_name(deep.c_str(), out));
}

}  // namespace
}  // namespace caisson::init
