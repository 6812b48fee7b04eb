#include "policy/settings/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "policy/settings/setting_keys.h"

namespace caisson::policy {
namespace {

using Strings = std::vector<std::string>;

std::string error_of(std::string_view text) {
  const auto result = parse_settings(text, "caisson.yaml");
  if (result) return "accepted: " + to_yaml(*result);
  EXPECT_EQ(result.error().code, Errc::InvalidArgument);
  return result.error().message;
}

void expect_refused(std::string_view text, std::string_view part) {
  const std::string message = error_of(text);
  EXPECT_TRUE(message.starts_with("caisson.yaml: ")) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nwants: " << part;
}

std::string environment_error(const Strings& environ) {
  Settings settings;
  const auto result = apply_environment(settings, environ);
  return result ? "accepted: " + to_yaml(settings) : result.error().message;
}

std::string example() {
  const auto root = std::filesystem::path(__FILE__).parent_path() / "../../../deploy/caisson.yaml";
  std::ifstream file(root, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string repeated(std::string_view item, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (out.empty() ? "" : ", ") + std::string(item);
  return "[" + out + "]";
}

// --- what must not pass ---

TEST(Settings, UnknownAndRepeatedFieldsNameTheirPlace) {
  EXPECT_EQ(error_of("sandbox:\n  resource_limits:\n    memory: 5\n"),
            "caisson.yaml: line 3, column 5: unknown field \"memory\" in sandbox.resource_limits; "
            "known fields: cpu, memory_mb, processes, disk_mb, timeout_seconds");
  expect_refused("sever: {}\n", "known fields: server, sandbox, profiles, audit, logging, auth");
  expect_refused("server.listen: []\n", "unknown field \"server.listen\"");
  expect_refused("auth: {open: false, open: true}\n", "given twice");
  expect_refused("profiles: {a: {tool: []}}\n", "profiles.a: unknown field \"tool\"");
  expect_refused("profiles: {a: {network: {mod: none}}}\n", "unknown field \"mod\"");
  EXPECT_EQ(parse_settings("auth: {open: 1}", "f").error().field, "auth.open");
}

TEST(Settings, TwoNamesOfOneSettingAreRefusedTogether) {
  expect_refused("server: {listen: ['127.0.0.1:1'], port: 2}\n", "keep one of the two");
  expect_refused("sandbox: {timeout_seconds: 1, resource_limits: {timeout_seconds: 1}}\n",
                 "keep one of the two");
}

TEST(Settings, WrongTypesAndRangesAreRefused) {
  expect_refused("[]\n", "must be a mapping");
  expect_refused("server: 5\n", "server: must be a mapping");
  expect_refused("server: {listen: []}\n", "name an address");
  expect_refused("server: {listen: ['127.0.0.1:1', '127.0.0.1:1']}\n", "named twice");
  expect_refused("server: {listen: [{}]}\n", "server.listen: must be a string");
  expect_refused("server: {port: 70000}\n", "must be from 0 to 65535");
  expect_refused("server: {state_dir: relative}\n", "must be an absolute path");
  expect_refused("server: {state_dir: /a/../b}\n", "server.state_dir");
  expect_refused("server: {user: root}\n", "another user than root");
  expect_refused("server: {user: 'a b'}\n", "the name of a user");
  expect_refused("server: {behind_tls_proxy: yes}\n", "must be true or false");
  expect_refused("server: {hosts: ['a/b']}\n", "server.hosts");
  expect_refused("server: {origins: ['*']}\n", "server.origins");
  expect_refused("sandbox: {max_concurrent: 0}\n", "must be from 1 to 100000");
  expect_refused("sandbox: {max_concurrent: 1.5}\n", "must be a whole number");
  expect_refused("sandbox: {max_concurrent: '5'}\n", "found a quoted string");
  expect_refused("sandbox: {max_concurrent: 010}\n", "must be a whole number");
  expect_refused("sandbox: {max_concurrent: 99999999999999999999}\n", "must be from");
  expect_refused("sandbox: {timeout_seconds: -1}\n", "must be from 0");
  expect_refused("sandbox: {timeout_seconds: nan}\n", "must be a decimal number");
  expect_refused("sandbox: {exec_timeout_seconds: 3601}\n", "must be from");
  expect_refused("sandbox: {resource_limits: {cpu: 0}}\n", "sandbox.resource_limits.cpu");
  expect_refused("sandbox: {tools: [shell_exec, sudo]}\n", "known: shell_exec, file_read");
  expect_refused("sandbox: {tools: [file_read, file_read]}\n", "named twice");
  expect_refused("sandbox: {command_blocklist: ['']}\n", "matches every command");
  expect_refused("sandbox: {default_image: '-x'}\n", "name of an image");
  expect_refused("audit: {database_path: x.db}\n", "must be an absolute path");
  expect_refused("audit: {anchor_seconds: 0}\n", "must be from 1");
  expect_refused("logging: {level: loud}\n", "known: trace, debug, info, warning, error");
  expect_refused("logging: {format: xml}\n", "known: text, json");
}

TEST(Settings, ProfilesAreJudgedAsStrictly) {
  expect_refused("profiles: {A: {}}\n", "is no name for a profile");
  expect_refused("profiles: {-a: {}}\n", "is no name for a profile");
  expect_refused("profiles: {a: }\n", "profiles.a: must be a mapping");
  expect_refused("profiles: {a: {network: {domain_allowlist: [a.example]}}}\n",
                 "counts with mode: allowlist only");
  expect_refused("profiles: {a: {network: {mode: allowlist, domain_allowlist: ['10.0.0.1']}}}\n",
                 "profiles.a.network.domain_allowlist");
  expect_refused("profiles: {a: {filesystem: {root: maybe}}}\n", "known: read_only, writable");
  expect_refused("profiles: {a: {env: {'A=B': x}}}\n", "profiles.a.env");
  expect_refused("profiles: {a: {interpreters: {ruby: {}}}}\n", "unknown field \"ruby\"");
  expect_refused("profiles: {a: {interpreters: {python: {warm: 1}}}}\n",
                 "profiles.a.interpreters.python.warm");
  expect_refused("profiles: {a: {env: {A: [x]}}}\n", "profiles.a.env.A: must be a string");
  expect_refused("profiles: {" + std::string(kProfileNameBytesMax + 1, 'a') + ": {}}\n",
                 "is no name for a profile");
}

TEST(Settings, EveryListAndTextHasALimit) {
  expect_refused("server: {listen: " + repeated("'127.0.0.1:0'", kListenMax + 1) + "}\n",
                 "too many");
  expect_refused("server: {hosts: " + repeated("a.example", kHostsMax + 1) + "}\n", "too many");
  expect_refused("server: {origins: " + repeated("'http://a.example'", kHostsMax + 1) + "}\n",
                 "too many");
  expect_refused("sandbox: {tools: " + repeated("file_read", kToolsMax + 1) + "}\n", "too many");
  expect_refused("sandbox: {command_blocklist: " + repeated("a", kBlocklistMax + 1) + "}\n",
                 "too many");
  expect_refused("sandbox: {command_blocklist: [" + std::string(kPatternBytesMax + 1, 'a') + "]}\n",
                 "too many");
  expect_refused("sandbox: {default_image: " + std::string(kImageBytesMax + 1, 'a') + "}\n",
                 "too many");
  expect_refused("server: {user: " + std::string(kUserBytesMax + 1, 'a') + "}\n", "too many");
  expect_refused("profiles: {a: {env: {A: " + std::string(kEnvValueBytesMax + 1, 'a') + "}}}\n",
                 "too many");
  expect_refused("profiles: {a: {interpreters: {python: {imports: " +
                     repeated("a", kImportsMax + 1) + "}}}}\n",
                 "too many");
  expect_refused("profiles: {a: {network: {mode: allowlist, domain_allowlist: " +
                     repeated("a.example", kDomainsMax + 1) + "}}}\n",
                 "too many");
}

TEST(Settings, AHostileTextDoesNotReachTheTerminal) {
  const std::string message = error_of("server: {user: \"\\e[2J\"}\n");
  EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
}

// --- what they say ---

TEST(Settings, NothingAtAllIsTheDefaults) {
  EXPECT_EQ(*parse_settings("", "f"), Settings());
  EXPECT_EQ(*parse_settings("server:\nsandbox:\nprofiles:\n", "f"), Settings());
  EXPECT_EQ(Settings().sandbox.tools.size(), known_tools().size());
  EXPECT_TRUE(check_settings(Settings()));
}

TEST(Settings, TheMostIsReadAndWrittenBack) {
  const auto settings = parse_settings(
      "sandbox:\n  limits_max: {cpu: 2.5, memory_mb: 4096, timeout_seconds: 3600}\n"
      "audit: {tenant_mb_per_minute: 7}\n",
      "f");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->sandbox.limits_max.cpu, 2.5);
  EXPECT_EQ(settings->sandbox.limits_max.memory_mb, 4096);
  EXPECT_EQ(settings->sandbox.limits_max.processes, 0) << "no bound";
  EXPECT_EQ(settings->audit.tenant_mb_per_minute, 7);
  EXPECT_EQ(*parse_settings(to_yaml(*settings), "f"), *settings);
  EXPECT_FALSE(parse_settings("sandbox: {limits_max: {memory_mb: -1}}", "f"));
  EXPECT_FALSE(parse_settings("sandbox: {limits_max: {memory: 1}}", "f"));
}

TEST(Settings, TheShippedExampleIsTheDefaultsAndNamesEverySetting) {
  const std::string text = example();
  ASSERT_FALSE(text.empty());
  const auto settings = parse_settings(text, "deploy/caisson.yaml");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(to_yaml(*settings), to_yaml(Settings()));
  EXPECT_EQ(*settings, Settings());
  for (const SettingKey& key : setting_keys()) {
    if (key.print == nullptr) continue;
    const std::string name = std::string(key.path.substr(key.path.rfind('.') + 1)) + ":";
    EXPECT_NE(text.find(name), std::string::npos) << key.path;
  }
}

constexpr const char* kFull = R"(
server:
  listen: ["0.0.0.0:0", "[::1]:1", "unix:/run/x.sock"]
  state_dir: /srv//caisson/
  hosts: [Caisson.example.com]
  origins: ["https://console.example.com"]
  behind_tls_proxy: true
  user: agent
sandbox:
  default_image: "python:3.12-slim"
  max_concurrent: 7
  max_per_tenant: 3
  idle_seconds: 0.5
  rest_seconds: 7.5
  exec_timeout_seconds: 5
  resource_limits: {cpu: 0.5, memory_mb: 128, processes: 9, disk_mb: 8, timeout_seconds: 30}
  tools: [file_read]
  command_blocklist: ['a\sb"c', 'ü{1,3}']
profiles:
  all:
    base_image: host
    tools: []
    resource_limits: {cpu: 2, memory_mb: 64, processes: 1, disk_mb: 2, timeout_seconds: 0, rest_seconds: 9}
    tier: gvisor
    minimum_tier: microvm
    network: {mode: allowlist, domain_allowlist: ["*.example.com", API.example.com]}
    filesystem: {root: writable}
    env: {PATH: /bin, EMPTY: "", "null": "a: \"b\" \\"}
    interpreters: {python: {imports: [json, numpy]}, javascript: {warm: false}}
  nothing: {}
audit: {database_path: /a/b.db, anchor_path: /c, anchor_seconds: 5}
logging: {level: ERROR, format: json}
auth: {open: false}
tiers: {minimum: gvisor, raise: true, tenants: {red: microvm, "a: b": native}, images: {"x/*": gvisor}}
)";

TEST(Settings, EverySettingIsReadAndPrintedBack) {
  const auto settings = parse_settings(kFull, "f");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->server.listen.size(), 3U);
  EXPECT_EQ(settings->server.state_dir, "/srv/caisson");
  EXPECT_EQ(settings->server.hosts, Strings{"caisson.example.com"});
  EXPECT_EQ(settings->sandbox.limits, (LimitSettings{0.5, 128, 9, 8, 30.0, 7.5}));
  EXPECT_EQ(settings->sandbox.command_blocklist[1], "ü{1,3}");
  const ProfileSettings& all = settings->profiles.at("all");
  EXPECT_TRUE(all.tools && all.tools->empty());
  EXPECT_EQ(all.network->domain_allowlist, (Strings{"*.example.com", "api.example.com"}));
  EXPECT_EQ(all.root, RootChoice::Writable);
  EXPECT_EQ(all.env.at("null"), "a: \"b\" \\");
  EXPECT_EQ(all.limits.rest_seconds, 9);
  EXPECT_EQ(all.tier, SandboxTier::Gvisor);
  EXPECT_EQ(all.minimum_tier, SandboxTier::Microvm);
  EXPECT_EQ(settings->tiers.minimum, SandboxTier::Gvisor);
  EXPECT_TRUE(settings->tiers.raise);
  EXPECT_EQ(settings->tiers.tenants.at("a: b"), SandboxTier::Native);
  EXPECT_EQ(settings->tiers.images.at("x/*"), SandboxTier::Gvisor);
  EXPECT_EQ(all.interpreters.at("python"), (InterpreterSettings{true, {"json", "numpy"}}));
  EXPECT_EQ(all.interpreters.at("javascript"), (InterpreterSettings{false, {}}));
  EXPECT_EQ(settings->profiles.at("nothing"), ProfileSettings());
  EXPECT_EQ(settings->logging.level, LogLevel::Error);
  const auto again = parse_settings(to_yaml(*settings), "printed");
  ASSERT_TRUE(again) << again.error().message << "\n" << to_yaml(*settings);
  EXPECT_EQ(*again, *settings) << to_yaml(*settings);
  EXPECT_EQ(*parse_settings(to_yaml(Settings()), "printed"), Settings());
}

TEST(Settings, ATierIsOneOfThree) {
  expect_refused("tiers: {minimum: tank}\n", "native, gvisor, microvm");
  expect_refused("tiers: {tenants: [red]}\n", "a mapping");
  expect_refused("tiers: {tenants: {red: strong}}\n", "tiers.tenants.red");
  expect_refused("tiers: {images: {\"\": gvisor}}\n", "is no name");
}

TEST(Settings, OneAddressNeedsNoList) {
  const auto settings = parse_settings("server: {listen: '127.0.0.1:9'}\n", "f");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(to_string(settings->server.listen.at(0)), "127.0.0.1:9");
}

// --- the environment and the flags ---

TEST(Environment, WinsOverTheFile) {
  Settings settings = parse_settings("sandbox: {max_concurrent: 5}\n", "f").value();
  const Strings environ = {"PATH=/bin",
                           "CAISSON_SERVER_PORT=0",
                           "CAISSON_SERVER_HOSTS=a.example, b.example",
                           "CAISSON_SANDBOX_MAX_CONCURRENT=6",
                           "CAISSON_SANDBOX_RESOURCE_LIMITS_MEMORY_MB=77",
                           "CAISSON_SANDBOX_DEFAULT_IMAGE=host",
                           "CAISSON_SANDBOX_TOOLS=",
                           "CAISSON_SANDBOX_COMMAND_BLOCKLIST=a{1,2}\nb",
                           "CAISSON_AUDIT_DATABASE_PATH=/x/y.db",
                           "CAISSON_LOGGING_LEVEL=debug",
                           "CAISSON_AUTH_OPEN=true"};
  const auto applied = apply_environment(settings, environ);
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(to_string(settings.server.listen.at(0)), "127.0.0.1:0");
  EXPECT_EQ(settings.server.hosts, (Strings{"a.example", "b.example"}));
  EXPECT_EQ(settings.sandbox.max_concurrent, 6);
  EXPECT_EQ(settings.sandbox.limits.memory_mb, 77);
  EXPECT_TRUE(settings.sandbox.tools.empty());
  EXPECT_EQ(settings.sandbox.command_blocklist, (Strings{"a{1,2}", "b"}));
  EXPECT_EQ(settings.audit.database_path, "/x/y.db");
  EXPECT_EQ(settings.logging.level, LogLevel::Debug);
  EXPECT_TRUE(settings.auth.open);
}

TEST(Environment, CageboxNamesCountWhereOursAreNotSet) {
  Settings settings;
  ASSERT_TRUE(apply_environment(
      settings, Strings{"CAGEBOX_SERVER_PORT=9000", "CAGEBOX_LOGGING_LEVEL=ERROR",
                        "CAISSON_LOGGING_LEVEL=debug", "CAGEBOX_SERVER_UNHEARD_OF=1"}));
  EXPECT_EQ(to_string(settings.server.listen.at(0)), "127.0.0.1:9000");
  EXPECT_EQ(settings.logging.level, LogLevel::Debug);
}

TEST(Environment, DaivNamesAreUnderstood) {
  Settings settings;
  ASSERT_TRUE(apply_environment(
      settings,
      Strings{"DAIV_SANDBOX_API_KEY=k", "daiv_sandbox_port=9001", "DAIV_SANDBOX_RUN_UID=7",
              "DAIV_SANDBOX_COMMAND_TIMEOUT=5", "DAIV_SANDBOX_FS_PRUNE_DIRS=a, b",
              "DAIV_SANDBOX_LOG_LEVEL=CRITICAL", "DAIV_SANDBOX_REAPER_ENABLED=false",
              "DAIV_SANDBOX_RUN_GID=", "DAIV_SANDBOX_REDIS_URL=redis://x",
              "DAIV_SANDBOX_RUNTIME=runc", "CAISSON_DAIV_RUN_UID=8"}));
  EXPECT_EQ(settings.daiv.api_key, "k");
  EXPECT_EQ(to_string(settings.server.listen.at(0)), "127.0.0.1:9001");
  EXPECT_EQ((std::pair{settings.daiv.run_uid, settings.daiv.run_gid}), (std::pair{8L, 1000L}));
  EXPECT_EQ(settings.daiv.command_timeout_seconds, 5);
  EXPECT_EQ(settings.daiv.prune_dirs, (Strings{"a", "b"}));
  EXPECT_EQ(settings.logging.level, LogLevel::Error);
  EXPECT_FALSE(settings.daiv.reaper);
  EXPECT_EQ(to_yaml(settings).find("k\""), std::string::npos);  // a key is not for printing
}

TEST(Environment, DaivListensWhereItIsToldTo) {
  Settings settings;
  ASSERT_TRUE(apply_environment(settings, Strings{"DAIV_SANDBOX_HOST=0.0.0.0"}));
  EXPECT_EQ(to_string(settings.server.listen.at(0)), "0.0.0.0:8000");
  EXPECT_TRUE(check_settings(settings));
}

// A wall that is not there is not made up for by another one in silence.
TEST(Environment, NamesOfAgentboxAreUnderstood) {
  Settings settings;
  ASSERT_TRUE(apply_environment(
      settings, Strings{"GRPC_PORT=6000", "SANDBOX_IMAGE=python:3", "STORAGE_PATH=./data",
                        "SESSION_TIMEOUT=60", "PROXY_HOST=egress-proxy", "PROXY_PORT=9000",
                        "SIGNING_KEY=abc", "SANDBOX_RUNTIME=runc"}));
  ASSERT_TRUE(settings.agentbox.listen);
  EXPECT_EQ(to_string(*settings.agentbox.listen), "127.0.0.1:6000");
  EXPECT_EQ(settings.agentbox.image, "python:3");
  EXPECT_TRUE(settings.agentbox.storage);
  EXPECT_EQ(settings.agentbox.session_timeout_seconds, 60);
  EXPECT_EQ(settings.agentbox.proxy_host, "egress-proxy");
  EXPECT_EQ(settings.agentbox.proxy_port, 9000);
  EXPECT_EQ(settings.agentbox.signing_key, "abc");
  EXPECT_EQ(to_yaml(settings).find("abc"), std::string::npos);
  for (const char* wrong : {"SANDBOX_RUNTIME=runsc", "SANDBOX_RUNTIME=", "GRPC_PORT=x",
                            "SESSION_TIMEOUT=0", "PROXY_PORT=0", "PROXY_HOST=a b"})
    EXPECT_FALSE(environment_error({wrong}).empty()) << wrong;
}

TEST(Environment, NamesOfSandboxerAreUnderstood) {
  Settings settings;
  ASSERT_TRUE(apply_environment(
      settings, Strings{"SANDBOX_VHOST=Sandbox.Example.com", "SANDBOX_CPU=0.25",
                        "SANDBOX_MEMORY=1g", "SANDBOX_STORAGE=512m", "DEFAULT_PIDS_LIMIT=99",
                        "DEFAULT_CAPABILITIES=", "SESSION_SECRET=x"}));
  EXPECT_EQ(to_string(settings.server.vhost), "https://sandbox.example.com");
  EXPECT_EQ(settings.sandboxer.cpu, 0.25);
  EXPECT_EQ(settings.sandboxer.memory_mb, 1024);
  EXPECT_EQ(settings.sandboxer.disk_mb, 512);
  EXPECT_EQ(settings.sandboxer.processes, 99);
  for (const char* wrong :
       {"SANDBOX_VHOST=a b", "SANDBOX_VHOST=*.a.b", "SANDBOX_CPU=x", "SANDBOX_MEMORY=512x",
        "SANDBOX_MEMORY=1000", "SANDBOX_STORAGE=g", "SANDBOX_STORAGE=-1g", "DEFAULT_PIDS_LIMIT=0",
        "DEFAULT_CAPABILITIES=SYS_ADMIN"})
    EXPECT_FALSE(environment_error({wrong}).empty()) << wrong;
}

TEST(Settings, AVhostIsANameOrAnAddress) {
  EXPECT_EQ(to_string(*parse_vhost("http://localhost:8080")), "http://localhost:8080");
  EXPECT_EQ(to_string(*parse_vhost("https://a.example:443/")), "https://a.example");
  EXPECT_EQ(authority_of(*parse_vhost("a.example:8443")), "a.example:8443");
  EXPECT_EQ(to_string(*parse_vhost("")), "");
  for (const auto* wrong : {"ftp://a.example", "a.example:0", "a.example:x", "http://", "a..b",
                            "a.example/path", "1.2.3.4:99999", "user@a.example"})
    EXPECT_FALSE(parse_vhost(wrong)) << wrong;
  const auto read = parse_settings("server: {vhost: \"http://localhost:1\"}", "f");
  ASSERT_TRUE(read);
  EXPECT_EQ(parse_settings(to_yaml(*read), "f")->server.vhost, read->server.vhost);
}

TEST(Settings, GrpcIsBesideTheUsualAddressOrWhereItIsToldTo) {
  Settings settings;
  ASSERT_TRUE(grpc_address(settings));
  EXPECT_EQ(to_string(*grpc_address(settings)), "127.0.0.1:50051");
  const auto moved = parse_settings("server: {listen: 127.0.0.1:9}", "f");
  EXPECT_FALSE(grpc_address(*moved));
  const auto off = parse_settings("agentbox: {listen: \"off\"}", "f");
  EXPECT_FALSE(grpc_address(*off));
  const auto wide = parse_settings("agentbox: {listen: 0.0.0.0:50051}", "f");
  ASSERT_TRUE(wide);
  EXPECT_EQ(check_settings(*wide).error().field, "agentbox.listen");
  const auto half = parse_settings("agentbox: {tls_key_file: /k}", "f");
  EXPECT_FALSE(check_settings(*half));
  const auto encrypted = parse_settings(
      "agentbox: {listen: 0.0.0.0:50051, tls_key_file: /k, tls_certificate_file: /c}", "f");
  EXPECT_TRUE(check_settings(*encrypted));
}

TEST(Environment, DaivRuntimesThatAreNotThereAreRefused) {
  EXPECT_NE(environment_error({"DAIV_SANDBOX_RUNTIME=runsc"}).find("runsc"), std::string::npos);
  EXPECT_NE(environment_error({"DAIV_SANDBOX_RUN_UID=x"}).find("DAIV_SANDBOX_RUN_UID"),
            std::string::npos);
}

TEST(Environment, NamesOfNoSettingAreErrorsAndOthersAreNot) {
  EXPECT_NE(environment_error({"CAISSON_SERVER_PROT=1"}).find("CAISSON_SERVER_PORT"),
            std::string::npos);
  EXPECT_NE(environment_error({"CAISSON_PROFILES_A=1"}).find("in the file only"),
            std::string::npos);
  EXPECT_NE(environment_error({"CAISSON_SANDBOX_RESOURCE_LIMITS_X=1"}).find("names no setting"),
            std::string::npos);
  Settings settings;
  EXPECT_TRUE(apply_environment(
      settings,
      Strings{"CAISSON_URL=x", "CAISSON_TOKEN=y", "CAISSON_STATE_DIR=/z", "CAISSON_PROGRAM=p",
              "CAISSON_SERVER_PROGRAM=/bin/x", "CAISSON_SERVERX=1", "CAISSON_"}));
  EXPECT_EQ(settings, Settings());
}

TEST(Environment, AWrongValueNamesTheVariable) {
  EXPECT_EQ(environment_error({"CAISSON_SANDBOX_MAX_CONCURRENT=x"}),
            "CAISSON_SANDBOX_MAX_CONCURRENT: must be a whole number, found \"x\"");
  EXPECT_TRUE(environment_error({"CAGEBOX_SERVER_PORT=x"}).starts_with("CAGEBOX_SERVER_PORT: "));
  EXPECT_TRUE(
      environment_error({"CAISSON_SERVER_LISTEN=127.0.0.1:1,[::1]:2", "CAISSON_SERVER_PORT=3"})
          .find("not exactly one address") != std::string::npos);
  EXPECT_NE(environment_error({"CAISSON_SERVER_USER=a\x01"}).find("control character"),
            std::string::npos);
}

TEST(Flags, WinOverEverything) {
  Settings settings;
  ASSERT_TRUE(apply_environment(settings, Strings{"CAISSON_SERVER_PORT=1"}));
  SettingFlags flags;
  flags.listen = {"[::1]:0", "unix:/a"};
  flags.state_dir = "/srv/c";
  flags.log_level = "error";
  flags.log_format = "json";
  flags.open = true;
  ASSERT_TRUE(apply_flags(settings, flags));
  EXPECT_EQ(to_string(settings.server.listen.at(0)), "[::1]:0");
  EXPECT_EQ(settings.server.state_dir, "/srv/c");
  EXPECT_EQ(settings.logging, (LoggingSettings{LogLevel::Error, LogFormat::Json}));
  EXPECT_TRUE(settings.auth.open);
  flags.listen = {"nowhere"};
  const auto refused = apply_flags(settings, flags);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.starts_with("--listen: \"nowhere\": want ADDRESS:PORT"))
      << refused.error().message;
  Settings untouched;
  ASSERT_TRUE(apply_flags(untouched, SettingFlags{}));
  EXPECT_EQ(untouched, Settings());
}

