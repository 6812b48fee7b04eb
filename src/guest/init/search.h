// guest/init/search.h — what Find and Grep have in common.
#pragma once

#include <stddef.h>

#include "guest/init/name_walker.h"
#include "guest/init/op_child.h"
#include "guest/init/op_strings.h"

namespace caisson::init {

// Patterns for names of folders that a search does not enter.
class Pruning {
 public:
  // The strings that are left.
  Pruning(OpChannel& channel, OpStrings& strings);
  [[nodiscard]] bool covers(const char* folder) const;

 private:
  const char** patterns_ = nullptr;
  size_t count_ = 0;
};

// The folder that a search begins in; `more` are flags beyond the usual ones. The operation fails
// when the user may not read it or not look into it.
[[nodiscard]] int open_search(OpChannel& channel, const char* path, int more);

// A folder that is closed to the user, or went, or became something else, while we were on our way.
[[nodiscard]] bool may_be_skipped(int error);
[[noreturn]] void fail_walk(OpChannel& channel, const NameWalker& walker);

}  // namespace caisson::init
