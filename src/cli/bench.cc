// `caisson bench`: what a sandbox costs on this host, by the library. All figures of one run are
// interleaved, so that they can be compared with each other whatever else the machine does;
// absolute times say less.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/json/object.hpp>
#include <charconv>
#include <cstdio>
#include <span>
#include <thread>

#include "cli/cli.h"
#include "cli/options.h"
#include "cli/samples.h"
#include "control/sandbox_manager.h"
#include "policy/json_text.h"
#include "sys/file.h"

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): names of the assembler file.
extern const std::byte caisson_true_begin[];
extern const std::byte caisson_true_end[];
// NOLINTEND(readability-identifier-naming)
}

namespace caisson::cli {
namespace {

constexpr int kWarmUpRounds = 5;
constexpr int kCrowdRounds = 200;
constexpr seconds kThroughputTime{2};

double since(TimePoint begin) {
  return static_cast<double>(duration_cast<nanoseconds>(Clock::now() - begin).count()) / 1000;
}

// A static `true`: on the host for comparison, and in each sandbox that runs it. Putting it there
// is not measured.
class Payload {
 public:
  static constexpr const char* kInside = "/tmp/true";

  static Result<Payload> make() {
    char folder[] = "/tmp/caisson-bench-XXXXXX";
    if (::mkdtemp(folder) == nullptr) return sys_failure("make a folder in /tmp", errno);
    Payload payload(folder);
    const UniqueFd file =
        TRY(sys::open_at(AT_FDCWD, payload.on_host(), O_WRONLY | O_CREAT | O_EXCL, 0755));
    const std::string_view bytes = content();
    if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      return sys_failure("write the payload", errno);
    }
    return payload;
  }
  Payload(Payload&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  Payload& operator=(Payload&&) = delete;
  ~Payload() {
    if (folder_.empty()) return;
    (void)::unlink(on_host().c_str());
    (void)::rmdir(folder_.c_str());
  }
  [[nodiscard]] std::string on_host() const { return folder_ + "/true"; }

  static Result<void> put_into(control::SandboxManager& manager, const std::string& id) {
    const auto session = TRY(manager.session(id));
    const engine::LaunchRequest request = TRY(manager.request(id));
    return session->write_file({request.uid, request.gid}, kInside, content(), {.mode = 0755});
  }

 private:
  explicit Payload(std::string folder) : folder_(std::move(folder)) {}
  static std::string_view content() {
    return {reinterpret_cast<const char*>(caisson_true_begin),
            static_cast<std::size_t>(caisson_true_end - caisson_true_begin)};
  }
  std::string folder_;
};

// A whole sandbox of the usual kind: every namespace, seccomp, Landlock, limits of memory and
// processes.
control::LocalSpec usual_spec() {
  control::LocalSpec local;
  local.spec = engine::default_spec();
  local.workdir = "/workspace";
  return local;
}

Result<void> spawn_plainly(const std::string& program) {
  std::string word = program;
  char* argv[] = {word.data(), nullptr};
  char* envp[] = {nullptr};
  pid_t pid = -1;
  const int reason = ::posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, envp);
  if (reason != 0) return sys_failure("spawn", reason);
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return sys_failure("wait", errno);
  return {};
}

Result<void> run_true(control::SandboxManager& manager, const std::string& id) {
  const auto result = TRY(manager.execute(id, {Payload::kInside}));
  if (result.exit_code != 0) return failure(Errc::Internal, "the payload failed: " + result.err);
  return {};
}

struct Report {
  Samples spawn, whole, create, exec, destroy, create_full;
  double per_second_1 = 0;
  double per_second_2 = 0;
  int live = 0;
  double memory_each_kib = 0;
};

struct Lap {
  double create = 0;
  double exec = 0;
  double destroy = 0;
};

Result<Lap> round_trip(control::SandboxManager& manager) {
  Lap lap;
  TimePoint begin = Clock::now();
  const std::string id = TRY(manager.create_sandbox(usual_spec()));
  lap.create = since(begin);
  TRY(Payload::put_into(manager, id));
  begin = Clock::now();
  TRY(run_true(manager, id));
  lap.exec = since(begin);
  begin = Clock::now();
  TRY(manager.destroy(id));
  lap.destroy = since(begin);
  return lap;
}

// Side by side, while the launcher has nothing to do: making things ahead would slow down the one
// that runs beside it.
Result<void> measure_exec(control::SandboxManager& manager, const Payload& payload, int rounds,
                          Report& report) {
  const std::string live = TRY(manager.create_sandbox(usual_spec()));
  TRY(Payload::put_into(manager, live));
  for (int i = -kWarmUpRounds; i < rounds; ++i) {
    TimePoint begin = Clock::now();
    TRY(spawn_plainly(payload.on_host()));
    const double spawn = since(begin);
    begin = Clock::now();
    TRY(run_true(manager, live));
    if (i < 0) continue;
    report.exec.add(since(begin));
    report.spawn.add(spawn);
  }
  return manager.destroy(live);
}

Result<void> measure_whole(control::SandboxManager& manager, int rounds, Report& report) {
  for (int i = -kWarmUpRounds; i < rounds; ++i) {
    const Lap lap = TRY(round_trip(manager));
    if (i < 0) continue;
    report.create.add(lap.create);
    report.destroy.add(lap.destroy);
    report.whole.add(lap.create + lap.exec + lap.destroy);
  }
  return {};
}

Result<double> measure_throughput(control::SandboxManager& manager, int threads) {
  std::atomic<int> done = 0;
  std::atomic<bool> failed = false;
  const TimePoint begin = Clock::now();
  std::vector<std::jthread> workers;
  workers.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&] {
      while (Clock::now() - begin < kThroughputTime && !failed) {
        if (round_trip(manager)) {
          ++done;
        } else {
          failed = true;
        }
      }
    });
  }
  workers.clear();
  if (failed) return failure(Errc::Internal, "a sandbox failed while many were made at once");
  return static_cast<double>(done) / (since(begin) / 1e6);
}

