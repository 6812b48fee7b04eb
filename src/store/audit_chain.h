// store/audit_chain.h — why a row of the audit cannot be changed unnoticed.
//
// The hash of a row is SHA-256 over the hash of the row before it and the row's canonical form:
// every column in one order, numbers as eight bytes, texts with their length in front, so that no
// two different rows have the same form. Row 1 follows 32 zero bytes.
#pragma once

#include <string>

#include "store/digest.h"
#include "store/store.h"

namespace caisson::store {

// The last row: all that the next one needs to know.
struct ChainHead {
  std::int64_t sequence = 0;
  WallTime time = 0;
  Digest hash{};

  friend bool operator==(const ChainHead&, const ChainHead&) = default;
};

// Appends the canonical form to `out`.
void append_canonical(std::string& out, std::int64_t sequence, WallTime time,
                      const AuditEvent& event);

class ChainHasher {
 public:
  [[nodiscard]] Digest hash(const Digest& previous, std::int64_t sequence, WallTime time,
                            const AuditEvent& event);

 private:
  Hasher hasher_;
  std::string buffer_;
};

}  // namespace caisson::store
