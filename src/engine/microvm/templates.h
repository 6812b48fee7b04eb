// engine/microvm/templates.h — machines that have booted already and stand still, to be copied: a
// copy answers in a fraction of the time of a boot.
//
// A template has run nobody. Its init was configured and told to hold, so that a copy finds both
// directions of its stream between two frames and goes on with the configuration of its own
// carrier. What it must not share with other copies it gets then: its host name, and a seed for the
// kernel's generator before anybody runs (P44). Each copy has its own memory and disk; only what
// the kernel drew while it booted (where its code lies) is the same in all copies of one template.
//
// A template is made beside the launches that ask for its kind: whoever comes before it is ready
// boots. It lives in memory, and ends with its launcher.
#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/microvm/machine.h"

namespace caisson::engine::microvm {

inline constexpr std::size_t kTemplatesMax = 2;  // the one that was used longest ago goes first
inline constexpr std::uint64_t kTemplateMemoryMax = 1ULL << 30U;  // of one machine

struct Template {
  std::string kind;
  UniqueFd memory;   // the file
  UniqueFd devices;  // what Qmp::save() wrote
  UniqueFd upper;    // the disk as it was then
};

class TemplateShelf {
 public:
  // The template of that kind, once it is ready.
  [[nodiscard]] const Template* find(const std::string& kind);
  // Whether one of that kind is in the making, or ready, or could not be made.
  [[nodiscard]] bool knows(const std::string& kind) const noexcept;
  // Starts a machine of `parts` (without a channel) that becomes a template. `first_words` are
  // frames for its init: a configuration, then Hold.
  [[nodiscard]] Result<void> begin(const std::string& kind, MachineParts parts, UniqueFd upper,
                                   std::span<const std::byte> first_words);
  // Goes on with the one in the making, as far as that is possible at once.
  void tend();
  // Why the last one could not be made.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  // For tests: until nothing is in the making.
  [[nodiscard]] Result<void> finish(TimePoint deadline);

 private:
  struct Making {
    Template made;
    Machine machine;
    UniqueFd stream;
    std::string heard;
    TimePoint due;
  };
  enum class Answer : std::uint8_t { Waiting, Held, Wrong };
  [[nodiscard]] Answer listen(Making& making) const;
  [[nodiscard]] Result<void> keep(Making& making);

  std::list<Template> ready_;  // the one used last in front
  std::vector<std::string> failed_;
  std::string why_;
  std::optional<Making> making_;
};

}  // namespace caisson::engine::microvm
