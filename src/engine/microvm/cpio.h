// engine/microvm/cpio.h — the archive that a kernel unpacks into its first file system ("newc").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace caisson::engine::microvm {

class CpioWriter {
 public:
  // Names without a leading '/'; a folder stands before what lies in it.
  void add_folder(std::string_view name);
  void add_file(std::string_view name, std::span<const std::byte> content, unsigned mode);
  void add_file(std::string_view name, std::string_view content, unsigned mode);
  [[nodiscard]] std::vector<std::byte> finish() &&;

 private:
  void add(std::string_view name, std::span<const std::byte> content, unsigned mode,
           unsigned links);
  void pad();

  std::vector<std::byte> out_;
  std::uint32_t inode_ = 0;
};

}  // namespace caisson::engine::microvm
