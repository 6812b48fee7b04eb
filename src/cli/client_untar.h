// cli/client_untar.h — unpacks a tar stream that a sandbox made into a folder of the caller. The
// archive is hostile: it was written inside. Nothing is followed, nothing leaves the folder, and
// nothing in it can lead out of it later: absolute names, "..", links out, hard links, devices,
// fifos and set-id bits do not come through. What is refused stops the copy and is named.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/tar_header.h"
#include "base/unique_fd.h"

namespace caisson::cli {

inline constexpr std::uint64_t kUnpackEntriesMax = 1'000'000;
inline constexpr std::uint64_t kUnpackBytesMax = std::uint64_t{1} << 40U;
inline constexpr std::size_t kTarExtensionMax = 64UL * 1024;
inline constexpr std::size_t kTarDepthMax = 64;

struct UnpackLimits {
  std::uint64_t entries_max = kUnpackEntriesMax;
  std::uint64_t bytes_max = kUnpackBytesMax;
};

// A name of the archive as a clean path below the folder; "" is the folder itself.
[[nodiscard]] Result<std::string> safe_entry_name(std::string_view name);
// May a link of this text stand at `name`, a clean path? It is relative, all its ".." come first,
// and they do not climb beyond the folder.
[[nodiscard]] bool is_safe_link(std::string_view name, std::string_view target);

class Unpacker {
 public:
  explicit Unpacker(UniqueFd folder, UnpackLimits limits = {})
      : folder_(std::move(folder)), limits_(limits) {}

  // Any number of bytes at a time.
  [[nodiscard]] Result<void> take(std::span<const std::byte> bytes);
  // No more will come: was it all of it?
  [[nodiscard]] Result<void> finish();
  [[nodiscard]] std::uint64_t entries() const noexcept { return entries_; }

 private:
  enum class State : std::uint8_t { Header, Extension, Content, Padding, End };

  struct Header {
    char type = '0';
    std::string name;
    std::string link;
    std::uint64_t size = 0;
    unsigned mode = 0;
    std::int64_t mtime = 0;
  };

  Result<void> on_header();
  Result<Header> read_header() const;
  Result<void> on_extension();
  Result<void> take_records(std::string_view records);
  Result<void> on_entry(Header header);
  Result<void> make_file(const std::string& name, const Header& header);
  Result<void> make_link(const std::string& name, const Header& header);
  Result<void> end_content();
  void skip_padding(std::uint64_t size);
  // The folder that holds `name`, made where it is missing.
  Result<int> parent_of(const std::string& name);
  Result<void> make_folders(const std::string& path, unsigned mode);

  UniqueFd folder_;
  UnpackLimits limits_;
  State state_ = State::Header;
  std::array<char, kTarBlock> block_{};
  std::size_t block_size_ = 0;
  std::uint64_t left_ = 0;  // of the content, the extension or the padding
  std::size_t padding_ = 0;
  char extension_type_ = 0;
  std::string extension_;
  std::optional<std::string> next_name_;  // what extensions said about the next entry
  std::optional<std::string> next_link_;
  std::optional<std::uint64_t> next_size_;
  bool zero_block_ = false;
  UniqueFd file_;
  std::int64_t file_mtime_ = 0;
  std::string parent_path_;  // of parent_; a folder's files come together
  UniqueFd parent_;
  std::uint64_t entries_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace caisson::cli
