#include "control/guest_path.h"

#include <gtest/gtest.h>

namespace caisson::control {
namespace {

Errc refusal(std::string_view text) {
  const auto path = guest_path(text, "/workspace", "path");
  EXPECT_FALSE(path) << text << " became " << *path;
  if (path) return Errc::Internal;
  EXPECT_EQ(path.error().field, "path");
  return path.error().code;
}

TEST(GuestPath, NoPathClimbsOut) {
  for (const std::string_view text :
       {"..", "../etc/passwd", "a/../../b", "/..", "/../etc", "/a/../../b", "./../x",
        "a/b/../../../c", "a/../b", "a/..", "/a/../b", "/workspace/.."}) {
    EXPECT_EQ(refusal(text), Errc::Denied) << text;
  }
}

TEST(GuestPath, BytesThatAreNoPathAreRefused) {
  EXPECT_EQ(refusal(""), Errc::InvalidArgument);
  EXPECT_EQ(refusal(std::string_view("a\0b", 3)), Errc::InvalidArgument);
  EXPECT_EQ(refusal("a\nb"), Errc::InvalidArgument);
  EXPECT_EQ(refusal("a\x7f"), Errc::InvalidArgument);
  EXPECT_EQ(refusal(std::string(kPathBytesMax + 1, 'a')), Errc::InvalidArgument);
  EXPECT_EQ(refusal(std::string(256, 'a')), Errc::InvalidArgument);
}

TEST(GuestPath, OneSpelling) {
  const auto path = [](std::string_view text) { return *guest_path(text, "/workspace", "path"); };
  EXPECT_EQ(path("a"), "/workspace/a");
  EXPECT_EQ(path("."), "/workspace");
  EXPECT_EQ(path("a//b/./c/"), "/workspace/a/b/c");
  EXPECT_EQ(path("/"), "/");
  EXPECT_EQ(path("//etc///passwd"), "/etc/passwd");
  EXPECT_EQ(path("..a"), "/workspace/..a");
  EXPECT_EQ(*guest_path("a", "/", "path"), "/a");
}

}  // namespace
}  // namespace caisson::control
