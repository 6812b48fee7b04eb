#include "doors/rest/wishes.h"

#include <gtest/gtest.h>

#include "doors/rest/json_reader.h"

namespace caisson::rest {
namespace {

boost::json::object parsed(std::string_view text) {
  auto value = parse_json_object(text);
  EXPECT_TRUE(value) << text;
  return value ? *value : boost::json::object{};
}

// Each names the field that is wrong.
TEST(CreateWish, NamesTheField) {
  const std::pair<std::string, std::string_view> table[] = {
      {R"({"colour":1})", "colour"},
      {R"({"tools":"shell_exec"})", "tools"},
      {R"({"tools":[1]})", "tools[0]"},
      {R"({"resource_limits":{"cpu":"two"}})", "resource_limits.cpu"},
      {R"({"resource_limits":{"cpu":0}})", "resource_limits.cpu"},
      {R"({"resource_limits":{"memory_mb":-1}})", "resource_limits.memory_mb"},
      {R"({"resource_limits":{"memory_mb":1e18}})", "resource_limits.memory_mb"},
      {R"({"resource_limits":{"processes":1.5}})", "resource_limits.processes"},
      {R"({"resource_limits":{"timeout_seconds":0}})", "resource_limits.timeout_seconds"},
      {R"({"resource_limits":{"ram":1}})", "resource_limits.ram"},
      {R"({"resource_limits":[]})", "resource_limits"},
      {R"({"files":{"../x":"a"}})", "files.../x"},
      {R"({"files":{"a\u0000b":"a"}})", std::string_view("files.a\0b", 9)},
      {R"({"files":{"":"a"}})", "files."},
      {R"({"files":{"a":1}})", "files.a"},
      {R"({"files":["a"]})", "files"},
      {R"({"env":{"1A":"x"}})", "env.1A"},
      {R"({"env":{"A=B":"x"}})", "env.A=B"},
      {R"({"env":{"A":"x\u0000"}})", "env.A"},
      {R"({"network":{"mode":"all"}})", "network.mode"},
      {R"({"network":{"domain_allowlist":[""]}})", "network.domain_allowlist[0]"},
      {R"({"filesystem":{"root":"rw"}})", "filesystem.root"},
      {R"({"user":65535})", "user"},
      {R"({"user":-1})", "user"},
      {R"({"workdir":"/a/../b"})", "workdir"},
      {R"({"hostname":""})", "hostname"},
      {R"({"labels":{"":"x"}})", "labels."},
      {R"({"image":""})", "image"},
      {R"({"image":"a","base_image":"a"})", "image"},
      {R"({"image":"a","snapshot":"b"})", "snapshot"},
      {R"({"base_image":"a","snapshot":"b"})", "snapshot"},
      {R"({"storage":"ssd"})", "storage"},
      {R"({"persistent":"yes"})", "persistent"},
      {R"({"checkpoint":"each-call"})", "checkpoint"},
      {R"({"volumes":{"a":"/a"}})", "volumes"},
      {R"({"volumes":["a"]})", "volumes[0]"},
      {R"({"volumes":[{"name":"a"}]})", "volumes[0].path"},
      {R"({"volumes":[{"path":"/a"}]})", "volumes[0].name"},
      {R"({"volumes":[{"name":"a","path":"/a"},{"name":"","path":"/b"}]})", "volumes[1].name"},
      {R"({"volumes":[{"name":"a","path":"data"}]})", "volumes[0].path"},
      {R"({"volumes":[{"name":"a","path":"/a/../b"}]})", "volumes[0].path"},
      {R"({"volumes":[{"name":"a","path":"/a","mode":"ro"}]})", "volumes[0].mode"},
  };
  for (const auto& [text, field] : table) {
    const auto wish = create_wish(parsed(text));
    ASSERT_FALSE(wish) << text;
    EXPECT_EQ(wish.error().field, field) << wish.error().message;
    const bool climbs = text.find("..") != std::string_view::npos;
    EXPECT_EQ(wish.error().code, climbs ? Errc::Denied : Errc::InvalidArgument);
  }
}

TEST(CreateWish, HoldsItsLimits) {
  const auto members = [](std::size_t count) {
    boost::json::object object;
    for (std::size_t i = 0; i < count; ++i) object["k" + std::to_string(i)] = "v";
    return object;
  };
  const std::pair<std::string, std::size_t> table[] = {{"files", control::kFilesMax},
                                                       {"env", control::kEnvironmentMax},
                                                       {"labels", control::kLabelsMax}};
  for (const auto& [name, max] : table) {
    boost::json::object body;
    body[name] = members(max);
    EXPECT_TRUE(create_wish(body)) << name;
    body[name] = members(max + 1);
    EXPECT_FALSE(create_wish(body)) << name;
  }
  boost::json::object body;
  body["files"] = {{"a", std::string(control::kFileTextBytesMax / 2, 'x')},
                   {"b", std::string(control::kFileTextBytesMax / 2 + 1, 'x')}};
  EXPECT_EQ(create_wish(body).error().field, "files");
  body = {};
  body["tools"] = boost::json::array(kToolsMax + 1, "x");
  EXPECT_EQ(create_wish(body).error().field, "tools");
}

TEST(CreateWish, ReadsFileState) {
  auto wish = create_wish(parsed(
      R"({"image":"python:3.12","storage":"disk","persistent":true,"checkpoint":"each_call",)"
      R"("volumes":[{"name":"cache","path":"/cache","read_only":true},)"
      R"({"name":"data","path":"/data"}]})"));
  ASSERT_TRUE(wish) << wish.error().message;
  EXPECT_EQ(wish->image, "python:3.12");
  EXPECT_EQ(wish->storage, engine::Storage::Disk);
  EXPECT_EQ(wish->persistent, true);
  EXPECT_EQ(wish->checkpoint, control::Checkpoints::EachCall);
  const std::vector<control::VolumeUse> volumes = {{"cache", "/cache", true},
                                                   {"data", "/data", false}};
  EXPECT_EQ(wish->volumes, volumes);
  wish = create_wish(parsed(R"({"snapshot":"good","storage":"memory","checkpoint":"none"})"));
  ASSERT_TRUE(wish) << wish.error().message;
  EXPECT_EQ(wish->snapshot, "good");
  EXPECT_FALSE(wish->image);
  EXPECT_EQ(wish->storage, engine::Storage::Memory);
  EXPECT_EQ(create_wish(parsed(R"({"base_image":"host"})"))->image, "host");
}

TEST(CreateWish, TakesSoManyVolumes) {
  boost::json::array volumes(control::kSandboxVolumesMax, {{"name", "a"}, {"path", "/a"}});
  boost::json::object body;
  body["volumes"] = volumes;
  EXPECT_TRUE(create_wish(body));
  volumes.push_back(volumes[0]);
  body["volumes"] = volumes;
  EXPECT_EQ(create_wish(body).error().field, "volumes");
}

TEST(CreateWish, ReadsTheContract) {
  const auto wish = create_wish(parsed(
      R"({"profile":"p","tools":["shell_exec"],"files":{"a/b.txt":"hi"},"network":{"mode":"none"},)"
      R"("base_image":"host","resource_limits":{"cpu":0.5,"memory_mb":512,"timeout_seconds":600},)"
      R"("filesystem":{"root":"writable"},"user":1000,"labels":{"a":"b"},"workdir":null})"));
  ASSERT_TRUE(wish) << wish.error().message;
  EXPECT_EQ(wish->profile, "p");
  EXPECT_EQ(wish->limits.memory_bytes, 512ULL << 20U);
  EXPECT_EQ(wish->limits.cpu, 0.5);
  EXPECT_EQ(wish->root, engine::RootMode::Writable);
  EXPECT_EQ(wish->uid, 1000U);
  EXPECT_FALSE(wish->workdir);
  EXPECT_TRUE(create_wish({}));
}

TEST(RunWish, IsAnExecAndWhatItIsRunIn) {
  const auto alone = run_wish(parsed(R"({"command":"true","sandbox":null})"));
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->exec.wish.command, "true");
  const auto both = run_wish(parsed(
      R"({"argv":["a"],"stdin":"x","sandbox":{"name":"n","resource_limits":{"memory_mb":64}}})"));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->sandbox.name, "n");
  EXPECT_EQ(both->exec.wish.input, "x");
  const std::pair<std::string_view, std::string_view> table[] = {
      {R"({"sandbox":{}})", "command"},
      {R"({"command":"a","sandbox":[]})", "sandbox"},
      {R"({"command":"a","sandbox":{"resource_limits":{"cpu":-1}}})",
       "sandbox.resource_limits.cpu"},
      {R"({"command":"a","sandbox":{"no_such":1}})", "sandbox.no_such"},
      {R"({"command":"a","no_such":1})", "no_such"},
  };
  for (const auto& [text, field] : table) {
    const auto wish = run_wish(parsed(text));
    ASSERT_FALSE(wish) << text;
    EXPECT_EQ(wish.error().field, field) << wish.error().message;
  }
}

