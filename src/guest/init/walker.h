// guest/init/walker.h — goes through a folder without recursion and without following a link: every
// step down opens one name below a descriptor we hold, so a guest that swaps a folder for a link
// gets ELOOP or ENOTDIR, not our company.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "guest/protocol/protocol.h"

namespace caisson::init {

class Walker {
 public:
  static constexpr int kDepthMax = 64;
  static constexpr size_t kBufferBytes = 8UL * 1024;

  enum class Step {
    Entry,  // name(), path(), info() describe it; descend() goes into it if it is a folder
    Leave,  // all of folder name() in folder() was seen
    End,
    Failed,  // error() says why
  };

  // A folder; false with errno. With `open_up`, one that its owner has closed to himself is opened.
  bool open(const char* path, bool open_up = false);
  Step next();
  bool descend();  // false with error() set: too deep, gone, or no folder any more

  [[nodiscard]] int folder() const { return levels_[depth_].fd; }  // that holds name()
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] const char* path() const { return path_; }  // relative to where it began
  [[nodiscard]] const struct stat& info() const { return info_; }
  [[nodiscard]] uint32_t depth() const { return static_cast<uint32_t>(depth_); }
  [[nodiscard]] int error() const { return error_; }

 private:
  struct Level {
    int fd;
    long used;
    long at;
    size_t path_size;  // of the folder itself
    alignas(8) char buffer[kBufferBytes];
  };

  bool fill(Level& level);
  bool set_path(const Level& level, const char* name);
  void open_up_entry(int folder);

  bool open_up_ = false;
  int depth_ = 0;
  int error_ = 0;
  const char* name_ = nullptr;
  struct stat info_{};
  char path_[wire::kPathMax + 1] = {};
  Level levels_[kDepthMax] = {};
};

}  // namespace caisson::init
