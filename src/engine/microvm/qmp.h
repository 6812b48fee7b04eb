// engine/microvm/qmp.h — what the launcher says to a monitor, in the monitor's own language (QMP:
// lines of JSON over a socket). One question at a time, each with a deadline. The answers are
// hostile: lines are short, are read strictly, and one that is not understood ends the talk; so
// does a flood of events.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/microvm/driver.h"

namespace caisson::engine::microvm {

inline constexpr std::size_t kQmpLineMax = 64UL * 1024;
inline constexpr std::size_t kQmpEventsMax = 256;  // before one answer

enum class SaveState : std::uint8_t { Active, Completed, Failed };

class Qmp final : public Monitor {
 public:
  // `socket` does not block.
  explicit Qmp(UniqueFd socket) : socket_(std::move(socket)) {}

  [[nodiscard]] Result<void> stop(TimePoint deadline) override;
  [[nodiscard]] Result<void> go_on(TimePoint deadline) override;
  [[nodiscard]] Result<RunState> run_state(TimePoint deadline) override;
  [[nodiscard]] Result<void> save(int file, TimePoint deadline) override;
  [[nodiscard]] Result<void> load(int number, TimePoint deadline) override;

 private:
  [[nodiscard]] Result<void> greet(TimePoint deadline);
  [[nodiscard]] Result<std::string> read_line(TimePoint deadline);
  // Anything but an answer or a refusal ends the talk: what came late must not answer the next
  // question.
  [[nodiscard]] Result<std::string> ask(std::string_view command, std::string_view arguments,
                                        TimePoint deadline, int descriptor = -1);
  [[nodiscard]] Result<std::string> exchange(std::string_view command, std::string_view arguments,
                                             TimePoint deadline, int descriptor);
  [[nodiscard]] Result<SaveState> save_state(TimePoint deadline);

  UniqueFd socket_;
  std::string pending_;  // read and not yet a line
  bool greeted_ = false;
};

}  // namespace caisson::engine::microvm
