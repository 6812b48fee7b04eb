#include "image/config.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "image/challenge.h"
#include "image/credentials.h"

namespace caisson::image {
namespace {

std::string config_text(std::string_view run) {
  return fmt::format(R"({{"os":"linux","architecture":"amd64","config":{{{}}},
      "rootfs":{{"type":"layers","diff_ids":["sha256:{}"]}}}})",
                     run, std::string(64, 'b'));
}

TEST(ImageConfig, IsReadAndWritten) {
  const std::string text = config_text(
      R"("User":"1000:100","WorkingDir":"/srv/../app/","Env":["PATH=/bin","A="],
         "Entrypoint":["/bin/sh","-c"],"Cmd":null,"ExposedPorts":{"80/tcp":{},"5000-5010/udp":{}},
         "Labels":{"a":"b"},"Volumes":{"/data":{}},"StopSignal":"SIGTERM","Unknown":[1])");
  const auto got = parse_config(text);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->user.uid, 1000U);
  EXPECT_EQ(got->user.gid, 100U);
  EXPECT_EQ(got->workdir, "/app");
  EXPECT_EQ(got->env, (std::vector<std::string>{"PATH=/bin", "A="}));
  EXPECT_TRUE(got->cmd.empty());
  ASSERT_EQ(got->ports.size(), 2U);
  EXPECT_EQ(got->ports[1].last, 5010);
  const auto again = parse_config(to_json(*got));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(*got));
}

TEST(ImageConfig, WorkdirStaysInside) {
  EXPECT_EQ(parse_config(config_text(R"("WorkingDir":"../..")"))->workdir, "/");
  EXPECT_EQ(parse_config(config_text(R"("WorkingDir":"app")"))->workdir, "/app");
  EXPECT_FALSE(parse_config(config_text(R"("WorkingDir":"/a\u0000b")")));
  EXPECT_FALSE(parse_config(config_text(R"("WorkingDir":"/a\nb")")));
  const std::string deep(kWorkdirBytesMax, 'a');
  EXPECT_FALSE(parse_config(config_text(fmt::format(R"("WorkingDir":"/{}")", deep))));
}

TEST(ImageConfig, EverythingIsBounded) {
  const auto list = [](std::size_t count, const std::string& each) {
    std::string out;
    for (std::size_t i = 0; i < count; ++i)
      out += fmt::format("{}\"{}{}=x\"", i ? "," : "", each, i);
    return "[" + out + "]";
  };
  const auto refused = [](const std::string& run) { return !parse_config(config_text(run)); };
  EXPECT_FALSE(refused("\"Env\":" + list(kEnvEntriesMax, "A")));
  EXPECT_TRUE(refused("\"Env\":" + list(kEnvEntriesMax + 1, "A")));
  EXPECT_TRUE(refused("\"Env\":" + list(200, std::string(1000, 'A'))));
  EXPECT_TRUE(refused("\"Env\":[\"A=1\",\"A=2\"]"));
  EXPECT_TRUE(refused("\"Env\":[\"=1\"]"));
  EXPECT_TRUE(refused("\"Env\":[\"A\"]"));
  EXPECT_TRUE(refused("\"Env\":[\"A=\\u0000\"]"));
  EXPECT_TRUE(refused("\"Env\":[1]"));
  EXPECT_TRUE(refused("\"Env\":\"A=1\""));
  EXPECT_TRUE(refused("\"Cmd\":" + list(kArgumentsMax + 1, "A")));
  EXPECT_TRUE(refused("\"Entrypoint\":" + list(200, std::string(1000, 'A'))));
  EXPECT_TRUE(refused(R"("ExposedPorts":{"0/tcp":{}})"));
  EXPECT_TRUE(refused(R"("ExposedPorts":{"80/icmp":{}})"));
  EXPECT_TRUE(refused(R"("ExposedPorts":{"20-10":{}})"));
  EXPECT_TRUE(refused(R"("StopSignal":"SIG TERM")"));
  std::string ports, volumes, labels;
  for (std::size_t i = 1; i <= kPortsMax + 1; ++i)
    ports += fmt::format(R"({}"{}":{{}})", i > 1 ? "," : "", i);
  for (std::size_t i = 0; i <= kVolumesMax; ++i)
    volumes += fmt::format(R"({}"/v{}":{{}})", i ? "," : "", i);
  for (std::size_t i = 0; i <= kLabelsMax; ++i)
    labels += fmt::format(R"({}"l{}":"")", i ? "," : "", i);
  EXPECT_TRUE(refused("\"ExposedPorts\":{" + ports + "}"));
  EXPECT_TRUE(refused("\"Volumes\":{" + volumes + "}"));
  EXPECT_TRUE(refused("\"Labels\":{" + labels + "}"));
  EXPECT_TRUE(refused(fmt::format(R"("Labels":{{"a":"{}"}})", std::string(kLabelBytesMax, 'x'))));
  EXPECT_FALSE(parse_config(R"({"rootfs":{"type":"layers","diff_ids":["md5:0"]}})"));
  EXPECT_FALSE(parse_config(R"({"rootfs":{"type":"other","diff_ids":[]}})"));
  EXPECT_FALSE(parse_config("{}"));
}

// A number that does not fit must not wrap to root, nor be looked up as a name.
TEST(User, NumbersAreWholeAndInRange) {
  EXPECT_EQ(parse_user("65534")->uid, 65534U);
  EXPECT_EQ(parse_user("0:0")->gid, 0U);
  for (const char* text : {"65535",        "4294967296",
                           "4294967295",   "99999999999",
                           "-1",           "+1",
                           "1.5",          "0x10",
                           "1e3",          "18446744073709551616",
                           "1:4294967296", "1:99999999999",
                           "12ab",         ":",
                           ":1",           "1:",
                           "a:",           "a b",
                           "a/b",          "root\n",
                           "1:2:3"}) {
    EXPECT_FALSE(parse_user(text)) << text;
  }
  EXPECT_FALSE(parse_user(std::string(kUserNameBytesMax + 1, 'a')));
  EXPECT_TRUE(parse_user("")->empty());
  EXPECT_FALSE(parse_config(config_text(R"("User":"4294967296")")));
}

