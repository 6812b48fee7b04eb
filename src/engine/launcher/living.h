// engine/launcher/living.h — a sandbox that the launcher keeps, as a new server finds it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "engine/launch_request.h"

namespace caisson::engine {

// What holds for a sandbox: chosen by the launcher from what the host has, never by the caller.
struct Record {
  std::string tier = "native";
  std::string kernel;
  int landlock_abi = 0;
  std::string seccomp;               // fingerprint of the filter
  std::string groups;                // "v2", "v2 membership, v1 limits", "none"
  std::string quota = "tmpfs";       // or "btrfs": what bounds its writable layer
  std::string snapshots = "copied";  // how one is taken: "stacked or cow", "copied", "none"
  std::string ids;                   // "slot", "sub-ids", "single id"
  std::string network = "lo only";

  friend bool operator==(const Record&, const Record&) = default;
};

struct Living {
  std::string id;
  pid_t init_pid = 0;
  Record record;
  Limits limits;
  LayerStack stack;  // as it stands now: sealed layers are in it
  Storage storage = Storage::Memory;
  bool frozen = false;
  bool standing = false;           // its memory was saved, and nobody has said go_on()
  bool ended = false;              // it is dead and waits for destroy()
  std::uint64_t age_us = 0;        // since its launch
  std::uint64_t life_left_us = 0;  // 0: it has no time to live

  friend bool operator==(const Living&, const Living&) = default;
};

}  // namespace caisson::engine
