#include "guest/init/tar_format.h"

#include <string.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

constexpr uint64_t kOctalSizeMax = (uint64_t{1} << 33U) - 1;  // eleven octal digits

void put_octal(uint8_t* block, TarField field, uint64_t value) {
  uint8_t* at = block + field.at;
  at[field.size - 1] = 0;
  for (size_t i = field.size - 1; i > 0; --i) {
    at[i - 1] = static_cast<uint8_t>('0' + (value & 7U));
    value >>= 3U;
  }
}

bool is_plain(const char* text, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x20 || byte >= 0x7f) return false;
  }
  return true;
}

size_t put_decimal(char* to, uint64_t value, size_t digits_min) {
  char digits[24];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0 || count < digits_min);
  for (size_t i = 0; i < count; ++i) to[i] = digits[count - 1 - i];
  return count;
}

size_t digits_of(size_t value) {
  size_t count = 1;
  for (; value >= 10; value /= 10) ++count;
  return count;
}

// "size key=value\n", where size counts itself.
size_t put_record(char* to, const char* key, const char* value, size_t value_size) {
  const size_t rest = 1 + strlen(key) + 1 + value_size + 1;
  size_t total = rest + digits_of(rest);
  if (digits_of(total) != digits_of(rest)) total = rest + digits_of(total);
  size_t at = put_decimal(to, total, 1);
  to[at++] = ' ';
  memcpy(to + at, key, strlen(key));
  at += strlen(key);
  to[at++] = '=';
  memcpy(to + at, value, value_size);
  at += value_size;
  to[at++] = '\n';
  return at;
}

// Splits a long name at a slash into prefix and name. False when it does not fit either.
bool put_name(uint8_t* block, const char* name, size_t size) {
  if (size <= kTarName.size) {
    memcpy(block + kTarName.at, name, size);
    return true;
  }
  if (size > kTarPrefix.size + 1 + kTarName.size) return false;
  for (size_t slash = smaller(size - 2, kTarPrefix.size); slash > 0; --slash) {
    if (name[slash] != '/' || size - slash - 1 > kTarName.size) continue;
    memcpy(block + kTarPrefix.at, name, slash);
    memcpy(block + kTarName.at, name + slash + 1, size - slash - 1);
    return true;
  }
  return false;
}

void put_common(uint8_t* block, const TarItem& item, char type, uint64_t size) {
  put_octal(block, kTarMode, item.mode & 07777U);
  put_octal(block, kTarUid, item.uid <= 07777777U ? item.uid : 0);
  put_octal(block, kTarGid, item.gid <= 07777777U ? item.gid : 0);
  put_octal(block, kTarSize, size <= kOctalSizeMax ? size : 0);
  put_octal(block, kTarMtime,
            item.mtime_s > 0 ? smaller(static_cast<uint64_t>(item.mtime_s), kOctalSizeMax) : 0);
  block[kTarType] = static_cast<uint8_t>(type);
  memcpy(block + kTarMagic, "ustar\00000", 8);
}

void put_checksum(uint8_t* block) {
  put_octal(block, TarField{kTarChecksum.at, 7}, tar_checksum(block));
  block[kTarChecksum.at + 7] = ' ';
}

size_t put_mtime(char* to, const TarItem& item) {
  char text[48];
  size_t size = 0;
  // A time before 1970 with a fraction: seconds count down, so the fraction does too.
  int64_t seconds = item.mtime_s;
  uint32_t fraction = item.mtime_ns;
  if (seconds < 0 && fraction != 0) {
    ++seconds;
    fraction = 1000000000U - fraction;
  }
  if (item.mtime_s < 0) text[size++] = '-';
  size += put_decimal(text + size, static_cast<uint64_t>(seconds < 0 ? -seconds : seconds), 1);
  text[size++] = '.';
  size += put_decimal(text + size, fraction, 9);
  return put_record(to, "mtime", text, size);
}

size_t put_records(char* to, const TarItem& item, bool name_fits, bool link_fits) {
  size_t at = 0;
  if (!name_fits) at += put_record(to + at, "path", item.name, strnlen(item.name, wire::kPathMax));
  if (!link_fits)
    at += put_record(to + at, "linkpath", item.link, strnlen(item.link, wire::kPathMax));
  if (item.size > kOctalSizeMax) {
    char digits[24];
    at += put_record(to + at, "size", digits, put_decimal(digits, item.size, 1));
  }
  if (item.mtime_ns != 0 || item.mtime_s < 0) at += put_mtime(to + at, item);
  return at;
}

}  // namespace

uint32_t tar_checksum(const uint8_t block[kTarBlock]) {
  uint32_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) {
    const bool own_field = i >= kTarChecksum.at && i < kTarChecksum.at + kTarChecksum.size;
    sum += own_field ? uint32_t{' '} : uint32_t{block[i]};
  }
  return sum;
}

size_t tar_headers(const TarItem& item, uint8_t out[kTarHeadersMax]) {
  const size_t name_size = strnlen(item.name, wire::kPathMax);
  const size_t link_size = strnlen(item.link, wire::kPathMax);
  uint8_t header[kTarBlock] = {};
  const bool name_fits = is_plain(item.name, name_size) && put_name(header, item.name, name_size);
  const bool link_fits = is_plain(item.link, link_size) && link_size <= kTarLink.size;
  if (!name_fits) memcpy(header + kTarName.at, item.name, smaller(name_size, kTarName.size));
  memcpy(header + kTarLink.at, item.link, smaller(link_size, kTarLink.size));
  put_common(header, item, item.type, item.size);
  put_checksum(header);

  uint8_t* records = out + kTarBlock;
  const size_t records_size =
      put_records(reinterpret_cast<char*>(records), item, name_fits, link_fits);
  size_t total = 0;
  if (records_size != 0) {
    memset(out, 0, kTarBlock);
    memcpy(out + kTarName.at, "PaxHeaders/entry", 16);
    TarItem extended = item;
    extended.mode = 0644;
    put_common(out, extended, 'x', records_size);
    put_checksum(out);
    const size_t padded = (records_size + kTarBlock - 1) / kTarBlock * kTarBlock;
    memset(records + records_size, 0, padded - records_size);
    total = kTarBlock + padded;
  }
  memcpy(out + total, header, kTarBlock);
  return total + kTarBlock;
}

bool tar_number(const uint8_t* block, TarField field, uint64_t& out) {
  const uint8_t* at = block + field.at;
  out = 0;
  if ((at[0] & 0x80U) != 0) {
    if ((at[0] & 0x7fU) != 0) return false;  // negative, or more than 64 bits could hold
    for (size_t i = 1; i < field.size; ++i) {
      if ((out >> 56U) != 0) return false;
      out = (out << 8U) | at[i];
    }
    return true;
  }
  size_t i = 0;
  while (i < field.size && at[i] == ' ') ++i;
  for (; i < field.size && at[i] >= '0' && at[i] <= '7'; ++i) {
    if ((out >> 61U) != 0) return false;
    out = (out << 3U) | (at[i] - static_cast<uint64_t>('0'));
  }
  for (; i < field.size; ++i) {
    if (at[i] != ' ' && at[i] != 0) return false;
  }
  return true;
}

}  // namespace caisson::init
