// store/anchor.h — heads of the audit, signed and written outside the database.
//
// A chain alone does not notice that its tail was cut off, or that all of it was written anew. An
// anchor says "at this time there were so many rows and the last hash was this". Each is one line
//
//   COUNT HASH TIME SIGNATURE
//
// and the signature (HMAC-SHA-256) covers the line and the signature of the line before, so that a
// running server's next anchor shows that older lines were taken away. Keep the file where the
// server can only append: on another machine, or with the append-only attribute. Whoever can write
// it and also has the key can forge it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "store/audit_chain.h"

namespace caisson::store {

inline constexpr std::size_t kAnchorKeyBytes = 32;
inline constexpr std::size_t kAnchorFileBytesMax = 1UL << 30U;  // some ten years of one a minute

struct Anchor {
  std::int64_t count = 0;
  Digest hash{};
  WallTime time = 0;

  friend bool operator==(const Anchor&, const Anchor&) = default;
};

struct AnchorFile {
  std::vector<Anchor> anchors;  // in the order of the file, up to the first bad line
  std::int64_t bad_line = 0;    // from 1; 0 when each line is well signed
  Digest last_signature{};
  std::size_t sound_bytes = 0;  // up to here the file consists of whole lines
  std::size_t bytes = 0;
};

[[nodiscard]] std::string anchor_key_path(const std::string& database_path);
[[nodiscard]] Result<std::string> read_anchor_key(const std::string& path);

// A last line without its end is a write that a crash cut short, and is passed over.
[[nodiscard]] Result<AnchorFile> read_anchors(const std::string& path, std::string_view key);

// Appends. Made by the store's writer only.
class AnchorWriter {
 public:
  [[nodiscard]] static Result<AnchorWriter> open(const std::string& path, std::string key);

  // Durable when it returns. Nothing is written when the head is the one of the last anchor.
  [[nodiscard]] Result<void> append(const ChainHead& head, WallTime now);

 private:
  AnchorWriter(UniqueFd file, std::string key, const AnchorFile& before);

  UniqueFd file_;
  std::string key_;
  Digest signature_;
  Anchor last_;
  std::size_t bytes_;
};

// The key beside the database, made at the first start, and held locked: the lock is also what
// keeps two servers off one database. Its mode is 0600.
struct HeldKey {
  UniqueFd file;
  std::string key;
};
[[nodiscard]] Result<HeldKey> hold_anchor_key(const std::string& database_path,
                                              const std::string& anchor_path);

}  // namespace caisson::store
