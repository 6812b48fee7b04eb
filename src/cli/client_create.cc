#include "cli/client_create.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/client_json.h"
#include "cli/client_text.h"
#include "policy/flags.h"
#include "policy/wording.h"
#include "sys/file.h"

namespace caisson::cli {
namespace {

struct Words {  // as they were typed
  std::string profile, name, image, tier, memory, disk, cpus, pids, cpu_seconds, timeout, idle,
      rest, workdir, tools, user, root_capabilities, snapshot, storage, checkpoint;
  std::vector<std::string> env, labels, files, volumes;
  bool writable_root = false;
  bool persistent = false;
  bool processes = false;
};

std::unexpected<Error> wrong(std::string_view flag, std::string_view text, std::string_view want) {
  return bad_field(std::string(flag),
                   fmt::format("{}: want {}, got {}", flag, want, policy::in_quotes(text)));
}

Result<double> seconds_of(std::string_view flag, const std::string& text) {
  const nanoseconds time = TRY_IN(flag, policy::parse_duration(text));
  return std::chrono::duration<double>(time).count();
}

Result<double> megabytes_of(std::string_view flag, const std::string& text) {
  const auto bytes = TRY_IN(flag, policy::parse_bytes(text));
  if (!bytes) return wrong(flag, text, "a size such as 512m");
  return static_cast<double>(*bytes) / (1024.0 * 1024.0);
}

template <class Number>
Result<Number> number_of(std::string_view flag, const std::string& text, std::string_view want) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !(value >= 0))
    return wrong(flag, text, want);
  return value;
}

Result<std::pair<std::string, std::string>> pair_of(std::string_view flag, const std::string& text,
                                                    std::string_view want) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return wrong(flag, text, want);
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<boost::json::object> limits_of(const Words& words) {
  boost::json::object limits;
  if (!words.cpus.empty())
    limits["cpu"] = TRY(number_of<double>("--cpus", words.cpus, "cores, such as 0.5"));
  if (!words.memory.empty()) limits["memory_mb"] = TRY(megabytes_of("--memory", words.memory));
  if (!words.disk.empty()) limits["disk_mb"] = TRY(megabytes_of("--disk", words.disk));
  if (!words.pids.empty())
    limits["processes"] = TRY(number_of<std::uint64_t>("--pids", words.pids, "a whole number"));
  if (!words.cpu_seconds.empty())
    limits["cpu_seconds"] = TRY(seconds_of("--cpu-seconds", words.cpu_seconds));
  if (!words.timeout.empty())
    limits["timeout_seconds"] = TRY(seconds_of("--timeout", words.timeout));
  if (!words.idle.empty()) limits["idle_seconds"] = TRY(seconds_of("--idle", words.idle));
  if (!words.rest.empty()) limits["rest_seconds"] = TRY(seconds_of("--rest", words.rest));
  return limits;
}

// Whatever can be read to its end: a file, a pipe, /dev/fd/N of a shell's <(…).
Result<std::string> read_local(const std::string& path, std::size_t max) {
  const UniqueFd fd = TRY(sys::open_at(AT_FDCWD, path, O_RDONLY | O_NOCTTY));
  std::string content;
  std::array<char, 65536> piece{};
  for (;;) {
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return sys_failure("read " + policy::printable(path), errno);
    if (got == 0) return content;
    content.append(piece.data(), static_cast<std::size_t>(got));
    if (content.size() > max) {
      return failure(Errc::TooLarge, fmt::format("{}: the files together are larger than {} bytes; "
                                                 "copy it by caisson cp",
                                                 policy::printable(path), kCreateFileBytesMax));
    }
  }
}

Result<boost::json::object> files_of(const std::vector<std::string>& words) {
  boost::json::object files;
  std::size_t left = kCreateFileBytesMax;
  for (const std::string& word : words) {
    const auto [path, local] = TRY(pair_of("--file", word, "PATH=LOCALFILE"));
    const std::string content = TRY_IN("--file", read_local(local, left));
    if (!policy::is_utf8(content)) {
      return bad_field("--file", fmt::format("--file: {} is no UTF-8 text; copy it by caisson cp",
                                             policy::printable(local)));
    }
    left -= content.size();
    files[path] = content;
  }
  return files;
}

boost::json::array list_of(std::string_view commas) {
  boost::json::array out;
  while (!commas.empty()) {
    const std::size_t comma = commas.find(',');
    const std::string_view part = commas.substr(0, comma);
    if (!part.empty()) out.emplace_back(part);
    commas = comma == std::string_view::npos ? std::string_view() : commas.substr(comma + 1);
  }
  return out;
}

// NAME:/path, with :ro behind it for a volume that must not be changed.
Result<boost::json::object> volume_of(const std::string& word) {
  constexpr std::string_view kWant = "NAME:/PATH or NAME:/PATH:ro";
  const std::size_t colon = word.find(':');
  if (colon == std::string::npos || colon == 0) return wrong("--volume", word, kWant);
  std::string_view path = std::string_view(word).substr(colon + 1);
  const bool read_only = path.ends_with(":ro");
  if (read_only) path.remove_suffix(3);
  if (!read_only && path.ends_with(":rw")) path.remove_suffix(3);
  if (!path.starts_with('/')) return wrong("--volume", word, kWant);
  return boost::json::object{
      {"name", word.substr(0, colon)}, {"path", path}, {"read_only", read_only}};
}

