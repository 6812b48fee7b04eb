// guest/layer — works on layers of file systems, inside a sandbox of its own: caisson-layer.
// Start at run(): one job, as guest/protocol/layer_job.h describes it, on a folder that is laid out
// as that header says. unpack.cc turns an archive into a layer, pack.cc a layer into an archive,
// flatten.cc several layers into one; diff.cc and merge.cc compare whole states; sanitise.cc writes
// anybody's archive anew. main.cc confines the process before it reads the first byte of anything,
// and is the only file that talks to the host. Everything that is read here is hostile, so each
// step goes through descriptors (tree.h) and each loop has a limit. Never here: network, other
// processes, a path of the host.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "guest/protocol/layer_job.h"

namespace caisson::layer {

inline constexpr std::size_t kNameBytesMax = 255;
inline constexpr std::size_t kPathBytesMax = 4095;
inline constexpr std::size_t kDepthMax = 256;   // folders in each other
inline constexpr std::size_t kLayersMax = 500;  // as many as an overlay takes
// What a table that grows with the input may hold in names, such as that of hard links.
inline constexpr std::size_t kTableBytesMax = std::size_t{64} * 1024 * 1024;

// What is told of one path.
struct Finding {
  wire::EntryKind kind = wire::EntryKind::Added;
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // Sanitise
};

// Who hears of the work while it goes on. A failure ends the job: nobody listens any more.
class Teller {
 public:
  Teller() = default;
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;
  virtual ~Teller() = default;
  [[nodiscard]] virtual Result<void> progress(const wire::LayerProgress& progress) = 0;
  [[nodiscard]] virtual Result<void> entry(const Finding& found, const std::string& path) = 0;
};

// Counts what a job does against its limits, and tells of it now and then.
class Meter {
 public:
  Meter(const wire::Job& job, Teller& teller) : job_(job), teller_(teller) {}

  [[nodiscard]] Result<void> add_entry();
  [[nodiscard]] Result<void> add_out(std::uint64_t bytes);
  void add_in(std::uint64_t bytes) noexcept { now_.bytes_in += bytes; }
  void set_in(std::uint64_t bytes) noexcept { now_.bytes_in = bytes; }

  [[nodiscard]] const wire::Job& job() const noexcept { return job_; }
  [[nodiscard]] Teller& teller() noexcept { return teller_; }
  [[nodiscard]] wire::LayerDone done() const noexcept;

 private:
  [[nodiscard]] Result<void> tell_sometimes();

  wire::Job job_;
  Teller& teller_;
  wire::LayerProgress now_{};
  wire::LayerProgress told_{};
};

struct Work {
  int layer_root;  // laid out as kLayerRoot
  wire::Job job;
  std::string prefix;  // of Diff and Merge
  int descriptor;      // of Unpack, Pack and Sanitise; else -1
  int output = -1;     // of Sanitise: its second
};

[[nodiscard]] Result<wire::LayerDone> run(const Work& work, Teller& teller);

// How a failure is said to the host.
[[nodiscard]] wire::LayerFailed to_wire(const Error& error) noexcept;

}  // namespace caisson::layer