// What the machine has left, in KiB: the only figure that counts processes, page tables, slabs and
// mounts alike.
Result<double> memory_available() {
  const std::string text = TRY(sys::read_small(AT_FDCWD, "/proc/meminfo", 16384));
  const std::string_view key = "MemAvailable:";
  const std::size_t at = text.find(key);
  if (at == std::string::npos)
    return failure(Errc::Unsupported, "/proc/meminfo has no MemAvailable");
  const std::size_t digits = text.find_first_not_of(' ', at + key.size());
  std::uint64_t value = 0;
  (void)std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return static_cast<double>(value);
}

Result<void> measure_crowd(control::SandboxManager& manager, int live, Report& report) {
  const double before = TRY(memory_available());
  std::vector<std::string> crowd;
  crowd.reserve(static_cast<std::size_t>(live));
  for (int i = 0; i < live; ++i) {
    crowd.push_back(TRY(manager.create_sandbox(usual_spec())));
  }
  report.live = live;
  report.memory_each_kib = (before - TRY(memory_available())) / live;
  for (int i = 0; i < kCrowdRounds; ++i) report.create_full.add(TRY(round_trip(manager)).create);
  for (const std::string& id : crowd) TRY(manager.destroy(id));
  return {};
}

boost::json::object json_of(const Samples& samples) {
  return {{"n", samples.count()},
          {"min", samples.min()},
          {"median", samples.median()},
          {"p90", samples.p90()},
          {"p99", samples.p99()}};
}

void print_json(const Report& report) {
  boost::json::object out{{"spawn_us", json_of(report.spawn)},
                          {"create_exec_destroy_us", json_of(report.whole)},
                          {"create_us", json_of(report.create)},
                          {"exec_us", json_of(report.exec)},
                          {"destroy_us", json_of(report.destroy)},
                          {"per_second_1_thread", report.per_second_1},
                          {"per_second_2_threads", report.per_second_2}};
  if (report.live > 0) {
    out["live"] = report.live;
    out["create_with_live_us"] = json_of(report.create_full);
    out["memory_each_kib"] = report.memory_each_kib;
  }
  fmt::print("{}\n", policy::json_text(out));
}

void print_text(const Report& report) {
  const auto row = [](const char* name, const Samples& samples) {
    fmt::print("{:<44} {:>9.0f} {:>9.0f} {:>9.0f}\n", name, samples.min(), samples.median(),
               samples.p90());
  };
  fmt::print("{:<44} {:>9} {:>9} {:>9}   (microseconds, {} rounds)\n", "", "min", "median", "p90",
             report.whole.count());
  row("spawn a static program, no sandbox", report.spawn);
  row("exec it in a live sandbox", report.exec);
  row("create a sandbox", report.create);
  row("destroy it", report.destroy);
  row("create, exec, destroy", report.whole);
  fmt::print("\nexec is {:.2f} × a plain spawn\n", report.exec.median() / report.spawn.median());
  fmt::print("whole sandboxes a second: {:.0f} by one thread, {:.0f} by two\n", report.per_second_1,
             report.per_second_2);
  if (report.live == 0) return;
  fmt::print("\nwith {} idle sandboxes alive:\n", report.live);
  row("create a sandbox", report.create_full);
  fmt::print(
      "create is {:.2f} × that of an empty host; {:.0f} KiB each, all told (drop of "
      "MemAvailable)\n",
      report.create_full.median() / report.create.median(), report.memory_each_kib);
}

Result<Report> measure(int rounds, int live, const std::string& state_dir) {
  const Payload payload = TRY(Payload::make());
  control::SandboxManager::Options options;
  options.program = "/proc/self/exe";
  options.state_dir = state_dir;
  auto manager = TRY(control::SandboxManager::open(std::move(options)));
  Report report;
  TRY(measure_exec(*manager, payload, rounds, report));
  TRY(measure_whole(*manager, rounds, report));
  report.per_second_1 = TRY(measure_throughput(*manager, 1));
  report.per_second_2 = TRY(measure_throughput(*manager, 2));
  if (live > 0) TRY(measure_crowd(*manager, live, report));
  return report;
}

}  // namespace

int bench_command(std::span<char*> args) {
  CLI::App app(
      "Measures what a sandbox costs on this host, by the library, against a plain spawn in the "
      "same run.");
  int rounds = 200;
  int live = 0;
  bool json = false;
  std::string state_dir = control::default_state_dir(::geteuid());
  app.add_option("--rounds", rounds, "how many of each (default 200)")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--live", live, "also with this many idle sandboxes alive")
      ->check(CLI::Range(0, 4000));
  app.add_flag("--json", json, "for programs");
  app.add_option("--state-dir", state_dir, "where layers are kept")->type_name("PATH");
  if (const auto done = parse(app, args)) return *done;
  const auto report = measure(rounds, live, state_dir);
  if (!report) {
    complain(args[0], report.error().message);
    return kExitFailed;
  }
  json ? print_json(*report) : print_text(*report);
  return kExitOk;
}

}  // namespace caisson::cli
