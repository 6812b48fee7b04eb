// guest/boot — caisson-boot: the first program of a microVM. It is /init of our initramfs: it loads
// the modules that the disks and the channel need, reads the BootRecord that lies beside it, makes
// the sandbox's root of a read-only image and a writable disk, and becomes caisson-init with the
// channel as its stream. Start at main.cc. Static, on musl, without the C++ library; it allocates
// nothing. Never here: frames (but for the one that says why it failed), processes, the network.
//
// Whatever fails ends the machine: there is nobody yet who could be told more than once.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/boot_record.h"
#include "guest/protocol/codec.h"

namespace caisson::boot {

// Where things are in the initramfs.
constexpr char kModules[] = "/modules";
constexpr char kModuleOrder[] = "/modules/order";  // a name per line; '-' before one that may fail
constexpr char kRecord[] = "/record";              // wire::kBootFile
constexpr char kInit[] = "/caisson-init";
constexpr char kImage[] = "/image";
constexpr char kUpper[] = "/upper";
constexpr char kRoot[] = "/root";

struct Record {
  wire::BootRecord body;
  wire::Bytes hostname;
  wire::Bytes trust;
  wire::Bytes writable;  // body.writable_count sized strings, each checked
  wire::Bytes aliases;   // body.alias_count pairs, each checked

  [[nodiscard]] bool has(uint32_t flag) const { return (body.flags & flag) != 0; }
};

// The bytes as a record; false when they are none.
[[nodiscard]] bool parse_record(wire::Bytes bytes, Record& out);

// From here on a failure is told to whoever is at the other end of `port`.
void tell_failures_to(int port);
// What went wrong, with errno; ends the machine.
[[noreturn]] void fail(const char* what, const char* detail = "");
void require(bool worked, const char* what, const char* detail = "");

// modules.cc
void load_modules();
// Descriptors of the channel and names of the disks: found by what the host called them.
int open_port();
void disk_named(const char* serial, char (&path)[32]);

// root.cc: everything below kRoot, as mounts.
void make_root(const Record& record);

// clock.cc
void keep_clock();

// harden.cc
struct Groups {
  int directory;
  int events;
};
void mix_seed(const uint8_t (&seed)[wire::kBootSeedBytes]);
[[nodiscard]] Groups make_group(uint32_t processes);
void bring_up_loopback();
void harden_kernel();
void mask_proc();
void drop_privileges();

// A text without its allocation: pieces in a row, cut at the end.
class Text {
 public:
  Text() { text_[0] = '\0'; }
  Text& add(const char* piece);
  Text& add(wire::Bytes piece);
  Text& add(unsigned long number);
  [[nodiscard]] const char* get() const { return text_; }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  static constexpr size_t kMax = 4400;
  char text_[kMax];
  size_t size_ = 0;
};

void put_file(const char* path, const char* text);  // one value of the kernel's; false is fine

}  // namespace caisson::boot
