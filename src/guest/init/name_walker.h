// guest/init/name_walker.h — goes through a folder by name, in order, for a search. It does not ask
// about each entry as walker.h does: a search looks at few of them. No link is followed.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/protocol.h"

namespace caisson::init {

class NameWalker {
 public:
  static constexpr int kDepthMax = 64;
  // Of all folders between the first one and the current one.
  static constexpr size_t kNamesMax = 1000000;
  static constexpr size_t kNamesBytesMax = 32UL * 1024 * 1024;

  enum class Step {
    Entry,  // name(), path(), type() describe it; descend() goes into it if it is a folder
    End,
    Failed,  // error() says why
  };

  bool open(int folder);  // a plain descriptor, which becomes ours; false with error() set
  Step next();
  // False with error() set: gone, closed, no folder any more; EOVERFLOW: a limit.
  bool descend();

  [[nodiscard]] int folder() const { return levels_[depth_].fd; }  // that holds name()
  [[nodiscard]] const char* name() const { return name_; }
  [[nodiscard]] const char* path() const { return path_; }  // relative to where it began
  [[nodiscard]] uint8_t type() const { return type_; }      // DT_DIR, …
  [[nodiscard]] uint32_t depth() const { return static_cast<uint32_t>(depth_); }
  [[nodiscard]] int error() const { return error_; }

 private:
  struct Level {
    int fd;
    size_t path_size;  // of the folder itself
    // Where its part of the two stacks begins, and which name is next.
    size_t bytes_begin;
    size_t names_begin;
    size_t names_end;
    size_t at;
  };

  bool read_names(Level& level);
  bool add_name(const char* name, uint8_t type);
  bool set_path(const Level& level);

  int depth_ = 0;
  int error_ = 0;
  const char* name_ = nullptr;
  uint8_t type_ = 0;
  char* bytes_ = nullptr;  // a type and a name, one behind the other
  size_t bytes_used_ = 0;
  const char** names_ = nullptr;  // into bytes_, sorted within a folder
  size_t names_used_ = 0;
  char path_[wire::kPathMax + 1] = {};
  Level levels_[kDepthMax] = {};
};

}  // namespace caisson::init
