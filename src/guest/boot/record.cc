// The record and the texts, without a system call: unit tests run them on the host.
#include <string.h>

#include "guest/boot/boot.h"

namespace caisson::boot {
namespace {

bool is_plain_path(wire::Bytes path) {
  if (path.size < 2 || path.size > wire::kPathMax || path.data[0] != '/') return false;
  return memchr(path.data, 0, path.size) == nullptr;
}

// `count` strings from the front, each a path.
bool take_paths(wire::Reader& reader, uint32_t count, wire::Bytes& out) {
  const uint8_t* begin = reader.at();
  const size_t before = reader.left();
  for (uint32_t i = 0; i < count; ++i) {
    wire::Bytes path;
    if (!reader.take_string(path) || !is_plain_path(path)) return false;
  }
  out = wire::Bytes{begin, before - reader.left()};
  return true;
}

}  // namespace

bool parse_record(wire::Bytes bytes, Record& out) {
  wire::Reader reader(bytes);
  if (!reader.take(out.body)) return false;
  const wire::BootRecord& body = out.body;
  if (body.magic != wire::kBootMagic || body.version != wire::kBootVersion) return false;
  if (body.size != bytes.size || body.size > wire::kBootBytesMax) return false;
  if (body.writable_count > wire::kBootPathsMax || body.alias_count > wire::kBootPathsMax)
    return false;
  return reader.take_bytes(body.hostname_size, out.hostname) &&
         reader.take_bytes(body.trust_size, out.trust) &&
         take_paths(reader, body.writable_count, out.writable) &&
         take_paths(reader, 2 * body.alias_count, out.aliases) && reader.left() == 0;
}

Text& Text::add(const char* piece) {
  return add(wire::Bytes{reinterpret_cast<const uint8_t*>(piece), strlen(piece)});
}

Text& Text::add(wire::Bytes piece) {
  const size_t room = kMax - 1 - size_;
  const size_t taken = piece.size < room ? piece.size : room;
  memcpy(text_ + size_, piece.data, taken);
  size_ += taken;
  text_[size_] = '\0';
  return *this;
}

Text& Text::add(unsigned long number) {
  char digits[24];
  char* at = digits + sizeof(digits) - 1;
  *at = '\0';
  do {
    *--at = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return add(at);
}

}  // namespace caisson::boot
