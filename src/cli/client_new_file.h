// cli/client_new_file.h — a file of the caller that appears whole or not at all.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::cli {

[[nodiscard]] Result<void> write_all(int fd, std::span<const std::byte> bytes);

class NewFile {
 public:
  [[nodiscard]] static Result<NewFile> make(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  // Its name is there from now on, with what the umask leaves of `mode`.
  [[nodiscard]] Result<void> finish(unsigned mode);

 private:
  NewFile(std::string path, std::string name, UniqueFd fd)
      : path_(std::move(path)), name_(std::move(name)), fd_(std::move(fd)) {}
  std::string path_;
  std::string name_;  // until then
  UniqueFd fd_;
};

}  // namespace caisson::cli
