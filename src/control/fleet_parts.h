// control/fleet_parts.h — limits and small values that the parts of the fleet hand to each other.
// Only fleet_impl.h includes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "control/file_state.h"
#include "control/layer_works.h"

namespace caisson::control {

struct Sandbox;

inline constexpr std::size_t kSessionWaitersMax = 256;  // of one sandbox
inline constexpr std::size_t kSettlingMax = 2;          // sandboxes that are sent to rest at once
inline constexpr std::size_t kAuditTextBytesMax = 4096;
inline constexpr std::size_t kRefusedTextBytesMax = 512;  // of a call that came to nothing
// A sandbox that nobody has heard of after so long was not handed to us.
inline constexpr seconds kLaunchGrace{15};
inline constexpr std::size_t kProcessNameBytesMax = 256;  // of a command in a list of processes
inline constexpr milliseconds kPortConnectTimeout{5'000};

// A sandbox that nobody can see yet: what it stands on is held until it is published.
struct Made {
  std::shared_ptr<Sandbox> sandbox;
  LayerWorks::Hold layers;
  LayerWorks::Hold volumes;
};

// Behind: the row of the call itself follows.
enum class SealRow : std::uint8_t { Awaited, Behind };
struct SealWish {
  SnapshotWish named;
  SealRow row = SealRow::Awaited;
  bool checkpoint = false;
  bool hidden = false;
  bool copy = true;  // when it cannot be had in a moment
};

struct StatePoint {
  std::string name;  // "snapshot:…", "image:…": how a person finds it
  engine::LayerStack stack;
  std::string head;  // the snapshot, or empty for an image
  std::string image;
  LayerWorks::Hold hold;
};

}  // namespace caisson::control
