// P23: a crash leaves nothing behind. The server, the launcher's worker, or both with the keeper
// are killed at random points of create, exec and destroy. Whatever is found afterwards is on
// record, whatever is on record is there, and what a new server is told about answers.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <random>

#include "tests/integration/service.h"

namespace caisson::test {
namespace {

constexpr int kPoints = 50;
constexpr int kStepsMax = 40;  // of one server's life
constexpr std::size_t kIdBytes = SandboxId::kLength;

enum class Victim : std::uint8_t { Server, Worker, Everybody };

const engine::HostFeatures& host() {
  static const engine::HostFeatures features = engine::probe_host();
  return features;
}

// A server's busy life: it says each id before it asks for that sandbox, and a '.' at each step, so
// that the test knows every name that may exist and can choose the step at which it kills.
[[noreturn]] void live_as_server(const std::string& socket, int report, unsigned seed) {
  std::mt19937 random(seed);
  const auto client = engine::LauncherClient::attach(socket, soon());
  if (!client) ::_exit(1);
  const auto step = [&] { (void)!::write(report, ".", 1); };
  for (int i = 0; i < kStepsMax; ++i) {
    engine::LaunchRequest request = plain_request();
    request.limits.memory_bytes = 64UL << 20U;
    request.limits.processes = 64;
    if (random() % 2 == 0) {
      request.id = SandboxId::random()->str();
      (void)!::write(report, request.id.data(), request.id.size());
    }
    step();
    auto reply = (*client)->launch(request, {});
    if (!reply) ::_exit(2);
    if (request.id.empty()) (void)!::write(report, reply->id.data(), reply->id.size());
    step();
    const auto session = engine::GuestSession::connect(std::move(reply->stream), reply->nonce);
    if (!session) ::_exit(3);
    (void)(*session)->execute(shell("echo x > /tmp/x; : & :"));
    step();
    if (random() % 3 != 0 && !(*client)->destroy(reply->id)) ::_exit(4);
    step();
  }
  ::_exit(0);
}

class Server {
 public:
  Server(const std::string& socket, unsigned seed) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    report_ = UniqueFd(ends[0]);
    pid_ = ::fork();
    if (pid_ == 0) live_as_server(socket, ends[1], seed);
    ::close(ends[1]);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() { kill(); }
  // Reads what it says until it has made so many steps, or has ended.
  void wait_for_steps(int steps) {
    char byte = 0;
    while (steps > 0 && ::read(report_.get(), &byte, 1) == 1) steps -= take(byte);
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
    wait_for_steps(kStepsMax * 4);
  }
  [[nodiscard]] const std::set<std::string>& names() const noexcept { return names_; }

 private:
  int take(char byte) {
    if (byte == '.') return 1;
    name_.push_back(byte);
    if (name_.size() == kIdBytes) names_.insert(std::exchange(name_, {}));
    return 0;
  }
  UniqueFd report_;
  pid_t pid_ = -1;
  std::string name_;
  std::set<std::string> names_;
};

std::set<pid_t> children_of(pid_t parent) {
  std::set<pid_t> children;
  std::ifstream file("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                     "/children");
  for (pid_t pid = 0; file >> pid;) children.insert(pid);
  return children;
}

bool descends_from(pid_t pid, pid_t ancestor) {
  for (int depth = 0; depth < 16 && pid > 1; ++depth) {
    if (pid == ancestor) return true;
    pid = parent_of(pid).value_or(0);
  }
  return false;
}

// Who lives in one of these namespaces. The kernel gives the number of a dead one to the next that
// is made, so those that the new worker has made do not count.
std::set<std::string> strangers_in(const std::set<std::string>& namespaces, pid_t worker) {
  std::set<std::string> found;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const std::string pid = entry.path().filename().string();
    if (!std::ranges::all_of(pid, [](char c) { return c >= '0' && c <= '9'; }) || is_zombie(pid))
      continue;
    for (const char* kind : {"mnt", "pid", "ipc", "uts", "net", "user", "cgroup"}) {
      const std::string name = namespace_of(pid, kind);
      if (namespaces.contains(name) && !descends_from(std::stoi(pid), worker))
        found.insert(pid + " in " + name);
    }
  }
  return found;
}

// What the keeper holds: a namespace among it would live as long as the keeper.
std::set<std::string> namespaces_held_by(pid_t pid) {
  std::set<std::string> held;
  std::error_code gone;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find(":[") != std::string::npos && !target.starts_with("pipe:") &&
        !target.starts_with("socket:"))
      held.insert(target);
  }
  return held;
}

std::size_t lines_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

class P23 : public testing::Test {
 protected:
  void SetUp() override {
    service_.emplace(state_);
    const auto client = service_->attach();
    const Guest warm_up = launch(*client);
    ASSERT_TRUE(client->destroy(warm_up.id));
    files_ = state_.files();
    mounts_ = text_of("/proc/self/mountinfo");
    worker_mounts_ = lines_of(text_of("/proc/" + std::to_string(client->pid()) + "/mountinfo"));
  }

