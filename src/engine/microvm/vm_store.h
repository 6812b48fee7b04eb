// engine/microvm/vm_store.h — what machines are made of, in the folder "vm" of the state directory:
// a kernel, its modules, what the monitor boots first, templates of disks.
//
//   about             lines "key value", written last: where it exists, everything else does
//   kernel            an ELF file
//   modules           a cpio archive of modules, in order
//   initramfs-DIGEST  modules and our own programs; made anew when those change
//   disks/            see disks.h
// It is root's. Nobody else can list it, or read what machines write.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/microvm/kernel_modules.h"

namespace caisson::engine::microvm {

inline constexpr int kVmStoreVersion = 1;
inline constexpr const char* kVmAbout = "vm/about";  // below the state directory

struct KernelParts {
  std::string release;  // "6.1.0-56-cloud-amd64"
  std::string source;   // where it came from, in words
  std::vector<std::byte> kernel;
  std::vector<Module> modules;
};

struct KernelAbout {
  std::string release;
  std::string source;
  std::string kernel_sha256;
  std::string modules_sha256;
  std::vector<std::string> modules;  // in order

  friend bool operator==(const KernelAbout&, const KernelAbout&) = default;
};

[[nodiscard]] std::string to_text(const KernelAbout& about);
[[nodiscard]] Result<KernelAbout> parse_about(std::string_view text);

class VmStore {
 public:
  // Unsupported, with the remedy, where no kernel was set up.
  [[nodiscard]] static Result<VmStore> open(int state_dir);
  // Replaces whatever was there. `state_dir` exists.
  [[nodiscard]] static Result<KernelAbout> install(int state_dir, const KernelParts& parts);

  [[nodiscard]] const KernelAbout& about() const noexcept { return about_; }
  [[nodiscard]] Result<UniqueFd> kernel() const;
  [[nodiscard]] Result<UniqueFd> initramfs() const;
  // The same for one machine, with its record in it.
  [[nodiscard]] Result<std::vector<std::byte>> initramfs_with(
      std::span<const std::byte> record) const;
  [[nodiscard]] int disks() const noexcept { return disks_.get(); }
  [[nodiscard]] int folder() const noexcept { return folder_.get(); }
  // Whether the files are those that were set up: reads all of them.
  [[nodiscard]] Result<void> verify() const;

 private:
  UniqueFd folder_;
  UniqueFd disks_;
  KernelAbout about_;
};

// The two archives that make the first file system of a machine: the kernel takes them one behind
// the other.
[[nodiscard]] std::vector<std::byte> archive_modules(const std::vector<Module>& modules);
[[nodiscard]] std::vector<std::byte> archive_programs(std::span<const std::byte> boot,
                                                      std::span<const std::byte> init);

}  // namespace caisson::engine::microvm
