// guest/init/tar_sink.h — files, links and folders as a tar stream on their way to the host.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "guest/init/op_child.h"
#include "guest/init/tar_format.h"

namespace caisson::init {

class TarSink {
 public:
  explicit TarSink(OpChannel& channel) : channel_(channel) {}

  // `archived` is the name in the archive; a folder's ends in '/'. The header promises a size: a
  // file that shrinks meanwhile is filled with zeros, one that grows is cut.
  //
  // 1: written. 0: it is no regular file. -errno: it could not be opened. With `open_up`, one that
  // its owner has closed to himself is opened while that takes.
  long put_file(int folder, const char* name, const char* archived, bool open_up);
  bool put_link(const struct stat& info, int folder, const char* name, const char* archived);
  void put_folder(const struct stat& info, const char* archived);
  void end();
  [[nodiscard]] uint64_t total() const { return sent_ + held_; }

 private:
  void put(const void* bytes, size_t size);  // collects small pieces into full frames
  void put_headers(const TarItem& item);
  void put_content(int fd, uint64_t size);
  void pad();
  void flush();

  OpChannel& channel_;
  uint64_t sent_ = 0;
  size_t held_ = 0;
  uint8_t buffer_[wire::kDataMax];
};

}  // namespace caisson::init
