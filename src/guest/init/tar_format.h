// guest/init/tar_format.h — one header of a POSIX tar stream, written and checked. No system calls:
// tests and fuzzers run it on the host.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/protocol.h"

namespace caisson::init {

constexpr size_t kTarBlock = 512;

// Offsets and sizes of the ustar header's fields.
struct TarField {
  size_t at;
  size_t size;
};
constexpr TarField kTarName{0, 100};
constexpr TarField kTarMode{100, 8};
constexpr TarField kTarUid{108, 8};
constexpr TarField kTarGid{116, 8};
constexpr TarField kTarSize{124, 12};
constexpr TarField kTarMtime{136, 12};
constexpr TarField kTarChecksum{148, 8};
constexpr size_t kTarType = 156;
constexpr TarField kTarLink{157, 100};
constexpr size_t kTarMagic = 257;
constexpr TarField kTarPrefix{345, 155};

struct TarItem {
  const char* name;  // a folder's ends in '/'
  const char* link;  // "" unless type is '2'
  char type;         // '0' file, '2' link, '5' folder
  uint32_t mode;
  uint32_t uid;
  uint32_t gid;
  uint64_t size;
  int64_t mtime_s;
  uint32_t mtime_ns;
};

// Enough for an extended header, its records and the header itself.
constexpr size_t kTarHeadersMax = 2 * kTarBlock + size_t{2} * (wire::kPathMax + 64) + 2 * kTarBlock;

// Writes all blocks that come before the item's content; gives their size, a multiple of kTarBlock.
size_t tar_headers(const TarItem& item, uint8_t out[kTarHeadersMax]);

[[nodiscard]] uint32_t tar_checksum(const uint8_t block[kTarBlock]);

// An octal field, or a binary one if its first bit is set. False when it is neither, or negative,
// or too large.
[[nodiscard]] bool tar_number(const uint8_t* block, TarField field, uint64_t& out);

}  // namespace caisson::init