Result<void> add_file_state(const Words& words, boost::json::object& body) {
  if (!words.image.empty()) body["image"] = words.image;
  if (!words.tier.empty()) body["tier"] = words.tier;
  if (!words.snapshot.empty()) body["snapshot"] = words.snapshot;
  if (words.processes) body["memory"] = true;
  if (!words.storage.empty()) body["storage"] = words.storage;
  if (words.persistent) body["persistent"] = true;
  if (!words.checkpoint.empty())
    body["checkpoint"] = words.checkpoint == "each-call" ? "each_call" : "none";
  boost::json::array volumes;
  for (const std::string& word : words.volumes) volumes.emplace_back(TRY(volume_of(word)));
  if (!volumes.empty()) body["volumes"] = std::move(volumes);
  return {};
}

Result<boost::json::object> body_of(const Words& words, bool tools_given) {
  boost::json::object body;
  if (!words.profile.empty()) body["profile"] = words.profile;
  if (!words.name.empty()) body["name"] = words.name;
  TRY(add_file_state(words, body));
  if (!words.workdir.empty()) body["workdir"] = words.workdir;
  if (!words.user.empty())
    body["user"] = TRY(number_of<std::uint32_t>("--user", words.user, "a user id"));
  if (!words.root_capabilities.empty())
    body["root_capabilities"] = words.root_capabilities == "yes";
  if (tools_given) body["tools"] = list_of(words.tools);
  if (words.writable_root) body["filesystem"] = boost::json::object{{"root", "writable"}};
  boost::json::object limits = TRY(limits_of(words));
  if (!limits.empty()) body["resource_limits"] = std::move(limits);
  boost::json::object env;
  for (const std::string& word : words.env) {
    const auto [name, value] = TRY(pair_of("--env", word, "NAME=value"));
    env[name] = value;
  }
  if (!env.empty()) body["env"] = std::move(env);
  boost::json::object labels;
  for (const std::string& word : words.labels) {
    const auto [name, value] = TRY(pair_of("--label", word, "NAME=value"));
    labels[name] = value;
  }
  if (!labels.empty()) body["labels"] = std::move(labels);
  boost::json::object files = TRY(files_of(words.files));
  if (!files.empty()) body["files"] = std::move(files);
  return body;
}

void declare(CommandLine& line, Words& words) {
  line.text("--profile", words.profile, "NAME", "a profile of the server");
  line.text("--name", words.name, "NAME", "a name for people; unique while it lives");
  line.text("--tier", words.tier, "TIER",
            "what keeps it apart: native (default), gvisor or microvm");
  line.text("--image", words.image, "IMAGE", "what its root is made of (default: the server's)");
  line.text("--snapshot", words.snapshot, "SNAPSHOT", "begin with the files of this one instead");
  line.flag("--processes", words.processes, "and with the processes that the snapshot has");
  line.choice("--storage", words.storage, {"memory", "disk"}, "where its files lie");
  line.flag("--persistent", words.persistent, "keep its files when it stops: start it again later");
  line.choice("--checkpoint", words.checkpoint, {"none", "each-call"},
              "keep its files before each call, for caisson undo");
  line.texts("--volume", words.volumes, "NAME:/PATH[:ro]", "show a volume inside; repeat it");
  line.text("--memory", words.memory, "SIZE", "most memory, such as 512m");
  line.text("--disk", words.disk, "SIZE", "most private bytes, such as 1g");
  line.text("--cpus", words.cpus, "CORES", "share of the cores, such as 0.5");
  line.text("--cpu-seconds", words.cpu_seconds, "TIME", "most CPU time of the whole tree");
  line.text("--pids", words.pids, "N", "most processes and threads");
  line.text("--timeout", words.timeout, "TIME", "its life, such as 1h");
  line.text("--idle", words.idle, "TIME", "end it when nothing was asked of it for so long");
  line.text("--rest", words.rest, "TIME",
            "let it rest, until it is used, when nothing was asked of it for so long");
  line.text("--tools", words.tools, "TOOL,…", "tools it may use, with commas");
  line.texts("--env", words.env, "NAME=VALUE", "set a variable; repeat it");
  line.texts("--label", words.labels, "NAME=VALUE", "a label; repeat it");
  line.texts("--file", words.files, "PATH=LOCALFILE", "put a text file into it first; repeat it");
  line.text("--workdir", words.workdir, "PATH", "working folder inside");
  line.text("--user", words.user, "UID", "user id inside (default 65534)");
  line.choice("--root-capabilities", words.root_capabilities, {"yes", "no"},
              "may user 0 act for the others inside (default: the root of an image may)");
  line.flag("--writable-root", words.writable_root, "let it change all of its root, privately");
}

}  // namespace

std::expected<CreateOptions, int> parse_create_options(std::span<char*> args) {
  CommandLine line("Creates a sandbox on a server and prints its id.");
  CreateOptions out;
  Words words;
  add_client_options(line, out.client, JsonFlag::Offered);
  declare(line, words);
  if (const auto done = line.parse(args)) return std::unexpected(*done);
  auto body = body_of(words, line.given("--tools"));
  if (!body) {
    complain(args[0], one_line(body.error().message));
    return std::unexpected(kExitUsage);
  }
  out.body = std::move(*body);
  return out;
}

int create_command(std::span<char*> args) {
  auto options = parse_create_options(args);
  if (!options) return options.error();
  const auto session = Session::open(args[0], options->client);
  if (!session) return session.error();
  const auto body = session->text("POST", "/api/v1/sandboxes", std::move(options->body));
  if (!body) return session->fail(body.error());
  if (options->client.json) return print_out(*body + "\n") ? kExitOk : kExitFailed;
  const auto sandbox = parse_json(*body);
  if (!sandbox) return session->fail(sandbox.error());
  return print_out(shown(text_at(*sandbox, "id")) + "\n") ? kExitOk : kExitFailed;
}

}  // namespace caisson::cli
