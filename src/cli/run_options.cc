#include "cli/run_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "cli/cli.h"
#include "cli/options.h"
#include "control/local_spec.h"
#include "engine/launch_request.h"
#include "policy/capability_parser.h"
#include "policy/environment.h"
#include "policy/flags.h"

namespace caisson::cli {
namespace {

constexpr double kCpusMax = 4096;

constexpr std::size_t kSecretsMax = 32;  // descriptors of one message

struct Words {  // as they were typed
  std::string config, timeout, tier, memory, disk, cpus, cpu_seconds, pids, user, summary = "text";
  std::vector<std::string> env, allow, dns, secrets;
  bool quiet = false;
  bool no_folder = false;
};

std::unexpected<Error> wrong(std::string_view flag, const Error& error) {
  return std::unexpected(error.within(flag));
}

Result<std::uint32_t> whole(std::string_view flag, std::string_view text, std::uint32_t min,
                            std::uint32_t max) {
  std::uint32_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < min || value > max) {
    return failure(
        Errc::InvalidArgument,
        fmt::format("{}: want a whole number from {} to {}, got '{}'", flag, min, max, text));
  }
  return value;
}

Result<std::uint32_t> cores(std::string_view text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !(value >= 0.01) ||
      value > kCpusMax) {
    return failure(Errc::InvalidArgument,
                   fmt::format("--cpus: want cores, from 0.01 to {}, got '{}'", kCpusMax, text));
  }
  return static_cast<std::uint32_t>(std::lround(value * 1000));
}

Result<void> take_user(const std::string& text, RunOptions& out) {
  const std::size_t colon = text.find(':');
  const std::uint32_t uid = TRY(whole("--user", text.substr(0, colon), 0, engine::kInitId - 1));
  out.uid = uid;
  out.gid = uid;
  if (colon != std::string::npos)
    out.gid = TRY(whole("--user", text.substr(colon + 1), 0, engine::kInitId - 1));
  return {};
}

// NAME=value sets; NAME alone passes the caller's own value, unless that is what never passes.
Result<std::string> variable(const std::string& text) {
  const std::string name = text.substr(0, text.find('='));
  const auto checked = policy::check_env_name(name);
  if (!checked) return wrong("--env", checked.error());
  if (name.size() != text.size()) return text;
  if (policy::is_secret_name(name)) {
    return failure(Errc::Denied,
                   fmt::format("--env: '{0}' looks like a secret and does not pass by name; "
                               "write {0}=value if you mean it",
                               name));
  }
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): one thread
  if (value == nullptr)
    return failure(Errc::NotFound,
                   "--env: '" + name + "' is not set here; write " + name + "=value");
  return name + "=" + value;
}

Result<void> take_limits(const Words& words, RunOptions& out) {
  if (!words.memory.empty()) {
    const auto bytes = policy::parse_bytes(words.memory);
    if (!bytes) return wrong("--memory", bytes.error());
    out.memory_bytes = bytes->value_or(0);
  }
  if (!words.disk.empty()) {
    const auto bytes = policy::parse_bytes(words.disk);
    if (!bytes) return wrong("--disk", bytes.error());
    if (!*bytes)
      return failure(Errc::InvalidArgument,
                     "--disk: the private layer is always limited; give a size");
    out.disk_bytes = *bytes;
  }
  if (!words.cpus.empty()) out.cpu_millis = TRY(cores(words.cpus));
  if (!words.pids.empty()) out.processes = TRY(whole("--pids", words.pids, 1, 4'000'000));
  if (!words.cpu_seconds.empty()) {
    const auto time = policy::parse_duration(words.cpu_seconds);
    if (!time) return wrong("--cpu-seconds", time.error());
    // Rounded up: a limit below a microsecond must not become 0, which is none.
    out.cpu_time_us = static_cast<std::uint64_t>(std::chrono::ceil<microseconds>(*time).count());
  }
  if (!words.timeout.empty()) {
    const auto time = policy::parse_duration(words.timeout);
    if (!time) return wrong("--timeout", time.error());
    out.timeout = std::max(std::chrono::ceil<milliseconds>(*time), milliseconds(1));
  }
  return {};
}

