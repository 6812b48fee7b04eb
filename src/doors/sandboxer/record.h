// doors/sandboxer/record.h — a run for the history: what was said, cut where it is too long.
#pragma once

#include <string>
#include <string_view>

#include "doors/sandboxer/call.h"

namespace caisson::sandboxer {

inline constexpr std::size_t kRecordedBytesMax = 1024UL * 1024;  // of one run; the rest is not kept
inline constexpr std::size_t kRecordPieceBytes = 64UL * 1024;
inline constexpr std::size_t kRecordCommandBytesMax = 64UL * 1024;
inline constexpr milliseconds kRecordEvery{5'000};

struct RunHead {
  std::string id;
  std::string command;
  int exit_code = 0;
  store::WallTime started = 0;
};

// One that has ended: a piece for each stream that is not empty.
awaitable<void> record_run(Call& call, const Row& row, RunHead head, std::string_view out,
                           std::string_view err);

// One that goes on: pieces in the order in which they came.
class RunRecorder {
 public:
  RunRecorder(ServicesPtr services, const Row& row, RunHead head);
  awaitable<void> begin();
  awaitable<void> add(bool error, std::string_view bytes);
  awaitable<void> end(int exit_code);

 private:
  awaitable<void> flush(bool last, std::optional<store::RunRecord> run);

  ServicesPtr services_;
  store::RunRecord run_;
  std::string text_;
  bool error_ = false;  // of text_
  std::size_t recorded_ = 0;
  TimePoint flushed_ = Clock::now();
};

}  // namespace caisson::sandboxer
