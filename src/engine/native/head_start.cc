#include "engine/native/head_start.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "base/clock.h"
#include "engine/native/devices.h"
#include "guest/init_blob.h"
#include "sys/file.h"

namespace caisson::engine::native {
namespace {

// What of /proc speaks of the host: kernel addresses, keys, interrupts, memory. Where it exists, it
// is covered.
constexpr ChildMask kMasks[] = {
    {"acpi", true}, {"asound", true},  {"interrupts"},  {"kallsyms"},    {"kcore"},
    {"keys"},       {"key-users"},     {"kmsg"},        {"kpagecgroup"}, {"kpagecount"},
    {"kpageflags"}, {"latency_stats"}, {"sched_debug"}, {"scsi", true},  {"slabinfo"},
    {"timer_list"}, {"timer_stats"},   {"vmallocinfo"}};

}  // namespace

Result<UniqueFd> open_state_dir(const std::string& path, bool privileged) {
  auto there = sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (!there) {
    for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
      TRY(sys::make_dir(AT_FDCWD, path.substr(0, at), 0755, sys::Existing::Accept));
      if (at == std::string::npos) break;
    }
    there = sys::open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  }
  UniqueFd dir = TRY(std::move(there));
  // Passable but not readable: a slot's ids must reach the layers below, and nobody lists what is
  // there.
  if (privileged && ::fchmod(dir.get(), 0711) != 0) return sys_failure("chmod " + path, errno);
  for (const char* name : {"layers", "sandboxes", "volumes", "trash"}) {
    TRY(sys::make_dir(dir.get(), name, 0711, sys::Existing::Accept));
  }
  TRY(sys::make_dir(dir.get(), "launcher", 0700, sys::Existing::Accept));
  return sys::park(std::move(dir));
}

Result<HostFiles> open_host_files() {
  HostFiles files;
  UniqueFd null = TRY(sys::open_at(AT_FDCWD, "/dev/null", O_RDWR));
  files.null = TRY(sys::park(std::move(null)));
  files.proc = TRY(sys::open_at(AT_FDCWD, "/proc", O_PATH | O_DIRECTORY));
  return files;
}

Result<HostParts> make_host_parts(HostFiles files) {
  HostParts parts;
  UniqueFd init = TRY(sys::sealed_memfd("caisson-init", guest::init_program(), 0111));
  parts.init = TRY(sys::park(std::move(init)));
  parts.null = std::move(files.null);
  for (const ChildMask& mask : kMasks) {
    if (::faccessat(files.proc.get(), mask.name, F_OK, 0) == 0) parts.masks.push_back(mask);
  }
  return parts;
}

namespace {

// One value from one thread to the other, which looks for it for a while before it sleeps: it would
// be woken on the other's processor and wait there until that one is done with everything else.
template <class T>
class Parcel {
 public:
  void put(Result<T> value) {
    value_ = std::move(value);
    there_.store(true, std::memory_order_release);
    there_.notify_one();
  }
  [[nodiscard]] bool there() const noexcept { return there_.load(std::memory_order_acquire); }
  [[nodiscard]] Result<T> take() {
    const TimePoint patience = Clock::now() + kLook;
    while (!there()) {
      if (Clock::now() < patience) continue;
      there_.wait(false, std::memory_order_acquire);
    }
    return std::move(*value_);
  }

 private:
  static constexpr microseconds kLook{1000};
  std::atomic<bool> there_ = false;
  std::optional<Result<T>> value_;
};

}  // namespace

cpu_set_t own_processors() noexcept {
  cpu_set_t all;
  CPU_ZERO(&all);
  (void)::sched_getaffinity(0, sizeof(all), &all);
  return all;
}

// Every processor that we may use but the one we are on; all of them when that is the only one. The
// kernel leaves a newborn thread where its parent runs more often than not, and then one of them
// only waits for the other.
cpu_set_t all_but_this(const cpu_set_t& all) noexcept {
  cpu_set_t others = all;
  if (const int here = ::sched_getcpu(); here >= 0) CPU_CLR(static_cast<unsigned>(here), &others);
  return CPU_COUNT(&others) > 0 ? others : all;
}

struct HeadStart::Work {
  Parcel<sys::Surroundings> surroundings;
  Parcel<UniqueFd> devices;
  Parcel<HostParts> parts;
  Parcel<Errand> errand;
  Parcel<void> outcome;
  pthread_t thread{};
  cpu_set_t processors{};
  bool running = false;
  bool sent = false;

  void run();
  void run_errand();
};

void HeadStart::Work::run_errand() {
  const auto next = errand.take();
  // Whom the errand starts inherits it.
  (void)::sched_setaffinity(0, sizeof(processors), &processors);
  if (next && *next) outcome.put((*next)());
}

void HeadStart::Work::run() {
  auto files = open_host_files();
  surroundings.put(sys::enter_new_surroundings());
  devices.put(make_device_folder(true));
  const bool early = errand.there();
  if (early) run_errand();
  parts.put(files ? make_host_parts(std::move(*files)) : std::unexpected(files.error()));
  if (!early) run_errand();
}

HeadStart::HeadStart() : work_(std::make_unique<Work>()) {}

HeadStart::~HeadStart() {
  if (!work_->running) return;
  if (!work_->sent) send(nullptr);
  (void)::pthread_join(work_->thread, nullptr);
}

std::unique_ptr<HeadStart> HeadStart::begin() {
  std::unique_ptr<HeadStart> head_start(new HeadStart());
  Work& work = *head_start->work_;
  work.processors = own_processors();
  const cpu_set_t others = all_but_this(work.processors);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  (void)::pthread_attr_setaffinity_np(&attributes, sizeof(others), &others);
  const auto main = [](void* self) -> void* {
    static_cast<Work*>(self)->run();
    return nullptr;
  };
  // Signals are the first thread's, and so is what becomes of them in the end: whom the second one
  // starts must not die of them either.
  sigset_t every;
  sigset_t before;
  ::sigfillset(&every);
  (void)::pthread_sigmask(SIG_SETMASK, &every, &before);
  work.running = ::pthread_create(&work.thread, &attributes, main, &work) == 0;
  (void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (!work.running) return nullptr;
  return head_start;
}

Result<sys::Surroundings> HeadStart::surroundings() { return work_->surroundings.take(); }
Result<UniqueFd> HeadStart::devices() { return work_->devices.take(); }
Result<HostParts> HeadStart::parts() { return work_->parts.take(); }

void HeadStart::send(Errand errand) {
  work_->sent = true;
  work_->errand.put(std::move(errand));
}

Result<void> HeadStart::done() { return work_->outcome.take(); }

}  // namespace caisson::engine::native
