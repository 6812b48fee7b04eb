#include "engine/native/groups.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "sys/file.h"
#include "sys/process.h"

namespace caisson::engine::native {
namespace {

constexpr std::size_t kChildGroupsMax = 4096;
constexpr seconds kThawWait{2};
constexpr std::size_t kMembersBytesMax = std::size_t{1} << 20U;
constexpr seconds kEmptyWait{5};
constexpr std::uint64_t kCpuPeriodUs = 100'000;
constexpr std::uint32_t kOwnProcesses =
    2;  // init, and a file operation while the guest has used up its own
constexpr std::uint64_t kReclaimStep = 64ULL << 20U;  // at most so much is asked for at a time
constexpr std::uint64_t kSocketPart = 8;  // on v1: network buffers beside the memory, at most 1/8

constexpr std::size_t index_of(Controller controller) noexcept {
  return GroupRoots::index_of(controller);
}

std::uint64_t number_at(std::string_view text) noexcept {
  std::uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The number behind `key ` at the start of a line, 0 when there is none.
std::uint64_t keyed(std::string_view text, std::string_view key) noexcept {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      return number_at(line.substr(key.size() + 1));
    }
    at = end + 1;
  }
  return 0;
}

// 0 stands for "no limit", which each file spells in its own way.
std::string value_or(std::uint64_t value, const char* none) {
  return value == 0 ? none : std::to_string(value);
}

// Sum of every `key=N` in io.stat.
std::uint64_t summed(std::string_view text, std::string_view key) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    sum += number_at(text.substr(at + key.size()));
  }
  return sum;
}

std::uint64_t read_number(int dir, const std::string& file) {
  const auto text = sys::read_small(dir, file, 64);
  return text ? number_at(*text) : 0;
}

Result<UniqueFd> open_dir(int dir, const std::string& path) {
  return sys::open_at(dir, path, O_RDONLY | O_DIRECTORY);
}

// Between two looks at cgroup.events, at first and at most.
constexpr microseconds kLookFirst{100};
constexpr microseconds kLookMost{2'000};

// Waits until cgroup.events says `key value`. The kernel raises POLLPRI on every change of that
// file, but a second one within 10 ms only when these are over: so we look by ourselves, too.
Result<void> wait_event(int group, std::string_view key, std::uint64_t value, TimePoint deadline) {
  const UniqueFd events = TRY(sys::open_at(group, "cgroup.events", O_RDONLY));
  for (microseconds pause = kLookFirst;; pause = std::min(2 * pause, kLookMost)) {
    const std::string text = TRY(sys::read_again(events.get(), 4096));
    if (keyed(text, key) == value) return {};
    const TimePoint next = std::min(deadline, Clock::now() + pause);
    if (!TRY(sys::wait_ready(events.get(), POLLPRI, next)) && next == deadline) {
      return failure(Errc::TimedOut, "control group: '" + std::string(key) + "' did not become " +
                                         std::to_string(value));
    }
  }
}

Result<void> kill_and_empty(int group) {
  TRY(sys::write_once(group, "cgroup.kill", "1"));
  return wait_event(group, "populated", 0, Clock::now() + kEmptyWait);
}

// A group whose last process is being reaped is busy for a moment: wait for that, do not guess.
Result<void> remove_group(int parent, const std::string& name, int group) {
  auto removed = sys::remove_dir(parent, name);
  if (removed || removed.error().sys_errno == ENOENT) return {};
  if (removed.error().sys_errno != EBUSY) return removed;
  TRY(wait_event(group, "populated", 0, Clock::now() + kEmptyWait));
  return sys::remove_dir(parent, name);
}

// init names the groups of execs e0, e1, …; no control file begins like that.
bool is_exec_group(std::string_view name) noexcept {
  return name.size() >= 2 && name[0] == 'e' && name[1] >= '0' && name[1] <= '9';
}

Result<void> remove_with_children(int parent, const std::string& name, int group) {
  const auto names = TRY(sys::list_dir(group, kChildGroupsMax));
  for (const std::string& child : names) {
    if (!is_exec_group(child)) continue;
    const auto opened = open_dir(group, child);
    if (opened) TRY(remove_group(group, child, opened->get()));
  }
  return remove_group(parent, name, group);
}

}  // namespace

