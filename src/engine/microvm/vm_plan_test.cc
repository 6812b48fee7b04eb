#include "engine/microvm/vm_plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/microvm/boot_words.h"

namespace caisson::engine::microvm {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += word + " ";
  return out;
}

std::string line(const VmPlan& plan) { return joined(qemu_arguments(plan)); }

TEST(VmPlan, TakesItsSizeFromTheLimits) {
  Limits limits;
  limits.memory_bytes = (300ULL << 20U) + 5;
  limits.cpu_millis = 1500;
  const auto plan = plan_machine(limits, Accelerator::Emulated, 2'600'000);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->memory_bytes, 300ULL << 20U);
  EXPECT_EQ(plan->processors, 2U);
  const std::string words = line(*plan);
  EXPECT_NE(words.find("-m 300M"), std::string::npos);
  EXPECT_NE(words.find("-smp 2"), std::string::npos);
  EXPECT_NE(words.find("tsc_early_khz=2600000 lpj=10400000"), std::string::npos);
}

TEST(VmPlan, RefusesWhatIsNoMachine) {
  Limits limits;
  limits.memory_bytes = 16ULL << 20U;
  const auto small = plan_machine(limits, Accelerator::Emulated, 0);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().field, "resource_limits.memory");
  limits.memory_bytes = 1ULL << 50U;
  EXPECT_FALSE(plan_machine(limits, Accelerator::Emulated, 0));
}

TEST(VmPlan, TheHostsGroupsHaveRoomForTheMonitor) {
  Limits limits;
  limits.memory_bytes = 256ULL << 20U;
  limits.processes = 5;
  const Limits host = host_limits(policy::SandboxTier::Microvm, limits);
  EXPECT_EQ(host.memory_bytes, (256ULL << 20U) + kMonitorBytes);
  EXPECT_EQ(host.processes, kMonitorTasksMax);
  EXPECT_EQ(host.disk_bytes, limits.disk_bytes);
}

// What a guest cannot talk to cannot be attacked.
TEST(VmPlan, HasNoDeviceButTheChannelAndTwoDisks) {
  const auto words = qemu_arguments({});
  std::vector<std::string> devices;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "-device") devices.push_back(words[i + 1].substr(0, words[i + 1].find(',')));
  }
  EXPECT_EQ(devices, (std::vector<std::string>{"virtio-serial-device", "virtserialport",
                                               "virtio-blk-device", "virtio-blk-device"}));
  const std::string all = joined(words);
  for (const char* there :
       {"-nodefaults", "-no-user-config", "isa-serial=off", "pcie=off", "usb=off", "mem-merge=off",
        "dump-guest-core=off", "x-option-roms=off", "elevateprivileges=deny", "spawn=deny",
        "resourcecontrol=deny", "obsolete=deny", "read-only=on"})
    EXPECT_NE(all.find(there), std::string::npos) << there;
  for (const char* absent : {"-net", "netdev", "vhost", "kvm", "/dev/kvm", "mitigations=off",
                             "nokaslr", "-fsdev", "-virtfs"})
    EXPECT_EQ(all.find(absent), std::string::npos) << absent;
}

TEST(VmPlan, EveryMachineHasItsMemoryInAFile) {
  VmPlan plan;
  EXPECT_NE(line(plan).find("mem-path=/memory/ram,share=on"), std::string::npos);
  EXPECT_EQ(line(plan).find("-incoming"), std::string::npos);
  plan.start = Start::Clone;
  EXPECT_NE(line(plan).find("mem-path=/memory/ram,share=on"), std::string::npos);
  EXPECT_NE(line(plan).find("-incoming defer"), std::string::npos);
}

TEST(BootWords, SayWhatTheRootIs) {
  LaunchRequest request;
  request.id = "box";
  request.writable = {"/data"};
  request.aliases = {{"/shown", "/data"}};
  request.limits.processes = 10;
  const auto bytes = boot_record(request, {});
  ASSERT_TRUE(bytes) << bytes.error().message;
  wire::BootRecord head{};
  std::memcpy(&head, bytes->data(), sizeof(head));
  EXPECT_EQ(head.size, bytes->size());
  EXPECT_EQ(head.flags, wire::kBootOwnWorkspace);
  EXPECT_EQ(head.processes, 12U);
  EXPECT_EQ(head.writable_count, 1U);
  EXPECT_EQ(head.alias_count, 1U);
  request.root = RootMode::Writable;
  const auto writable = boot_record(request, {});
  std::memcpy(&head, writable->data(), sizeof(head));
  EXPECT_EQ(head.flags, wire::kBootWritableRoot);
}

TEST(BootWords, RefuseByNameWhatAMachineHasNot) {
  LaunchRequest request;
  EXPECT_TRUE(check_machine_request(request));
  request.folders = {{"/data", FolderMode::ReadOnly}};
  auto refused = check_machine_request(request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Unsupported);
  EXPECT_NE(refused.error().message.find("folders"), std::string::npos);
  request.folders.clear();
  request.store_mounts.resize(1);
  EXPECT_FALSE(check_machine_request(request));
  request.store_mounts.clear();
  request.persistent = true;
  EXPECT_FALSE(check_machine_request(request));
  request.memory.name = "kept";
  EXPECT_TRUE(check_machine_request(request));
}

}  // namespace
}  // namespace caisson::engine::microvm
