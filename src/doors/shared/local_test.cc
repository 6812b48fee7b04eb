#include "doors/shared/local.h"

#include <gtest/gtest.h>

namespace caisson::doors {
namespace {

http::Request from(std::string address, bool local, std::string host) {
  http::Request request;
  request.peer = {std::move(address), 1, local};
  request.fields = {{"Host", std::move(host)}};
  return request;
}

TEST(Local, IsAPeerOfThisMachineByANameOfThisMachine) {
  for (const char* host :
       {"localhost", "localhost:8080", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:1"})
    EXPECT_TRUE(is_local(from("127.0.0.1", true, host))) << host;
  for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil",
                           "10.0.0.1", "[::1", "[::2]", "[::1]x"})
    EXPECT_FALSE(is_local(from("127.0.0.1", true, host))) << host;
  EXPECT_TRUE(is_local(from("unix", true, "anything")));
  EXPECT_FALSE(is_local(from("10.0.0.1", false, "localhost")));
}

}  // namespace
}  // namespace caisson::doors
