// What bench/server measures with: the library and a server in turn, and many clients at once.
//
//   server_load calls CAISSON STATE_DIR PORT ROUNDS     each call by the library, then over HTTP
//   server_load exec PORT SANDBOX ROUNDS                one tool call after the other
//   server_load once PORT PROGRAM ROUNDS PAUSE_MS       one command in a sandbox of its own
//   server_load crowd PORT CLIENTS SECONDS              everybody creates and destroys
//
// A client is a blocking socket that is kept alive: it costs the processors, which the server needs
// as well, as little as possible. The server is an open one. One JSON object on standard output.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/samples.h"
#include "control/sandbox_manager.h"
#include "policy/json_text.h"

namespace caisson {
namespace {

namespace json = boost::json;
using cli::Samples;

constexpr int kWarmUpRounds = 10;
constexpr std::size_t kAnswerBytesMax = 1UL << 20U;
constexpr std::string_view kTool = R"({"tool": "shell_exec", "arguments": {"command": "true"}})";
// The command line that the tool makes of `true`.
const std::vector<std::string>& tool_command() {
  static const std::vector<std::string> kCommand{"/bin/sh", "-c", "true"};
  return kCommand;
}

double since(TimePoint begin) {
  return static_cast<double>(duration_cast<nanoseconds>(Clock::now() - begin).count()) / 1000;
}

struct Answer {
  int status = 0;
  std::string body;
};

// One connection. Answers have a length, as all answers of these routes do.
class Client {
 public:
  static Result<Client> open(std::uint16_t port) {
    UniqueFd stream(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(stream.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      return sys_failure("connect", errno);
    const int on = 1;
    (void)::setsockopt(stream.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return Client(std::move(stream), port);
  }

  Result<Answer> ask(std::string_view method, std::string_view path, std::string_view body) {
    const std::string request = fmt::format(
        "{} {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n"
        "Content-Length: {}\r\n\r\n{}",
        method, path, port_, body.size(), body);
    if (::send(stream_.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size()))
      return sys_failure("send", errno);
    return answer();
  }

  Result<std::string> create() {
    const Answer made = TRY(ask("POST", "/api/v1/sandboxes", "{}"));
    if (made.status != 201) return failure(Errc::Internal, "create: " + made.body);
    return std::string(json::parse(made.body).at("id").as_string());
  }

  Result<void> run_tool(const std::string& id) {
    const Answer done = TRY(ask("POST", "/api/v1/sandboxes/" + id + "/tools/execute", kTool));
    if (done.status != 200 || json::parse(done.body).at("result").at("exit_code") != 0)
      return failure(Errc::Internal, "shell_exec: " + done.body);
    return {};
  }

  Result<void> destroy(const std::string& id) {
    const Answer done = TRY(ask("DELETE", "/api/v1/sandboxes/" + id, ""));
    if (done.status / 100 != 2) return failure(Errc::Internal, "destroy: " + done.body);
    return {};
  }

 private:
  Client(UniqueFd stream, std::uint16_t port) : stream_(std::move(stream)), port_(port) {}

  Result<Answer> answer() {
    std::string text;
    std::size_t head = std::string::npos;
    while ((head = text.find("\r\n\r\n")) == std::string::npos) TRY(more(text));
    std::size_t length = 0;
    if (const std::size_t at = text.find("Content-Length: "); at < head)
      (void)std::from_chars(text.data() + at + 16, text.data() + head, length);
    while (text.size() < head + 4 + length) TRY(more(text));
    Answer out;
    (void)std::from_chars(text.data() + 9, text.data() + 12, out.status);
    out.body = text.substr(head + 4);
    return out;
  }

  Result<void> more(std::string& text) {
    std::array<char, 16384> room;
    const ssize_t got = ::recv(stream_.get(), room.data(), room.size(), 0);
    if (got < 0) return sys_failure("receive", errno);
    if (got == 0 || text.size() > kAnswerBytesMax)
      return failure(Errc::Protocol, "the server hung up, or says too much: " + text);
    text.append(room.data(), static_cast<std::size_t>(got));
    return {};
  }

  UniqueFd stream_;
  std::uint16_t port_;
};

struct Laps {
  Samples create, exec, destroy, whole, tool;  // tool: in a sandbox that lives already
};

// Limits of the kinds that a server sets when nothing is asked for.
control::LocalSpec same_spec() {
  control::LocalSpec local;
  local.spec = engine::default_spec();
  local.spec.request.limits.cpu_millis = 1000;
  local.spec.request.limits.life_us = 600'000'000;
  local.workdir = "/workspace";
  return local;
}

Result<void> by_library(control::SandboxManager& manager, const std::string& id) {
  const auto result = TRY(manager.execute(id, tool_command()));
  if (result.exit_code != 0) return failure(Errc::Internal, "the command failed: " + result.err);
  return {};
}

template <class Create, class Run, class Destroy>
Result<void> lap(Laps* laps, const Create& create, const Run& run, const Destroy& destroy) {
  const TimePoint begin = Clock::now();
  const std::string id = TRY(create());
  const double made = since(begin);
  TRY(run(id));
  const double ran = since(begin);
  TRY(destroy(id));
  const double whole = since(begin);
  if (laps == nullptr) return {};
  laps->create.add(made);
  laps->exec.add(ran - made);
  laps->destroy.add(whole - ran);
  laps->whole.add(whole);
  return {};
}

json::object json_of(const Samples& samples) {
  return {{"n", samples.count()},
          {"min", samples.min()},
          {"median", samples.median()},
          {"p90", samples.p90()},
          {"p99", samples.p99()}};
}

json::object json_of(const Laps& laps) {
  return {{"create", json_of(laps.create)},
          {"exec", json_of(laps.exec)},
          {"destroy", json_of(laps.destroy)},
          {"whole", json_of(laps.whole)},
          {"tool", json_of(laps.tool)}};
}

Result<json::object> measure_calls(const std::string& program, const std::string& state_dir,
                                   std::uint16_t port, int rounds) {
  control::SandboxManager::Options options;
  options.program = program;
  options.state_dir = state_dir;
  const auto manager = TRY(control::SandboxManager::open(std::move(options)));
  Client client = TRY(Client::open(port));
  Laps library;
  Laps server;
  const std::string ours = TRY(manager->create_sandbox(same_spec()));
  const std::string theirs = TRY(client.create());
  for (int i = -kWarmUpRounds; i < rounds; ++i) {
    TimePoint begin = Clock::now();
    TRY(by_library(*manager, ours));
    const double took = since(begin);
    begin = Clock::now();
    TRY(client.run_tool(theirs));
    if (i < 0) continue;
    library.tool.add(took);
    server.tool.add(since(begin));
  }
  TRY(manager->destroy(ours));
  TRY(client.destroy(theirs));
  for (int i = -kWarmUpRounds; i < rounds; ++i) {
    TRY(lap(
        i < 0 ? nullptr : &library, [&] { return manager->create_sandbox(same_spec()); },
        [&](const std::string& id) { return by_library(*manager, id); },
        [&](const std::string& id) { return manager->destroy(id); }));
    TRY(lap(
        i < 0 ? nullptr : &server, [&] { return client.create(); },
        [&](const std::string& id) { return client.run_tool(id); },
        [&](const std::string& id) { return client.destroy(id); }));
  }
  return json::object{{"library_us", json_of(library)}, {"server_us", json_of(server)}};
}

Result<json::object> measure_exec(std::uint16_t port, const std::string& id, int rounds) {
  Client client = TRY(Client::open(port));
  Samples samples;
  for (int i = 0; i < rounds; ++i) {
    const TimePoint begin = Clock::now();
    TRY(client.run_tool(id));
    samples.add(since(begin));
  }
  return json::object{{"tool_us", json_of(samples)}};
}

// PROGRAM is one inside that does nothing when told "true". With a pause between two calls the next
// sandbox is there already, as it is for whoever does something with an answer.
Result<json::object> measure_once(std::uint16_t port, const std::string& program, int rounds,
                                  milliseconds pause) {
  Client client = TRY(Client::open(port));
  json::object wish;
  wish["argv"] = json::array{program, "true"};
  const std::string body = policy::json_text(wish);
  Samples samples;
  for (int i = -kWarmUpRounds; i < rounds; ++i) {
    std::this_thread::sleep_for(pause);
    const TimePoint begin = Clock::now();
    const Answer done = TRY(client.ask("POST", "/api/v1/run", body));
    if (i >= 0) samples.add(since(begin));
    if (done.status != 200 || json::parse(done.body).at("exit_code") != 0)
      return failure(Errc::Internal, "run: " + done.body);
  }
  return json::object{{"once_us", json_of(samples)}};
}

// What all clients of a crowd have seen.
struct Tally {
  std::mutex mutex;
  Samples pair, create, destroy;
  int errors = 0;
  std::string first_error;
};

Result<void> create_and_destroy(std::uint16_t port, TimePoint until, Tally& tally) {
  Client client = TRY(Client::open(port));
  while (Clock::now() < until) {
    const TimePoint begin = Clock::now();
    const std::string id = TRY(client.create());
    const double made = since(begin);
    TRY(client.destroy(id));
    const double whole = since(begin);
    const std::scoped_lock lock(tally.mutex);
    tally.create.add(made);
    tally.destroy.add(whole - made);
    tally.pair.add(whole);
  }
  return {};
}

json::object measure_crowd(std::uint16_t port, int clients, int time) {
  Tally tally;
  const TimePoint begin = Clock::now();
  const TimePoint until = begin + seconds(time);
  std::vector<std::jthread> crowd;
  crowd.reserve(static_cast<std::size_t>(clients));
  for (int i = 0; i < clients; ++i) {
    crowd.emplace_back([&] {
      // A client that failed comes back with a new connection, and its error is counted.
      while (Clock::now() < until) {
        const auto done = create_and_destroy(port, until, tally);
        if (done) return;
        const std::scoped_lock lock(tally.mutex);
        if (tally.errors++ == 0) tally.first_error = done.error().message;
      }
    });
  }
  crowd.clear();
  return {{"pair_us", json_of(tally.pair)},
          {"create_us", json_of(tally.create)},
          {"destroy_us", json_of(tally.destroy)},
          {"per_second", static_cast<double>(tally.pair.count()) / (since(begin) / 1e6)},
          {"errors", tally.errors},
          {"first_error", tally.first_error}};
}

int number(std::string_view text) {
  int value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

Result<json::object> measure(std::span<const std::string> words) {
  const auto port = [&](std::size_t at) { return static_cast<std::uint16_t>(number(words[at])); };
  if (words.size() == 5 && words[0] == "calls")
    return measure_calls(words[1], words[2], port(3), number(words[4]));
  if (words.size() == 4 && words[0] == "exec")
    return measure_exec(port(1), words[2], number(words[3]));
  if (words.size() == 5 && words[0] == "once")
    return measure_once(port(1), words[2], number(words[3]), milliseconds(number(words[4])));
  if (words.size() == 4 && words[0] == "crowd")
    return measure_crowd(port(1), number(words[2]), number(words[3]));
  return failure(Errc::InvalidArgument, "want calls, exec, once or crowd and what belongs to it");
}

}  // namespace
}  // namespace caisson

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto report = caisson::measure(words);
  if (!report) {
    fmt::print(stderr, "server_load: {}\n", report.error().message);
    return 1;
  }
  fmt::print("{}\n", caisson::policy::json_text(*report));
}
