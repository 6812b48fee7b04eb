// control/fleet_parts.h — the parts of the fleet, and the limits and small values that they hand to
// each other. Only fleet_impl.h includes it.
//
//   fleet_open.cc      connecting, adopting what is there, the launcher's messages, the last words
//   fleet_create.cc    from a wish to a running sandbox, or back to nothing
//   fleet_once.cc      one command in a sandbox of its own
//   fleet_life.cc      get, list, destroy, pause, resume, limits, usage
//   fleet_ports.cc     into the ports of a sandbox
//   fleet_network.cc   the way out: its gate, its rows, a change of rules, http_request
//   fleet_secrets.cc   secrets that rules name, and the authority of a sandbox whose TLS we end
//   fleet_models.cc    language models: budgets and their end
//   fleet_proxy.cc     how programs are shown the proxy, and the token by which it knows them
//   fleet_commands.cc  exec and processes
//   fleet_aloud.cc     exec whose output goes on as it comes
//   fleet_code.cc      code in interpreters that wait for it, and contexts
//   fleet_files.cc     files, archives, watches
//   fleet_work_tree.cc a tree to work on: archives in, patches out, searches, whose turn it is
//   fleet_tools.cc     the tools, on top of the two above
//   fleet_audit.cc     the row of each call, and how an end is recorded
//   fleet_expiry.cc    who was idle for too long
//   fleet_rest.cc      who rests meanwhile, and is woken by a use
//
// and for file state, whose records and works are in file_keeping.h:
//
//   fleet_images.cc      pull, and create from an image
//   fleet_image_box.cc   unpacking; who an image's user is; an image becomes a record
//   fleet_transfer.cc    import, export, build
//   fleet_snapshots.cc   snapshots: taking, keeping, finding, removing
//   fleet_forks.cc       forks
//   fleet_memory.cc      processes that are kept: in snapshots, in forks, and hibernating
//   fleet_undo.cc        checkpoints and the way back; long stacks become short
//   fleet_states.cc      diff, patch, merge
//   fleet_volumes.cc     volumes
//   fleet_persistence.cc sandboxes that stop and start again
//   fleet_promote.cc     the same files in a stronger tier
//   fleet_ledger.cc      what a tenant keeps, and how much that may be
//   fleet_garbage.cc     what is there at the start, and what nobody needs any more
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

// Ends: the sandbox stands still from then on, and is to be taken away.
enum class SealMemory : std::uint8_t { None, GoesOn, Ends };
// Behind: the row of the call itself follows.
enum class SealRow : std::uint8_t { Awaited, Behind };
struct SealWish {
  SnapshotWish named;
  SealRow row = SealRow::Awaited;
  bool checkpoint = false;
  bool hidden = false;
  bool copy = true;  // when it cannot be had in a moment
  SealMemory memory = SealMemory::None;
};

struct StatePoint {
  std::string name;  // "snapshot:…", "image:…": how a person finds it
  engine::LayerStack stack;
  std::string head;  // the snapshot, or empty for an image
  std::string image;
  LayerWorks::Hold hold;
};

}  // namespace caisson::control