// --- together ---

TEST(CheckSettings, APublicAddressNeedsAProxyAndTokens) {
  Settings settings;
  settings.server.listen = {*parse_listen_address("0.0.0.0:80")};
  EXPECT_EQ(check_settings(settings).error().field, "server.listen");
  settings.server.behind_tls_proxy = true;
  EXPECT_TRUE(check_settings(settings));
  settings.auth.open = true;
  EXPECT_EQ(check_settings(settings).error().field, "auth.open");
  settings.server.listen = {ListenAddress{}};
  EXPECT_EQ(check_settings(settings).error().field, "auth.open");
  settings.server.behind_tls_proxy = false;
  EXPECT_TRUE(check_settings(settings));
}

TEST(Difference, SaysWhatNeedsARestart) {
  const Settings before;
  Settings after;
  EXPECT_EQ(reloadable_difference(before, after), SettingsDifference{});
  after.sandbox.max_concurrent = 1;
  after.profiles["a"].root = RootChoice::Writable;
  after.logging = {LogLevel::Debug, LogFormat::Json};
  after.server.state_dir = "/x";
  after.sandbox.limits.timeout_seconds = 5;
  const SettingsDifference difference = reloadable_difference(before, after);
  EXPECT_EQ(difference.reloaded, (Strings{"sandbox.max_concurrent", "sandbox.timeout_seconds",
                                          "profiles", "logging.level", "logging.format"}));
  EXPECT_EQ(difference.need_restart, Strings{"server.state_dir"});
}

}  // namespace
}  // namespace caisson::policy
