// guest/init/below.h — folders below one folder, opened name by name without following a link: a
// link leads nowhere, whether it was there before or the guest puts it there while we work.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/protocol.h"

namespace caisson::init {

class Below {
 public:
  // Told of each folder that open() had to make, outermost first.
  using OnMade = void (*)(void* whom, int folder, const char* path, size_t size);

  explicit Below(int root) : root_(root), kept_(root) {}

  // From now on a folder whose owner lacks one of these rights gets them all.
  void open_up(uint32_t needed);
  void on_made(OnMade call, void* whom) {
    on_made_ = call;
    whom_ = whom;
  }

  // The folder `path[0, size)` as an O_PATH descriptor for leave(), or -errno. ELOOP: a link or a
  // file stands where a folder should be.
  int open(const char* path, size_t size, bool create);
  void leave(int fd) const;
  // The same, kept until the next one: lists of names come folder by folder.
  int enter(const char* path, size_t size, bool create);

 private:
  int step(int at, const char* name, bool create, bool& made) const;

  int root_;
  uint32_t needed_ = 0;  // 0: nothing is opened up
  OnMade on_made_ = nullptr;
  void* whom_ = nullptr;
  int kept_;
  size_t kept_size_ = 0;
  char kept_path_[wire::kPathMax + 1] = {};
};

}  // namespace caisson::init
