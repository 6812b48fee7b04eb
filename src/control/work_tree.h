// control/work_tree.h — a tree of files that a caller works on inside a sandbox: an archive goes
// in, a patch comes out, and in between he searches it.
//
// The archive is hostile, so a box of its own reads it and writes it anew
// (guest/layer/sanitise.cc): only folders, plain files and links that stay inside, owned by the
// sandbox's user, in modes that he can work with. What it wrote is the baseline of a patch, as long
// as the caller keeps it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace caisson::control {

using boost::asio::awaitable;

inline constexpr std::size_t kSearchMatchesMax = 10'000;
inline constexpr std::size_t kPruneNamesMax = 256;

// A file of the server's own that something large is written to before it is used. It has no name
// and goes with the object.
class Spool {
 public:
  virtual ~Spool() = default;
  // StoreFull when the disk is; TooLarge beyond the server's bound for one.
  virtual awaitable<Result<void>> write(std::span<const std::byte> bytes) = 0;
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  // At most `out` bytes from `offset` on; 0 at the end.
  virtual awaitable<Result<std::size_t>> read(std::uint64_t offset, std::span<std::byte> out) = 0;
};

// What an archive put into a sandbox, and how the sandbox's files were then.
class Baseline {
 public:
  virtual ~Baseline() = default;
};

enum class Links : std::uint8_t {
  Drop,  // symbolic ones are left out
  Keep,  // those that stay inside the archive are kept
};

struct ArchiveWish {
  std::string path;                // the folder it goes to; made when it is missing
  std::shared_ptr<Spool> archive;  // tar, plain or gzip, bzip2, xz, zstd
  Links links = Links::Keep;
  bool clear = false;     // remove what is in the folder first
  bool baseline = false;  // keep what patch_since() needs
};

struct ArchiveView {
  std::uint64_t entries = 0;
  std::uint64_t skipped = 0;  // devices, hard links, links that lead outside
  std::shared_ptr<const Baseline> baseline;
};

// Files and folders below a folder, by a pattern for the path relative to it.
struct FindWish {
  std::string path;
  // * and ? stay within one part of the path, ** as a whole part spans any number of them; [abc],
  // [!abc] and ranges; dotfiles are matched as others are.
  std::string pattern;
  std::vector<std::string> prune;  // names of folders, as shell patterns, that nobody goes into
};

struct GrepWish {
  std::string path;     // a folder, or one file
  std::string pattern;  // POSIX, extended
  std::string glob;     // of a file's own name; empty: all
  std::vector<std::string> prune;
  std::size_t matches_max = 200;
};

struct GrepMatch {
  std::string path;  // absolute
  std::uint64_t line = 0;
  std::string text;
};

struct GrepView {
  std::vector<GrepMatch> matches;
  bool truncated = false;        // there were more
  std::uint64_t unreadable = 0;  // files that matched the glob and could not be read
};

// The exclusive use of a sandbox among those who ask for it; given back when it goes.
class SessionTurn {
 public:
  virtual ~SessionTurn() = default;
};

}  // namespace caisson::control