Result<Groups> Groups::create(const GroupRoots& roots, const SandboxId& id, std::uint32_t owner) {
  Groups groups;
  if (roots.v2() < 0) return groups;
  groups.name_ = GroupRoots::group_name(id.str());
  TRY(sys::make_dir(roots.v2(), groups.name_, 0755, sys::Existing::Refuse));
  groups.roots_ = &roots;
  const UniqueFd v2 = TRY(groups.open_v2());
  if (::fchown(v2.get(), owner, owner) != 0 ||
      ::fchownat(v2.get(), "cgroup.procs", owner, owner, AT_SYMLINK_NOFOLLOW) != 0) {
    return sys_failure("hand the control group to init", errno);
  }
  return groups;
}

Groups::Groups(Groups&& other) noexcept
    : roots_(std::exchange(other.roots_, nullptr)),
      name_(std::move(other.name_)),
      made_v1_(other.made_v1_),
      touched_(other.touched_) {}

Groups& Groups::operator=(Groups&& other) noexcept {
  if (this != &other) {
    end();
    roots_ = std::exchange(other.roots_, nullptr);
    name_ = std::move(other.name_);
    made_v1_ = other.made_v1_;
    touched_ = other.touched_;
  }
  return *this;
}

Groups::~Groups() { end(); }

void Groups::end() noexcept {
  if (roots_ == nullptr) return;
  const auto v2 = open_v2();
  if (v2) (void)kill_and_empty(v2->get());
  (void)remove();
}

Result<void> Groups::make_v1(Controller controller) {
  bool& made = made_v1_[index_of(controller)];
  if (made || roots_->v1(controller) < 0) return {};
  TRY(sys::make_dir(roots_->v1(controller), name_, 0755, sys::Existing::Refuse));
  made = true;
  return {};
}

Result<UniqueFd> Groups::open_v2() const {
  if (roots_ == nullptr) return UniqueFd();
  return open_dir(roots_->v2(), name_);
}

Result<UniqueFd> Groups::open_for(Controller controller) const {
  if (roots_ == nullptr) return UniqueFd();
  if (roots_->on_v2(controller)) return open_v2();
  if (!made_v1_[index_of(controller)]) return UniqueFd();
  return open_dir(roots_->v1(controller), name_);
}

Result<void> Groups::set_memory(std::uint64_t bytes) {
  const UniqueFd group = TRY(open_for(Controller::Memory));
  if (roots_->on_v2(Controller::Memory)) {
    TRY(sys::write_once(group.get(), "memory.max", value_or(bytes, "max")));
    if (roots_->swap_accounting()) return sys::write_once(group.get(), "memory.swap.max", "0");
    return {};
  }
  // The kernel wants memory ≤ memory and swap at every moment. Shrinking, the first write works;
  // growing, it is refused until the sum has grown.
  const std::string text = value_or(bytes, "-1");
  // v1 does not count the buffers of network sockets in it, and gigabytes fit into them on lo
  // alone. They have a counter of their own, off until it has a limit.
  TRY(sys::write_once(group.get(), "memory.kmem.tcp.limit_in_bytes",
                      value_or(bytes / kSocketPart, "-1")));
  const auto limited = sys::write_once(group.get(), "memory.limit_in_bytes", text);
  if (!roots_->swap_accounting()) return limited;
  TRY(sys::write_once(group.get(), "memory.memsw.limit_in_bytes", text));
  if (limited) return {};
  return sys::write_once(group.get(), "memory.limit_in_bytes", text);
}

Result<void> Groups::set_cpu(std::uint32_t millis) {
  const UniqueFd group = TRY(open_for(Controller::Cpu));
  const std::uint64_t quota = millis * kCpuPeriodUs / 1000;
  if (!roots_->on_v2(Controller::Cpu))
    return sys::write_once(group.get(), "cpu.cfs_quota_us", value_or(quota, "-1"));
  return sys::write_once(group.get(), "cpu.max",
                         value_or(quota, "max") + " " + std::to_string(kCpuPeriodUs));
}

Result<void> Groups::set_pids(std::uint32_t processes) {
  const UniqueFd group = TRY(open_for(Controller::Pids));
  return sys::write_once(group.get(), "pids.max",
                         value_or(processes == 0 ? 0 : processes + kOwnProcesses, "max"));
}