Result<void> take(const Words& words, RunOptions& out) {
  if (!words.config.empty())
    out.capability = TRY(policy::CapabilityParser::from_file(words.config));
  if (!words.tier.empty()) {
    const auto tier = policy::parse_sandbox_tier(words.tier);
    if (!tier) return wrong("--tier", tier.error());
    out.tier = *tier;
  }
  TRY(take_limits(words, out));
  if (!words.user.empty()) TRY(take_user(words.user, out));
  for (const std::string& text : words.env) out.environment.push_back(TRY(variable(text)));
  for (const std::string& text : words.allow) {
    const auto rule = policy::parse_allow(text);
    if (!rule) return wrong("--allow", rule.error());
    out.allow.push_back(*rule);
    // A flag that names no limit means none; the capability file's own default is sixty.
    out.allow.back().rate_limit_per_min = policy::kRateLimitPerMinMax;
  }
  out.name_servers = words.dns;
  for (const std::string& text : words.secrets) {
    const std::size_t equal = text.find('=');
    if (equal == 0 || equal == std::string::npos || equal + 1 == text.size() ||
        out.secrets.size() >= kSecretsMax)
      return failure(
          Errc::InvalidArgument,
          "--secret: want NAME=FILE, at most 32 of them; the value is read from the file");
    out.secrets.emplace_back(text.substr(0, equal), text.substr(equal + 1));
  }
  if (out.workdir) out.workdir = TRY_IN("--workdir", engine::canonical_guest_path(*out.workdir));
  if (out.command.empty()) return failure(Errc::InvalidArgument, "no command: write it behind --");
  TRY(policy::is_command_acceptable(out.command.front()));
  out.show_folder = !words.no_folder;
  out.summary = words.quiet               ? Summary::None
                : words.summary == "json" ? Summary::Json
                                          : Summary::Text;
  return {};
}

void declare(CLI::App& app, Words& words, RunOptions& out) {
  app.add_option("--config", words.config, "capability file (YAML): what the command may do")
      ->type_name("FILE");
  app.add_option("--timeout", words.timeout, "end it after this time (default 60s)")
      ->type_name("TIME");
  app.add_option("--tier", words.tier,
                 "isolation: seccomp (native), gvisor, or firecracker (microvm)")
      ->type_name("TIER");
  app.add_option("--memory", words.memory, "most memory, such as 512m; or unlimited")
      ->type_name("SIZE");
  app.add_option("--disk", words.disk, "most private bytes: layer, /tmp and the like")
      ->type_name("SIZE");
  app.add_option("--cpus", words.cpus, "share of the cores, such as 0.5")->type_name("CORES");
  app.add_option("--cpu-seconds", words.cpu_seconds, "most CPU time of the whole tree")
      ->type_name("TIME");
  app.add_option("--pids", words.pids, "most processes and threads")->type_name("N");
  app.add_option("--env", words.env, "set a variable, or pass one by name; repeat it")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  app.add_option("--user", words.user, "ids inside (default 1000:1000)")->type_name("UID[:GID]");
  app.add_option("--workdir", out.workdir, "working folder inside")->type_name("PATH");
  app.add_option("--writable", out.writable, "a folder of yours it may really change; repeat it")
      ->type_name("PATH")
      ->allow_extra_args(false);
  app.add_option("--dns", words.dns,
                 "a name server to ask, ADDR[:PORT], instead of this host's; repeat it")
      ->type_name("ADDR")
      ->allow_extra_args(false);
  app.add_option("--secret", words.secrets,
                 "a secret that a rule puts into requests, read from a file; repeat it")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app.add_option("--allow", words.allow, "a host it may reach; repeat it")
      ->type_name("HOST[:PORT]")
      ->allow_extra_args(false);
  app.add_flag("--no-folder", words.no_folder, "do not show the current folder inside");
  app.add_flag("-q,--quiet", words.quiet, "no summary line");
  app.add_option("--summary", words.summary, "text or json, on standard error")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--dry-run", out.dry_run, "print what would hold, run nothing");
  app.add_option("--state-dir", out.state_dir, "where layers are kept")->type_name("PATH");
  app.add_option("command", out.command, "the command and its arguments")->type_name("COMMAND…");
  app.prefix_command(false);
  app.positionals_at_end();
}

}  // namespace

std::expected<RunOptions, int> parse_run_options(std::span<char*> args) {
  RunOptions out;
  out.state_dir = control::default_state_dir(::geteuid());
  Words words;
  CLI::App app(
      "Runs a command in a new sandbox and passes its exit status on.\n"
      "Without options: a read-only system, the current folder as a private copy whose changes "
      "are\n"
      "discarded, a private /tmp, no network, no variable of yours, 512 MiB, 60 seconds.");
  declare(app, words, out);
  if (const auto done = parse(app, args)) return std::unexpected(*done);
  if (const auto taken = take(words, out); !taken) {
    complain(args[0], taken.error().message);
    return std::unexpected(kExitUsage);
  }
  return out;
}

}  // namespace caisson::cli
