#include "guest/init/tar_parser.h"

#include <string.h>

#include "guest/init/sys.h"

namespace caisson::init {
namespace {

constexpr uint64_t kSizeMax = uint64_t{1} << 60U;

bool all_zero(const uint8_t block[kTarBlock]) {
  for (size_t i = 0; i < kTarBlock; ++i) {
    if (block[i] != 0) return false;
  }
  return true;
}

uint64_t padding_of(uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

bool parse_decimal(const char*& at, const char* end, uint64_t& out) {
  const char* begin = at;
  out = 0;
  for (; at < end && *at >= '0' && *at <= '9'; ++at) {
    if (out > (UINT64_MAX - 9) / 10) return false;
    out = out * 10 + static_cast<uint64_t>(*at - '0');
  }
  return at != begin;
}

// "-12.5": seconds and the part behind the point, which counts away from zero.
bool parse_time(const char* at, const char* end, int64_t& seconds, uint32_t& nanoseconds) {
  const bool negative = at < end && *at == '-';
  if (negative) ++at;
  uint64_t whole = 0;
  if (!parse_decimal(at, end, whole) || whole > INT64_MAX) return false;
  nanoseconds = 0;
  if (at < end && *at == '.') {
    uint32_t unit = 100000000;
    for (++at; at < end && *at >= '0' && *at <= '9'; ++at) {
      nanoseconds += unit * static_cast<uint32_t>(*at - '0');
      unit /= 10;
    }
  }
  if (at != end) return false;
  seconds = negative ? -static_cast<int64_t>(whole) : static_cast<int64_t>(whole);
  if (negative && nanoseconds != 0) {
    --seconds;
    nanoseconds = 1000000000U - nanoseconds;
  }
  return true;
}

bool copy_text(char to[wire::kPathMax + 1], const char* from, size_t size) {
  if (size > wire::kPathMax || memchr(from, 0, size) != nullptr) return false;
  memcpy(to, from, size);
  to[size] = '\0';
  return true;
}

bool is_key(const char* key, size_t size, const char* wanted) {
  return strlen(wanted) == size && memcmp(key, wanted, size) == 0;
}

}  // namespace

TarParser::Event TarParser::bad(const char* why) {
  state_ = State::Bad;
  error_ = why;
  return Event::Bad;
}

TarParser::Event TarParser::feed(const uint8_t* data, size_t size, size_t& used) {
  used = 0;
  for (;;) {
    const size_t have = size - used;
    switch (state_) {
      case State::Bad:
        return Event::Bad;
      case State::End:
        used = size;
        return Event::NeedMore;
      case State::AfterContent:
        state_ = State::Padding;
        return Event::EntryEnd;
      case State::Header: {
        const size_t part = smaller(have, kTarBlock - block_size_);
        if (part != 0) memcpy(block_ + block_size_, data + used, part);
        block_size_ += part;
        used += part;
        if (block_size_ < kTarBlock) return Event::NeedMore;
        block_size_ = 0;
        const Event event = take_header();
        if (event != Event::NeedMore) return event;
        break;
      }
      case State::Extension: {
        const size_t part = smaller<uint64_t>(have, left_);
        if (part != 0) memcpy(extension_ + extension_size_, data + used, part);
        extension_size_ += part;
        used += part;
        left_ -= part;
        if (left_ != 0) return Event::NeedMore;
        if (!finish_extension()) return bad("a broken extended header");
        state_ = State::Padding;
        break;
      }
      case State::Content: {
        if (left_ == 0) {
          state_ = State::AfterContent;
          break;
        }
        if (have == 0) return Event::NeedMore;
        content_ = data + used;
        content_size_ = smaller<uint64_t>(have, left_);
        used += content_size_;
        left_ -= content_size_;
        return Event::Content;
      }
      case State::Padding: {
        const size_t part = smaller<uint64_t>(have, padding_);
        used += part;
        padding_ -= part;
        if (padding_ != 0) return Event::NeedMore;
        state_ = State::Header;
        break;
      }
    }
  }
}

// Event::NeedMore means: go on, nothing to tell.
TarParser::Event TarParser::take_header() {
  if (all_zero(block_)) {
    if (zero_block_) {
      state_ = State::End;
      return Event::End;
    }
    zero_block_ = true;
    return Event::NeedMore;
  }
  if (zero_block_) return bad("a header behind the end of the archive");
  uint64_t checksum = 0;
  if (!tar_number(block_, kTarChecksum, checksum) || checksum != tar_checksum(block_)) {
    return bad("a header with a wrong checksum");
  }
  uint64_t size = 0;
  if (!tar_number(block_, kTarSize, size) || size > kSizeMax)
    return bad("a header with a bad size");
  const uint8_t type = block_[kTarType];
  if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
    if (!begin_extension(type, size)) return bad("an extended header that is too long");
    return Event::NeedMore;
  }
  if (!fill_entry(type, has_size_ ? next_size_ : size)) return Event::Bad;
  left_ = entry_.size;
  padding_ = padding_of(left_);
  state_ = State::Content;
  forget_overrides();
  return Event::Entry;
}

bool TarParser::begin_extension(uint8_t type, uint64_t size) {
  if (size > kExtensionMax) return false;
  extension_type_ = type;
  extension_size_ = 0;
  left_ = size;
  padding_ = padding_of(size);
  state_ = State::Extension;
  return true;
}

bool TarParser::finish_extension() {
  const char* text = reinterpret_cast<const char*>(extension_);
  if (extension_type_ == 'x') return take_records();
  if (extension_type_ == 'g') return true;  // defaults for all entries: none that we would obey
  const size_t size = strnlen(text, extension_size_);  // GNU ends its names with a NUL
  if (extension_type_ == 'L') {
    has_name_ = true;
    return copy_text(entry_.name, text, size);
  }
  has_link_ = true;
  return copy_text(entry_.link, text, size);
}

bool TarParser::take_records() {
  const char* at = reinterpret_cast<const char*>(extension_);
  const char* end = at + extension_size_;
  while (at < end) {
    const char* record = at;
    uint64_t size = 0;
    if (!parse_decimal(at, end, size) || at >= end || *at != ' ') return false;
    if (size > static_cast<uint64_t>(end - record)) return false;
    const char* record_end = record + size;
    const char* key = at + 1;
    if (key >= record_end || record_end[-1] != '\n') return false;
    const void* found = memchr(key, '=', static_cast<size_t>(record_end - key));
    if (found == nullptr) return false;
    const char* value = static_cast<const char*>(found) + 1;
    if (!take_record(key, static_cast<size_t>(value - 1 - key), value,
                     static_cast<size_t>(record_end - 1 - value))) {
      return false;
    }
    at = record_end;
  }
  return true;
}

bool TarParser::take_record(const char* key, size_t key_size, const char* value,
                            size_t value_size) {
  const char* end = value + value_size;
  if (is_key(key, key_size, "path")) {
    has_name_ = true;
    return copy_text(entry_.name, value, value_size);
  }
  if (is_key(key, key_size, "linkpath")) {
    has_link_ = true;
    return copy_text(entry_.link, value, value_size);
  }
  if (is_key(key, key_size, "size")) {
    has_size_ = true;
    return parse_decimal(value, end, next_size_) && value == end && next_size_ <= kSizeMax;
  }
  if (is_key(key, key_size, "mtime")) {
    has_mtime_ = true;
    return parse_time(value, end, next_mtime_s_, next_mtime_ns_);
  }
  // Sparse files come in another shape than their size says: refused rather than misread.
  // Everything else that can be said about an entry (owner, attributes, comments) does not concern
  // us.
  return !(key_size >= 10 && memcmp(key, "GNU.sparse", 10) == 0);
}

bool TarParser::take_names() {
  const char* text = reinterpret_cast<const char*>(block_);
  if (!has_link_ &&
      !copy_text(entry_.link, text + kTarLink.at, strnlen(text + kTarLink.at, kTarLink.size))) {
    return false;
  }
  if (has_name_) return true;
  const char* prefix = text + kTarPrefix.at;
  // GNU's own format keeps times where ustar has the prefix; its magic tells.
  const bool has_prefix = memcmp(text + kTarMagic, "ustar\0", 6) == 0;
  const size_t prefix_size = has_prefix ? strnlen(prefix, kTarPrefix.size) : 0;
  size_t at = 0;
  if (prefix_size != 0) {
    memcpy(entry_.name, prefix, prefix_size);
    at = prefix_size;
    entry_.name[at++] = '/';
  }
  const size_t size = strnlen(text + kTarName.at, kTarName.size);
  memcpy(entry_.name + at, text + kTarName.at, size);
  entry_.name[at + size] = '\0';
  return true;
}

bool TarParser::fill_entry(uint8_t type, uint64_t size) {
  uint64_t mode = 0;
  uint64_t mtime = 0;
  const bool numbers = tar_number(block_, kTarMode, mode) && take_names();
  if (!numbers || !tar_number(block_, kTarMtime, mtime) || mtime > INT64_MAX) {
    bad("a header with a bad field");
    return false;
  }
  switch (type) {
    case 0:
    case '0':
    case '7':
      entry_.type = TarType::File;
      break;
    case '1':
      entry_.type = TarType::HardLink;
      break;
    case '2':
      entry_.type = TarType::Link;
      break;
    case '5':
      entry_.type = TarType::Folder;
      break;
    default:
      entry_.type = TarType::Refused;
      break;
  }
  const size_t name_size = strlen(entry_.name);
  const bool ends_in_slash = name_size != 0 && entry_.name[name_size - 1] == '/';
  if (entry_.type == TarType::File && ends_in_slash)
    entry_.type = TarType::Folder;  // as the oldest tars wrote it
  if (entry_.type != TarType::File && entry_.type != TarType::Refused && size != 0) {
    bad("a link or folder with content");
    return false;
  }
  entry_.size = entry_.type == TarType::File ? size : 0;
  entry_.mode =
      static_cast<uint32_t>(mode & 0777U);  // no setuid, setgid or sticky bit comes from an archive
  entry_.mtime_s = has_mtime_ ? next_mtime_s_ : static_cast<int64_t>(mtime);
  entry_.mtime_ns = has_mtime_ ? next_mtime_ns_ : 0;
  return true;
}

void TarParser::forget_overrides() { has_name_ = has_link_ = has_size_ = has_mtime_ = false; }

bool tar_safe_name(const char* name, char out[wire::kPathMax + 1]) {
  if (*name == '/' || *name == '\0') return false;
  size_t size = 0;
  uint32_t depth = 0;
  while (*name != '\0') {
    const char* end = strchrnul(name, '/');
    const size_t part = static_cast<size_t>(end - name);
    const bool dot = part == 1 && name[0] == '.';
    if (part == 2 && name[0] == '.' && name[1] == '.') return false;
    if (part != 0 && !dot) {
      if (++depth > kTarDepthMax || size + part + 1 > wire::kPathMax) return false;
      if (size != 0) out[size++] = '/';
      memcpy(out + size, name, part);
      size += part;
    }
    name = *end == '/' ? end + 1 : end;
  }
  out[size] = '\0';
  return true;
}

}  // namespace caisson::init