  // The world agrees with the record, and the record with what the launcher says.
  void expect_in_order(engine::LauncherClient& client, const std::set<std::string>& dead_spaces) {
    const auto living = client.living();
    ASSERT_TRUE(living) << living.error().message;
    std::set<std::string> named;
    for (const engine::Living& one : *living) {
      named.insert(one.id);
      EXPECT_FALSE(one.ended) << one.id;
      auto joined = client.join(one.id);
      ASSERT_TRUE(joined) << joined.error().message;
      Guest guest = greet(one.id, one.init_pid, std::move(joined->first), joined->second);
      EXPECT_EQ(say(guest, "echo alive"), "alive\n") << one.id;
    }
    // Sandboxes made ahead are on record, too. Making or removing one takes a moment; then it is
    // whole, its init the worker's own child, or it is off the record.
    for (const std::string& id : state_.recorded()) {
      known_.insert(id);
      named.insert(id);
      const auto settled = [&] {
        const std::set<pid_t> children = children_of(client.pid());
        return std::ranges::any_of(members(host(), id),
                                   [&](pid_t pid) { return children.contains(pid); }) ||
               !state_.recorded().contains(id);
      };
      EXPECT_TRUE(eventually(settled)) << id;
    }
    for (const std::string& id : known_) {
      if (!named.contains(id))
        EXPECT_EQ(groups_of(host(), id), std::vector<std::string>{}) << "unknown groups";
    }
    EXPECT_EQ(strangers_in(dead_spaces, client.pid()), std::set<std::string>{});
    EXPECT_EQ(namespaces_held_by(service_->keeper().pid()), std::set<std::string>{});
    EXPECT_EQ(state_.files(), files_);
    EXPECT_EQ(text_of("/proc/self/mountinfo"), mounts_);
    EXPECT_EQ(lines_of(text_of("/proc/" + std::to_string(client.pid()) + "/mountinfo")),
              worker_mounts_);
    EXPECT_EQ(children_of(service_->keeper().pid()), std::set<pid_t>{client.pid()});
  }

  // Where those live that will die with the worker.
  static std::set<std::string> namespaces_of(const std::vector<engine::Living>& living) {
    std::set<std::string> all;
    for (const engine::Living& one : living) {
      for (const std::string& name : own_namespaces(one.init_pid)) {
        if (!name.empty()) all.insert(name);
      }
    }
    return all;
  }

  StateFolder state_;
  std::optional<LauncherService> service_;
  std::set<std::string> files_;
  std::string mounts_;
  std::size_t worker_mounts_ = 0;
  std::set<std::string> known_;  // every name that was ever used
};

TEST_F(P23, KilledAtAnyPointTheWorldAgreesWithTheRecord) {
  std::random_device entropy;
  const unsigned seed = entropy();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int point = 0; point < kPoints; ++point) {
    const Victim victim = point % 10 == 9  ? Victim::Everybody
                          : point % 2 == 0 ? Victim::Server
                                           : Victim::Worker;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", point " + std::to_string(point));
    auto watcher = service_->attach();
    const pid_t worker = watcher->pid();
    Server server(state_.socket(), static_cast<unsigned>(random()));
    server.wait_for_steps(static_cast<int>(random() % 12));
    const auto before = watcher->living();
    ASSERT_TRUE(before) << before.error().message;
    for (const std::string& id : state_.recorded()) known_.insert(id);
    std::set<std::string> dead_spaces;
    if (victim != Victim::Server) dead_spaces = namespaces_of(*before);
    // A point between two steps: as far as the machine gets in a random part of two milliseconds.
    const TimePoint moment = Clock::now() + microseconds(random() % 2000);
    while (Clock::now() < moment) {
    }
    if (victim == Victim::Everybody) ASSERT_EQ(::kill(service_->keeper().pid(), SIGSTOP), 0);
    if (victim != Victim::Server) ASSERT_EQ(::kill(worker, SIGKILL), 0);
    if (victim == Victim::Everybody) service_->keeper().kill();
    server.kill();
    known_.insert(server.names().begin(), server.names().end());
    watcher.reset();
    if (victim == Victim::Everybody) service_.emplace(state_);
    const auto next = service_->attach();
    EXPECT_EQ(next->pid() == worker, victim == Victim::Server);
    if (victim != Victim::Server) EXPECT_TRUE(next->living()->empty());
    expect_in_order(*next, dead_spaces);
    if (HasFailure()) break;
  }
  const auto last = service_->attach();
  ASSERT_TRUE(last->stop());
  EXPECT_EQ(service_->keeper().finish().status, 0);
  EXPECT_EQ(state_.recorded(), std::set<std::string>{});
  for (const std::string& id : known_)
    EXPECT_EQ(groups_of(host(), id), std::vector<std::string>{}) << id;
  EXPECT_GT(known_.size(), static_cast<std::size_t>(kPoints) / 2);
}

}  // namespace
}  // namespace caisson::test
