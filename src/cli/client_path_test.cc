#include "cli/client_path.h"

#include <gtest/gtest.h>

namespace caisson::cli {
namespace {

TEST(Place, AColonBeforeTheFirstSlashNamesASandbox) {
  EXPECT_EQ(*parse_place("a.txt"), (Place{std::nullopt, "a.txt"}));
  EXPECT_EQ(*parse_place("./a:b"), (Place{std::nullopt, "./a:b"}));
  EXPECT_EQ(*parse_place("/x/a:b"), (Place{std::nullopt, "/x/a:b"}));
  EXPECT_EQ(*parse_place("box:"), (Place{"box", "."}));
  EXPECT_EQ(*parse_place("box:a/b:c"), (Place{"box", "a/b:c"}));
  EXPECT_EQ(*parse_place("box:/etc"), (Place{"box", "/etc"}));
  for (const std::string_view text :
       {std::string_view(""), std::string_view(":a"), std::string_view("a\0b", 3)})
    EXPECT_FALSE(parse_place(text)) << text;
}

TEST(Paths, BaseNameAndJoin) {
  EXPECT_EQ(base_name("/a/b/"), "b");
  EXPECT_EQ(base_name("b"), "b");
  EXPECT_EQ(base_name("/"), "");
  EXPECT_EQ(base_name("a/.."), "");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(join_path(".", "b"), "b");
}

// What a person typed is one part of an address, never two, and never a query.
TEST(Encode, LeavesNothingThatAnAddressWouldRead) {
  EXPECT_EQ(encode("a/b?c#d e&f=g%\n"), "a%2Fb%3Fc%23d%20e%26f%3Dg%25%0A");
  EXPECT_EQ(encode("ü~"), "%C3%BC~");
  EXPECT_EQ(encode_path("a b/./c//d/"), "a%20b/c/d");
  EXPECT_EQ(encode_path("/etc/host name"), "%2Fetc/host%20name");
  EXPECT_EQ(encode_path("."), "");
  EXPECT_EQ(encode_path("../x"), "../x");  // the server's to refuse
  EXPECT_EQ(file_target("id", "files", "a?b"), "/api/v1/sandboxes/id/files/a%3Fb");
  EXPECT_EQ(sandbox_target("../x"), "/api/v1/sandboxes/..%2Fx");
}

}  // namespace
}  // namespace caisson::cli