// A controller is touched when a limit is asked for, or was: cpu's quota alone walks every group of
// the host.
Result<void> Groups::set_limits(const Limits& limits) {
  if (roots_ == nullptr) return {};
  const auto apply = [this](Controller controller, bool wanted, auto set) -> Result<void> {
    if (!roots_->has(controller) || (!wanted && !touched_[index_of(controller)])) return {};
    TRY(make_v1(controller));
    touched_[index_of(controller)] = true;
    return set();
  };
  TRY(apply(Controller::Memory, limits.memory_bytes != 0,
            [&] { return set_memory(limits.memory_bytes); }));
  TRY(apply(Controller::Pids, limits.processes != 0, [&] { return set_pids(limits.processes); }));
  return apply(Controller::Cpu, limits.cpu_millis != 0, [&] { return set_cpu(limits.cpu_millis); });
}

// The groups of execs, and the sandbox's own.
Result<std::vector<std::string>> Groups::folders(int v2) const {
  auto folders = TRY(sys::list_dir(v2, kChildGroupsMax));
  std::erase_if(folders, [](const std::string& name) { return !is_exec_group(name); });
  folders.emplace_back(".");
  return folders;
}

Result<std::vector<std::string>> Groups::members() const {
  std::vector<std::string> all;
  const UniqueFd v2 = TRY(open_v2());
  if (!v2) return failure(Errc::Unsupported, "this sandbox has no control group of its own");
  for (const std::string& folder : TRY(folders(v2.get()))) {
    const auto text = sys::read_small(v2.get(), folder + "/cgroup.procs", kMembersBytesMax);
    if (!text && text.error().sys_errno == ENOENT) continue;  // its exec has ended
    if (!text) return std::unexpected(text.error());
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t end = std::min(text->find('\n', at), text->size());
      all.push_back(text->substr(at, end - at));
      at = end + 1;
    }
  }
  return all;
}

// Everything that runs into the v1 group of a controller that had none until now. The caller has
// frozen the sandbox, so nobody is born meanwhile.
Result<void> Groups::move_members(Controller controller) {
  const UniqueFd to = TRY(sys::open_at(roots_->v1(controller), name_ + "/cgroup.procs", O_WRONLY));
  for (const std::string& member : TRY(members())) {
    const auto moved = sys::write_once(to.get(), member);
    if (!moved && moved.error().sys_errno != ESRCH) return moved;
  }
  return {};
}

Result<void> Groups::change_limits(const Limits& limits, TimePoint deadline) {
  const auto before = made_v1_;
  TRY(set_limits(limits));
  if (made_v1_ == before) return {};
  StandStill still(*this, deadline);
  TRY(still.begin());
  for (const Controller controller : kAllControllers) {
    if (made_v1_[index_of(controller)] != before[index_of(controller)])
      TRY(move_members(controller));
  }
  return {};
}

Result<void> StandStill::begin() {
  if (TRY(groups_.frozen())) return {};
  thaw_ = true;
  return groups_.freeze(deadline_);
}

StandStill::~StandStill() {
  if (thaw_) (void)groups_.thaw(std::max(deadline_, Clock::now() + kThawWait));
}

Result<std::vector<UniqueFd>> Groups::open_tasks() const {
  std::vector<UniqueFd> tasks;
  for (const Controller controller : kAllControllers) {
    if (!made_v1_[index_of(controller)]) continue;
    tasks.push_back(TRY(sys::open_at(roots_->v1(controller), name_ + "/tasks", O_WRONLY)));
  }
  return tasks;
}

Result<UniqueFd> Groups::open_oom_counter() const {
  const UniqueFd group = TRY(open_for(Controller::Memory));
  if (!group) return UniqueFd();
  return sys::open_at(group.get(),
                      roots_->on_v2(Controller::Memory) ? "memory.events" : "memory.oom_control",
                      O_RDONLY);
}

// On v2 a request names bytes, on v1 it means all of it. A kernel before 5.19 has no such file on
// v2.
Result<Groups::Reclaim> Groups::open_reclaim() const {
  const UniqueFd group = TRY(open_for(Controller::Memory));
  if (!group) return Reclaim{};
  const bool unified = roots_->on_v2(Controller::Memory);
  auto file =
      sys::open_at(group.get(), unified ? "memory.reclaim" : "memory.force_empty", O_WRONLY);
  if (!file && file.error().sys_errno == ENOENT) return Reclaim{};
  if (!file) return std::unexpected(file.error());
  if (!unified) return Reclaim{*std::move(file), "0", 1};
  const std::uint64_t held = read_number(group.get(), "memory.current");
  return Reclaim{*std::move(file), std::to_string(kReclaimStep), held / kReclaimStep + 1};
}

