// guest/init/op_child.h — inside an operation's process: how it talks to init, and the list of what
// it can do. Straight, blocking code: this process exists for one request, and every way out of it
// is done() or fail().
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "guest/init/operation.h"

namespace caisson::init {

class OpChannel {
 public:
  OpChannel(int socket, int input, uint32_t credit)
      : socket_(socket), input_(input), credit_(credit) {}

  // Entries and matches are gathered: a message for each would cost more than finding them.
  // Whatever else is said takes them along.
  void entry(const struct stat& info, wire::Bytes name, const char* target, uint32_t depth);
  void entry(const struct stat& info, const char* name, const char* target, uint32_t depth);
  void match(uint64_t line, const char* name, const char* text, size_t text_size);
  void event(uint32_t mask, uint32_t cookie, const char* name);
  void data(uint64_t offset, const void* bytes, size_t size);  // waits for credit
  // The host's bytes. 0 at their end.
  size_t read(void* to, size_t size);
  // Waits until the host has said how many bytes there were, and fails if there were others.
  void await_commit(uint64_t bytes);

  [[noreturn]] void done(uint64_t bytes, uint64_t count);
  [[noreturn]] void fail(int sys_errno, wire::Step step, const char* text = "");
  // Fails from a signal handler, which may have interrupted anything here.
  [[noreturn]] void fail_at_once(int sys_errno, wire::Step step, const char* text);

  [[nodiscard]] int socket() const { return socket_; }

 private:
  uint8_t* body_of(wire::Kind kind, uint16_t stream, size_t size);  // at the message's end
  void send_message();
  void wait_for_credit();

  int socket_;
  int input_;
  uint64_t credit_;
  size_t message_size_ = 0;
  alignas(8) uint8_t message_[kOpMessageMax];
};

// A file that exists under another name until it is whole. Removed however the process ends,
// SIGTERM included.
void temporary_set(int folder, const char* name);
void temporary_clear();

// op_files.cc
[[noreturn]] void op_stat(OpChannel& channel, const OpRequest& request);
[[noreturn]] void op_read(OpChannel& channel, const OpRequest& request);
[[noreturn]] void op_mkdir(OpChannel& channel, const OpRequest& request);
[[noreturn]] void op_move(OpChannel& channel, const OpRequest& request);
// op_write.cc
[[noreturn]] void op_write(OpChannel& channel, const OpRequest& request);
// op_folders.cc
[[noreturn]] void op_list(OpChannel& channel, const OpRequest& request);
[[noreturn]] void op_remove(OpChannel& channel, const OpRequest& request);
// op_watch.cc
[[noreturn]] void op_watch(OpChannel& channel, const OpRequest& request);
// op_tar_out.cc, op_tar_in.cc, op_pack.cc
[[noreturn]] void op_tar_out(OpChannel& channel, const OpRequest& request);
[[noreturn]] void op_tar_in(OpChannel& channel, const OpRequest& request);
[[noreturn]] void op_pack(OpChannel& channel, const OpRequest& request);
// op_find.cc, op_grep.cc
[[noreturn]] void op_find(OpChannel& channel, const OpRequest& request);
[[noreturn]] void op_grep(OpChannel& channel, const OpRequest& request);
// op_resolve.cc
[[noreturn]] void op_resolve(OpChannel& channel, const OpRequest& request);
// op_ports.cc
[[noreturn]] void op_ports(OpChannel& channel);
// A folder as an O_PATH descriptor, or -errno; ELOOP when a link is on the way.
int open_parent_without_links(const char* parent, bool create);

// Like mkdir -p. 0, or -errno.
long make_folders(const char* path, uint32_t mode);
// The same for everything above the last component.
long make_parents(const char* path);
// Fills `parent` with the path's folder ("/" at least) and gives its last component; null when that
// is no name.
const char* split_path(const char* path, char parent[wire::kPathMax + 1]);

}  // namespace caisson::init
