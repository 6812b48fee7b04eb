// Sockets that are none: what was written to them is kept, and what they give is set.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "guest/carried/streams.h"

namespace caisson::carried {

class Wires final : public Sockets {
 public:
  struct Wire {
    std::string in;  // for read()
    bool ended = false;
    std::string out;  // by write()
    size_t takes = ~size_t{0};
    bool shut = false;
    bool closed = false;
    bool reset = false;
    bool reads = false;
    bool writes = false;
    wire::Endpoint to{};
  };

  long dial(uint32_t index, const wire::Endpoint& to) override {
    if (answer == 0 || answer == -EINPROGRESS) {
      all[index] = Wire();
      all[index].to = to;
    }
    return answer;
  }
  long read(uint32_t index, uint8_t* to, size_t size) override {
    Wire& wire = all[index];
    if (wire.in.empty()) return wire.ended ? 0 : -EAGAIN;
    const size_t part = std::min(size, wire.in.size());
    std::memcpy(to, wire.in.data(), part);
    wire.in.erase(0, part);
    return static_cast<long>(part);
  }
  long write(uint32_t index, const uint8_t* from, size_t size) override {
    Wire& wire = all[index];
    const size_t part = std::min(size, wire.takes);
    if (part == 0) return -EAGAIN;
    wire.out.append(reinterpret_cast<const char*>(from), part);
    if (wire.takes != ~size_t{0}) wire.takes -= part;
    return static_cast<long>(part);
  }
  void end(uint32_t index) override { all[index].shut = true; }
  void watch(uint32_t index, bool reads, bool writes) override {
    all[index].reads = reads;
    all[index].writes = writes;
  }
  void close(uint32_t index, bool reset) override {
    all[index].closed = true;
    all[index].reset = reset;
  }
  void emptied(uint8_t*, size_t) override {}

  long answer = 0;  // of dial()
  std::map<uint32_t, Wire> all;
};

class Frames final : public Outlet {
 public:
  uint8_t* reserve(size_t size) override {
    if (room < size) return nullptr;
    scratch_.resize(size);
    return scratch_.data();
  }
  void commit(size_t size) override {
    bytes.append(reinterpret_cast<const char*>(scratch_.data()), size);
    room -= size;
  }

  std::string bytes;
  size_t room = ~size_t{0};

 private:
  std::vector<uint8_t> scratch_;
};

}  // namespace caisson::carried