Result<void> Groups::set_frozen(bool frozen, TimePoint deadline) {
  const UniqueFd v2 = TRY(open_v2());
  if (!v2)
    return failure(Errc::Unsupported, "freeze: this sandbox has no control group of its own");
  TRY(sys::write_once(v2.get(), "cgroup.freeze", frozen ? "1" : "0"));
  return wait_event(v2.get(), "frozen", frozen ? 1 : 0, deadline);
}

Result<bool> Groups::frozen() const {
  const UniqueFd v2 = TRY(open_v2());
  if (!v2) return false;
  return TRY(sys::read_small(v2.get(), "cgroup.freeze", 16)).starts_with('1');
}

Result<void> Groups::freeze(TimePoint deadline) { return set_frozen(true, deadline); }
Result<void> Groups::thaw(TimePoint deadline) { return set_frozen(false, deadline); }

Result<void> Groups::kill() {
  const UniqueFd v2 = TRY(open_v2());
  if (!v2) return {};
  return sys::write_once(v2.get(), "cgroup.kill", "1");
}

Result<std::uint64_t> Groups::cpu_time_us() const {
  const UniqueFd v2 = TRY(open_v2());
  if (!v2)
    return failure(Errc::Unsupported, "cpu time: this sandbox has no control group of its own");
  return keyed(TRY(sys::read_small(v2.get(), "cpu.stat", 4096)), "usage_usec");
}

void Groups::add_memory_totals(int memory, Usage& usage) const {
  const bool unified = roots_->on_v2(Controller::Memory);
  usage.memory_peak_bytes =
      read_number(memory, unified ? "memory.peak" : "memory.max_usage_in_bytes");
  const auto events =
      sys::read_small(memory, unified ? "memory.events" : "memory.oom_control", 4096);
  if (events) usage.oom_kills = keyed(*events, "oom_kill");
}

Result<Usage> Groups::totals() const {
  Usage usage;
  if (roots_ == nullptr) return usage;
  usage.cpu_time_us = TRY(cpu_time_us());
  const UniqueFd memory = TRY(open_for(Controller::Memory));
  if (memory) add_memory_totals(memory.get(), usage);
  return usage;
}

Result<Usage> Groups::usage() const {
  Usage usage;
  const UniqueFd v2 = TRY(open_v2());
  if (!v2) return usage;
  usage.cpu_time_us = TRY(cpu_time_us());
  const UniqueFd memory = TRY(open_for(Controller::Memory));
  if (memory) {
    usage.memory_bytes =
        read_number(memory.get(),
                    roots_->on_v2(Controller::Memory) ? "memory.current" : "memory.usage_in_bytes");
    add_memory_totals(memory.get(), usage);
  }
  const UniqueFd pids = TRY(open_for(Controller::Pids));
  if (pids) usage.processes = static_cast<std::uint32_t>(read_number(pids.get(), "pids.current"));
  const auto io = sys::read_small(v2.get(), "io.stat", 16384);
  if (io) {
    usage.io_read_bytes = summed(*io, "rbytes=");
    usage.io_write_bytes = summed(*io, "wbytes=");
  }
  return usage;
}

Result<void> Groups::remove() {
  if (roots_ == nullptr) return {};
  const UniqueFd v2 = TRY(open_v2());
  const GroupRoots& roots = *std::exchange(roots_, nullptr);
  Result<void> outcome = remove_with_children(roots.v2(), name_, v2.get());
  for (const Controller controller : kAllControllers) {
    if (!std::exchange(made_v1_[index_of(controller)], false)) continue;
    const auto removed = sys::remove_dir(roots.v1(controller), name_);
    if (!removed && outcome) outcome = removed;
  }
  return outcome;
}

Result<void> Groups::remove_leftover(const GroupRoots& roots, const std::string& id) {
  if (roots.v2() < 0) return {};
  const std::string name = GroupRoots::group_name(id);
  const auto v2 = open_dir(roots.v2(), name);
  if (v2) {
    TRY(kill_and_empty(v2->get()));
    TRY(remove_with_children(roots.v2(), name, v2->get()));
  }
  for (const Controller controller : kAllControllers) {
    if (roots.v1(controller) >= 0)
      (void)::unlinkat(roots.v1(controller), name.c_str(), AT_REMOVEDIR);
  }
  return {};
}

}  // namespace caisson::engine::native
