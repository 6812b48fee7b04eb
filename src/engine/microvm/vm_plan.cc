#include "engine/microvm/vm_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "guest/protocol/boot_record.h"

namespace caisson::engine::microvm {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20U;
constexpr std::uint32_t kMillisPerCore = 1000;
constexpr std::uint32_t kGuestTicks = 250;  // a second, as distributions build their kernels

std::string machine_words() {
  // acpi: a distribution's kernel learns of the devices by it alone. Nothing else that a guest
  // could talk to: no serial line, no bus, no option ROM; and no page of it is merged with others'.
  return "microvm,acpi=on,rtc=on,pit=on,pic=on,pcie=off,usb=off,graphics=off,isa-serial=off,"
         "x-option-roms=off,auto-kernel-cmdline=off,mem-merge=off,dump-guest-core=off";
}

std::string memory_object(const VmPlan& plan) {
  return fmt::format(
      "memory-backend-file,id=mem,size={},mem-path=/{}/{},share=on,merge=off,dump=off",
      plan.memory_bytes, kJailMemory, kMemoryFile);
}

void add_disk(std::vector<std::string>& out, const char* node, int fd, bool read_only,
              const char* serial) {
  const auto set = fmt::format("{}", fd);
  out.insert(out.end(), {"-add-fd", fmt::format("fd={},set={}", fd, set)});
  out.insert(out.end(),
             {"-blockdev",
              fmt::format("driver=raw,node-name={},read-only={},discard=unmap,cache.no-flush={},"
                          "file.driver=file,file.filename=/dev/fdset/{},file.locking=off",
                          node, read_only ? "on" : "off", read_only ? "off" : "on", set)});
  out.insert(out.end(),
             {"-device", fmt::format("virtio-blk-device,drive={},serial={}", node, serial)});
}

}  // namespace

std::string_view to_string(Accelerator accelerator) noexcept {
  return accelerator == Accelerator::Kvm ? "kvm" : "tcg";
}

Result<VmPlan> plan_machine(const Limits& limits, Accelerator accelerator,
                            std::uint32_t clock_khz) {
  VmPlan plan;
  plan.accelerator = accelerator;
  plan.clock_khz = clock_khz;
  plan.memory_bytes = limits.memory_bytes == 0 ? kMachineMemoryDefault : limits.memory_bytes;
  plan.memory_bytes = plan.memory_bytes / kMib * kMib;
  if (plan.memory_bytes < kMachineMemoryMin || plan.memory_bytes > kMachineMemoryMax) {
    return bad_field("resource_limits.memory",
                     fmt::format("memory: a microVM has its own kernel and takes {} to {} MiB",
                                 kMachineMemoryMin / kMib, kMachineMemoryMax / kMib));
  }
  const std::uint32_t cores =
      std::max(1U, (limits.cpu_millis + kMillisPerCore - 1) / kMillisPerCore);
  plan.processors = std::min(cores, kProcessorsMax);
  return plan;
}

std::string kernel_words(const VmPlan& plan) {
  std::string words =
      "quiet loglevel=0 panic=-1 reboot=t random.trust_cpu=on no_timer_check audit=0";
  // An emulated processor measures its clocks against each other for ever where the host is busy:
  // it is told.
  if (plan.accelerator == Accelerator::Emulated && plan.clock_khz != 0) {
    const std::uint64_t loops = std::uint64_t{plan.clock_khz} * 1000 / kGuestTicks;
    words += fmt::format(" tsc_early_khz={} lpj={} cryptomgr.notests", plan.clock_khz, loops);
  }
  return words;
}

std::vector<std::string> qemu_arguments(const VmPlan& plan) {
  const bool emulated = plan.accelerator == Accelerator::Emulated;
  std::vector<std::string> out = {"-nodefaults",
                                  "-no-user-config",
                                  "-display",
                                  "none",
                                  "-no-reboot",
                                  "-name",
                                  "caisson",
                                  "-sandbox",
                                  "on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
                                  "resourcecontrol=deny",
                                  "-cpu",
                                  emulated ? "max" : "host",
                                  "-smp",
                                  std::to_string(plan.processors),
                                  "-m",
                                  fmt::format("{}M", plan.memory_bytes / kMib)};
  out.insert(out.end(), {"-object", memory_object(plan)});
  out.insert(out.end(), {"-machine", machine_words() + ",memory-backend=mem", "-accel",
                         emulated ? fmt::format("tcg,thread=multi,tb-size={}", kTranslationMib)
                                  : std::string("kvm")});
  out.insert(out.end(), {"-global", "virtio-mmio.force-legacy=false"});
  out.insert(out.end(), {"-kernel", fmt::format("/{}", kJailKernel), "-initrd",
                         fmt::format("/{}", kJailInitramfs), "-append", kernel_words(plan)});
  out.insert(out.end(),
             {"-chardev", fmt::format("socket,id=channel,fd={}", kFdChannel), "-device",
              "virtio-serial-device,max_ports=2", "-device",
              fmt::format("virtserialport,nr=1,chardev=channel,name={}", wire::kBootPort)});
  out.insert(out.end(), {"-chardev", fmt::format("socket,id=monitor,fd={}", kFdMonitor), "-mon",
                         "chardev=monitor,mode=control"});
  add_disk(out, "image", kFdImage, true, wire::kBootRootDisk);
  add_disk(out, "upper", kFdUpper, false, wire::kBootUpperDisk);
  if (plan.start == Start::Clone) out.insert(out.end(), {"-incoming", "defer"});
  return out;
}

}  // namespace caisson::engine::microvm
