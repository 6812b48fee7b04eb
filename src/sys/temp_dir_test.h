// A folder of a unit test's own, and everything in it, gone when the test ends.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "base/unique_fd.h"

namespace caisson::sys {

class TempDir {
 public:
  TempDir() {
    // By its real name, so that a test may compare paths even where /tmp is a link.
    std::string name = (std::filesystem::canonical("/tmp") / "caisson-unit-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
    fd_ = UniqueFd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string folder(const std::string& name) const {
    std::filesystem::create_directories(path(name));
    return path(name);
  }
  void link(const std::string& target, const std::string& name) const {
    std::filesystem::create_symlink(target, path(name));
  }
  [[nodiscard]] bool has(const std::string& name) const {
    struct stat facts{};
    return ::lstat(path(name).c_str(), &facts) == 0;
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

}  // namespace caisson::sys
