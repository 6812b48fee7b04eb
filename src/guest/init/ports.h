// guest/init/ports.h — TCP ports out of the lines of /proc/net/tcp and tcp6. Pure.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "guest/protocol/protocol.h"

namespace caisson::init {

struct Line {
  const char* text;
  size_t size;
};

// Those that listen on every address, or on a loopback one: others cannot be reached from here.
class PortSet {
 public:
  void take(Line line);
  // In rising order, two bytes each, at most kPortsMax; returns how many.
  uint32_t write(uint8_t* out) const;

 private:
  uint8_t seen_[65536 / 8] = {};
};

}  // namespace caisson::init
