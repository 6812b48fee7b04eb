// control/layer_answers.h — what caisson-layer answers (guest/protocol/layer_job.h), read as the
// hostile bytes that they are: bounded, in order, each path judged. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "guest/protocol/layer_job.h"

namespace caisson::control {

inline constexpr std::size_t kAnswerPathBytesMax = 64UL << 20U;  // of all entries together

struct LayerChange {
  wire::EntryKind kind{};
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
  std::string path;          // absolute
  std::uint64_t offset = 0;  // Sanitise: where its bytes lie in what was written

  friend bool operator==(const LayerChange&, const LayerChange&) = default;
};

struct LayerOutcome {
  wire::LayerDone done{};
  std::vector<LayerChange> entries;
  bool truncated = false;  // there were more than are kept
};

class LayerAnswers {
 public:
  // Of the entries at most so many are kept.
  explicit LayerAnswers(std::size_t entries_max) : entries_max_(entries_max) {}

  std::function<void(const wire::LayerProgress&)> progress;

  // The next bytes. True when the last word was said; the failure that was told is an error too.
  // Nothing may follow the last word.
  [[nodiscard]] Result<bool> take(std::span<const std::byte> bytes);
  [[nodiscard]] LayerOutcome& outcome() noexcept { return outcome_; }

 private:
  [[nodiscard]] Result<bool> take_one(wire::AnswerKind kind, std::span<const std::byte> body);
  [[nodiscard]] Result<void> take_entry(std::span<const std::byte> body);

  std::size_t entries_max_;
  std::size_t path_bytes_ = 0;
  std::vector<std::byte> held_;
  bool over_ = false;
  LayerOutcome outcome_;
};

}  // namespace caisson::control
