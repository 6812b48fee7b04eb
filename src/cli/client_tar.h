// cli/client_tar.h — a folder of the caller as a tar stream for a sandbox. Links go as links and
// are never followed, so nothing outside the folder is sent; sockets, fifos and devices are left
// out and named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::cli {

inline constexpr std::size_t kPackEntriesMax = 1'000'000;
inline constexpr std::size_t kPackDepthMax = 64;

class Packer {
 public:
  // Looks at every name first, so that the size is known; contents are read as they are sent.
  [[nodiscard]] static Result<Packer> scan(const std::string& folder);

  // Fills `out`; 0 at the end of the archive.
  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> out);

  [[nodiscard]] std::uint64_t content_bytes() const noexcept { return content_bytes_; }
  [[nodiscard]] std::uint64_t content_sent() const noexcept { return content_sent_; }
  [[nodiscard]] const std::vector<std::string>& left_out() const noexcept { return left_out_; }

 private:
  struct Item {
    std::string name;  // relative
    std::string link;
    char type;
    unsigned mode;
    std::int64_t mtime;
    std::uint64_t size;
  };

  explicit Packer(UniqueFd folder) : folder_(std::move(folder)) {}
  Result<void> scan_folder(const std::string& path, std::size_t depth);
  Result<void> add_item(int folder, const std::string& path, const std::string& name);
  Result<void> begin_item();
  Result<std::size_t> read_content(std::span<std::byte> out);

  UniqueFd folder_;
  std::vector<Item> items_;
  std::vector<std::string> folders_;  // still to be looked at
  std::vector<std::string> left_out_;
  std::uint64_t content_bytes_ = 0;
  std::uint64_t content_sent_ = 0;
  std::size_t next_ = 0;
  std::string ready_;  // headers and padding that wait
  std::size_t ready_at_ = 0;
  UniqueFd file_;
  std::uint64_t file_left_ = 0;
  std::uint64_t file_size_ = 0;
  bool ended_ = false;
};

}  // namespace caisson::cli
