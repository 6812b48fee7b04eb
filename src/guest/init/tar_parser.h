// guest/init/tar_parser.h — takes a tar stream apart: ustar, pax headers, GNU long names. Pushed
// any number of bytes at a time, it never looks back and holds one header. What an entry may do is
// the extractor's business.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/init/tar_format.h"

namespace caisson::init {

enum class TarType { File, Folder, Link, HardLink, Refused };

struct TarEntry {
  TarType type;
  char name[wire::kPathMax + 1];
  char link[wire::kPathMax + 1];
  uint64_t size;  // of a File; else 0
  uint32_t mode;
  int64_t mtime_s;
  uint32_t mtime_ns;
};

class TarParser {
 public:
  static constexpr size_t kExtensionMax = 64UL * 1024;  // records of one extended header

  enum class Event {
    NeedMore,  // all of the input was used
    Entry,     // entry() is new
    Content,   // content() bytes of it
    EntryEnd,
    End,  // of the archive; what follows is ignored
    Bad,  // not a tar stream, or one that asks for what we do not do; error() says what
  };

  // Looks at the front of `data` and says in `used` how far it came.
  Event feed(const uint8_t* data, size_t size, size_t& used);
  // No more input follows: whether that is a good place to stop.
  [[nodiscard]] bool may_stop() const { return state_ == State::Header && block_size_ == 0; }

  [[nodiscard]] const TarEntry& entry() const { return entry_; }
  [[nodiscard]] const uint8_t* content() const { return content_; }
  [[nodiscard]] size_t content_size() const { return content_size_; }
  [[nodiscard]] const char* error() const { return error_ != nullptr ? error_ : ""; }

 private:
  enum class State { Header, Extension, Content, Padding, AfterContent, End, Bad };

  Event bad(const char* why);
  Event take_header();
  bool begin_extension(uint8_t type, uint64_t size);
  bool finish_extension();
  bool take_records();
  bool take_record(const char* key, size_t key_size, const char* value, size_t value_size);
  bool fill_entry(uint8_t type, uint64_t size);
  bool take_names();
  void forget_overrides();

  State state_ = State::Header;
  size_t block_size_ = 0;
  uint64_t left_ = 0;     // of the content or the extension
  uint64_t padding_ = 0;  // behind it
  uint8_t extension_type_ = 0;
  size_t extension_size_ = 0;
  const uint8_t* content_ = nullptr;
  size_t content_size_ = 0;
  const char* error_ = nullptr;

  // What extended headers said about the next entry.
  bool has_name_ = false;
  bool has_link_ = false;
  bool has_size_ = false;
  bool has_mtime_ = false;
  bool zero_block_ = false;
  uint64_t next_size_ = 0;
  int64_t next_mtime_s_ = 0;
  uint32_t next_mtime_ns_ = 0;

  TarEntry entry_{};
  uint8_t block_[kTarBlock] = {};
  uint8_t extension_[kExtensionMax] = {};
};

// The name as a path below the target: no leading "./", no double or trailing slash; "" is the
// target itself. False for what must not be: absolute, "..", or deeper than `kTarDepthMax`.
constexpr uint32_t kTarDepthMax = 64;
[[nodiscard]] bool tar_safe_name(const char* name, char out[wire::kPathMax + 1]);

}  // namespace caisson::init
