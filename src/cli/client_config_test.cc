#include "cli/client_config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sys/temp_dir_test.h"

namespace caisson::cli {
namespace {

using sys::TempDir;

std::string client_file(const TempDir& dir, const std::string& text, unsigned mode = 0600) {
  dir.folder("caisson");
  dir.write("caisson/client.yaml", text);
  EXPECT_EQ(::chmod(dir.path("caisson/client.yaml").c_str(), mode), 0);
  return dir.path("caisson/client.yaml");
}

TEST(ClientFile, OneThatOthersCanReadIsRefused) {
  const TempDir dir;
  for (const unsigned mode : {0644U, 0640U, 0604U, 0620U, 0602U}) {
    const auto result = read_client_file(client_file(dir, "token: cais_x\n", mode));
    ASSERT_FALSE(result) << mode;
    EXPECT_EQ(result.error().code, Errc::Denied);
    EXPECT_NE(result.error().message.find("chmod 600"), std::string::npos);
  }
}

TEST(ClientFile, OddThingsAreRefused) {
  const TempDir dir;
  EXPECT_FALSE(read_client_file(client_file(dir, "urk: x\n")));
  EXPECT_FALSE(read_client_file(client_file(dir, "- url\n")));
  EXPECT_FALSE(read_client_file(client_file(dir, "token: [a]\n")));
  EXPECT_FALSE(read_client_file(client_file(dir, "url: a\nurl: b\n")));
  EXPECT_FALSE(read_client_file(dir.path()));  // a folder
  EXPECT_EQ(::mkfifo(dir.path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(read_client_file(dir.path("fifo")));
}

TEST(Endpoint, FlagsThenEnvironmentThenFileThenThisMachine) {
  const TempDir dir;
  EXPECT_EQ(*find_endpoint({}), (Endpoint{std::string(kDefaultUrl), ""}));
  EndpointSources sources;
  sources.config_folder = dir.path();
  EXPECT_EQ(*find_endpoint(sources), (Endpoint{std::string(kDefaultUrl), ""}));
  client_file(dir, "url: http://file:1/\ntoken: t-file\n");
  EXPECT_EQ(*find_endpoint(sources), (Endpoint{"http://file:1", "t-file"}));
  sources.env_token = "t-env";
  EXPECT_EQ(*find_endpoint(sources), (Endpoint{"http://file:1", "t-env"}));
  sources.env_url = "http://env:2";
  sources.flag_token = "t-flag";
  EXPECT_EQ(*find_endpoint(sources), (Endpoint{"http://env:2", "t-flag"}));
  sources.flag_url = "unix:/x";
  EXPECT_EQ(find_endpoint(sources)->url, "unix:/x");
}

// Somebody who can make us use another URL must not get the token of the file with it.
TEST(Endpoint, ATokenDoesNotFollowToAnotherServer) {
  const TempDir dir;
  client_file(dir, "url: http://file:1\ntoken: secret\n");
  EndpointSources sources;
  sources.config_folder = dir.path();
  sources.env_url = "http://elsewhere:2";
  EXPECT_EQ(*find_endpoint(sources), (Endpoint{"http://elsewhere:2", ""}));
  sources.env_url = "http://file:1";
  EXPECT_EQ(find_endpoint(sources)->token, "secret");
  client_file(dir, "token: secret\n");
  sources.env_url = "";
  EXPECT_EQ(*find_endpoint(sources), (Endpoint{std::string(kDefaultUrl), "secret"}));
}

TEST(Endpoint, NothingThatWouldBreakARequestHead) {
  EndpointSources sources;
  for (const char* token : {"a\r\nX: y", "a b", "\x01", "ü"}) {
    sources.flag_token = token;
    EXPECT_FALSE(find_endpoint(sources)) << token;
  }
  sources.flag_token = std::string(kTokenBytesMax, 'a');
  EXPECT_TRUE(find_endpoint(sources));
  sources.flag_token += 'a';
  EXPECT_FALSE(find_endpoint(sources));
  sources.flag_token.clear();
  sources.flag_url = "http://a" + std::string(kUrlBytesMax, 'a');
  EXPECT_FALSE(find_endpoint(sources));
}

}  // namespace
}  // namespace caisson::cli