TEST(User, NamesComeFromTheImagesFiles) {
  const std::string passwd =
      "root:x:0:0:root:/root:/bin/sh\n99999999999:x:0:0::/:\nbig:x:4294967296:0::/:\n"
      "app:x:1000:1001:App:/home/app:/bin/sh\napp:x:0:0::/:\n# c\n:::\nshort:x\n";
  const std::string group =
      "root:x:0:\nwheel:x:10:app,other\nvideo:x:44:other\ntty:x:5:app\nbad:x:70000:app\n";
  const auto resolve = [&](const char* text) {
    return resolve_user(*parse_user(text), passwd, group);
  };
  const auto app = resolve("app");
  ASSERT_TRUE(app) << app.error().message;
  EXPECT_EQ(app->uid, 1000U);
  EXPECT_EQ(app->gid, 1001U);
  EXPECT_EQ(app->groups, (std::vector<std::uint32_t>{10, 5}));
  EXPECT_EQ(app->home, "/home/app");
  EXPECT_EQ(resolve("1000")->name, "app");
  EXPECT_EQ(resolve("1000:7")->gid, 7U);
  EXPECT_TRUE(resolve("1000:7")->groups.empty());
  EXPECT_EQ(resolve("app:wheel")->gid, 10U);
  EXPECT_EQ(resolve("77")->uid, 77U);
  EXPECT_EQ(resolve("77")->gid, 0U);
  EXPECT_EQ(resolve("")->uid, 0U);
  EXPECT_EQ(resolve("big").error().code, Errc::NotFound);
  EXPECT_EQ(resolve("nobody").error().code, Errc::NotFound);
  EXPECT_EQ(resolve("app:bad").error().code, Errc::NotFound);
  EXPECT_FALSE(resolve_user(*parse_user("a"), std::string(kAccountFileBytesMax + 1, '\n'), ""));
  EXPECT_FALSE(resolve_user(*parse_user("a"), std::string(kAccountLinesMax + 1, '\n'), ""));
  std::string groups;
  for (std::size_t i = 0; i <= kGroupsMax; ++i)
    groups += fmt::format("g{}:x:{}:app\n", i, 2000 + i);
  EXPECT_EQ(resolve_user(*parse_user("app"), passwd, groups).error().code, Errc::TooLarge);
}

TEST(Credentials, BelongToTheirRegistry) {
  const std::string text = fmt::format(
      R"({{"auths":{{"https://index.docker.io/v1/":{{"auth":"{}"}},"r.example:5000":{{"auth":"{}"}},
          "t.example":{{"identitytoken":"tok"}},"empty.example":{{}}}},"credsStore":"x"}})",
      to_base64("hub:secret"), to_base64("me:pass:word"));
  const auto got = Credentials::parse(text);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->find("docker.io").user, "hub");
  EXPECT_EQ(got->find("r.example:5000").password, "pass:word");
  EXPECT_EQ(got->find("t.example").identity_token, "tok");
  EXPECT_TRUE(got->find("r.example").empty());
  EXPECT_TRUE(got->find("empty.example").empty());
  EXPECT_FALSE(Credentials::parse("[]"));
  EXPECT_FALSE(Credentials::parse(R"({"auths":{"r.example":{"auth":"!!"}}})"));
  EXPECT_FALSE(Credentials::parse(R"({"auths":{"r.example":{"auth":")" + to_base64("a:b\r\nX: y") +
                                  R"("}}})"));
  EXPECT_FALSE(Credentials::parse(std::string(kCredentialsBytesMax + 1, ' ')));
  Credentials many;
  for (std::size_t i = 0; i < kCredentialsMax; ++i) {
    EXPECT_TRUE(many.add(fmt::format("r{}.example", i), {"a", "b", ""}));
  }
  EXPECT_FALSE(many.add("one.more.example", {"a", "b", ""}));
}

TEST(Challenge, IsReadAsHostileText) {
  const auto got =
      parse_challenge({"Basic realm=\"x\"",
                       R"(Bearer realm="https://a.example/t?x=\"1\"",service="s, t",scope="z")"});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->scheme, Challenge::Scheme::Bearer);
  EXPECT_EQ(got->realm, "https://a.example/t?x=\"1\"");
  EXPECT_EQ(got->service, "s, t");
  EXPECT_EQ(parse_challenge({"basic realm=x"})->scheme, Challenge::Scheme::Basic);
  EXPECT_FALSE(parse_challenge({}));
  EXPECT_FALSE(parse_challenge({"Negotiate"}));
  EXPECT_FALSE(parse_challenge({"Bearer service=\"x\""}));
  EXPECT_FALSE(parse_challenge({"Bearer realm=\"open"}));
  EXPECT_FALSE(parse_challenge({"Bearer realm=" + std::string(kChallengeBytesMax, 'x')}));
  EXPECT_EQ(parse_token(R"({"access_token":"abc","expires_in":300})")->lifetime, seconds(300));
  EXPECT_EQ(parse_token(R"({"token":"abc","expires_in":-5})")->lifetime, seconds(60));
  EXPECT_FALSE(parse_token(R"({"token":"a\r\nb"})"));
  EXPECT_FALSE(parse_token(R"({"token":""})"));
}

}  // namespace
}  // namespace caisson::image
