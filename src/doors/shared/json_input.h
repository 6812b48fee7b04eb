// doors/shared/json_input.h — a body of JSON as it arrives: the value, or what Python's parser
// would say is wrong with it, and where.
//
// One member of the outermost object may be named whose text is not kept: it is handed on in
// pieces, so that an archive of a gigabyte takes no memory. Everything else is bounded by
// JsonLimits. Where a body is read otherwise by Python than by the standard (NaN, Infinity, names
// that are there twice), it is read as Python does it.
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doors/shared/text.h"

namespace caisson::doors {

inline constexpr std::size_t kDepthMax = 256;
inline constexpr std::size_t kNumberBytesMax = 4300;  // Python reads no longer one either
inline constexpr std::size_t kEchoBytesMax = 1024;    // kept of the text that is handed on
// Two bytes, such as "1,", become a value of 24: so much is held for each that is no text.
inline constexpr std::size_t kHeldPerByte = 12;

struct JsonLimits {
  std::size_t text_bytes_max = 1024UL * 1024;   // of all strings together
  std::size_t other_bytes_max = 1024UL * 1024;  // of everything between them
  bool keep = true;                             // else it is judged only, and takes no memory
};

class JsonInput {
 public:
  enum class Status : std::uint8_t {
    Good,        // so far; after finish(): it is whole
    Wrong,       // reason() and at()
    Unreadable,  // not UTF-8, half a surrogate pair, nested too deeply, or too long a number
    TooLarge,
  };

  explicit JsonInput(JsonLimits limits, std::string streamed = {})
      : limits_(limits), streamed_(std::move(streamed)) {}

  Status feed(std::string_view bytes);
  Status finish();

  [[nodiscard]] bool empty() const noexcept { return !any_; }
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
  [[nodiscard]] std::uint64_t at() const noexcept { return fault_at_; }  // in characters
  [[nodiscard]] std::size_t held() const noexcept {
    return text_bytes_ + kHeldPerByte * other_bytes_;
  }
  [[nodiscard]] boost::json::value take() { return std::move(root_); }

  // What has come of the named member's text since the last look. `fresh`: a new text has begun,
  // and the one before it, of the same name, no longer counts.
  struct Piece {
    bool fresh = false;
    std::string text;
  };
  [[nodiscard]] Piece take_piece() { return {std::exchange(fresh_, false), std::move(piece_)}; }

 private:
  enum class State : std::uint8_t {
    Value,
    FirstItem,
    FirstKey,
    Key,
    Colon,
    After,
    Text,
    Word,
    Number
  };
  struct Level {
    boost::json::value container;
    std::string key;
  };

  bool step(char c);
  bool step_value(char c);
  bool step_key(char c);
  bool step_after(char c);
  bool step_word(char c);
  bool step_number(char c);
  bool end_number();
  bool begin_text();
  std::size_t text_run(std::string_view bytes);
  bool step_text(char c);
  bool step_escape(char c);
  bool step_unicode(char c);
  bool end_text();
  void put_text(std::string_view run);
  void put_code(std::uint32_t code);
  bool put(boost::json::value value);
  bool open(boost::json::value container);
  bool close();
  bool wrong(std::string reason, std::uint64_t at);
  bool unreadable() { return status_ = Status::Unreadable, false; }
  [[nodiscard]] bool is_streamed() const noexcept;

  JsonLimits limits_;
  std::string streamed_;
  Status status_ = Status::Good;
  State state_ = State::Value;
  boost::json::value root_;
  bool whole_ = false;  // root_ is complete
  bool any_ = false;
  std::vector<Level> levels_;
  Utf8Machine utf8_;
  std::string mark_;              // the bytes of a byte order mark that have come
  std::uint64_t characters_ = 0;  // before the one that is looked at
  std::uint64_t begun_at_ = 0;    // of the token
  std::size_t text_bytes_ = 0;
  std::size_t other_bytes_ = 0;

  std::string token_;      // a number, or what has come of a word
  std::string_view word_;  // that is expected
  std::string text_;
  bool text_is_key_ = false;
  bool handing_on_ = false;
  enum class Escape : std::uint8_t { None, Begun, Unicode } escape_ = Escape::None;
  std::uint64_t escape_at_ = 0;
  unsigned digits_ = 0;
  std::uint32_t code_ = 0;
  std::uint32_t high_ = 0;  // half of a surrogate pair

  bool fresh_ = false;
  std::string piece_;
  std::string reason_;
  std::uint64_t fault_at_ = 0;
};

}  // namespace caisson::doors
