// doors/sandboxer/words.h — the small forms of this dialect, as pure functions: host names, tree
// text, content types, lines.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doors/sandboxer/rows.h"
#include "doors/shared/text.h"
#include "store/store.h"

namespace caisson::sandboxer {

inline constexpr std::size_t kHostnameMax = 63;
inline constexpr std::size_t kTreeBytesMax = 4UL << 20U;   // about; what is deeper is left out
inline constexpr std::size_t kLineBytesMax = 64UL * 1024;  // a longer one is sent in parts

// PARENT-LABEL: what is no letter, digit, blank or dash becomes a dash, runs become one, none is
// left at the end; in small letters, and not longer than a host name may be.
[[nodiscard]] std::string fork_hostname(std::string_view parent, std::string_view label);
[[nodiscard]] std::string lower_case(std::string_view text);
// Without white space around it.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;
[[nodiscard]] double seconds_of(store::WallTime time) noexcept;
[[nodiscard]] store::WallTime wall_of(double seconds) noexcept;

// {"id", "label", "status", "children"}, as text
[[nodiscard]] std::string tree_json(const Rows& rows, const RowPtr& top);
[[nodiscard]] std::string tree_text(const Rows& rows, const RowPtr& top);

// By the ending of a file's name; "text/…" has its charset.
[[nodiscard]] std::string content_type(std::string_view name);
// attachment; filename="NAME"
[[nodiscard]] std::string attachment(std::string_view name);

// The segments of a path as a client wrote it, joined again from "/" on; nothing with "..".
[[nodiscard]] std::optional<std::string> absolute_path(std::string_view path);

// 26 small characters that sort by time.
[[nodiscard]] Result<std::string> fresh_ulid(store::WallTime now);
// When a name of that form was made; nothing when it is none.
[[nodiscard]] std::optional<store::WallTime> ulid_time(std::string_view text);

// A stream of bytes as lines of valid UTF-8, without their ends.
class LineSplitter {
 public:
  using Take = std::function<void(std::string line)>;
  void feed(std::string_view bytes, const Take& take);
  void finish(const Take& take);

 private:
  doors::LossyUtf8 decoder_;
  std::string decoded_;
  std::string line_;
};

// Bytes that come in pieces, as text in pieces: what may be half a character waits for the rest.
// How many bytes at the end of `bytes` are the beginning of a character that is not whole.
[[nodiscard]] std::size_t unfinished_bytes(std::string_view bytes) noexcept;

// A text that comes in pieces, without white space at both ends. Of white space that may be the end
// at most kLineBytesMax is held back.
class Trimmer {
 public:
  void feed(std::string_view text, std::string& out);

 private:
  bool begun_ = false;
  std::string held_;
};

}  // namespace caisson::sandboxer
