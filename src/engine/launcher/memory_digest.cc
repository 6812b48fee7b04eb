#include "engine/launcher/memory_digest.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <span>
#include <vector>

#include "engine/microvm/sha256.h"
#include "sys/file.h"

namespace caisson::engine {
namespace {

constexpr std::size_t kBlockBytes = 1UL << 20U;
constexpr std::size_t kHexChars = 64;
constexpr std::uint64_t kSectorBytes = 512;

bool is_empty(std::span<const std::byte> block) {
  return std::ranges::all_of(block, [](std::byte one) { return one == std::byte{0}; });
}

// The next place with something in it; `end` where there is none.
Result<off_t> next_data(int file, off_t at, off_t end) {
  const off_t found = ::lseek(file, at, SEEK_DATA);
  if (found >= 0) return found;
  if (errno == ENXIO) return end;
  return sys_failure("look for what a memory holds", errno);
}

Result<void> add_file(int folder, const std::string& name, std::string& list, MemoryDigest& out) {
  const UniqueFd file = TRY(sys::open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW));
  struct stat facts{};
  if (::fstat(file.get(), &facts) != 0) return sys_failure("look at " + name, errno);
  if (!S_ISREG(facts.st_mode)) return failure(Errc::Denied, name + ": not a file");
  out.bytes += static_cast<std::uint64_t>(facts.st_blocks) * kSectorBytes;
  list += fmt::format("{} {} {}\n", name.size(), name, facts.st_size);
  std::vector<std::byte> block(kBlockBytes);
  constexpr auto kStep = static_cast<off_t>(kBlockBytes);
  for (off_t at = 0; at < facts.st_size; at += kStep) {
    at = TRY(next_data(file.get(), at, facts.st_size));
    if (at >= facts.st_size) break;
    at -= at % kStep;
    const ssize_t got = ::pread(file.get(), block.data(), block.size(), at);
    if (got < 0) return sys_failure("read " + name, errno);
    const std::span<const std::byte> bytes(block.data(), static_cast<std::size_t>(got));
    if (!is_empty(bytes)) list += fmt::format("{} {}\n", at, microvm::sha256(bytes));
  }
  return {};
}

}  // namespace

Result<MemoryDigest> memory_digest(int folder) {
  MemoryDigest out;
  std::string list;
  const UniqueFd own = TRY(sys::open_at(folder, ".", O_RDONLY | O_DIRECTORY));
  auto names = TRY(sys::list_dir(own.get(), kMemoryFilesMax));
  std::ranges::sort(names);
  for (const std::string& name : names) TRY(add_file(folder, name, list, out));
  out.hex = microvm::sha256(std::as_bytes(std::span(list)));
  return out;
}

std::string to_text(const MemoryDigest& digest) {
  return fmt::format("{} {}", digest.hex, digest.bytes);
}

Result<MemoryDigest> parse_digest(const std::string& text) {
  MemoryDigest out;
  const std::size_t space = text.find(' ');
  if (space != kHexChars) return failure(Errc::Internal, "a memory could not be read");
  out.hex = text.substr(0, space);
  const char* begin = text.data() + space + 1;
  const auto read = std::from_chars(begin, text.data() + text.size(), out.bytes);
  if (read.ec != std::errc()) return failure(Errc::Internal, "a memory could not be read");
  return out;
}

}  // namespace caisson::engine
