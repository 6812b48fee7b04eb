// guest/init/op_strings.h — strings that the host sends to an operation, each ended by a NUL.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/init/op_child.h"

namespace caisson::init {

class OpStrings {
 public:
  // All of them, to the end of the input. More than `bytes_max` fails the operation, as does a last
  // one without its end.
  OpStrings(OpChannel& channel, size_t bytes_max);

  // The next one, or null behind the last.
  const char* next();
  void rewind() { at_ = 0; }

 private:
  char* bytes_;
  size_t size_ = 0;
  size_t at_ = 0;
};

}  // namespace caisson::init
