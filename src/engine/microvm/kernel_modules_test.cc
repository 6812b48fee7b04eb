#include "engine/microvm/kernel_modules.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "engine/microvm/vm_store.h"

namespace caisson::engine::microvm {
namespace {

// An ELF file with nothing in it but a module's description.
std::vector<std::byte> module_that_says(const std::string& description) {
  const std::string names("\0.modinfo\0", 10);
  std::vector<std::byte> out(sizeof(Elf64_Ehdr) + 3 * sizeof(Elf64_Shdr));
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_shoff = sizeof(head);
  head.e_shnum = 3;
  head.e_shstrndx = 1;
  Elf64_Shdr sections[3]{};
  sections[1].sh_offset = out.size();
  sections[1].sh_size = names.size();
  sections[2].sh_name = 1;
  sections[2].sh_offset = out.size() + names.size();
  sections[2].sh_size = description.size();
  std::memcpy(out.data(), &head, sizeof(head));
  std::memcpy(out.data() + sizeof(head), sections, sizeof(sections));
  for (const std::string& text : {names, description}) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    out.insert(out.end(), begin, begin + text.size());
  }
  return out;
}

std::string fields(const std::string& depends) {
  return std::string("license=GPL\0", 12) + "depends=" + depends + std::string("\0name=x\0", 8);
}

using Depends = std::map<std::string, std::string>;

Result<std::vector<Module>> needed(const Depends& kernel,
                                   const std::set<std::string>& builtin = {}) {
  const FindModule find =
      [&](const std::string& name) -> Result<std::optional<std::vector<std::byte>>> {
    const auto at = kernel.find(name);
    if (at == kernel.end()) return std::nullopt;
    return module_that_says(fields(at->second));
  };
  return needed_modules(find, builtin);
}

Depends whole_kernel() {
  return {{"virtio", "virtio_ring"},
          {"virtio_ring", ""},
          {"virtio_mmio", "virtio_ring,virtio"},
          {"virtio_console", "virtio,virtio_ring"},
          {"virtio_blk", "virtio"},
          {"libcrc32c", ""},
          {"erofs", "libcrc32c"},
          {"overlay", ""},
          {"ext4", "jbd2,crc16"},
          {"jbd2", ""},
          {"crc16", ""}};
}

std::vector<std::string> names(const std::vector<Module>& modules) {
  std::vector<std::string> out;
  for (const Module& module : modules) out.push_back(module.name);
  return out;
}

TEST(KernelModules, EachComesAfterWhatItNeeds) {
  const auto got = needed(whole_kernel());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(names(*got), (std::vector<std::string>{"virtio_ring", "virtio", "virtio_mmio",
                                                   "virtio_console", "virtio_blk", "libcrc32c",
                                                   "erofs", "overlay", "jbd2", "crc16", "ext4"}));
}

TEST(KernelModules, WhatIsBuiltInNeedsNoFile) {
  Depends kernel = whole_kernel();
  kernel.erase("ext4");
  EXPECT_TRUE(needed(kernel, {"ext4"}));
  const auto got = needed(kernel);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::Unsupported);
  EXPECT_NE(got.error().message.find("ext4"), std::string::npos);
}

TEST(KernelModules, WhoNeedEachOtherAreLoadedOnce) {
  Depends kernel = whole_kernel();
  kernel["virtio_ring"] = "virtio";
  EXPECT_TRUE(needed(kernel));
}

TEST(KernelModules, AChainWithoutEndIsRefused) {
  Depends kernel = whole_kernel();
  kernel["overlay"] = "m0";
  for (int i = 0; i < 100; ++i) kernel["m" + std::to_string(i)] = "m" + std::to_string(i + 1);
  const auto got = needed(kernel);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Errc::Exhausted);
}

TEST(KernelModules, DamagedOnesAreRefused) {
  auto whole = module_that_says(fields("a,b-c"));
  EXPECT_EQ(*dependencies_of(whole), (std::vector<std::string>{"a", "b_c"}));
  EXPECT_FALSE(dependencies_of({}));
  for (std::size_t size = 0; size + 60 < whole.size(); size += 7) {
    EXPECT_FALSE(dependencies_of(std::span(whole).first(size))) << size;
  }
  Elf64_Ehdr head{};
  std::memcpy(&head, whole.data(), sizeof(head));
  head.e_shoff = ~0ULL - 10;
  std::memcpy(whole.data(), &head, sizeof(head));
  EXPECT_FALSE(dependencies_of(whole));
}

TEST(KernelModules, NamesAreAsTheKernelSpellsThem) {
  EXPECT_EQ(module_name("kernel/drivers/char/virtio-rng.ko.xz"), "virtio_rng");
  EXPECT_EQ(module_name("erofs.ko"), "erofs");
  EXPECT_EQ(module_name("modules.dep"), "");
}

TEST(VmStore, WritesDownWhatItHas) {
  const KernelAbout about{
      "6.1.0-56-cloud-amd64", "package linux-image", "aa", "bb", {"virtio", "erofs"}};
  const auto again = parse_about(to_text(about));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, about);
  EXPECT_FALSE(parse_about("version 99\nkernel aa\nmodules bb\n"));
  EXPECT_FALSE(parse_about(""));
}

}  // namespace
}  // namespace caisson::engine::microvm
