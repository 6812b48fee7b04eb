// A machine's memory: kept while it stands still, and made to go on. See saved.h.
#include <fmt/format.h>

#include <span>
#include <utility>
#include <vector>

#include "engine/microvm/disks.h"
#include "engine/microvm/tier.h"
#include "guest/protocol/protocol.h"
#include "sys/file.h"
#include "sys/socket.h"

namespace caisson::engine::microvm {
namespace {

constexpr auto kTalkWait = std::chrono::seconds(5);

TimePoint soon() { return Clock::now() + kTalkWait; }

std::string runtime_of(const DriverFacts& driver, const KernelAbout& kernel) {
  return fmt::format("{} {}, Linux {} {}, protocol {}", driver.name, driver.version, kernel.release,
                     kernel.kernel_sha256, wire::kVersion);
}

// Through the carrier, as an identity is: for one that is who it was.
Result<void> let_go_on(const native::Sandbox& sandbox) {
  const wire::ControlHeader release{wire::kVersion,
                                    static_cast<std::uint32_t>(wire::ControlKind::Release)};
  return sys::send_message(sandbox.control(), std::as_bytes(std::span(&release, 1)), {});
}

}  // namespace

Result<MicrovmTier::Living*> MicrovmTier::find(const std::string& id) {
  const auto at = living_.find(id);
  if (at == living_.end())
    return caisson::failure(Errc::NotFound, "memory: nobody talks with this machine's monitor");
  return &at->second;
}

// From here on its memory can be saved: whoever starts a machine keeps it.
Result<UniqueFd> MicrovmTier::keep(const std::string& id, Machine machine, Disks disks,
                                   const Shape& shape) {
  UniqueFd complaints = machine.take_complaints();
  SavedAbout about{runtime_of(*driver_, store_->about()), shape.text, disks.name,
                   TRY(mark_of(disks.image.get())), shape.processors};
  UniqueFd upper = TRY(sys::park(std::move(disks.upper)));
  living_.insert_or_assign(id, Living{std::move(machine), std::move(upper), std::move(about), {}});
  return complaints;
}

Result<std::string> MicrovmTier::memory_runtime(const LaunchRequest& /*request*/) {
  TRY(open());
  return runtime_of(*driver_, store_->about());
}

Result<sys::Child> MicrovmTier::save(const MemorySave& wish) {
  Living* one = TRY(find(wish.sandbox.id().str()));
  TRY_IN("memory", one->machine.stop(soon()));
  auto begun = [&]() -> Result<sys::Child> {
    StandingMachine standing{-1, one->machine.memory(), one->upper.get()};
    TRY(check_size(standing));
    UniqueFd devices = TRY(save_devices(one->machine, soon()));
    one->devices = TRY(sys::park(std::move(devices)));
    standing.devices = one->devices.get();
    return begin_keeping(standing, one->about, wish.folder);
  }();
  if (!begun) {
    one->devices.reset();
    (void)one->machine.go_on(soon());
    return std::unexpected(begun.error().within("memory"));
  }
  return begun;
}

Result<MemoryKept> MicrovmTier::saved(const MemorySave& wish, bool whole) {
  Living* one = TRY(find(wish.sandbox.id().str()));
  one->devices.reset();
  if (!whole) return std::unexpected(why_not_kept(wish.folder).within("memory"));
  return MemoryKept{.ended = false, .files = true};
}

Result<void> MicrovmTier::go_on(const MemorySave& wish) {
  Living* one = TRY(find(wish.sandbox.id().str()));
  return one->machine.go_on(soon());
}

// ----------------------------------------------------------------------------------------------
// going on

Result<MicrovmTier::Disks> MicrovmTier::take_saved(const std::string& shape,
                                                   const SavedMachine& saved) {
  if (saved.about.runtime != runtime_of(*driver_, store_->about())) {
    return caisson::failure(
        Errc::Unsupported,
        fmt::format("memory: it was kept by '{}' and cannot go on with '{}'; start from its files "
                    "or set up that version again",
                    saved.about.runtime, runtime_of(*driver_, store_->about())));
  }
  // A process keeps the walls, and the machine the size, that it was given.
  if (saved.about.shape != shape) {
    return bad_field("memory",
                     "memory: it was kept of a machine with other limits (memory, disk, files), "
                     "user, paths, network or profile; ask for the same");
  }
  Disks disks;
  disks.name = saved.about.image;
  auto image = images_->find(disks.name);
  const auto mark = image ? mark_of(image->get()) : Result<std::string>(std::string());
  if (!mark || *mark != saved.about.image_mark) {
    return caisson::failure(Errc::NotFound,
                            "memory: the image of the root that its machine reads was removed");
  }
  disks.image = std::move(*image);
  disks.upper = TRY(copy_disk(store_->disks(), saved.disk.get()));
  return disks;
}

Result<Machine> MicrovmTier::go_on_from(const CarriedPart& part, const SavedMachine& saved,
                                        MachineParts& parts) {
  parts.plan.start = Start::Clone;
  parts.memory_of = saved.memory.get();
  parts.state = saved.devices.get();
  // Before the machine goes on, so before anybody runs in it: init lets nobody go on without.
  if (part.request.memory.same) {
    TRY(let_go_on(part.sandbox));
  } else {
    TRY(tell_identity(part.sandbox, part.request));
  }
  return Machine::start(qemu_driver(), parts);
}

}  // namespace caisson::engine::microvm
