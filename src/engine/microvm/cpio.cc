#include "engine/microvm/cpio.h"

#include <fmt/format.h>

#include <iterator>

namespace caisson::engine::microvm {
namespace {

constexpr unsigned kFolder = 0040000;
constexpr unsigned kFile = 0100000;
constexpr std::size_t kAlignment = 4;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void CpioWriter::pad() { out_.resize((out_.size() + kAlignment - 1) / kAlignment * kAlignment); }

// No times and no owners: the same files give the same bytes.
void CpioWriter::add(std::string_view name, std::span<const std::byte> content, unsigned mode,
                     unsigned links) {
  const std::string header = fmt::format(
      "070701{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}",
      ++inode_, mode, 0, 0, links, 0, content.size(), 0, 0, 0, 0, name.size() + 1, 0);
  for (const auto part : {bytes_of(header), bytes_of(name)})
    out_.insert(out_.end(), part.begin(), part.end());
  out_.push_back(std::byte{0});
  pad();
  out_.insert(out_.end(), content.begin(), content.end());
  pad();
}

void CpioWriter::add_folder(std::string_view name) { add(name, {}, kFolder | 0755U, 2); }

void CpioWriter::add_file(std::string_view name, std::span<const std::byte> content,
                          unsigned mode) {
  add(name, content, kFile | mode, 1);
}

void CpioWriter::add_file(std::string_view name, std::string_view content, unsigned mode) {
  add_file(name, bytes_of(content), mode);
}

std::vector<std::byte> CpioWriter::finish() && {
  add("TRAILER!!!", {}, 0, 1);
  return std::move(out_);
}

}  // namespace caisson::engine::microvm
