#include "cli/serve.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>

#include "cli/serve_sockets.h"
#include "sys/temp_dir_test.h"

namespace caisson::cli {
namespace {

ServeOptions resolved(const ServeFlags& flags, const std::string& config = "",
                      const std::vector<std::string>& environment = {}) {
  auto options = resolve(flags, config, environment);
  EXPECT_TRUE(options) << options.error().message;
  return options.value_or(ServeOptions{});
}

std::vector<std::string> addresses(const ServeOptions& options) {
  std::vector<std::string> texts;
  for (const auto& address : options.settings.server.listen) texts.push_back(to_string(address));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Serve, OthersAreReachedOnlyThroughAProxyAndNeverWithoutTokens) {
  ServeFlags flags;
  flags.settings.listen = {"0.0.0.0:8080"};
  auto refused = resolve(flags, "", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::InvalidArgument);
  EXPECT_NE(refused.error().message.find("proxy"), std::string::npos) << "the remedy";
  flags.settings.behind_tls_proxy = true;
  EXPECT_TRUE(resolve(flags, "", {}));
  flags.settings.open = true;
  EXPECT_FALSE(resolve(flags, "", {}));
  flags.settings.listen = {"127.0.0.1:0", "unix:/run/x.sock", "[::1]:0"};
  flags.settings.behind_tls_proxy = false;
  EXPECT_TRUE(resolve(flags, "", {}));
}

TEST(Serve, FlagsAreHeardBeforeTheEnvironmentAndThatBeforeTheFile) {
  const std::string file = "server:\n  listen: ['127.0.0.1:1']\n  state_dir: /file\n";
  ServeFlags flags;
  EXPECT_EQ(addresses(resolved(flags)), Texts{"127.0.0.1:8080"});
  EXPECT_EQ(addresses(resolved(flags, file)), Texts{"127.0.0.1:1"});
  EXPECT_EQ(resolved(flags, file).settings.server.state_dir, "/file");
  const Texts environment{"CAISSON_SERVER_LISTEN=127.0.0.1:2,127.0.0.1:3",
                          "CAISSON_STATE_DIR=/environment"};
  EXPECT_EQ(addresses(resolved(flags, file, environment)), (Texts{"127.0.0.1:2", "127.0.0.1:3"}));
  EXPECT_EQ(resolved(flags, file, environment).settings.server.state_dir, "/environment");
  flags.settings.listen = {"127.0.0.1:4"};
  flags.settings.state_dir = "/flag";
  EXPECT_EQ(addresses(resolved(flags, file, environment)), Texts{"127.0.0.1:4"});
  EXPECT_EQ(resolved(flags, file, environment).settings.server.state_dir, "/flag");
  flags.settings.state_dir = "relative";
  EXPECT_FALSE(resolve(flags, file, environment));
}

TEST(Serve, TheServerIsNeverRoot) {
  const std::string passwd =
      "root:x:0:0:root:/root:/bin/sh\ncaisson:x:123:124::/:/bin/false\nbroken:x\nodd:x:z:1:\n";
  EXPECT_EQ(server_identity("caisson", passwd)->uid, 123U);
  EXPECT_EQ(server_identity("caisson", passwd)->gid, 124U);
  EXPECT_EQ(server_identity("caisson", "root:x:0:0:::\n")->uid, kNobodysId);
  EXPECT_EQ(server_identity("caisson", "")->gid, kNobodysId);
  EXPECT_FALSE(server_identity("root", passwd));
  EXPECT_FALSE(server_identity("nosuch", passwd));
  EXPECT_FALSE(server_identity("odd", passwd));
  EXPECT_FALSE(server_identity("broken", passwd));
}

TEST(Serve, HandedDescriptorsAreForTheProcessTheyWereMeantFor) {
  EXPECT_TRUE(handed_descriptors({}, 7)->empty());
  const Texts other{"LISTEN_PID=8", "LISTEN_FDS=2"};
  EXPECT_TRUE(handed_descriptors(other, 7)->empty());
  const Texts ours{"LISTEN_PID=7", "LISTEN_FDS=2"};
  EXPECT_EQ(*handed_descriptors(ours, 7), (std::vector<int>{3, 4}));
  for (const char* count : {"-1", "65", "many", ""}) {
    const Texts wrong{"LISTEN_PID=7", std::string("LISTEN_FDS=") + count};
    EXPECT_FALSE(handed_descriptors(wrong, 7)) << count;
  }
}

TEST(Serve, WhatWasTypedIsHandedThroughUnchanged) {
  ServeFlags flags;
  flags.settings.state_dir = "/s";
  flags.settings.open = true;
  flags.settings.log_level = "debug";
  flags.settings.log_format = "json";
  flags.drain_seconds = 2.5;
  const auto words = server_arguments(resolved(flags), {{8, 9}, 7, "/s/run/launcher.sock", {10}});
  EXPECT_EQ(words, (Texts{"caissond",
                          "--state-dir",
                          "/s",
                          "--launcher-socket",
                          "/s/run/launcher.sock",
                          "--lock-fd",
                          "7",
                          "--listen-fd",
                          "8",
                          "--listen-fd",
                          "9",
                          "--grpc-listen-fd",
                          "10",
                          "--drain",
                          "2.5",
                          "--log-level",
                          "debug",
                          "--log-format",
                          "json",
                          "--open"}));
}

TEST(ServeSockets, PortsArePickedAndNamesAreTaken) {
  const ServerIdentity us{::geteuid(), ::getegid()};
  for (const char* text : {"127.0.0.1:0", "[::1]:0"}) {
    const auto address = policy::parse_listen_address(text);
    ASSERT_TRUE(address);
    const auto socket = listen_on(*address, us);
    ASSERT_TRUE(socket) << socket.error().message;
    const auto bound = address_of(socket->get());
    ASSERT_TRUE(bound);
    EXPECT_NE(bound->port, 0);
    EXPECT_TRUE(bound->is_local());
    EXPECT_NE(::fcntl(socket->get(), F_GETFD) & FD_CLOEXEC, 0);
    // Taken is an error that says where.
    const auto again = listen_on(*bound, us);
    ASSERT_FALSE(again);
    EXPECT_NE(again.error().message.find(to_string(*bound)), std::string::npos);
  }
}

TEST(ServeSockets, ADeadServersSocketIsReplacedAndNothingElse) {
  const ServerIdentity us{::geteuid(), ::getegid()};
  const sys::TempDir dir;
  policy::ListenAddress address;
  address.family = policy::ListenAddress::Family::Unix;
  address.host = dir.path("s");
  {
    const auto first = listen_on(address, us);
    ASSERT_TRUE(first) << first.error().message;
    struct stat facts{};
    ASSERT_EQ(::lstat(address.host.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777U, 0660U);
    EXPECT_EQ(address_of(first->get())->host, address.host);
    const auto second = listen_on(address, us);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Errc::Busy);
  }
  EXPECT_TRUE(listen_on(address, us));
  dir.write("file", "precious");
  address.host = dir.path("file");
  EXPECT_FALSE(listen_on(address, us));
  EXPECT_EQ(dir.read("file"), "precious");
}

TEST(ServeSockets, OnlyListeningSocketsHaveAnAddress) {
  const UniqueFd idle(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_FALSE(address_of(idle.get()));
  EXPECT_FALSE(address_of(9999));
}

}  // namespace
}  // namespace caisson::cli
