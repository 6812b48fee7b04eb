#include "cli/client_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/client_text.h"
#include "cli/terminal.h"

namespace caisson::cli {
namespace {

constexpr milliseconds kDrawEvery{100};
constexpr milliseconds kDrawFirst{300};  // a short copy shows nothing
constexpr std::size_t kBar = 20;

}  // namespace

std::string progress_line(const std::string& label, std::uint64_t done,
                          std::optional<std::uint64_t> total, double seconds, std::size_t width) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string line = shown(label, 30) + "  ";
  if (total && *total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(*total));
    const auto full = static_cast<std::size_t>(share * kBar);
    line += fmt::format("[{:#<{}}{:-<{}}] {:3.0f}%  {} of {}", "", full, "", kBar - full,
                        100 * share, size_text(done), size_text(*total));
  } else {
    line += size_text(done);
  }
  line += fmt::format("  {}/s", size_text(static_cast<std::uint64_t>(rate)));
  return shown(line, width);
}

Progress::Progress(std::string label)
    : label_(std::move(label)),
      person_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_(start_ + kDrawFirst) {}

Progress::~Progress() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::add(std::uint64_t bytes) {
  done_ += bytes;
  if (!person_) return;
  const TimePoint now = Clock::now();
  if (now < next_) return;
  next_ = now + kDrawEvery;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::size_t columns = std::max<std::size_t>(window_size(STDERR_FILENO).columns, 20);
  fmt::print(stderr, "\r\x1b[K{}", progress_line(label_, done_, total_, seconds, columns - 1));
}

}  // namespace caisson::cli