TEST(ExecWish, WantsOneCommand) {
  const std::pair<std::string, std::string_view> table[] = {
      {"{}", "command"},
      {R"({"command":""})", "command"},
      {R"({"command":"a","argv":["b"]})", "argv"},
      {R"({"argv":[]})", "argv"},
      {R"({"argv":[""]})", "argv"},
      {R"({"argv":["a\u0000"]})", "argv[0]"},
      {R"({"command":"a","timeout_seconds":0})", "timeout_seconds"},
      {R"({"command":"a","output_bytes_max":8388609})", "output_bytes_max"},
      {R"({"command":"a","output_bytes_max":4095})", "output_bytes_max"},
      {R"({"command":"a","encoding":"hex"})", "encoding"},
      {R"({"command":"a","stdin":"!","stdin_encoding":"base64"})", "stdin"},
  };
  for (const auto& [text, field] : table) {
    const auto wish = exec_wish(parsed(text), Input::InBody);
    ASSERT_FALSE(wish) << text;
    EXPECT_EQ(wish.error().field, field) << wish.error().message;
  }
  boost::json::object body;
  body["argv"] = boost::json::array(control::kArgumentsMax + 1, "x");
  EXPECT_FALSE(exec_wish(body, Input::InBody));
  body = {};
  body["command"] = std::string(control::kCommandBytesMax + 1, 'x');
  EXPECT_FALSE(exec_wish(body, Input::InBody));
  EXPECT_FALSE(exec_wish(parsed(R"({"command":"a","stdin":"x"})"), Input::Live));
}

TEST(Signals, HaveNamesAndNumbers) {
  EXPECT_EQ(signal_number("TERM"), 15);
  EXPECT_EQ(signal_number("SIGKILL"), 9);
  for (const auto* bad : {"", "SIG", "term", "SIGSIGTERM", "15", "NOPE"}) {
    EXPECT_FALSE(signal_number(bad)) << bad;
  }
}

}  // namespace
}  // namespace caisson::rest
