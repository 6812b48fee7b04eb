// guest/protocol/boot_record.h — what caisson-boot, the first program of a microVM, must know
// before there is a root for anybody: a file of the machine's first file system, kBootFile, that
// the launcher writes for this machine alone. caisson-boot makes the root out of the two disks, and
// becomes caisson-init with the channel as its stream for life, where the frames of protocol.h
// begin. Where it fails it writes one of them, Failed with the id 0, whose text says where, and the
// machine ends.
// Freestanding, as protocol.h is.
#pragma once

#include <stdint.h>

namespace caisson::wire {

constexpr uint32_t kBootMagic = 0x544f4f42;  // "BOOT"
constexpr uint32_t kBootVersion = 1;
constexpr uint32_t kBootBytesMax = 32 * 1024;
constexpr uint32_t kBootPathsMax = 96;
constexpr uint32_t kBootSeedBytes = 64;
constexpr char kBootFile[] = "record";

// How a disk is known to the guest, whatever place it got.
constexpr char kBootRootDisk[] = "caisson-root";    // read-only: erofs, the whole root
constexpr char kBootUpperDisk[] = "caisson-upper";  // ext4: everything that can be written
constexpr char kBootPort[] = "caisson";             // the virtio-serial port

enum BootFlags : uint32_t {
  kBootWritableRoot = 1U << 0,
  kBootReadOnlyScratch = 1U << 1,  // /tmp, /run and /dev/shm
  kBootOwnWorkspace = 1U << 2,     // the root cannot be written, /workspace can
};

struct BootRecord {
  uint32_t magic;
  uint32_t version;
  uint32_t size;   // of everything, this struct too; at most kBootBytesMax
  uint32_t flags;  // BootFlags
  uint32_t uid;    // of the tenant
  uint32_t gid;
  uint32_t processes;  // that may live at once, init and its helpers included; 0: no bound
  uint32_t hostname_size;
  uint32_t trust_size;      // a certificate in PEM, put behind those that the image has; or nothing
  uint32_t writable_count;  // then the strings: u32 size and bytes each, absolute, no NUL
  uint32_t alias_count;     // two strings each: the place, and what it shows
  uint32_t reserved;
  uint8_t seed[kBootSeedBytes];
  // hostname, trust, writable paths, aliases
};
static_assert(sizeof(BootRecord) == 112);

}  // namespace caisson::wire
