#include "engine/native/head_start.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <latch>

#include "base/clock.h"
#include "engine/native/devices.h"
#include "engine/native/skeleton.h"
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

Result<HostImage> make_host_image(int state, bool privileged, UniqueFd devices) {
  HostImage image;
  std::optional<std::uint32_t> owner;
  if (privileged) owner = kStoreBase;
  image.skeleton = TRY(ensure_host_skeleton(state, owner));
  image.system_folders = host_system_folders();
  if (!devices) devices = TRY_IN("/dev of sandboxes", make_device_folder(privileged));
  image.device_folder = TRY(sys::park(std::move(devices)));
  UniqueFd init = TRY(sys::sealed_memfd("caisson-init", guest::init_program(), 0111));
  image.init = TRY(sys::park(std::move(init)));
  UniqueFd null = TRY(sys::open_at(AT_FDCWD, "/dev/null", O_RDWR));
  image.null = TRY(sys::park(std::move(null)));
  for (const ChildMask& mask : kMasks) {
    if (::access((std::string("/proc/") + mask.name).c_str(), F_OK) == 0)
      image.masks.push_back(mask);
  }
  return image;
}

namespace {

// One value from the second thread to the first. The first looks for it for a while before it
// sleeps: it would be woken on the other's processor and wait there until that one is done with
// everything else.
template <class T>
class Parcel {
 public:
  void put(Result<T> value) {
    value_ = std::move(value);
    there_.store(true, std::memory_order_release);
    there_.notify_one();
  }
  [[nodiscard]] Result<T> take() {
    const TimePoint patience = Clock::now() + kLook;
    while (!there_.load(std::memory_order_acquire)) {
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

// Every processor that we may use but the one we are on; all of them when that is the only one. The
// kernel leaves a newborn thread where its parent runs more often than not, and then one of them
// only waits for the other.
cpu_set_t other_processors() noexcept {
  cpu_set_t all;
  CPU_ZERO(&all);
  (void)::sched_getaffinity(0, sizeof(all), &all);
  cpu_set_t others = all;
  if (const int here = ::sched_getcpu(); here >= 0) CPU_CLR(static_cast<unsigned>(here), &others);
  return CPU_COUNT(&others) > 0 ? others : all;
}

struct HeadStart::Work {
  Parcel<Place> place;
  Parcel<UniqueFd> devices;
  Parcel<sys::Surroundings> surroundings;
  std::latch leave{1};
  std::string state_dir;
  std::optional<FolderOwner> owner;
  pthread_t thread{};
  bool running = false;
  bool released = false;

  [[nodiscard]] Result<Place> make_place() const;
  void run();
};

Result<HeadStart::Place> HeadStart::Work::make_place() const {
  UniqueFd state = TRY(open_state_dir(state_dir, true));
  SlotTable table = TRY(SlotTable::open_in(state.get()));
  // Cleaning up after a killed run needs the host's groups, which are not known yet: such a slot is
  // passed over.
  const std::uint32_t index = TRY(table.claim(
      [](const std::string&) -> Result<void> { return failure(Errc::Busy, "not now"); }));
  ReservedSlot slot = TRY(begin_slot(index, owner));
  (void)::sched_yield();  // its helpers have a few lines to run, and may have to do so here
  return Place{std::move(state), std::move(table), std::move(slot)};
}

void HeadStart::Work::run() {
  auto made = make_place();
  const std::optional<Error> reason = made ? std::nullopt : std::optional(made.error());
  place.put(std::move(made));
  devices.put(reason ? std::unexpected(*reason) : make_device_folder(true));
  surroundings.put(reason ? std::unexpected(*reason) : sys::enter_new_surroundings());
  leave.wait();
}

HeadStart::HeadStart() : work_(std::make_unique<Work>()) {}

HeadStart::~HeadStart() {
  if (!work_->running) return;
  release();
  (void)::pthread_join(work_->thread, nullptr);
}

std::unique_ptr<HeadStart> HeadStart::begin(std::string state_dir,
                                            std::optional<FolderOwner> owner) {
  std::unique_ptr<HeadStart> head_start(new HeadStart());
  Work& work = *head_start->work_;
  work.state_dir = std::move(state_dir);
  work.owner = owner;
  const cpu_set_t others = other_processors();
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  (void)::pthread_attr_setaffinity_np(&attributes, sizeof(others), &others);
  const auto main = [](void* self) -> void* {
    static_cast<Work*>(self)->run();
    return nullptr;
  };
  work.running = ::pthread_create(&work.thread, &attributes, main, &work) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!work.running) return nullptr;
  return head_start;
}

void HeadStart::release() noexcept {
  if (!std::exchange(work_->released, true)) work_->leave.count_down();
}

Result<HeadStart::Place> HeadStart::place() { return work_->place.take(); }
Result<UniqueFd> HeadStart::devices() { return work_->devices.take(); }
Result<sys::Surroundings> HeadStart::surroundings() { return work_->surroundings.take(); }

}  // namespace caisson::engine::native
