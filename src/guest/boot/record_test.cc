#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "guest/boot/boot.h"

namespace caisson::boot {
namespace {

struct Words {
  wire::BootRecord head{};
  std::string tail;

  Words() {
    head.magic = wire::kBootMagic;
    head.version = wire::kBootVersion;
  }
  void add_path(const std::string& path) {
    const auto size = static_cast<uint32_t>(path.size());
    tail.append(reinterpret_cast<const char*>(&size), sizeof(size)).append(path);
  }
  std::vector<uint8_t> bytes() {
    if (head.size == 0) head.size = static_cast<uint32_t>(sizeof(head) + tail.size());
    std::vector<uint8_t> out(sizeof(head) + tail.size());
    std::memcpy(out.data(), &head, sizeof(head));
    std::memcpy(out.data() + sizeof(head), tail.data(), tail.size());
    return out;
  }
  bool parses(Record& out) {
    kept = bytes();
    return parse_record(wire::Bytes{kept.data(), kept.size()}, out);
  }
  bool parses() {
    Record record;
    return parses(record);
  }
  std::vector<uint8_t> kept;
};

TEST(BootRecord, HasEverythingInIt) {
  Words words;
  words.head.hostname_size = 4;
  words.head.trust_size = 2;
  words.head.writable_count = 1;
  words.head.alias_count = 1;
  words.head.flags = wire::kBootWritableRoot;
  words.tail = "boxyPM";
  words.add_path("/data");
  words.add_path("/shown");
  words.add_path("/data");
  Record record;
  ASSERT_TRUE(words.parses(record));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(record.hostname.data), 4), "boxy");
  EXPECT_EQ(record.trust.size, 2U);
  EXPECT_TRUE(record.has(wire::kBootWritableRoot));
  EXPECT_FALSE(record.has(wire::kBootOwnWorkspace));
  EXPECT_EQ(record.writable.size, 9U);
  EXPECT_EQ(record.aliases.size, 19U);
}

TEST(BootRecord, RefusesWhatIsNone) {
  Words words;
  EXPECT_TRUE(words.parses());
  words.head.magic = 1;
  EXPECT_FALSE(words.parses());
  words = {};
  words.head.version = 99;
  EXPECT_FALSE(words.parses());
  words = {};
  words.head.size = 5;
  EXPECT_FALSE(words.parses());
  words = {};
  words.tail = "left over";
  EXPECT_FALSE(words.parses());
  Record record;
  EXPECT_FALSE(parse_record(wire::Bytes{nullptr, 0}, record));
}

TEST(BootRecord, RefusesPathsThatAreNone) {
  for (const std::string& path : {std::string("relative"), std::string("/"), std::string(),
                                  std::string("/a\0b", 4), std::string(5000, '/')}) {
    Words words;
    words.head.writable_count = 1;
    words.add_path(path);
    EXPECT_FALSE(words.parses()) << path;
  }
  Words words;
  words.head.writable_count = wire::kBootPathsMax + 1;
  for (uint32_t i = 0; i <= wire::kBootPathsMax; ++i) words.add_path("/p");
  EXPECT_FALSE(words.parses());
}

TEST(Text, IsCutAtItsEnd) {
  Text text;
  for (int i = 0; i < 1000; ++i) text.add("0123456789").add(static_cast<unsigned long>(i));
  EXPECT_EQ(text.size(), std::strlen(text.get()));
  EXPECT_LT(text.size(), 4400U);
}

}  // namespace
}  // namespace caisson::boot
