#include "engine/microvm/cpio.h"

#include <gtest/gtest.h>

#include <string>

namespace caisson::engine::microvm {
namespace {

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Cpio, IsWhatAKernelUnpacks) {
  CpioWriter out;
  out.add_folder("modules");
  out.add_file("modules/a", "xyz", 0400);
  const std::string text = text_of(std::move(out).finish());
  EXPECT_EQ(text.size() % 4, 0U);
  EXPECT_EQ(text.substr(0, 6), "070701");
  EXPECT_EQ(text.substr(14, 8), "000041ED");  // a folder, 0755
  EXPECT_EQ(text.substr(110, 8), std::string("modules\0", 8));
  const std::size_t second = text.find("070701", 6);
  EXPECT_EQ(second % 4, 0U);
  EXPECT_EQ(text.substr(second + 14, 8), "00008100");  // a file, 0400
  EXPECT_EQ(text.substr(second + 54, 8), "00000003");  // of three bytes
  EXPECT_EQ(text.substr(second + 94, 8), "0000000A");  // a name of nine, and its end
  EXPECT_EQ(text.substr(second + 120, 4), std::string("xyz\0", 4));
  EXPECT_NE(text.find("TRAILER!!!"), std::string::npos);
}

TEST(Cpio, SameFilesGiveTheSameBytes) {
  const auto make = [] {
    CpioWriter out;
    out.add_file("init", "program", 0500);
    return std::move(out).finish();
  };
  EXPECT_EQ(make(), make());
}

}  // namespace
}  // namespace caisson::engine::microvm
